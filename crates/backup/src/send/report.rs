//! The report of a transfer, for users and programs.

use schemars::JsonSchema;
use serde::Serialize;

/// The streams that are sent, and the state of the target afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SendReport {
    /// The dataset of the backups, or of a WAL archive.
    pub dataset: String,
    /// The dataset that receives them, with its host.
    pub target: String,
    /// Whether the streams are raw: encrypted as on disk.
    pub raw: bool,
    /// Whether nothing was sent because the user only wanted to see the streams.
    pub dry_run: bool,
    /// The streams, in order.
    pub streams: Vec<StreamReport>,
    /// The backups of the dataset, oldest first. Empty for a WAL archive.
    pub backups: Vec<SentBackup>,
    /// The WAL archive; missing if backups are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal: Option<SentWal>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamReport {
    /// The snapshot that the target has afterwards: a backup, or one of a WAL archive.
    pub snapshot: String,
    /// The snapshot or bookmark from which it is incremental; missing if it is full, or was interrupted and is continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether it continues a stream that was interrupted.
    pub resumed: bool,
    /// The bytes that `zfs` estimated; missing if it printed no estimate.
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

/// A WAL archive that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SentWal {
    /// The last whole segment in the newest snapshot. Missing after a dry run, and if there is none. `backup list` shows gaps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_segment: Option<String>,
}
