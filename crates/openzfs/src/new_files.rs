//! New files of pools, and the lock of a pool's files.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::host;
use crate::{Error, Result};

/// The files of a pool that is being created, or of vdevs that are being added. Unless they are kept, dropping this value
/// removes those that it created and truncates those that existed.
#[derive(Default)]
pub(crate) struct NewFiles(Vec<NewFile>);

struct NewFile {
    path: PathBuf,
    file: fs::File,
    existed: bool,
}

impl NewFiles {
    /// Creates these files, each of which must be absent or empty.
    pub(crate) fn create<'a>(files: impl IntoIterator<Item = &'a (PathBuf, u64)>) -> Result<NewFiles> {
        let mut made = NewFiles::default();
        for (path, bytes) in files {
            let path = std::path::absolute(path).map_err(|why| host("resolving", path, why))?;
            made.add(path, *bytes)?;
        }
        Ok(made)
    }

    fn add(&mut self, path: PathBuf, bytes: u64) -> Result<()> {
        // Private from the start: the file contains the data of all files in the pool, regardless of their permissions.
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(poolwright_base::private::FILE);
        let mut open = |new: bool| options.create_new(new).open(&path);
        let (file, existed) = match open(true) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => (open(false), true),
            made => (made, false),
        };
        let file = file.map_err(|why| host("creating", &path, why))?;
        let meta = file.metadata().map_err(|why| host("inspecting", &path, why))?;
        if !meta.is_file() || meta.len() != 0 {
            return Err(Error::Exists(path));
        }
        let file = lock(file, &path)?;
        let sized = file.set_len(bytes).map_err(|why| host("resizing", &path, why));
        self.0.push(NewFile { path, file, existed });
        sized
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(|new| new.path.clone()).collect()
    }

    pub(crate) fn keep(mut self) -> (Vec<PathBuf>, Vec<fs::File>) {
        std::mem::take(&mut self.0).into_iter().map(|new| (new.path, new.file)).unzip()
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for new in &self.0 {
            let _ = if new.existed { new.file.set_len(0) } else { fs::remove_file(&new.path) };
        }
    }
}

/// Locks a file of a pool against other processes.
pub(crate) fn lock(file: fs::File, path: &Path) -> Result<fs::File> {
    // SAFETY: a valid descriptor; flock changes nothing in memory.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let why = std::io::Error::last_os_error();
        if why.raw_os_error() == Some(libc::EWOULDBLOCK) {
            return Err(Error::Locked(path.to_owned()));
        }
        return Err(host("locking", path, why));
    }
    Ok(file)
}
