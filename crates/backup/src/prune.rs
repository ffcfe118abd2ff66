//! Removing backups that the rules do not keep.

use poolwright_pool::DatasetChange;
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive::{archived, is_awaited};
use crate::destination::{BackupDestination, BackupEntry};
use crate::error::refused;
use crate::retention::{RestoreState, RetentionCandidate, RetentionDecision, RetentionRules, decide};
use crate::{Error, Result};

/// What is removed and what stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PruneReport {
    /// The dataset.
    pub dataset: String,
    /// Whether nothing was removed because the user only wanted to see the decisions.
    pub dry_run: bool,
    /// The decision on each backup, oldest first.
    pub decisions: Vec<RetentionDecision>,
}

/// Applies the rules to the backups in a dataset. With an `archive` of it, backups that the archive does not have yet stay.
///
/// # Errors
/// If the pool cannot be asked, or refuses to destroy a snapshot; a refusal if another run has the dataset or reads a backup, or it is
/// not one of backups.
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
    let is_awaited = |entry: &BackupEntry| archived.as_ref().is_some_and(|of| is_awaited(entry, of));
    let snapshots = destination.admin().snapshots(dataset)?;
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
            None => RestoreState::Unknown,
            Some(restore) if restore.passed => RestoreState::Good,
            Some(_) => RestoreState::Bad,
        },
        obstacle: match is_awaited(entry) {
            true => Some("the archive does not have it yet".to_owned()),
            false => obstacle(&entry.manifest.name),
        },
    };
    let candidates: Vec<RetentionCandidate> = destination.list()?.backups.iter().map(candidate).collect();
    let decisions = decide(&candidates, rules);
    if !is_dry_run {
        for decision in decisions.iter().filter(|of| !of.kept) {
            let name = format!("{dataset}@{}", decision.name);
            let destroyed = destination.admin().change(&DatasetChange::DestroySnapshot { name });
            let outcome = "the backups that were decided on before it are removed, the others are unchanged";
            destroyed.map_err(|cause| Error::from(cause).with_outcome(outcome))?;
        }
    }
    Ok(PruneReport { dataset: dataset.to_owned(), dry_run: is_dry_run, decisions })
}
