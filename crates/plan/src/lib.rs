//! The plan as described in `docs/plan-format.md`: `tune` writes it, and each later stage reads it and writes a file of its own.
//!
//! Maps are ordered, so that equal plans have equal text.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_base::quoted;
use poolwright_trace::layout;
pub use poolwright_trace::layout::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod advice;
mod alternative;
mod beside;
mod confirmation;
mod contribution;
mod evidence;
mod file;
mod identifier;
mod measurements;
mod memory;
pub mod metric;
mod pareto;
pub mod places;
mod problems;
mod replayed;
mod request;
mod spelling;
mod track_record;
mod verification;
pub use advice::{AdviceSource, AdviceStatus, CheckedAdvice};
pub use alternative::{AlternativeKind, AlternativeSetting};
pub use beside::BesidePlan;
pub use confirmation::{
    Confirmation, ConfirmationCommands, ConfirmationVerdict, ConfirmedDataset, ConfirmedSetting, Contender,
    PredictedChange, WorkUnit,
};
pub use contribution::{Contributions, MeasuredChange, PropertyEffect};
pub use evidence::{Cost, Evidence, EvidenceKind, Gain, GainVerdict, Measured, Outcome, Spread};
pub use file::{PlanFileError, RiskyValues};
pub use measurements::Measurements;
pub use memory::Memory;
pub use metric::MetricName;
pub use pareto::{Pareto, ParetoSetting};
pub use problems::{PlanRisk, RISKY_PROPERTIES};
pub use replayed::ReplayedSlice;
pub use request::RequestRecord;
pub use spelling::spelled_setting;
pub use track_record::{MeasuredWorkload, TrackRecord};
pub use verification::{
    CheckedPromise, LiveMeasurement, MeasuredPromise, PromiseVerdict, RateUnit, RequestMix, Verification,
    VerificationVerdict,
};

/// The value of [`Plan::format`].
pub const FORMAT: &str = "poolwright-plan";

/// The format version that this release writes, and the highest one that it reads.
pub const VERSION: u32 = 1;

/// Property → value, both in the spelling of `zfs`.
pub type Settings = BTreeMap<String, String>;
/// Metric → gain; `docs/plan-format.md` lists the metrics.
pub type Gains = BTreeMap<MetricName, Gain>;

/// The result of a tuning run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Always `poolwright-plan`.
    #[schemars(extend("const" = FORMAT))]
    pub format: String,
    /// Version of the format, at present 1.
    pub version: u32,
    /// The program that made the plan, and its version.
    pub creator: String,
    /// End of the run, RFC 3339 in UTC.
    pub created: String,
    /// The database that was examined.
    pub subject: Subject,
    /// The goal of the optimisation.
    pub goal: Goal,
    /// The machine on which the trials ran.
    pub machine: Machine,
    /// Every seed used, in order of use; each below 2^53.
    pub seeds: Vec<u64>,
    /// Compressibility of the files.
    pub data: Data,
    /// The recording; without one, no trial was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// Recommendation and evidence for each role, largest first.
    pub roles: Vec<RolePlan>,
    /// The pool's sector size.
    pub pool: Pool,
    /// Recommended settings of the database itself.
    pub database: Vec<DatabaseSetting>,
    /// Memory that the ARC needs; missing in plans of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// For each raced role, the Pareto-optimal settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<Pareto>,
    /// For each raced role with a recommendation, the effect of each recommended property alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contributions: Vec<Contributions>,
    /// Accuracy of the predictions on similar workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_record: Option<TrackRecord>,
    /// Published advice, compared with today's settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<CheckedAdvice>,
    /// The complete request, so that the run can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestRecord>,
    /// Change of each metric under the whole plan, relative to today.
    #[serde(default)]
    pub gain: Gains,
    /// Metrics that the recommended settings make much worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Number of replays, including repeated and failed ones.
    pub trials: u64,
    /// Number of `trials` that gave no result.
    #[serde(default)]
    pub failed_trials: u64,
    /// Wall time of the analysis in seconds, without the recording.
    pub seconds: f64,
    /// Whether any setting should change.
    pub verdict: Verdict,
    /// The reason for the verdict in a few sentences.
    pub why: String,
    /// Limits of the plan's validity.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Plan {
    /// Groups the roles by the directory on which their dataset is or would be mounted. The groups are in the order of paths, so that
    /// `/srv/pg/base` follows `/srv/pg` and precedes `/srv/pg-wal`; the roles of a group are in the plan's order.
    pub fn roles_by_mountpoint(&self) -> BTreeMap<&Path, Vec<&RolePlan>> {
        let mut groups: BTreeMap<&Path, Vec<&RolePlan>> = BTreeMap::new();
        for role in &self.roles {
            groups.entry(Path::new(&role.location.mountpoint)).or_default().push(role);
        }
        groups
    }

    /// Whether the plan is of a volume (zvol) instead of the files of a database.
    pub fn is_of_volume(&self) -> bool {
        self.roles.iter().any(|role| role.role == Role::Volume)
    }

    /// The message that the directory contains another database system than the one for which the plan was made; `None` if it is the
    /// same.
    pub fn other_database(&self, dir: &Path) -> Option<String> {
        let title = layout::locate(dir).map(|found| found.layout.title);
        let recorded = self.subject.database.as_deref();
        let is_same = match (title, recorded) {
            (Some(now), Some(then)) => then.starts_with(now),
            (now, then) => now.is_none() && then.is_none(),
        };
        let name = |database: Option<&str>| database.unwrap_or("an unknown database").to_owned();
        (!is_same).then(|| {
            format!("{} contains {}, but the plan was made for {}", quoted(&dir), name(title), name(recorded))
        })
    }
}

