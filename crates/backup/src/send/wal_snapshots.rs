//! The snapshots of a WAL archive.
//!
//! Backups are snapshots already. Of a WAL archive, a snapshot is taken for each transfer. It keeps the space of the segments that `prune`
//! removes, so it is destroyed when the target has it and a bookmark keeps the point for the next stream. The names have the GUID of the
//! target's dataset, as the bookmarks do: a target can be renamed, and two targets can have the same name on different hosts or disks. While
//! the target does not exist, they have a digest of its name instead.

use std::fs::File;
use std::path::Path;

use poolwright_base::cannot;
use poolwright_base::private::OwnDir;
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;
use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use super::plan::{CommonPoint, NOT_TAKEN, WAL_PREFIX};
use super::target::{SendTarget, TargetState};
use crate::Result;
use crate::destination::{free_name, locked};
use crate::error::refused;
use crate::wal::WalArchive;

/// Follows [`WAL_PREFIX`] in the name of the first snapshot for a target.
const NEW: &str = "new-";

/// A WAL archive, and how its snapshots for one target are named.
pub(super) struct WalSnapshots {
    dataset: String,
    archive: WalArchive,
    /// Eight hexadecimal digits that stand for the target's name.
    digest: String,
}

impl WalSnapshots {
    /// `shell` is the remote shell, which can lead to another host of the same name.
    pub(super) fn new(
        dataset: &str,
        archive: WalArchive,
        target: &SendTarget,
        shell: Option<&[String]>,
    ) -> WalSnapshots {
        let target = target.to_string();
        let words = std::iter::once(&target).chain(shell.unwrap_or_default());
        let digest = words.fold(Sha256::new(), |digest, word| digest.chain_update(word).chain_update([0]));
        let digest = digest.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        WalSnapshots { dataset: dataset.to_owned(), archive, digest }
    }

    /// Prevents other runs from sending the archive to this target until the returned file is closed.
    ///
    /// # Errors
    /// A refusal if another run does; or the host's errors.
    pub(super) fn lock(&self, dir: &Path) -> Result<File> {
        let own = OwnDir::open(dir).map_err(cannot("use", dir))?;
        let name = format!("send-{}-{}.lock", self.dataset.replace('/', "%"), self.digest);
        let file = own.file(&name).map_err(cannot("open", dir.join(&name)))?;
        match locked(file, &dir.join(&name), FlockOperation::NonBlockingLockExclusive)? {
            Some(lock) => Ok(lock),
            None => refused(format!("another run sends {} to this target now", self.dataset)),
        }
    }

    /// The snapshots to send: the one whose transfer was interrupted, and one that is not taken yet.
    pub(super) fn due(&self, points: &[HistoryPoint], target: Option<&TargetState>) -> Vec<HistoryPoint> {
        let pending = pending(target);
        let is_pending = |of: &&HistoryPoint| !of.is_bookmark() && Some(of.guid) == pending;
        let name = self.free_name(points, target);
        let next = HistoryPoint { name, guid: NOT_TAKEN, created_txg: u64::MAX };
        points.iter().filter(is_pending).cloned().chain([next]).collect()
    }

    /// A name for a snapshot, from the present time, that neither side has.
    pub(super) fn free_name(&self, points: &[HistoryPoint], target: Option<&TargetState>) -> String {
        let of_target = target.map_or(&[][..], |target| &target.snapshots);
        let taken: Vec<&str> = points.iter().chain(of_target).map(HistoryPoint::short_name).collect();
        let name = free_name(&self.prefix(target), |name| !taken.contains(&name));
        format!("{}@{name}", self.dataset)
    }

