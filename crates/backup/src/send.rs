//! Replicating backups to another dataset, on this host or on another one, through `zfs send` and `zfs receive`.
//!
//! Each backup that the target lacks is one stream, so that a transfer that was interrupted is continued within a backup. Nothing is
//! ever rolled back or forced: a target that was changed is refused. After each backup, the target's snapshots are compared with the source's
//! by their GUIDs, and a bookmark keeps the point from which the next stream is incremental, so that its backup may be removed.

mod plan;
mod target;

use std::fs::File;

use poolwright_datasets::{is_user_pool, pool_of};
use poolwright_pool::command::send::{ReceiveRequest, SendStream, StreamContent, StreamFormat};
use poolwright_pool::command::snapshot::HistoryPoint;
use poolwright_pool::{DatasetChange, Transfer, ZfsCommands};
use schemars::JsonSchema;
use serde::Serialize;

use crate::destination::BackupDestination;
use crate::error::refused;
use crate::observer::{BackupObserver, BackupStage};
use crate::{Error, Result};

use plan::{CommonPoint, PlannedStream, SourceState, newest_common, plan};
use target::{TargetDataset, TargetState, commands, is_encrypted};

pub use target::SendTarget;

/// Starts the names of the bookmarks, before the target's GUID and the backup's name.
const BOOKMARK_PREFIX: &str = "poolwright-sent-";
/// Properties of the target. A stream has no properties, so the others are inherited there, the mount point too. The dataset is not mounted
/// when its pool is imported, and nothing but a stream changes it, so that the next one fits.
const SETTINGS: [(&str, &str); 2] = [("canmount", "noauto"), ("readonly", "on")];

/// The options of sending.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The dataset that receives the backups. It is created by the first stream.
    pub target: SendTarget,
    /// The program of the remote shell and its first arguments, in place of `ssh`.
    pub shell: Option<Vec<String>>,
    /// The limit of the streams, in bytes a second.
    pub rate: Option<u64>,
}

/// What is sent, and what the target has then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SendReport {
    /// The dataset of the backups.
    pub dataset: String,
    /// The dataset that receives them, with its host.
    pub target: String,
    /// Whether the streams are raw: encrypted as on disk.
    pub raw: bool,
    /// Whether nothing was sent because the user only wanted to see the streams.
    pub dry_run: bool,
    /// The streams, in order.
    pub streams: Vec<StreamReport>,
    /// The backups of the dataset, oldest first.
    pub backups: Vec<SentBackup>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamReport {
    /// The backup that the target has afterwards.
    pub backup: String,
    /// The snapshot or bookmark from which it is incremental; missing if it is full, or was interrupted and is continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether it continues a stream that was interrupted.
    pub resumed: bool,
    /// The bytes that `zfs` expected; missing if it did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_bytes: Option<u64>,
    /// The bytes that were sent; missing after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// The command that sends it.
    pub send_command: String,
    /// The command that receives it.
    pub receive_command: String,
}

/// A backup of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SentBackup {
    /// Its name.
    pub name: String,
    /// The GUID of its snapshot, a decimal number.
    pub guid: String,
    /// Whether the target has a snapshot with this GUID.
    pub on_target: bool,
    /// Why it is not sent; missing if it is sent or the target has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A prepared run.
pub struct SendRun {
    rate: Option<u64>,
    backups: BackupDestination,
    source: SourceState,
    commands: ZfsCommands,
    target: TargetDataset,
    state: Option<TargetState>,
    format: StreamFormat,
    streams: Vec<PlannedStream>,
    /// Keeps backups from being removed.
    _reading: File,
}