/// Whether any setting should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least one role has a setting that is better beyond noise.
    Change,
    /// No setting is better than today's beyond noise (exit code 4).
    Keep,
}

/// The database that was examined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Absolute path of the directory.
    pub directory: String,
    /// Title of the detected layout, with the version of the database if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Type of the directory's file system: `zfs`, `ext4`.
    pub file_system: String,
    /// The ZFS dataset that contains the directory, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Number of regular files.
    pub files: u64,
    /// Sum of the files' lengths in bytes.
    pub bytes: u64,
    /// Sum of the files' allocated bytes today; 0 for a volume.
    pub allocated_bytes: u64,
    /// Files that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

/// A file that was omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Absolute path.
    pub path: String,
    /// Why the file was omitted.
    pub reason: String,
}

/// The goal. The objective is the weighted geometric mean of the ratios to today's settings (`docs/plan-format.md`,
/// "goal"): lower is better, today is 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// `balanced`, `space`, `latency`, `throughput`, `endurance` or `efficiency`.
    pub name: String,
    /// Metric → weight; weights are positive and add up to 1.
    pub weights: BTreeMap<MetricName, f64>,
    /// What the recommended settings must not cost, such as `work_rate>=-5%`. Plans of older releases have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// The machine on which the trials ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Operating system and its release.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// OpenZFS version of the library that ran the trials.
    pub openzfs: String,
    /// OpenZFS version of the loaded kernel module, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openzfs_kernel: Option<String>,
    /// CPU model name.
    pub cpu: String,
    /// Number of logical CPUs available to the trials.
    pub cores: u32,
    /// Physical memory in bytes, or the control group's limit if that is lower.
    pub memory_bytes: u64,
    /// ARC limit of the trials in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arc_bytes: Option<u64>,
    /// File system that contained the trials' pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<String>,
    /// The emulated device.
    pub device: Device,
    /// Program → version, for other programs that matter.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// A device profile and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The name of a profile, such as `nvme`; `none`, `measured` or `custom`.
    pub profile: String,
    /// Latency added to a read, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_ns: Option<u64>,
    /// Latency added to a write, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_ns: Option<u64>,
    /// Latency added to a flush, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_latency_ns: Option<u64>,
    /// Read bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_s: Option<u64>,
    /// Write bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_s: Option<u64>,
    /// Nanoseconds added to a request that does not continue the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_ns: Option<u64>,
    /// Bytes of the disk's read cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Limit of operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Limit of operations in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
}

/// Compressibility of the files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Data {
    /// Number of bytes examined.
    pub sampled_bytes: u64,
    /// Shannon entropy of the byte values in bits per byte, 0 to 8.
    pub entropy_bits_per_byte: f64,
    /// Share of the sampled bytes in all-zero 4 KiB pages.
    pub zero_fraction: f64,
    /// Bytes per byte of lz4 output for 128 KiB chunks, before rounding to sectors.
    pub lz4_ratio: f64,
    /// The same for zstd-3.
    pub zstd3_ratio: f64,
    /// Origin of the bytes that the trials write.
    pub replay_bytes: ReplayBytes,
}

/// Origin of the bytes that the trials write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayBytes {
    /// The present content of the file at that offset.
    #[default]
    File,
    /// Synthetic bytes with the measured compressibility of the file.
    Synthetic,
}

