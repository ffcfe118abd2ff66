//! Determines the streams that bring the target up to date.
//!
//! Snapshots of both sides are the same if their GUIDs are. The first stream is a full stream of the oldest snapshot to send, or an
//! incremental one from the newest common snapshot (on the source, a bookmark suffices); each further stream is incremental from the
//! previous snapshot. An interrupted stream is resumed first.

use poolwright_zfs::kernel::command::remote::command_line;
use poolwright_zfs::kernel::command::send::StreamContent;
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;

use super::target::{SendTarget, TargetState};
use crate::Result;
use crate::error::refused;

/// The GUID of a snapshot that is taken only when it is sent. ZFS gives this number to none.
pub(super) const NOT_TAKEN: u64 = 0;

/// Starts the names of the snapshots of a WAL archive.
pub(crate) const WAL_PREFIX: &str = "poolwright-wal-";

/// The snapshots and bookmarks of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceState {
    /// The dataset.
    pub dataset: String,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// Its snapshots and bookmarks, oldest first.
    pub points: Vec<HistoryPoint>,
    /// Those that are to be sent, oldest first: the backups, or the snapshots of a WAL archive.
    pub due: Vec<HistoryPoint>,
}

/// A snapshot that both sides have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommonPoint {
    /// The snapshot or bookmark of the source.
    pub source: HistoryPoint,
    /// The snapshot of the target.
    pub target: HistoryPoint,
}

impl CommonPoint {
    /// Whether it is a snapshot that a run took of a WAL archive.
    pub(super) fn is_of_wal(&self) -> bool {
        self.target.short_name().starts_with(WAL_PREFIX)
    }
}

/// A stream, and the snapshot that the target has afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedStream {
    /// The snapshot.
    pub snapshot: HistoryPoint,
    /// The contents of the stream.
    pub content: StreamContent,
}

impl PlannedStream {
    /// Whether its snapshot is not taken yet, and it is incremental from this one.
    pub(super) fn is_planned_from(&self, name: &str) -> bool {
        self.snapshot.guid == NOT_TAKEN
            && matches!(&self.content, StreamContent::Incremental { from, .. } if from == name)
    }
}

/// The newest snapshot of the target that the source has, too: as a snapshot if it has both.
pub(super) fn newest_common(source: &SourceState, target: &TargetState) -> Option<CommonPoint> {
    target.snapshots.iter().rev().find_map(|on_target| {
        let of_source = source.points.iter().filter(|of| of.guid == on_target.guid);
        let found = of_source.min_by_key(|of| of.is_bookmark())?;
        Some(CommonPoint { source: found.clone(), target: on_target.clone() })
    })
}

/// The streams to send, in order. `target` is `None` if it does not exist, `name` is its name in messages.
pub(super) fn plan(
    source: &SourceState,
    target: Option<&TargetState>,
    name: &SendTarget,
) -> Result<Vec<PlannedStream>> {
    let Some(target) = target else {
        let first = source.due.first().map(|backup| PlannedStream {
            snapshot: backup.clone(),
            content: StreamContent::Full { snapshot: backup.name.clone() },
        });
        return Ok(continued(source, first));
    };
    let common = newest_common(source, target);
    if common.is_none() && !target.snapshots.is_empty() {
        let dataset = &source.dataset;
        return refused(format!(
            "{name} has snapshots, and {dataset} has none of them, nor a bookmark of one\nhint: name a dataset that does not exist"
        ));
    }
    let streams = match (&target.pending, &common) {
        (Some((token, _)), _) => {
            let content = StreamContent::Resumed { token: token.clone() };
            let resumed = PlannedStream { snapshot: resumed_snapshot(source, target, name)?, content };
            continued(source, Some(resumed))
        }
        (None, Some(common)) => after(source, &common.source),
        (None, None) => {
            return refused(format!(
                "{name} exists and has no snapshot\nhint: name a dataset that does not exist"
            ));
        }
    };
    check_target(source, target, common.as_ref(), &streams, name)?;
    Ok(streams)
}

/// The snapshot whose stream was interrupted.
fn resumed_snapshot(source: &SourceState, target: &TargetState, name: &SendTarget) -> Result<HistoryPoint> {
    let Some((_, contents)) = &target.pending else { return refused("no stream was interrupted") };
    let (snapshot, dataset) = (&contents.to_name, &source.dataset);
    let impossible = |why: &str| {
        let command = command_line(["zfs", "receive", "-A", &name.dataset]);
        refused(format!(
            "the interrupted transfer of {snapshot} to {name} cannot be continued: {why}\nhint: `{command}` on the host of the target discards \
             what has arrived of it; then send again"
        ))
    };
    let Some(backup) = source.due.iter().find(|of| of.guid == contents.to_guid) else {
        return impossible(&format!("{dataset} has no such snapshot any more"));
    };
    if let Some(problem) = &contents.problem {
        return impossible(&problem.lines().collect::<Vec<_>>().join("; "));
    }
    if source.is_encrypted && !contents.is_raw {
        return impossible(&format!("{dataset} is encrypted, and the stream would not be"));
    }
    Ok(backup.clone())
}

/// The streams of the snapshots that are newer than this snapshot or bookmark.
fn after<'a>(source: &'a SourceState, base: &'a HistoryPoint) -> Vec<PlannedStream> {
    let mut from = base;
    let newer = source.due.iter().filter(|of| of.created_txg > base.created_txg);
    newer.map(|backup| incremental(std::mem::replace(&mut from, backup), backup)).collect()
}

/// The first stream, and those of all newer snapshots.
fn continued(source: &SourceState, first: Option<PlannedStream>) -> Vec<PlannedStream> {
    let rest = first.as_ref().map(|first| after(source, &first.snapshot)).unwrap_or_default();
    first.into_iter().chain(rest).collect()
}

fn incremental(from: &HistoryPoint, backup: &HistoryPoint) -> PlannedStream {
    let content = StreamContent::Incremental { from: from.name.clone(), snapshot: backup.name.clone() };
    PlannedStream { snapshot: backup.clone(), content }
}

/// Refuses a target that would not accept the streams.
fn check_target(
    source: &SourceState,
    target: &TargetState,
    common: Option<&CommonPoint>,
    streams: &[PlannedStream],
    name: &SendTarget,
) -> Result<()> {
    if streams.is_empty() {
        return Ok(());
    }
    if source.is_encrypted && !target.is_encrypted {
        let dataset = &source.dataset;
        return refused(format!(
            "{name} is not encrypted, and {dataset} is: it takes no encrypted stream\nhint: name a dataset that does not exist"
        ));
    }
    let newest = target.snapshots.last();
    if let (Some(common), Some(newest)) = (common, newest)
        && source.is_encrypted
        && newest.guid != common.target.guid
    {
        return refused(format!(
            "{name} has the snapshot @{}, which is newer than the newest common one, @{}\nhint: destroy it; an encrypted stream must follow the \
             newest snapshot",
            newest.short_name(),
            common.target.short_name()
        ));
    }
    let is_taken = |stream: &&PlannedStream| {
        target.snapshots.iter().any(|of| of.short_name() == stream.snapshot.short_name())
    };
    match streams.iter().find(is_taken) {
        Some(stream) => {
            refused(format!("{name} has another snapshot with the name @{}", stream.snapshot.short_name()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
