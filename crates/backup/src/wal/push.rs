//! Copying a segment into the archive.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use poolwright_apply::rewrite::{Buffers, first_difference};
use poolwright_base::{cannot, quoted};
use poolwright_dbms::postgresql::headers::SegmentHeader;
use rustix::fs::{FlockOperation, flock};

use super::{IDENTITY, WalArchive, WalFile};
use crate::error::refused;
use crate::{Error, Result};

/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// How a file came into the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// It was copied.
    Copied,
    /// The archive had it already, with the same content.
    Present,
}

impl WalArchive {
    /// Copies a file of the log into the archive. When this returns, the copy is on stable storage, and was compared.
    ///
    /// # Errors
    /// A refusal if the file is not one of this database's log, or the archive has another file of this name, which stays; the host's
    /// errors. The archive has the whole file or none. PostgreSQL keeps the file, and tries again.
    pub fn push(&self, path: &Path) -> Result<PushOutcome> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(file) = WalFile::parse(name) else {
            return refused(format!("{} is not the name of a file of PostgreSQL's log", quoted(path)));
        };
        self.check(path, file)?;
        // Two servers with one archive, or a server that was killed and started again.
        let identity = self.dir.join(IDENTITY);
        let lock = File::open(&identity).map_err(cannot("open", &identity))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(cannot("lock", &identity))?;
        let target = self.dir.join(name);
        let is_present = match is_equal(path, &target)? {
            Some(false) => {
                return refused(format!(
                    "{} exists and has another content\nhint: two servers use this archive, or the database was restored without a new timeline; do not remove either file before that is clear",
                    quoted(&target)
                ));
            }
            Some(true) => true,
            None => false,
        };
        if is_present {
            // The run that copied it may have ended before this.
            self.sync(&target)?;
            return Ok(PushOutcome::Present);
        }
        let new = self.dir.join(format!(".{name}.new"));
        copy(path, &new)?;
        if is_equal(path, &new)? != Some(true) {
            let why = "it is not equal to the segment after it was written".to_owned();
            return Err(Error::Damaged { path: new, why });
        }
        fs::rename(&new, &target).map_err(cannot("rename", &new))?;
        self.sync(&target)?;
        Ok(PushOutcome::Copied)
    }

    /// Refuses a segment of another database, or one that is not whole.
    fn check(&self, path: &Path, file: WalFile) -> Result<()> {
        let (WalFile::Segment(place) | WalFile::Partial(place)) = file else { return Ok(()) };
        let Some(header) = SegmentHeader::read(path)? else {
            return refused(format!("{} does not begin like a segment of PostgreSQL's log", quoted(path)));
        };
        if header.system_identifier.to_string() != self.identity.system_identifier {
            return refused(format!(
                "{} is of the database {}, and the archive in {} of {}\nhint: after initdb or pg_upgrade, `poolwright backup wal-create` makes an \
                 archive for the new database, in another dataset",
                quoted(path),
                header.system_identifier,
                quoted(&self.dir),
                self.identity.system_identifier
            ));
        }
        let size = fs::metadata(path).map_err(cannot("inspect", path))?.len();
        let wanted = self.identity.segment_size;
        let is_whole = size == u64::from(wanted) && header.segment_size == wanted;
        if !is_whole || header.first_byte != place.first_byte(wanted) {
            return refused(format!(
                "{} is not a whole segment: it has {size} bytes instead of {wanted}, and begins with byte {:#x} of the log",
                quoted(path),
                header.first_byte
            ));
        }
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<()> {
        for path in [path, &self.dir] {
            File::open(path).and_then(|file| file.sync_all()).map_err(cannot("sync", path))?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(cannot("open", from))?;
    // One that an interrupted run left is overwritten.
    let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to);
    let mut target = created.map_err(cannot("create", to))?;
    // Not io::copy, which lets the kernel clone the blocks of a file in the same pool: a damaged block would be damaged in both.
    let mut piece = vec![0; PIECE];
    loop {
        match source.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => target.write_all(&piece[..length]).map_err(cannot("write", to))?,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(cannot("read", from)(cause).into()),
        }
    }
    target.sync_all().map_err(cannot("sync", to))?;
    // So that the comparison reads what is stored, where the kernel has a cache of its own.
    let _ = rustix::fs::fadvise(&target, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// Whether two files have the same content; `None` if the second does not exist.
fn is_equal(a: &Path, b: &Path) -> Result<Option<bool>> {
    let second = match File::open(b) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot("open", b))?,
    };
    let first = File::open(a).map_err(cannot("open", a))?;
    let length =
        |file: &File, path| -> Result<u64> { Ok(file.metadata().map_err(cannot("inspect", path))?.len()) };
    let bytes = length(&first, a)?;
    if bytes != length(&second, b)? {
        return Ok(Some(false));
    }
    let difference =
        first_difference(&first, &second, bytes, &mut Buffers::default(), |_| Ok::<(), io::Error>(()));
    Ok(Some(difference.map_err(cannot("compare", b))?.is_none()))
}

