//! Replicates backups, or a WAL archive, to another dataset, on this host or on another one, through `zfs send` and `zfs receive`.
//!
//! Each backup that the target lacks is one stream, so an interrupted transfer continues within a backup. For a WAL archive, one stream
//! contains everything since the last one. The target is never rolled back, and nothing is forced: a changed target is refused. After each
//! stream, the target's snapshots are compared with the source's by their GUIDs, and a bookmark keeps the point from which the next stream
//! is incremental, so that its backup may be removed.

mod plan;
mod record;
mod report;
mod source;
mod target;
mod wal_snapshots;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_base::units::counted;
use poolwright_zfs::datasets::pool_of;
use poolwright_zfs::kernel::command::send::{ReceiveRequest, SendStream, StreamContent, StreamFormat};
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;
use poolwright_zfs::kernel::{DatasetChange, Transfer, ZfsCommands};

use crate::error::refused;
use crate::observer::{BackupObserver, BackupStage};
use crate::{Error, Result};

pub(crate) use plan::WAL_PREFIX;
use plan::{CommonPoint, NOT_TAKEN, PlannedStream, SourceState, newest_common, plan};
use source::SendSource;
use target::{TargetDataset, TargetState};

pub use record::SendRecord;
pub use report::{SendReport, SentBackup, SentWal, StreamReport};
pub use target::SendTarget;
pub(crate) use target::commands;

/// Starts the names of the bookmarks, before the target's GUID and the snapshot's name.
pub(crate) const BOOKMARK_PREFIX: &str = "poolwright-sent-";
/// Properties of the target. A stream has no properties, so the others are inherited there, the mount point too. The dataset is not mounted
/// when its pool is imported, and nothing but a stream changes it, so that the next one fits.
const SETTINGS: [(&str, &str); 2] = [("canmount", "noauto"), ("readonly", "on")];

/// The options of sending.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The dataset that receives the backups or the log. It is created by the first stream.
    pub target: SendTarget,
    /// The program of the remote shell and its first arguments, in place of `ssh`.
    pub shell: Option<Vec<String>>,
    /// The limit of the streams, in bytes a second.
    pub rate: Option<u64>,
    /// How long no byte may be moved.
    pub stall: Duration,
    /// Where a run that sends a WAL archive locks its target; `None` for one that only shows the streams.
    pub lock_dir: Option<PathBuf>,
}

/// A prepared run.
pub struct SendRun {
    rate: Option<u64>,
    stall: Duration,
    source: SendSource,
    source_state: SourceState,
    commands: ZfsCommands,
    target: TargetDataset,
    target_state: Option<TargetState>,
    format: StreamFormat,
    streams: Vec<PlannedStream>,
    /// The GUID of the snapshot of a WAL archive that was common when the run began.
    first_base: Option<u64>,
}

impl SendRun {
    /// Checks both datasets and decides what is sent. From now on, backups are not removed from the dataset. Changes nothing.
    ///
    /// # Errors
    /// A refusal; or if a dataset cannot be read, or the host of the target cannot be reached.
    pub fn prepare(dataset: &str, options: SendOptions) -> Result<SendRun> {
        let source = SendSource::open(dataset, &options)?;
        let commands = commands(None);
        let target = TargetDataset::new(options.target, options.shell)?;
        let target_state = target.state(&commands)?;
        let source_state = source.state(&commands, target_state.as_ref())?;
        let format = format(&source_state, &target, target_state.as_ref())?;
        let streams = plan(&source_state, target_state.as_ref(), &target.name)?;
        let (rate, stall) = (options.rate, options.stall);
        let common = target_state.as_ref().and_then(|target| newest_common(&source_state, target));
        let first_base = common.filter(CommonPoint::is_of_wal).map(|of| of.source.guid);
        let run = SendRun {
            rate,
            stall,
            source,
            source_state,
            commands,
            target,
            target_state,
            format,
            streams,
            first_base,
        };
        run.check_unchanged()?;
        Ok(run)
    }

    /// The streams that would be sent, with the sizes that `zfs` estimates. Querying the size of each stream can take a while.
    pub fn report(&self) -> SendReport {
        let streams = self.streams.iter().map(|of| self.stream_report(of)).collect();
        self.report_of(true, streams, None)
    }