/// The recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSummary {
    /// The trace file, if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The program that recorded it, and its version.
    pub creator: String,
    /// What was recorded: `dir:/path`, `pid:123`, `zvol:/dev/zvol/pool/volume`.
    pub subject: String,
    /// The recorder's probe set.
    pub probe_set: String,
    /// Length of the recording in seconds.
    pub duration_s: f64,
    /// Events that did not fit into the ring buffer.
    pub lost_events: u64,
    /// Operations that the probe set cannot see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
    /// Operation → count. `read` includes page faults in mapped files whose pages were not in the page cache.
    pub ops: BTreeMap<String, u64>,
    /// `read`, `write` → bytes.
    pub bytes: BTreeMap<String, u64>,
}

/// A kind of operation that the probe set cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// Description of the operations.
    pub what: String,
    /// How often they occurred.
    pub count: u64,
}

/// Recommendation for the files of one role, which would share a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolePlan {
    /// The role.
    pub role: Role,
    /// Absolute path of the directory (or of the only file) that contains the role.
    pub path: String,
    /// All files or directories of the role, `path` first.
    pub paths: Vec<String>,
    /// Number of regular files.
    pub files: u64,
    /// Sum of the files' lengths in bytes.
    pub bytes: u64,
    /// The dataset that the role has or would have.
    #[serde(rename = "place")]
    pub location: DatasetLocation,
    /// Today's properties.
    pub current: Settings,
    /// Origin of `current`.
    pub current_source: CurrentSource,
    /// Properties that should change; empty means keep.
    pub recommended: Settings,
    /// Property → why its recommended value cannot lose data, according to the author of the plan. Nothing depends on it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub safe_because: BTreeMap<String, String>,
    /// The role's I/O in the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<RoleIo>,
    /// Other roles of the same dataset whose I/O was replayed in the same trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_with: Vec<Role>,
    /// The part of the recording that its trials replayed; missing without trials, and in plans of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<ReplayedSlice>,
    /// Every setting that was tried, estimated or predicted, best objective first.
    pub evidence: Vec<Evidence>,
    /// Change of each metric by `recommended`, for this role and those of `together_with`; all other roles as
    /// today.
    pub gain: Gains,
    /// A tried setting for users with another preference than the goal's: a smaller or a faster one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<AlternativeSetting>,
    /// The setting with the best objective, if it is not recommended because it misses a requirement or a limit of the goal, and what it misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// Remarks for the user who applies the plan.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl RolePlan {
    /// The roles whose I/O its trials replayed: `data, temp and wal`.
    pub fn replayed_roles(&self) -> String {
        match self.together_with.split_last() {
            None => self.role.to_string(),
            Some((last, first)) => format!("{} and {last}", Role::list(&[&[self.role], first].concat())),
        }
    }

    /// What the user should know of the role: the excluded setting, and the notes.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        self.excluded.iter().chain(&self.notes)
    }
}

/// The dataset that a role has or would have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetLocation {
    /// Directory on which the dataset would be mounted.
    pub mountpoint: String,
    /// The dataset mounted on the directory today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Whether the database allows the role to have its own directory.
    pub separable: bool,
    /// How to move the role there: a setting of the database, or a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The directory of the role that can become a symbolic link to the mount point, without a setting of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// Origin of today's properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CurrentSource {
    /// Read from the dataset.
    ZfsGet {
        /// The dataset's name.
        dataset: String,
    },
    /// OpenZFS's defaults, because the directory is not on a dataset.
    ZfsDefaults {
        /// The reason, for example "the directory is on ext4".
        why: String,
    },
}

/// A role's I/O in the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleIo {
    /// Operation → count. `read` includes page faults in mapped files whose pages were not in the page cache.
    pub ops: BTreeMap<String, u64>,
    /// `read`, `write` → bytes.
    pub bytes: BTreeMap<String, u64>,
    /// `(low, count)` for each power of two: the reads of `low` to below `2 * low` bytes.
    #[serde(default)]
    pub read_size_histogram: Vec<(u64, u64)>,
    /// The same for writes: `(low, count)`, sizes in bytes.
    #[serde(default)]
    pub write_size_histogram: Vec<(u64, u64)>,
}

/// The pool's sector size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// The recommended value; sectors have 2^ashift bytes.
    pub ashift: u8,
    /// The value of the pool that contains the directory today; sectors have 2^current bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<u8>,
    /// The reason, in one sentence.
    pub why: String,
}

/// A recommended setting of the database itself. No verb edits a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseSetting {
    /// Name in the database's spelling.
    pub setting: String,
    /// Value in the spelling of the database's configuration.
    pub value: String,
    /// Value today, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Reason for the setting.
    pub why: String,
    /// Why the setting cannot lose data; required if it turns off a protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_because: Option<String>,
    /// Properties that must be set for the reason to apply.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: Settings,
    /// Whether the server must be restarted.
    #[serde(default)]
    pub restart: bool,
}

#[cfg(test)]
mod tests;
