//! Removing backups that the rules do not keep.

use std::collections::BTreeMap;

use poolwright_zfs::datasets::{is_user_pool, pool_of};
use poolwright_zfs::kernel::DatasetChange;
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive::{archived, is_awaited};
use crate::chronology::check_clock;
use crate::destination::{BackupDestination, BackupEntry, BackupList, NO_BACKUP};
use crate::error::refused;
use crate::manifest::{BackupManifest, DestinationIdentity};
use crate::retention::{RestoreState, RetentionCandidate, RetentionDecision, RetentionRules, decide};
use crate::send::{BOOKMARK_PREFIX, WAL_PREFIX, commands};
use crate::wal::{WalArchive, WalRemoval};
use crate::{Error, Result};

/// The decision for each backup: remove or keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PruneReport {
    /// The dataset.
    pub dataset: String,
    /// Whether nothing was removed because the user only wanted to see the decisions.
    pub dry_run: bool,
    /// The decision on each backup, oldest first.
    pub decisions: Vec<RetentionDecision>,
    /// The removal from the WAL archive; missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal: Option<WalRemoval>,
}

/// Applies the rules to the backups in a dataset. With an `archive` of it, backups that the archive does not have yet stay. Then removes
/// from its WAL archive the segments that no remaining backup needs.
///
/// # Errors
/// If the pool cannot be queried, or refuses to destroy a snapshot; a refusal if another run has the dataset or reads a backup, it is
/// not one of backups, or a backup lies in the future.
pub fn prune(
    dataset: &str,
    rules: &RetentionRules,
    archive: Option<&str>,
    is_dry_run: bool,
) -> Result<PruneReport> {
    let mut destination = BackupDestination::open(dataset)?;
    let Some(identity) = destination.identity()? else {
        return refused(format!("{dataset} is not a dataset of backups"));
    };
    if !is_dry_run {
        destination.lock_for_removal()?;
    }
    let archived = archive.map(|archive| archived(archive, &identity)).transpose()?;
    let list = destination.list()?;
    if !rules.accepts_future {
        check_clock(&list)?;
    }
    let is_awaited =
        |entry: &BackupEntry| archived.as_ref().is_some_and(|of| is_awaited(entry, &list.backups, of));
    let snapshots = destination.admin().snapshots(dataset)?;
    let replicated = newest_of_replicas(dataset, &identity)?;
    let obstacle = |name: &str| {
        let full = format!("{dataset}@{name}");
        let snapshot = snapshots.iter().find(|of| of.name == full)?;
        let clone = snapshot.clones.first().map(|clone| format!("{clone} is a clone of it"));
        clone.or_else(|| (snapshot.holds > 0).then(|| "its snapshot is held (zfs holds)".to_owned()))
    };
    let candidate = |entry: &BackupEntry| RetentionCandidate {
        name: entry.manifest.name.clone(),
        age_s: entry.age_s,
        state: match &entry.last_restore {
            Some(restore) if restore.passed => RestoreState::Good,
            Some(restore) if restore.has_failed() => RestoreState::Bad,
            _ => RestoreState::Unknown,
        },
        obstacle: match (is_awaited(entry), replicated.get(&entry.manifest.name)) {
            (true, _) => Some("it is not yet in the archive".to_owned()),
            (false, Some(bookmark)) => Some(format!(
                "the newest backup of a target of `send` ({bookmark}), which needs the log since then"
            )),
            (false, None) => obstacle(&entry.manifest.name),
        },
    };
    let candidates: Vec<RetentionCandidate> = list.backups.iter().map(candidate).collect();
    let decisions = decide(&candidates, rules);
    if !is_dry_run {
        for decision in decisions.iter().filter(|of| !of.kept) {
            let name = format!("{dataset}@{}", decision.name);
            let destroyed = destination.admin().change(&DatasetChange::DestroySnapshot { name });
            let outcome = "the backups that were decided on before it are removed, the others are unchanged";
            destroyed.map_err(|cause| Error::from(cause).with_outcome(outcome))?;
        }
    }
    let stays = |entry: &&BackupEntry| decisions.iter().any(|of| of.kept && of.name == entry.manifest.name);
    let remaining: Vec<&BackupManifest> = list.backups.iter().filter(stays).map(|of| &of.manifest).collect();
    let wal = remove_wal(&destination, &identity, &list, &remaining, archive, is_dry_run);
    Ok(PruneReport { dataset: dataset.to_owned(), dry_run: is_dry_run, decisions, wal })
}

/// The newest backup of each target of `send`, with the bookmark that records it, if the WAL archive is sent too. While it stays here, the
/// segments that it needs stay in the WAL archive and in the replica of that.
fn newest_of_replicas(dataset: &str, identity: &DestinationIdentity) -> Result<BTreeMap<String, String>> {
    let Some(wal) = &identity.wal_archive else { return Ok(BTreeMap::new()) };
    if is_user_pool(pool_of(dataset))? {
        return Ok(BTreeMap::new());
    }
    let commands = commands(None);
    let is_sent = |of: &HistoryPoint| of.is_bookmark() && of.short_name().starts_with(BOOKMARK_PREFIX);
    // A first transfer has a snapshot only, and one from a pool without bookmarks too.
    let is_of_transfer = |of: &HistoryPoint| is_sent(of) || of.short_name().starts_with(WAL_PREFIX);
    if !commands.history_of(wal)?.iter().any(is_of_transfer) {
        return Ok(BTreeMap::new());
    }
    let points = commands.history_of(dataset)?;
    let of_snapshot = |bookmark: &HistoryPoint| {
        let snapshot = points.iter().find(|of| !of.is_bookmark() && of.guid == bookmark.guid)?;
        Some((snapshot.short_name().to_owned(), bookmark.name.clone()))
    };
    Ok(points.iter().filter(|of| is_sent(of)).filter_map(of_snapshot).collect())
}

/// Removes segments from the WAL archive. If they cannot be, the reason is in the result: the backups were removed.
fn remove_wal(
    destination: &BackupDestination,
    identity: &DestinationIdentity,
    list: &BackupList,
    remaining: &[&BackupManifest],
    archive: Option<&str>,
    is_dry_run: bool,
) -> Option<WalRemoval> {
    let dataset = identity.wal_archive.as_ref()?;
    let kept = |reason: String| WalRemoval {
        dataset: dataset.clone(),
        reason: Some(reason),
        ..WalRemoval::default()
    };
    if let Some((name, why)) = list.others.iter().find(|(_, why)| *why != NO_BACKUP) {
        return Some(kept(format!("the backup {name} cannot be read, and may need it: {why}")));
    }
    let removed = WalArchive::of_backups(identity).transpose()?.and_then(|wal| {
        if wal.dataset_of_backups() != destination.dataset() {
            return Ok(kept(format!("it belongs to the backups in {}", wal.dataset_of_backups())));
        }
        // Backups in the archive need their log too.
        let archive = archive.map(BackupDestination::open).transpose()?;
        let archived = archive.as_ref().map(BackupDestination::list).transpose()?;
        let mut needing: Vec<_> = remaining.iter().map(|backup| (destination, *backup)).collect();
        for (of, list) in archive.iter().zip(&archived) {
            needing.extend(list.backups.iter().map(|entry| (of, &entry.manifest)));
        }
        wal.remove_unneeded(dataset, &needing, is_dry_run)
    });
    Some(removed.unwrap_or_else(|why| kept(why.first_line())))
}