    /// Sends the backups, or the log.
    ///
    /// # Errors
    /// [`Error`]. What has arrived is kept at the target, and the next run continues.
    pub fn execute(mut self, observer: &mut dyn BackupObserver) -> Result<SendReport> {
        let (target, dataset) = (&self.target.name, &self.source_state.dataset);
        if target.host.is_none() && pool_of(&target.dataset) == pool_of(dataset) {
            observer.note(&format!("the target is in the pool of {dataset}, and would be lost with it"));
        }
        let mut done = Vec::new();
        let mut last_segment = None;
        for index in 0..self.streams.len() {
            if self.streams[index].snapshot.guid == NOT_TAKEN {
                last_segment = self.take_snapshot(index, observer)?;
            }
            let stream = &self.streams[index];
            let number = format!("{} of {}", index + 1, self.streams.len());
            observer.note(&format!("sending {} ({number})", stream.snapshot.short_name()));
            let mut report = self.stream_report(stream);
            report.sent_bytes = Some(self.send(stream, report.expected_bytes, observer)?);
            self.target_state = self.target.state(&self.commands)?;
            self.check_received(index)?;
            done.push(report);
            self.keep_base(observer);
        }
        if self.streams.is_empty() {
            self.keep_base(observer);
        }
        self.destroy_unneeded(observer);
        self.destroy_superseded(observer);
        self.name_other_targets(observer);
        Ok(self.report_of(false, done, last_segment))
    }

    /// Takes the snapshot of a stream of a WAL archive: the last whole segment in it. First destroys those that earlier runs have left: only now
    /// it is known whether the target keeps what has arrived of them.
    fn take_snapshot(&mut self, index: usize, observer: &mut dyn BackupObserver) -> Result<Option<String>> {
        let Some(wal) = &self.source.wal else { return Ok(None) };
        if index == 0 {
            // Another run, which names the target in another way, may have begun meanwhile. Later, the state is that after the stream before.
            self.target_state = self.target.state(&self.commands)?;
        }
        self.destroy_unneeded(observer);
        let last = wal.last_segment()?;
        // Earlier streams may have taken hours.
        let name = wal.free_name(&self.source_state.points, self.target_state.as_ref());
        let taken = self.source.take(&name, &self.commands)?;
        self.source_state.points.push(taken.clone());
        let stream = &mut self.streams[index];
        if let StreamContent::Full { snapshot } | StreamContent::Incremental { snapshot, .. } =
            &mut stream.content
        {
            *snapshot = name;
        }
        stream.snapshot = taken;
        Ok(last)
    }

    /// Refuses a target into which something was written since the newest common snapshot.
    fn check_unchanged(&self) -> Result<()> {
        let Some(common) = self.common().filter(|_| !self.streams.is_empty()) else {
            return Ok(());
        };
        self.check_raw(&common)?;
        match self.target.written_since(&common.target)? {
            0 => Ok(()),
            bytes => {
                let (name, snapshot) = (&self.target.name, common.target.short_name());
                let rollback = format!("zfs rollback -r {}", common.target.name);
                refused(format!(
                    "{name} has changed since @{snapshot}: {bytes} bytes were written\nhint: `{rollback}` on the host of the target discards the \
                     changes and newer snapshots"
                ))
            }
        }
    }

    /// Refuses a target that was not received raw: the initialization vectors of its blocks are its own.
    fn check_raw(&self, common: &CommonPoint) -> Result<()> {
        // Some releases do not show this property.
        let of = |commands: &ZfsCommands, point: &HistoryPoint| {
            commands.values_of(&point.name, ["ivsetguid"]).ok().flatten().and_then(|[guid]| guid)
        };
        if self.format != StreamFormat::Raw {
            return Ok(());
        }
        match (of(&self.commands, &common.source), of(&self.target.commands, &common.target)) {
            (Some(a), Some(b)) if a != b => refused(format!(
                "{} was not received as an encrypted (raw) stream, so no such stream fits\nhint: name a dataset that does not exist",
                self.target.name
            )),
            _ => Ok(()),
        }
    }

    /// The GUIDs of the snapshots of a WAL archive that are needed only until a newer one is common: those that this run sends, and its first base.
    fn own(&self) -> Vec<u64> {
        self.streams.iter().map(|of| of.snapshot.guid).chain(self.first_base).collect()
    }

    fn common(&self) -> Option<CommonPoint> {
        self.target_state.as_ref().and_then(|target| newest_common(&self.source_state, target))
    }