impl SendRun {
    /// Checks both datasets and decides what is sent. From now on, backups are not removed from the dataset. Changes nothing.
    ///
    /// # Errors
    /// A refusal; or if a dataset cannot be read, or the host of the target cannot be reached.
    pub fn prepare(dataset: &str, options: SendOptions) -> Result<SendRun> {
        check_pools(dataset, &options.target)?;
        let backups = BackupDestination::open(dataset)?;
        if backups.identity()?.is_none() {
            return refused(format!("{dataset} is not a dataset of backups"));
        }
        let reading = backups.lock_for_reading()?;
        let commands = commands(None);
        let source = source_state(&commands, &backups)?;
        let target = TargetDataset::new(options.target, options.shell)?;
        let state = target.state(&commands)?;
        let format = format(&source, &target, state.as_ref())?;
        let streams = plan(&source, state.as_ref(), &target.name)?;
        let run = SendRun {
            rate: options.rate,
            backups,
            source,
            commands,
            target,
            state,
            format,
            streams,
            _reading: reading,
        };
        run.check_unchanged()?;
        Ok(run)
    }

    /// What would be sent, with the sizes that `zfs` expects. Asks for the size of each stream, which can take a while.
    pub fn report(&self) -> SendReport {
        let streams = self.streams.iter().map(|of| self.stream_report(of)).collect();
        self.report_of(true, streams, self.state.as_ref())
    }

    /// Sends the backups.
    ///
    /// # Errors
    /// [`Error`]. What has arrived is kept at the target, and the next run continues.
    pub fn execute(self, observer: &mut dyn BackupObserver) -> Result<SendReport> {
        let target = &self.target.name;
        if target.host.is_none() && pool_of(&target.dataset) == pool_of(&self.source.dataset) {
            observer.note("the target is in the pool of the backups: it does not survive its loss");
        }
        let mut state = self.state.clone();
        let mut done = Vec::new();
        for (index, stream) in self.streams.iter().enumerate() {
            let number = format!("{} of {}", index + 1, self.streams.len());
            observer.note(&format!("sending {} ({number})", stream.backup.short_name()));
            let mut report = self.stream_report(stream);
            report.sent_bytes = Some(self.send(stream, report.expected_bytes, observer)?);
            state = self.target.state(&self.commands)?;
            self.check_received(stream, state.as_ref())?;
            done.push(report);
            self.keep_base(state.as_ref(), observer);
        }
        if self.streams.is_empty() {
            self.keep_base(state.as_ref(), observer);
        }
        Ok(self.report_of(false, done, state.as_ref()))
    }

    /// Refuses a target into which something was written since the newest common snapshot.
    fn check_unchanged(&self) -> Result<()> {
        let Some(common) = self.common(self.state.as_ref()).filter(|_| !self.streams.is_empty()) else {
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

    fn common(&self, state: Option<&TargetState>) -> Option<CommonPoint> {
        state.and_then(|state| newest_common(&self.source, state))
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
        };
        let sent = transfer.run(&mut |bytes| {
            observer.progress(bytes, expected.unwrap_or(0));
            !observer.is_interrupted()
        });
        let outcome = "the target keeps the backups that were sent before, and what has arrived of this one\nhint: send again to continue";
        match sent {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Error::Interrupted.with_outcome(outcome)),
            Err(cause) => Err(Error::from(cause).with_outcome(outcome)),
        }
    }

    fn check_received(&self, stream: &PlannedStream, state: Option<&TargetState>) -> Result<()> {
        let guid = stream.backup.guid;
        match state.is_some_and(|state| state.snapshots.iter().any(|of| of.guid == guid)) {
            true => Ok(()),
            false => {
                let name = stream.backup.short_name().to_owned();
                Err(Error::NotReceived { target: self.target.name.to_string(), name })
            }
        }
    }

    /// Makes a bookmark of the newest snapshot that the target has, in place of the earlier one for this target. What was sent is sent, so
    /// a failure is a remark.
    fn keep_base(&self, state: Option<&TargetState>, observer: &mut dyn BackupObserver) {
        let Some((state, common)) = state.zip(self.common(state)) else { return };
        if common.source.is_bookmark() {
            return;
        }
        let backup = common.source.short_name();
        let prefix = format!("{BOOKMARK_PREFIX}{:016x}-", state.guid);
        let kept = self.replace_bookmark(&common.source, &prefix);
        if let Err(why) = kept {
            let text = format!(
                "no bookmark keeps the point for the next stream, so the backup {backup} must not be removed before: {why}"
            );
            observer.note(&text);
        }
    }

