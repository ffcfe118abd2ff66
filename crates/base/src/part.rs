//! The temporary file that holds an output until it is complete, in the output's directory.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

use crate::Transient;
use crate::private::is_at;

/// A hidden file `.NAME.part-PID` in the directory of `NAME`. It is locked while it is written. Dropping this value removes
/// the file, and so does a second Ctrl-C. The next output with the same name removes files left by killed processes.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    /// Holds the lock, which is released with the last descriptor.
    _lock: File,
    _transient: Transient,
}

impl Part {
    /// Creates the file with this mode, for an output at `location`. Replaces a link with its name instead of following it.
    ///
    /// # Errors
    /// The host's errors; `InvalidInput` if `location` has no file name.
    pub fn create(location: &Path, mode: u32) -> io::Result<(Part, File)> {
        let name = location.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let stem = [b".", name.as_bytes(), b".part-"].concat();
        let dir = location.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sweep(dir, &stem);
        let pid = std::process::id().to_string();
        let path = dir.join(OsString::from_vec([&stem, pid.as_bytes()].concat()));
        let file = create_fresh(&path, mode)?;
        // On a file system without locks, `sweep` of another process cannot lock the file either and keeps it.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let part = Part { _transient: Transient::new(&path), path, _lock: file.try_clone()? };
        Ok((part, file))
    }

    /// Renames the file to `location`, replacing an existing file.
    ///
    /// # Errors
    /// The host's errors; the file then keeps its name.
    pub fn rename(&self, location: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, location)
    }
}

impl Drop for Part {
    /// Removes the file unless it was renamed.
    fn drop(&mut self) {
        if is_at(&self._lock, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn create_fresh(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    match options.open(path) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Removes this user's files in `dir` whose names are `stem` and a number, unless a process has locked them.
fn sweep(dir: &Path, stem: &[u8]) {
    let is_part = |name: &OsString| {
        let number = name.as_bytes().strip_prefix(stem);
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten().filter(|e| is_part(&e.file_name())) {
        let path = entry.path();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { continue };
        let ours = file.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == geteuid().as_raw());
        if ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::{FILE, SHARED_FILE};
    use std::io::Write as _;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_output_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let location = dir.path().join("out");
        drop(Part::create(&location, FILE).unwrap());
        assert!(names(dir.path()).is_empty());
        let (part, mut file) = Part::create(&location, FILE).unwrap();
        file.write_all(b"whole").unwrap();
        part.rename(&location).unwrap();
        drop(part);
        assert_eq!(names(dir.path()), ["out"]);
        assert_eq!(std::fs::read_to_string(&location).unwrap(), "whole");
        assert_eq!(std::fs::metadata(&location).unwrap().mode() & 0o777, 0o600);
        assert!(Part::create(Path::new("/"), SHARED_FILE).is_err());
    }

    #[test]
    fn what_a_killed_process_left_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in [".out.part-1", ".out.part-x", ".out.part-", ".other.part-1", ".out.1", ".out.part-77"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let live = File::open(at(".out.part-77")).unwrap();
        flock(&live, FlockOperation::LockExclusive).unwrap();
        drop(Part::create(&at("out"), FILE).unwrap());
        let left = [".other.part-1", ".out.1", ".out.part-", ".out.part-77", ".out.part-x"];
        assert_eq!(names(dir.path()), left);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (location, precious) = (dir.path().join("out"), dir.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        let part = dir.path().join(format!(".out.part-{}", std::process::id()));
        std::os::unix::fs::symlink(&precious, &part).unwrap();
        let (_part, mut file) = Part::create(&location, FILE).unwrap();
        file.write_all(b"x").unwrap();
        assert!(!part.is_symlink());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}