    /// Sends one stream; its length in bytes.
    fn send(
        &self,
        stream: &PlannedStream,
        expected: Option<u64>,
        observer: &mut dyn BackupObserver,
    ) -> Result<u64> {
        observer.stage(BackupStage::Send);
        let transfer = Transfer {
            sender: &self.commands,
            stream: &self.stream(stream),
            receiver: &self.target.commands,
            request: &self.request(stream),
            rate: self.rate,
            stall: self.stall,
        };
        let sent = transfer.run(&mut |bytes| {
            observer.progress(bytes, expected.unwrap_or(0));
            !observer.is_interrupted()
        });
        let outcome = "the target keeps what was sent before, and what has arrived of this stream\nhint: send again to continue";
        match sent {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Error::Interrupted.with_outcome(outcome)),
            Err(cause) => Err(Error::from(cause).with_outcome(outcome)),
        }
    }

    fn check_received(&self, index: usize) -> Result<()> {
        let sent = &self.streams[index].snapshot;
        let received = self.target_state.iter().flat_map(|target| &target.snapshots);
        match received.into_iter().any(|of| of.guid == sent.guid) {
            true => Ok(()),
            false => {
                let name = sent.short_name().to_owned();
                Err(Error::NotReceived { target: self.target.name.to_string(), name })
            }
        }
    }

    /// Makes a bookmark of the newest snapshot that the target has, in place of the earlier one for this target. The data has arrived, so a
    /// failure is only a note.
    fn keep_base(&self, observer: &mut dyn BackupObserver) {
        let Some((target, common)) = self.target_state.as_ref().zip(self.common()) else { return };
        if common.source.is_bookmark() {
            return;
        }
        let name = common.source.short_name();
        let kept = self.replace_bookmark(&common.source, &bookmark_prefix(target));
        if let Err(why) = kept {
            observer.note(&format!(
                "no bookmark keeps the point for the next stream, so @{name} must not be destroyed before: {why}"
            ));
        }
    }

    /// Destroys the snapshots of a WAL archive that are not needed any more. A failure is a remark.
    fn destroy_unneeded(&self, observer: &mut dyn BackupObserver) {
        let (Some(wal), dataset) = (&self.source.wal, &self.source_state.dataset) else { return };
        let points = match self.commands.history_of(dataset) {
            Ok(points) => points,
            Err(why) => return observer.note(&format!("the snapshots of {dataset} cannot be listed: {why}")),
        };
        let (target, common) = (self.target_state.as_ref(), self.common());
        let mut unneeded = wal.unneeded(&points, target, common.as_ref(), &self.own());
        // The base of a stream that is not sent yet.
        unneeded.retain(|of| !self.streams.iter().any(|stream| stream.is_planned_from(&of.name)));
        let admin = self.source.mounted.admin();
        destroy(&unneeded, dataset, observer, |change| Ok(admin.change(change)?));
    }

    /// After the first transfer to a target, names bookmarks of other targets: the target may replace an old one.
    fn name_other_targets(&self, observer: &mut dyn BackupObserver) {
        let is_first =
            self.streams.first().is_some_and(|of| matches!(of.content, StreamContent::Full { .. }));
        let dataset = &self.source_state.dataset;
        let Some(target) = self.target_state.as_ref().filter(|_| is_first) else { return };
        let own = bookmark_prefix(target);
        let is_other = |of: &&HistoryPoint| {
            let name = of.short_name();
            name.starts_with(BOOKMARK_PREFIX) && !name.starts_with(&own)
                || name.starts_with(WAL_PREFIX) && self.source.wal.is_some()
        };
        for of in self.commands.history_of(dataset).unwrap_or_default().iter().filter(is_other) {
            let name = &of.name;
            observer.note(&format!(
                "{name} is of another target: `zfs destroy {name}` if that target is given up"
            ));
        }
    }

    /// Destroys the snapshots on the target that it does not need any more. A failure is a remark.
    fn destroy_superseded(&self, observer: &mut dyn BackupObserver) {
        let common = self.target_state.as_ref().zip(self.common());
        let Some((wal, (target, common))) = self.source.wal.as_ref().zip(common) else { return };
        let superseded = wal.superseded(target, &common, &self.own());
        let name = self.target.name.to_string();
        destroy(&superseded, &name, observer, |change| Ok(self.target.commands.change(change)?));
    }

    fn replace_bookmark(&self, snapshot: &HistoryPoint, prefix: &str) -> Result<()> {
        let admin = self.source.mounted.admin();
        let mut points = self.commands.history_of(&self.source_state.dataset)?;
        points.retain(|of| of.is_bookmark() && of.short_name().starts_with(prefix));
        if points.iter().all(|of| of.guid != snapshot.guid) {
            let name = format!("{}#{prefix}{}", self.source_state.dataset, snapshot.short_name());
            admin.change(&DatasetChange::Bookmark { snapshot: snapshot.name.clone(), name })?;
        }
        for old in points.into_iter().filter(|of| of.guid != snapshot.guid) {
            admin.change(&DatasetChange::DestroyBookmark { name: old.name })?;
        }
        Ok(())
    }

    fn stream(&self, planned: &PlannedStream) -> SendStream {
        SendStream { content: planned.content.clone(), format: self.format }
    }

    fn request(&self, planned: &PlannedStream) -> ReceiveRequest {
        // Only the first stream creates the dataset. Later, its properties are the administrator's.
        let is_full = matches!(planned.content, StreamContent::Full { .. });
        let settings = if is_full { SETTINGS.to_vec() } else { Vec::new() };
        ReceiveRequest { dataset: self.target.name.dataset.clone(), settings }
    }

    fn stream_report(&self, planned: &PlannedStream) -> StreamReport {
        let stream = self.stream(planned);
        let pending = self.target_state.as_ref().and_then(|state| state.pending.as_ref());
        let (from, is_resumed) = match &planned.content {
            StreamContent::Incremental { from, .. } => (Some(from.clone()), false),
            StreamContent::Full { .. } => (None, false),
            StreamContent::Resumed { .. } => (None, true),
        };
        let expected_bytes = match is_resumed {
            _ if planned.snapshot.guid == NOT_TAKEN => None,
            true => pending.and_then(|(_, contents)| contents.rest_bytes),
            // Only for the progress: if `zfs` cannot send it, that is reported when it is sent.
            false => self.commands.stream_size(&stream).ok().flatten(),
        };
        StreamReport {
            snapshot: planned.snapshot.short_name().to_owned(),
            from,
            resumed: is_resumed,
            expected_bytes,
            sent_bytes: None,
            send_command: self.commands.send_line(&stream),
            receive_command: self.target.commands.receive_line(&self.request(planned)),
        }
    }

    fn report_of(
        &self,
        is_dry_run: bool,
        streams: Vec<StreamReport>,
        last_segment: Option<String>,
    ) -> SendReport {
        let target = self.target_state.as_ref();
        let sent = |backup: &HistoryPoint| {
            let on_target =
                target.is_some_and(|target| target.snapshots.iter().any(|of| of.guid == backup.guid));
            let is_due = self.streams.iter().any(|of| of.snapshot.guid == backup.guid);
            let reason = (!on_target && !is_due)
                .then(|| "it is older than the newest one that the target has".to_owned());
            let (name, guid) = (backup.short_name().to_owned(), backup.guid.to_string());
            SentBackup { name, guid, on_target, reason }
        };
        let is_wal = self.source.wal.is_some();
        let backups = if is_wal { &[][..] } else { &self.source_state.due };
        SendReport {
            dataset: self.source_state.dataset.clone(),
            target: self.target.name.to_string(),
            raw: self.format == StreamFormat::Raw,
            dry_run: is_dry_run,
            streams,
            backups: backups.iter().map(sent).collect(),
            wal: is_wal.then_some(SentWal { last_segment }),
        }
    }
}

