//! The order of backups, which does not depend on a clock, and their ages, which must not be wrong after a clock was changed.
//!
//! The backups in a dataset are in the order of their snapshots: that of the transaction groups. In an archive, into which an old backup
//! can be copied after newer ones, the sequence numbers in the manifests determine the order. The times in the manifests are for users
//! only.

use poolwright_base::time;

use crate::destination::{BackupEntry, BackupList};
use crate::manifest::{BackupManifest, order_of};
use crate::{Error, Result};

/// How far a backup may lie in the future, in seconds: clocks are corrected by less while a host is in operation.
const TOLERANCE_S: i64 = 300;

/// The number of the next backup in a dataset. `last` is the manifest that was written last: its backup may have been destroyed.
pub(crate) fn next_sequence(backups: &[BackupEntry], last: Option<&BackupManifest>) -> u64 {
    let known = backups.iter().map(|entry| &entry.manifest).chain(last);
    1 + known.filter_map(|manifest| manifest.sequence).max().unwrap_or(0)
}

/// Whether a backup was made after another one, which may have been removed from `all`, the backups in their dataset.
pub(crate) fn is_newer(entry: &BackupEntry, other: &BackupEntry, all: &[BackupEntry]) -> bool {
    let place = |of: &BackupEntry| all.iter().position(|known| known.manifest.id == of.manifest.id);
    match (place(entry), place(other)) {
        (Some(place), Some(before)) => place > before,
        _ => order_of(&entry.manifest) > order_of(&other.manifest),
    }
}

/// Refuses backups that lie in the future of this host's clock: either the clock is wrong now, or it was wrong when they were made.
///
/// # Errors
/// The refusal.
pub(crate) fn check_clock(list: &BackupList) -> Result<()> {
    let Some(of) = list.backups.iter().find(|entry| entry.age_s < -TOLERANCE_S) else { return Ok(()) };
    let why = format!(
        "the backup {} of {} is dated in the future: {}, but this host's clock shows {}",
        of.manifest.name,
        list.dataset,
        of.manifest.created,
        time::now()
    );
    Err(Error::Future(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::entry;
    use crate::manifest::age;

    fn numbered(time: u64, sequence: Option<u64>) -> BackupEntry {
        let mut entry = entry(time, '?');
        entry.manifest.sequence = sequence;
        entry
    }

    #[test]
    fn backups_are_in_the_order_of_their_snapshots() {
        // The clock was ahead when the second one was made.
        let all = [numbered(10, Some(1)), numbered(900, Some(2)), numbered(20, Some(3))];
        assert!(is_newer(&all[2], &all[1], &all) && !is_newer(&all[1], &all[2], &all));
        // It is in an archive only.
        assert!(is_newer(&all[2], &all[1], &all[2..]) && !is_newer(&all[0], &all[1], &all[..1]));
        // Without numbers, the dataset has the order, and a time decides on one that was removed.
        let old = [numbered(10, None), numbered(900, None), numbered(20, None)];
        assert!(is_newer(&old[2], &old[1], &old) && !is_newer(&old[2], &old[1], &old[2..]));
        assert!(is_newer(&all[0], &numbered(901, None), &all), "numbers are newer than none");
        assert_eq!(next_sequence(&all[..2], Some(&all[2].manifest)), 4);
        assert_eq!(next_sequence(&old, None), 1);
    }

    #[test]
    fn ages_have_a_sign() {
        assert_eq!((age(10, 4), age(4, 10)), (6, -6));
        assert!(age(0, u64::MAX) < 0 && age(u64::MAX, 0) > 0);
    }
}
