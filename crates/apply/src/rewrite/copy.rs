//! Copying one file.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use poolwright_host::extents::next_data;
use poolwright_host::private;
use rustix::fs::OFlags;

use super::attributes;
use super::compare::{self, Buffers, CHUNK};
use super::scan::FileIdentity;
use crate::error::refused;
use crate::{Error, Result};

/// Called with the number of bytes read or written at a time; an error ends the copy.
pub type Proceed<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Longer than a tick of the clock of file systems (10 ms with 100 ticks a second).
const TICK: Duration = Duration::from_millis(30);
/// How often to wait for a tick without a change.
const MOST_WAITS: u32 = 10;

/// Copies a file to `to`, or brings an existing copy up to date. Returns the state of the file before it was read: if the file
/// was changed meanwhile, its present state is another one.
///
/// # Errors
/// The host's errors; [`Error::Refused`] if the file is immutable or append-only; those of `proceed`.
pub fn copy(
    from: &Path,
    to: &Path,
    buffers: &mut Buffers,
    proceed: &mut Proceed<'_>,
) -> Result<FileIdentity> {
    let source = open(from)?;
    let mut meta = source.metadata().map_err(Error::host("inspect", from))?;
    let mut tries = 0;
    while is_recent(&meta) && tries < MOST_WAITS {
        std::thread::sleep(TICK);
        meta = source.metadata().map_err(Error::host("inspect", from))?;
        tries += 1;
    }
    if let Some(obstacle) = attributes::obstacle(&source) {
        return refused(format!("{} is {obstacle} (chattr)", poolwright_host::quoted(&from)));
    }
    // Private until it has the attributes of its file.
    match private::create_new(to) {
        Ok(target) => {
            write_all((&source, from), (&target, to), meta.len(), buffers, proceed)?;
            finish((&source, from), &meta, (&target, to))?;
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {
            let target = OpenOptions::new().read(true).write(true).custom_flags(no_follow()).open(to);
            let target = target.map_err(Error::host("open", to))?;
            target.set_len(meta.len()).map_err(Error::host("truncate", to))?;
            compare::equalize(&source, &target, meta.len(), buffers, |bytes| {
                proceed(bytes).map_err(Stop::Run)
            })
            .map_err(|stop| stop.into_error("copy", from))?;
            finish((&source, from), &meta, (&target, to))?;
        }
        Err(cause) => return Err(Error::host("create", to)(cause)),
    }
    let identity = FileIdentity::of(&meta);
    // A file that is written all the time is copied again.
    Ok(if is_recent(&meta) && tries == MOST_WAITS {
        FileIdentity { changed_ns: 0, ..identity }
    } else {
        identity
    })
}

/// Whether a file was changed so recently that a further change could have the same time: the clock of file systems ticks
/// every few milliseconds.
fn is_recent(meta: &Metadata) -> bool {
    let changed = attributes::time(meta.ctime(), meta.ctime_nsec());
    SystemTime::now().duration_since(changed).is_ok_and(|age| age < TICK)
}

/// Compares a copy with its file: data and attributes.
///
/// # Errors
/// [`Error::Different`]; the host's errors; those of `proceed`.
pub fn verify(file: &Path, copy: &Path, buffers: &mut Buffers, proceed: &mut Proceed<'_>) -> Result<()> {
    let (a, b) = (open(file)?, open(copy)?);
    let different = |what: String| Error::Different { path: file.to_owned(), what };
    if let Some(what) = attributes::difference(&a, &b).map_err(Error::host("inspect", file))? {
        return Err(different(format!("in its {what}")));
    }
    let length = a.metadata().map_err(Error::host("inspect", file))?.len();
    let found = compare::difference(&a, &b, length, buffers, |bytes| proceed(bytes).map_err(Stop::Run));
    match found.map_err(|stop| stop.into_error("compare", file))? {
        None => Ok(()),
        Some(at) => Err(different(format!("at byte {at}"))),
    }
}

/// The end of a loop over the data: an error of the host, or of the caller.
enum Stop {
    Host(std::io::Error),
    Run(Error),
}

impl From<std::io::Error> for Stop {
    fn from(cause: std::io::Error) -> Stop {
        Stop::Host(cause)
    }
}

impl Stop {
    fn into_error(self, what: &'static str, path: &Path) -> Error {
        match self {
            Stop::Host(cause) => Error::host(what, path)(cause),
            Stop::Run(error) => error,
        }
    }
}

fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits() as i32
}