/// Starts the name of the bookmark for a target.
fn bookmark_prefix(target: &TargetState) -> String {
    format!("{BOOKMARK_PREFIX}{:016x}-", target.guid)
}

/// Destroys snapshots. Each is tried: one may be held, or have a clone.
fn destroy(
    snapshots: &[&HistoryPoint],
    dataset: &str,
    observer: &mut dyn BackupObserver,
    change: impl Fn(&DatasetChange) -> Result<()>,
) {
    let failed = snapshots
        .iter()
        .filter_map(|of| change(&DatasetChange::DestroySnapshot { name: of.name.clone() }).err());
    let failures: Vec<Error> = failed.collect();
    if let Some(why) = failures.first() {
        let count = counted(failures.len() as u64, "snapshot");
        observer
            .note(&format!("{count} of {dataset} could not be destroyed, and will be tried again: {why}"));
    }
}

/// The format of the streams. A refusal if the target does not exist and cannot be created.
fn format(source: &SourceState, target: &TargetDataset, state: Option<&TargetState>) -> Result<StreamFormat> {
    let is_target_encrypted = match state {
        Some(state) => state.is_encrypted,
        None => match target.parent_is_encrypted()? {
            Some(is_encrypted) => is_encrypted,
            None => {
                return refused(format!(
                    "{} cannot be created: the dataset above it does not exist",
                    target.name
                ));
            }
        },
    };
    Ok(match (source.is_encrypted, is_target_encrypted) {
        (true, _) => StreamFormat::Raw,
        (false, true) => StreamFormat::StoredForEncrypted,
        (false, false) => StreamFormat::Stored,
    })
}