    /// The snapshots of the source that are not needed any more: those for this target, and those with these GUIDs, but the one whose
    /// transfer was interrupted, and the newest common one unless a bookmark is in its place. While the target does not exist, those of its
    /// name: of failed first transfers.
    pub(super) fn unneeded<'a>(
        &self,
        points: &'a [HistoryPoint],
        target: Option<&TargetState>,
        common: Option<&CommonPoint>,
        own: &[u64],
    ) -> Vec<&'a HistoryPoint> {
        let (pending, common) = (pending(target), common.map(|of| of.source.guid));
        let has_bookmark = points.iter().any(|of| of.is_bookmark() && Some(of.guid) == common);
        let prefix = self.prefix(target);
        let is_own = |of: &HistoryPoint| of.short_name().starts_with(&prefix) || own.contains(&of.guid);
        let is_needed =
            |of: &HistoryPoint| Some(of.guid) == pending || Some(of.guid) == common && !has_bookmark;
        points.iter().filter(|of| !of.is_bookmark() && is_own(of) && !is_needed(of)).collect()
    }

    /// The snapshots of the target that are not needed any more: those for it, and those with these GUIDs, that were received before the newest
    /// common one. The target can be sent on to others, for which it has snapshots of its own.
    pub(super) fn superseded<'a>(
        &self,
        target: &'a TargetState,
        common: &CommonPoint,
        own: &[u64],
    ) -> Vec<&'a HistoryPoint> {
        let prefixes = [self.prefix(Some(target)), self.prefix(None)];
        let is_own = |of: &HistoryPoint| {
            prefixes.iter().any(|prefix| of.short_name().starts_with(prefix)) || own.contains(&of.guid)
        };
        let is_older = |of: &&HistoryPoint| of.created_txg < common.target.created_txg;
        target.snapshots.iter().filter(|of| is_own(of)).filter(is_older).collect()
    }

    fn prefix(&self, target: Option<&TargetState>) -> String {
        match target {
            Some(target) => format!("{WAL_PREFIX}{:016x}-", target.guid),
            None => format!("{WAL_PREFIX}{NEW}{}-", self.digest),
        }
    }

    /// The last whole segment of the archive; `None` if it has none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn last_segment(&self) -> Result<Option<String>> {
        Ok(self.archive.coverage(&self.dataset, &[])?.last)
    }
}

/// The GUID of the snapshot whose transfer was interrupted.
fn pending(target: Option<&TargetState>) -> Option<u64> {
    target.and_then(|target| Some(target.pending.as_ref()?.1.to_guid))
}

#[cfg(test)]
mod tests {
    use poolwright_zfs::kernel::command::send::ResumeToken;

    use super::*;

    const IDENTITY: &str =
        r#"{"version":1,"system_identifier":"7","segment_size":1,"backups":"b","dataset":"t/b"}"#;

