//! The real files behind the paths of a trace.

mod identity;

use std::fs;
use std::path::{Path, PathBuf};

use poolwright_base::regular;
use poolwright_trace::layout::Role;
use poolwright_trace::{File, Op, Trace, path_text};

use crate::{Error, MissingFiles, OtherFiles, Result};
use identity::Identification;

/// Maps files of a trace to real files.
#[derive(Debug)]
pub struct SourceFiles {
    /// The directory that holds the files now; `None` if they are where the trace says.
    dir: Option<PathBuf>,
    /// The directory that was recorded, if the trace names it.
    recorded: Option<PathBuf>,
    /// How to tell whether a file is the recorded one; `None` if the caller says so.
    identification: Option<Identification>,
}

impl SourceFiles {
    /// The files of the trace, below `dir` if it is given. Otherwise, a file at a path of the trace is used only if it is the
    /// recorded one, as far as the trace says which one that is: a process may have had other mounts than this one, and a path is
    /// not a file. As long as such a process lives, its files are found through it.
    pub fn new(trace: &Trace, dir: Option<&Path>) -> SourceFiles {
        let identification = if dir.is_none() { Some(Identification::of(trace)) } else { None };
        SourceFiles { dir: dir.map(Path::to_owned), identification, ..SourceFiles::at_recorded_paths(trace) }
    }

    /// The files at the paths in the trace, whether they are the recorded ones or have replaced them.
    pub fn at_recorded_paths(trace: &Trace) -> SourceFiles {
        let recorded = trace.meta.subject.strip_prefix("dir:").map(path_text::decode);
        SourceFiles { dir: None, recorded, identification: None }
    }

    /// The path at which a file of the trace is expected: below the directory at the same place as below the recorded directory, or
    /// with the same path, or with the same name. If a directory is given, the result is below it.
    pub fn locate(&self, file: &File) -> PathBuf {
        let path = file.host_path();
        let Some(dir) = &self.dir else { return path };
        let below = self.recorded.as_ref().and_then(|recorded| path.strip_prefix(recorded).ok());
        let whole = dir.join(path.strip_prefix("/").unwrap_or(&path));
        let by_name = path.file_name().map(|name| dir.join(name));
        let candidates = [below.map(|rest| dir.join(rest)), Some(whole.clone()), by_name];
        candidates.into_iter().flatten().find(|p| p.exists()).unwrap_or(whole)
    }

    fn exists(&self, file: &File) -> bool {
        let path = self.locate(file);
        path.is_file() || (is_volume(file) && regular::is_block_device(&path))
    }

    /// Opens the real file behind a file of the trace. `None` if it does not exist, or cannot be read.
    pub fn open(&self, file: &File) -> Option<fs::File> {
        let path = self.locate(file);
        let opened = open_recorded(file, &path);
        match &self.identification {
            None => opened,
            Some(known) => opened.filter(|opened| known.is(file, opened, &path)).or_else(|| known.find(file)),
        }
    }

    /// The missing files among those of the given roles (all roles if empty). `None` if all exist.
    ///
    /// # Errors
    /// [`Error::NoSourceDir`] if the directory does not exist; [`Error::NoSourceFiles`] if all files are missing.
    pub fn missing(&self, trace: &Trace, roles: &[Role]) -> Result<Option<MissingFiles>> {
        if self.dir.as_ref().is_some_and(|dir| !dir.is_dir()) {
            return Err(Error::NoSourceDir);
        }
        let files = used_files(trace, roles);
        let missing: Vec<&&File> = files.iter().filter(|f| !self.exists(f)).collect();
        let Some(first) = missing.first() else { return Ok(None) };
        let found = MissingFiles {
            dir: self.dir.clone().unwrap_or_default(),
            first: first.path.clone(),
            count: missing.len(),
            of: files.len(),
        };
        if found.count == found.of { Err(Error::NoSourceFiles(found)) } else { Ok(Some(found)) }
    }

    /// The files of the given roles (all roles if empty) at whose paths there are other files than the recorded ones. `None` if
    /// there are none.
    pub fn others(&self, trace: &Trace, roles: &[Role]) -> Option<OtherFiles> {
        let files = used_files(trace, roles);
        let is_other = |file: &&&File| self.exists(file) && self.open(file).is_none();
        let others: Vec<&&File> = files.iter().filter(is_other).collect();
        let first = others.first()?.path.clone();
        Some(OtherFiles { first, count: others.len(), of: files.len() })
    }
}

/// Whether the trace's file is a volume, whose data may be in a block device, or in a file (an image of it).
fn is_volume(file: &File) -> bool {
    file.known_role() == Role::Volume
}

fn open_recorded(file: &File, path: &Path) -> Option<fs::File> {
    let opened = if is_volume(file) { regular::open_or_block_device(path) } else { regular::open(path) };
    opened.ok()
}

/// The files of these roles that the trace reads, writes or maps.
fn used_files<'a>(trace: &'a Trace, roles: &[Role]) -> Vec<&'a File> {
    let mut used = vec![false; trace.files.len()];
    for event in trace.events.iter().filter(|e| matches!(e.op, Op::Read | Op::Write | Op::Map)) {
        used[event.file as usize] = true;
    }
    let is_wanted = |file: &File| roles.is_empty() || roles.contains(&file.known_role());
    trace
        .files
        .iter()
        .zip(used)
        .filter(|(file, used)| *used && is_wanted(file))
        .map(|(file, _)| file)
        .collect()
}

#[cfg(test)]
mod tests;