    fn replace_bookmark(&self, snapshot: &HistoryPoint, prefix: &str) -> Result<()> {
        let admin = self.backups.admin();
        let mut points = self.commands.history_of(&self.source.dataset)?;
        points.retain(|of| of.is_bookmark() && of.short_name().starts_with(prefix));
        if points.iter().all(|of| of.guid != snapshot.guid) {
            let name = format!("{}#{prefix}{}", self.source.dataset, snapshot.short_name());
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
        let pending = self.state.as_ref().and_then(|state| state.pending.as_ref());
        let (from, is_resumed) = match &planned.content {
            StreamContent::Incremental { from, .. } => (Some(from.clone()), false),
            StreamContent::Full { .. } => (None, false),
            StreamContent::Resumed { .. } => (None, true),
        };
        let expected_bytes = match is_resumed {
            true => pending.and_then(|(_, contents)| contents.rest_bytes),
            // Only for the progress: if `zfs` cannot send it, that is reported when it is sent.
            false => self.commands.stream_size(&stream).ok().flatten(),
        };
        StreamReport {
            backup: planned.backup.short_name().to_owned(),
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
        state: Option<&TargetState>,
    ) -> SendReport {
        let sent = |backup: &HistoryPoint| {
            let on_target =
                state.is_some_and(|state| state.snapshots.iter().any(|of| of.guid == backup.guid));
            let is_due = self.streams.iter().any(|of| of.backup.guid == backup.guid);
            let reason = (!on_target && !is_due)
                .then(|| "it is older than the newest one that the target has".to_owned());
            let (name, guid) = (backup.short_name().to_owned(), backup.guid.to_string());
            SentBackup { name, guid, on_target, reason }
        };
        SendReport {
            dataset: self.source.dataset.clone(),
            target: self.target.name.to_string(),
            raw: self.format == StreamFormat::Raw,
            dry_run: is_dry_run,
            streams,
            backups: self.source.backups.iter().map(sent).collect(),
        }
    }
}

/// Refuses pools of the user-space engine, which has no streams, and a target in the dataset of the backups.
fn check_pools(dataset: &str, target: &SendTarget) -> Result<()> {
    if is_user_pool(pool_of(dataset))? {
        return refused(format!(
            "{dataset} is in a pool of the user-space engine, which cannot send streams\nhint: an archive in a pool of the kernel can be sent"
        ));
    }
    if target.host.is_some() {
        return Ok(());
    }
    let name = &target.dataset;
    if is_user_pool(pool_of(name))? {
        return refused(format!(
            "{name} is in a pool of the user-space engine, which cannot receive streams\nhint: copy the backups into an archive there"
        ));
    }
    match name == dataset || name.starts_with(&format!("{dataset}/")) {
        true => refused(format!("{name} is in the dataset of the backups")),
        false => Ok(()),
    }
}

fn source_state(commands: &ZfsCommands, backups: &BackupDestination) -> Result<SourceState> {
    let dataset = backups.dataset().to_owned();
    let names: Vec<String> = backups.list()?.backups.into_iter().map(|of| of.manifest.name).collect();
    let points = commands.history_of(&dataset)?;
    let is_backup =
        |of: &&HistoryPoint| !of.is_bookmark() && names.iter().any(|name| name == of.short_name());
    let listed: Vec<HistoryPoint> = points.iter().filter(is_backup).cloned().collect();
    if listed.is_empty() {
        return refused(format!("{dataset} has no backup"));
    }
    let values = commands.values_of(&dataset, ["encryption"])?;
    let is_encrypted = values.is_some_and(|[encryption]| is_encrypted(encryption));
    Ok(SourceState { dataset, is_encrypted, points, backups: listed })
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