    fn snapshots_for(target: &str, shell: Option<&[String]>) -> WalSnapshots {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("poolwright-wal.json"), IDENTITY).unwrap();
        let archive = WalArchive::open(dir.path()).unwrap();
        WalSnapshots::new("t/w", archive, &SendTarget::parse(target).unwrap(), shell)
    }

    fn point(name: &str, guid: u64) -> HistoryPoint {
        HistoryPoint { name: name.to_owned(), guid, created_txg: guid }
    }

    /// A target with the GUID 10, on which the transfer of a snapshot was interrupted.
    fn target(pending: Option<u64>) -> TargetState {
        let contents = |to_guid| ("1-a".to_owned(), ResumeToken { to_guid, ..ResumeToken::default() });
        TargetState { guid: 10, pending: pending.map(contents), ..TargetState::default() }
    }

    fn names(points: &[&HistoryPoint]) -> String {
        points.iter().map(|of| of.short_name().rsplit('-').next().unwrap()).collect::<Vec<_>>().join(" ")
    }

    const BY_GUID: &str = "t/w@poolwright-wal-000000000000000a";

    #[test]
    fn each_target_has_snapshots_of_its_own() {
        let name = |target, shell: Option<&[String]>| snapshots_for(target, shell).prefix(None);
        let port = ["ssh -p 2223".to_owned()];
        assert_eq!(name("b:v/w", None), name("b:v/w", None));
        assert_ne!(name("b:v/w", None), name("v/w", None));
        assert_ne!(name("b:v/w", None), name("b:v/w", Some(&port)));
    }

    #[test]
    fn the_interrupted_snapshot_and_a_new_one_are_due() {
        let wal = snapshots_for("v/w", None);
        let points = [point("t/w@p-1", 1), point("t/w#p-2", 2), point("t/w@p-2", 2), point("t/w@p-3", 3)];
        let found = wal.due(&points, Some(&target(Some(2))));
        assert_eq!(found.iter().map(|of| of.guid).collect::<Vec<_>>(), [2, NOT_TAKEN]);
        assert!(found[1].name.starts_with(BY_GUID), "{}", found[1].name);
        let first = wal.due(&points, None);
        assert_eq!(first.len(), 1);
        assert_ne!(first[0].name, wal.free_name(&first, None), "a name is given once");
    }

    #[test]
    fn snapshots_that_a_transfer_or_the_next_stream_needs_stay() {
        let wal = snapshots_for("v/w", None);
        let new = wal.prefix(None);
        let mut points = vec![
            point(&format!("t/w@{new}1"), 1),
            point(&format!("{BY_GUID}-2"), 2),
            point(&format!("{BY_GUID}-3"), 3),
            point("t/w@poolwright-wal-000000000000000b-4", 4),
            point("t/w@poolwright-wal-new-00000000-5", 5),
            point("t/w@user-6", 6),
        ];
        let common = CommonPoint { source: points[1].clone(), target: points[1].clone() };
        let unneeded = |points: &[HistoryPoint], pending, sent: &[u64]| {
            names(&wal.unneeded(points, Some(&target(pending)), Some(&common), sent))
        };
        assert_eq!(unneeded(&points, Some(3), &[]), "");
        assert_eq!(unneeded(&points, None, &[]), "3", "another target can have this name");
        assert_eq!(
            unneeded(&points, None, &[1, 5]),
            "1 3 5",
            "the target had another name when they were sent"
        );
        assert_eq!(names(&wal.unneeded(&points, None, None, &[])), "1", "a first run that failed");
        points.push(point("t/w#poolwright-sent-2", 2));
        assert_eq!(unneeded(&points, None, &[]), "2 3");
    }

    #[test]
    fn the_target_keeps_the_newest_and_those_of_others() {
        let wal = snapshots_for("v/w", None);
        let names_of = [
            &format!("v/w@{}1", wal.prefix(None)),
            "v/w@user-2",
            &format!("{}-3", BY_GUID.replacen('t', "v", 1)),
            "v/w@poolwright-wal-000000000000000b-4",
            "v/w@poolwright-wal-new-00000000-5",
            "v/w@poolwright-wal-new-00000000-6",
        ];
        let snapshots = (1..).zip(names_of).map(|(number, name)| point(name, number)).collect();
        let state = TargetState { snapshots, ..target(None) };
        let at = |index: usize| state.snapshots[index].clone();
        let superseded = |newest: usize, own: &[u64]| {
            let common = CommonPoint { source: at(newest), target: at(newest) };
            wal.superseded(&state, &common, own).iter().map(|of| of.guid).collect::<Vec<_>>()
        };
        assert_eq!(superseded(5, &[]), [1, 3]);
        assert_eq!(superseded(5, &[5]), [1, 3, 5], "it was received before the target was renamed");
        assert_eq!(superseded(2, &[]), [1]);
    }

    #[test]
    fn one_run_at_a_time_sends_to_a_target() {
        let dir = tempfile::tempdir().unwrap();
        let (wal, other) = (snapshots_for("v/w", None), snapshots_for("b:v/w", None));
        let lock = wal.lock(dir.path()).unwrap();
        assert!(wal.lock(dir.path()).unwrap_err().is_refusal());
        other.lock(dir.path()).unwrap();
        drop(lock);
        wal.lock(dir.path()).unwrap();
    }
}
