//! The real files behind the paths of a trace.

use std::path::{Path, PathBuf};

use poolwright_trace::{File, Op, Trace};

use crate::settings::named_role;
use crate::{Error, MissingFiles, Result};

/// Maps paths of a trace to real files.
#[derive(Clone, Debug)]
pub struct SourceFiles {
    /// The directory that holds the files now; `None` if they are where the trace says.
    dir: Option<PathBuf>,
    /// The directory that was recorded, if the trace names it.
    recorded: Option<PathBuf>,
}

impl SourceFiles {
    /// The files of the trace, below `dir` if it is given.
    pub fn new(trace: &Trace, dir: Option<&Path>) -> SourceFiles {
        let recorded = trace.meta.subject.strip_prefix("dir:").map(PathBuf::from);
        SourceFiles { dir: dir.map(Path::to_owned), recorded }
    }

    /// The real file behind a path of the trace: below the directory at the same place as below the recorded directory, or
    /// with the same path, or with the same name. If a directory is given, the result is below it.
    pub fn locate(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let Some(dir) = &self.dir else { return path.to_owned() };
        let below = self.recorded.as_ref().and_then(|recorded| path.strip_prefix(recorded).ok());
        let whole = dir.join(path.strip_prefix("/").unwrap_or(path));
        let by_name = path.file_name().map(|name| dir.join(name));
        let candidates = [below.map(|rest| dir.join(rest)), Some(whole.clone()), by_name];
        candidates.into_iter().flatten().find(|p| p.exists()).unwrap_or(whole)
    }

    /// The missing files among those of the given roles (all roles if empty). `None` if all exist.
    ///
    /// # Errors
    /// [`Error::NoSourceDir`] if the directory does not exist; [`Error::NoSourceFiles`] if all files are missing.
    pub fn missing(&self, trace: &Trace, roles: &[String]) -> Result<Option<MissingFiles>> {
        if self.dir.as_ref().is_some_and(|dir| !dir.is_dir()) {
            return Err(Error::NoSourceDir);
        }
        let files = used_files(trace, roles);
        let missing: Vec<&&File> = files.iter().filter(|f| !self.locate(&f.path).is_file()).collect();
        let Some(first) = missing.first() else { return Ok(None) };
        let found = MissingFiles {
            dir: self.dir.clone().unwrap_or_default(),
            first: first.path.clone(),
            count: missing.len(),
            of: files.len(),
        };
        if found.count == found.of { Err(Error::NoSourceFiles(found)) } else { Ok(Some(found)) }
    }
}

/// The files of these roles that the trace reads, writes or maps.
fn used_files<'a>(trace: &'a Trace, roles: &[String]) -> Vec<&'a File> {
    let mut used = vec![false; trace.files.len()];
    for event in trace.events.iter().filter(|e| matches!(e.op, Op::Read | Op::Write | Op::Map)) {
        used[event.file as usize] = true;
    }
    let is_wanted = |file: &File| roles.is_empty() || roles.contains(&named_role(&file.role));
    trace
        .files
        .iter()
        .zip(used)
        .filter(|(file, used)| *used && is_wanted(file))
        .map(|(file, _)| file)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_trace::{Event, Flags, Meta};

    fn trace(paths: &[&str]) -> Trace {
        let file = |path: &&str| File { path: (*path).to_owned(), role: "data".into(), ..File::default() };
        let event = |file: usize| Event {
            t_ns: 1,
            dur_ns: 1,
            op: Op::Read,
            file: file as u32,
            offset: 0,
            len: 1,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        };
        Trace {
            meta: Meta { subject: "dir:/db".into(), ..Meta::default() },
            files: paths.iter().map(file).collect(),
            events: (0..paths.len()).map(event).collect(),
        }
    }

    #[test]
    fn files_are_found_below_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("sub")).unwrap();
        for name in ["sub/a", "b"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let trace = trace(&["/db/sub/a", "/elsewhere/b", "/db/c"]);
        let files = SourceFiles::new(&trace, Some(dir.path()));
        assert_eq!(files.locate("/db/sub/a"), at("sub/a"));
        assert_eq!(files.locate("/elsewhere/b"), at("b"), "by its name");
        assert_eq!(files.locate("/db/c"), at("db/c"), "never outside of the directory");
        assert_eq!(SourceFiles::new(&trace, None).locate("/db/c"), Path::new("/db/c"));
        let missing = files.missing(&trace, &[]).unwrap().unwrap();
        assert_eq!((missing.count, missing.of, missing.first.as_str()), (1, 3, "/db/c"));
        assert!(missing.to_string().starts_with("1 of the 3 files"), "{missing}");
        assert_eq!(files.missing(&trace, &["wal".into()]).unwrap(), None);
    }

    #[test]
    fn a_directory_without_any_of_the_files_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |paths: &[&str], dir: &Path| {
            let trace = trace(paths);
            SourceFiles::new(&trace, Some(dir)).missing(&trace, &[]).unwrap_err().to_string()
        };
        assert!(refusal(&["/db/a"], dir.path()).starts_with("the only file that"));
        assert!(refusal(&["/db/a", "/db/b"], dir.path()).starts_with("none of the 2 files"));
        assert_eq!(refusal(&["/db/a"], &dir.path().join("no")), "there is no such directory");
    }
}
