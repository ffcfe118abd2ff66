//! Directories on the host's file system.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poolwright_base::{Scratch, cannot, private, regular};
use poolwright_openzfs::property::Settings;
use rustix::fs::{Advice, SeekFrom};

use super::{Counters, DatasetServer, Recorded, Size, Target};
use crate::{Error, Result};

const PREFIX: &str = "poolwright-trial-";

/// A directory for each role. It has no properties, counters or recorder.
#[derive(Debug)]
pub struct Directory {
    dir: Scratch,
    roles: Vec<String>,
    there: bool,
}

impl Directory {
    /// Creates the directories in a private directory below `parent`, and removes those that killed trials left
    /// there.
    ///
    /// # Errors
    /// Fails if a directory cannot be created.
    pub fn create<'a>(parent: &Path, roles: impl Iterator<Item = &'a str>) -> Result<Directory> {
        let dir = Scratch::create(parent, PREFIX).map_err(cannot("create a directory in", parent))?;
        let target = Directory { dir, roles: roles.map(str::to_owned).collect(), there: true };
        for role in &target.roles {
            let path = target.path(role);
            private::make_dirs(&path).map_err(cannot("create", &path))?;
        }
        Ok(target)
    }

    fn files(&self, role: &str) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut dirs = vec![self.path(role)];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).map_err(cannot("list", &dir))? {
                let path = entry.map_err(cannot("list", &dir))?.path();
                let kind = fs::symlink_metadata(&path).map_err(cannot("inspect", &path))?.file_type();
                if kind.is_dir() {
                    dirs.push(path);
                } else if kind.is_file() {
                    files.push(path);
                }
            }
        }
        Ok(files)
    }

    fn all_files(&self) -> Result<Vec<PathBuf>> {
        let files: Result<Vec<Vec<PathBuf>>> = self.roles.iter().map(|role| self.files(role)).collect();
        Ok(files?.concat())
    }
}

/// Returns the bytes of a file that are not in holes.
fn data_bytes(file: &File, len: u64) -> u64 {
    let (mut at, mut sum) = (0, 0);
    while at < len {
        let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at)) else { return sum };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(len).min(len);
        sum += end.saturating_sub(start);
        at = end.max(start + 1);
    }
    sum
}

/// Evicts a file's pages from the host's page cache, after they are on disk.
///
/// # Errors
/// [`Error::Host`] if the file cannot be opened or written to disk, or the host refuses.
pub fn forget_pages(path: &Path) -> Result<()> {
    let file = regular::open(path).map_err(cannot("open", path))?;
    file.sync_all().map_err(cannot("sync", path))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(cannot("drop the cached pages of", path))?;
    Ok(())
}

impl Target for Directory {
    fn path(&self, role: &str) -> PathBuf {
        self.dir.path().join(role)
    }

    fn prepare(&mut self, cold: bool, record: bool) -> Result<()> {
        if record {
            return Err(Error::Trial(
                "a phase with `record` requires a pool: a directory has no mount to record".into(),
            ));
        }
        if cold {
            self.all_files()?.iter().try_for_each(|file| forget_pages(file))?;
        }
        Ok(())
    }

    fn set(&self, role: &str, settings: &Settings) -> Result<()> {
        let words: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let words = words.join(" ");
        Err(Error::Trial(format!("cannot set {words} on {role}: a directory has no properties")))
    }

    fn snapshot(&self, _: &str) -> Result<()> {
        Err(Error::Trial("a directory takes no snapshots".into()))
    }

    fn destroy_snapshot(&self, name: &str) -> Result<()> {
        self.snapshot(name)
    }

    fn sync(&self) -> Result<()> {
        let location = self.dir.path();
        let dir = File::open(location).map_err(cannot("open", location))?;
        Ok(rustix::fs::syncfs(&dir).map_err(cannot("sync", location))?)
    }

    fn sizes(&self) -> Result<BTreeMap<String, Size>> {
        let mut sizes = BTreeMap::new();
        for role in &self.roles {
            let (mut size, mut seen) = (Size::default(), HashSet::new());
            for path in self.files(role)? {
                let file = regular::open(&path).map_err(cannot("open", &path))?;
                let meta = file.metadata().map_err(cannot("inspect", &path))?;
                // A file with several names counts once.
                if seen.insert((meta.dev(), meta.ino())) {
                    size.allocated += meta.blocks() * 512;
                    size.logical += data_bytes(&file, meta.len());
                }
            }
            sizes.insert(role.clone(), size);
        }
        Ok(sizes)
    }

    fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>> {
        Ok(BTreeMap::new())
    }

    fn servers(&self) -> Vec<DatasetServer> {
        Vec::new()
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn location(&self) -> &Path {
        self.dir.path()
    }

    fn versions(&self) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    fn tear_down(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.there) {
            return Ok(());
        }
        Ok(fs::remove_dir_all(self.dir.path()).map_err(cannot("remove", self.dir.path()))?)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.tear_down();
    }
}