/// Opens a file for reading without changing its access time.
fn open(path: &Path) -> Result<File> {
    let quiet = (OFlags::NOFOLLOW | OFlags::NOATIME).bits() as i32;
    let opened = match OpenOptions::new().read(true).custom_flags(quiet).open(path) {
        // Only the owner and root may leave the access time.
        Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            OpenOptions::new().read(true).custom_flags(no_follow()).open(path)
        }
        opened => opened,
    };
    opened.map_err(Error::host("open", path))
}

/// Copies the data of a file into an empty one. `read` and `write` are used on purpose: the kernel would copy a range by sharing
/// its blocks.
fn write_all(
    (source, from): (&File, &Path),
    (target, to): (&File, &Path),
    length: u64,
    buffers: &mut Buffers,
    proceed: &mut Proceed<'_>,
) -> Result<()> {
    let mut at = 0;
    while let Some((start, end)) = next_data(source, at, length).map_err(Error::host("read", from))? {
        at = start;
        while at < end {
            let most = usize::try_from(end - at).map_or(CHUNK, |left| left.min(CHUNK));
            let n = source.read_at(&mut buffers.first[..most], at).map_err(Error::host("read", from))?;
            if n == 0 {
                // The file was truncated meanwhile.
                return Ok(());
            }
            target.write_all_at(&buffers.first[..n], at).map_err(Error::host("write", to))?;
            at += n as u64;
            proceed(n as u64)?;
        }
    }
    Ok(())
}

fn finish((source, from): (&File, &Path), meta: &Metadata, (target, to): (&File, &Path)) -> Result<()> {
    target.set_len(meta.len()).map_err(Error::host("truncate", to))?;
    attributes::copy(source, meta, target).map_err(Error::host("copy the attributes of", from))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn copied(from: &Path, to: &Path) -> FileIdentity {
        copy(from, to, &mut Buffers::default(), &mut |_| Ok(())).unwrap()
    }

    fn verified(from: &Path, to: &Path) -> Result<()> {
        verify(from, to, &mut Buffers::default(), &mut |_| Ok(()))
    }

    #[test]
    fn a_copy_is_brought_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, vec![7; 3_000_000]).unwrap();
        let before = copied(&from, &to);
        verified(&from, &to).unwrap();
        assert_eq!(before, FileIdentity::of(&fs::metadata(&from).unwrap()));

        let file = OpenOptions::new().write(true).open(&from).unwrap();
        file.write_all_at(b"changed", 1_500_000).unwrap();
        file.set_len(2_000_001).unwrap();
        let different = verified(&from, &to).unwrap_err().to_string();
        assert!(different.contains("in its length"), "{different}");
        let now = copied(&from, &to);
        verified(&from, &to).unwrap();
        assert_ne!(now, before);
        assert_eq!(fs::metadata(&to).unwrap().ino(), fs::metadata(&to).unwrap().ino());
        assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, vec![7; 3_000_000]).unwrap();
        copied(&from, &to);
        let times = attributes::times(&fs::metadata(&from).unwrap());
        let file = OpenOptions::new().write(true).open(&to).unwrap();
        file.write_all_at(&[8], 2_999_999).unwrap();
        file.set_times(times).unwrap();
        let different = verified(&from, &to).unwrap_err().to_string();
        assert!(different.contains("at byte 2999999"), "{different}");
    }

    #[test]
    fn links_are_not_followed_and_an_interruption_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, vec![7; 3_000_000]).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&from, &link).unwrap();
        let run = |from: &Path, to: &Path, result: fn() -> Result<()>| {
            copy(from, to, &mut Buffers::default(), &mut |_| result())
        };
        assert!(matches!(run(&link, &to, || Ok(())), Err(Error::Host { .. })));
        assert!(matches!(run(&from, &to, || Err(Error::Interrupted)), Err(Error::Interrupted)));
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o600, "an incomplete copy is private");
        fs::remove_file(&to).unwrap();
        std::os::unix::fs::symlink(&from, &to).unwrap();
        assert!(matches!(run(&from, &to, || Ok(())), Err(Error::Host { .. })), "a planted link is refused");
    }
}
