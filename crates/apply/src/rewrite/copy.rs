//! Copying one file.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use poolwright_base::directory::Access;
use poolwright_base::extents::next_data;
use poolwright_base::{cannot, private};

use super::attributes::{self, Ownership};
use super::compare::{self, Buffers, CHUNK};
use super::entry::EntryAt;
use super::scan::FileIdentity;
use crate::{Error, Result};

/// Called with the number of bytes read or written at a time; an error ends the copy.
pub type Proceed<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Longer than a tick of the clock of file systems (10 ms with 100 ticks a second).
const TICK: Duration = Duration::from_millis(30);
/// How often to wait for a tick without a change.
const MAX_WAITS: u32 = 10;

/// Copies a file to `to`, or brings an existing copy up to date. Returns the state of the file before it was read: if the file
/// was changed since, its present state is another one.
///
/// # Errors
/// The host's errors; [`Error::Refused`] if the file is immutable or append-only; those of `proceed`.
pub fn copy(
    from: EntryAt<'_>,
    to: EntryAt<'_>,
    ownership: Ownership,
    buffers: &mut Buffers,
    proceed: &mut Proceed<'_>,
) -> Result<FileIdentity> {
    let (source, from, path) = (from.open()?, &from.path(), &to.path());
    let mut meta = source.metadata().map_err(cannot("inspect", from))?;
    let mut tries = 0;
    while is_recent(&meta) && tries < MAX_WAITS {
        std::thread::sleep(TICK);
        meta = source.metadata().map_err(cannot("inspect", from))?;
        tries += 1;
    }
    attributes::check_flags(&source, from)?;
    // Private until it has the attributes of its file.
    let target = match to.dir.create_file(to.name, private::FILE) {
        Ok(target) => {
            write_all((&source, from), (&target, path), meta.len(), buffers, proceed)?;
            target
        }
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            let target = to.dir.file(to.name, Access::ReadWrite).map_err(cannot("open", path))?;
            target.set_len(meta.len()).map_err(cannot("truncate", path))?;
            compare::equalize(&source, &target, meta.len(), buffers, |bytes| {
                proceed(bytes).map_err(Stop::Run)
            })
            .map_err(|stop| stop.into_error("copy", from))?;
            target
        }
        Err(cause) => return Err(cannot("create", path)(cause).into()),
    };
    target.set_len(meta.len()).map_err(cannot("truncate", path))?;
    let copied = attributes::copy(&source, &meta, &target, ownership);
    copied.map_err(cannot("copy the attributes of", from))?;
    let identity = FileIdentity::of(&meta);
    // A file that is written all the time is copied again.
    Ok(if is_recent(&meta) && tries == MAX_WAITS {
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
pub fn verify(
    file: EntryAt<'_>,
    copy: EntryAt<'_>,
    ownership: Ownership,
    buffers: &mut Buffers,
    proceed: &mut Proceed<'_>,
) -> Result<()> {
    let (a, b, file) = (file.open()?, copy.open()?, &file.path());
    let different = |what: String| Error::Different { path: file.clone(), what };
    if let Some(what) = attributes::difference(&a, &b, ownership).map_err(cannot("inspect", file))? {
        return Err(different(format!("in its {what}")));
    }
    let length = a.metadata().map_err(cannot("inspect", file))?.len();
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
            Stop::Host(cause) => cannot(what, path)(cause).into(),
            Stop::Run(error) => error,
        }
    }
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
    while let Some((start, end)) = next_data(source, at, length).map_err(cannot("read", from))? {
        at = start;
        while at < end {
            let most = usize::try_from(end - at).map_or(CHUNK, |left| left.min(CHUNK));
            let n = source.read_at(&mut buffers.first[..most], at).map_err(cannot("read", from))?;
            if n == 0 {
                // The file was truncated meanwhile.
                return Ok(());
            }
            target.write_all_at(&buffers.first[..n], at).map_err(cannot("write", to))?;
            at += n as u64;
            proceed(n as u64)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use poolwright_base::directory::Directory;

    use super::*;

    /// A directory with files `from` and `to`.
    struct Pair {
        dir: tempfile::TempDir,
        open: Directory,
    }

    impl Pair {
        fn new() -> Pair {
            let dir = tempfile::tempdir().unwrap();
            let open = Directory::open(dir.path()).unwrap();
            fs::write(dir.path().join("from"), vec![7; 3_000_000]).unwrap();
            Pair { dir, open }
        }

        fn at(&self, name: &str) -> std::path::PathBuf {
            self.dir.path().join(name)
        }

        fn copy(&self, from: &str, to: &str, result: fn() -> Result<()>) -> Result<FileIdentity> {
            let (from, to) = (EntryAt::new(&self.open, from), EntryAt::new(&self.open, to));
            copy(from, to, Ownership::Given, &mut Buffers::default(), &mut |_| result())
        }

        fn copied(&self) -> FileIdentity {
            self.copy("from", "to", || Ok(())).unwrap()
        }

        fn verified(&self) -> Result<()> {
            let (from, to) = (EntryAt::new(&self.open, "from"), EntryAt::new(&self.open, "to"));
            verify(from, to, Ownership::Given, &mut Buffers::default(), &mut |_| Ok(()))
        }
    }

    #[test]
    fn a_copy_is_brought_up_to_date() {
        let pair = Pair::new();
        let (from, to) = (pair.at("from"), pair.at("to"));
        let before = pair.copied();
        pair.verified().unwrap();
        assert_eq!(before, FileIdentity::of(&fs::metadata(&from).unwrap()));

        let file = File::options().write(true).open(&from).unwrap();
        file.write_all_at(b"changed", 1_500_000).unwrap();
        file.set_len(2_000_001).unwrap();
        let different = pair.verified().unwrap_err().to_string();
        assert!(different.contains("in its length"), "{different}");
        let now = pair.copied();
        pair.verified().unwrap();
        assert_ne!(now, before);
        assert_eq!(fs::metadata(&to).unwrap().ino(), fs::metadata(&to).unwrap().ino());
        assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let pair = Pair::new();
        let (from, to) = (pair.at("from"), pair.at("to"));
        pair.copied();
        let times = attributes::times(&fs::metadata(&from).unwrap());
        let file = File::options().write(true).open(&to).unwrap();
        file.write_all_at(&[8], 2_999_999).unwrap();
        file.set_times(times).unwrap();
        let different = pair.verified().unwrap_err().to_string();
        assert!(different.contains("at byte 2999999"), "{different}");
    }

    #[test]
    fn links_are_not_followed_and_an_interruption_ends_it() {
        let pair = Pair::new();
        let (from, to) = (pair.at("from"), pair.at("to"));
        std::os::unix::fs::symlink(&from, pair.at("link")).unwrap();
        assert!(matches!(pair.copy("link", "to", || Ok(())), Err(Error::Host(_))));
        assert!(matches!(pair.copy("from", "to", || Err(Error::Interrupted)), Err(Error::Interrupted)));
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o600, "an incomplete copy is private");
        fs::remove_file(&to).unwrap();
        std::os::unix::fs::symlink(&from, &to).unwrap();
        assert!(
            matches!(pair.copy("from", "to", || Ok(())), Err(Error::Host(_))),
            "a planted link is refused"
        );
    }
}