#[cfg(test)]
mod tests {
    use poolwright_dbms::postgresql::wal_file::SegmentPlace;

    use super::*;
    use crate::wal::tests::{SIZE, archive, segment};

    #[test]
    fn a_segment_is_archived_once() {
        let (dir, archive) = archive();
        let log = dir.path().join("pg_wal");
        let path = segment(&log, 7, 3, b"first");
        assert_eq!(archive.push(&path).unwrap(), PushOutcome::Copied);
        assert_eq!(archive.push(&path).unwrap(), PushOutcome::Present);
        let copy = archive.dir().join(path.file_name().unwrap());
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&path).unwrap());
        segment(&log, 7, 3, b"second");
        let refusal = archive.push(&path).unwrap_err();
        assert!(refusal.is_refusal() && refusal.to_string().contains("another content"), "{refusal}");
        assert!(fs::read(&copy).unwrap().ends_with(b"first"));
        // The rest of a copy that was interrupted.
        let path = segment(&log, 7, 4, b"x");
        fs::write(archive.dir().join(".000000010000000000000004.new"), vec![1; 2 * SIZE as usize]).unwrap();
        assert_eq!(archive.push(&path).unwrap(), PushOutcome::Copied);
        assert_eq!(
            fs::metadata(archive.dir().join("000000010000000000000004")).unwrap().len(),
            u64::from(SIZE)
        );
        assert!(!archive.dir().join(".000000010000000000000004.new").exists());
        fs::write(log.join("00000002.history"), "1\t0/3000000\tno recovery target specified\n").unwrap();
        assert_eq!(archive.push(&log.join("00000002.history")).unwrap(), PushOutcome::Copied);
    }

    #[test]
    fn what_is_not_of_this_log_is_refused() {
        let (dir, archive) = archive();
        let log = dir.path().join("pg_wal");
        let refused = |path: &Path, why: &str| {
            let refusal = archive.push(path).unwrap_err();
            assert!(refusal.is_refusal() && refusal.to_string().contains(why), "{refusal}");
        };
        refused(&segment(&log, 8, 1, b""), "is of the database 8");
        let path = segment(&log, 7, 5, b"");
        let other = SegmentPlace { timeline: 1, position: 6 }.to_string();
        fs::rename(&path, log.join(&other)).unwrap();
        refused(&log.join(other), "begins with byte 0x500000");
        let path = segment(&log, 7, 7, b"");
        File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        refused(&path, "has 4096 bytes");
        fs::write(&path, "").unwrap();
        refused(&path, "does not begin like a segment");
        fs::write(log.join("file"), "").unwrap();
        refused(&log.join("file"), "is not the name of a file");
        assert!(archive.push(&log.join("000000010000000000000099")).is_err_and(|why| !why.is_refusal()));
        assert!(archive.files().unwrap().is_empty());
        let none = WalArchive::open(dir.path()).unwrap_err();
        assert!(none.is_refusal() && none.to_string().contains("not mounted"), "{none}");
    }
}
