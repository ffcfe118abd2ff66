//! The plan, as `docs/plan-format.md` describes it: what `tune` writes, the report reads, and `apply` and `undo` will read.
//!
//! Plain data. Maps are ordered, so that the same plan is always the same text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod advice;
mod confirmation;
mod contribution;
mod evidence;
mod memory;
mod pareto;
mod request;
mod track_record;
pub use advice::{AdviceSource, AdviceStatus, CheckedAdvice};
pub use confirmation::{
    Confirmation, ConfirmationCommands, ConfirmationVerdict, ConfirmedDataset, ConfirmedSetting, Contender,
    PredictedChange, WorkUnit,
};
pub use contribution::{Contributions, MeasuredChange, PropertyEffect, VarianceShares};
pub use evidence::{Cost, Evidence, EvidenceKind, Gain, GainVerdict, Measured, Outcome, Spread};
pub use memory::Memory;
pub use pareto::{Pareto, ParetoSetting};
pub use request::{Repetition, RequestRecord};
pub use track_record::{MeasuredWorkload, TrackRecord};

/// [`Plan::format`] of every plan.
pub const FORMAT: &str = "poolwright-plan";
/// The metric under which the objective stands among the changes.
pub const OBJECTIVE: &str = "objective";

/// The format version that this program writes, and the highest it reads.
pub const VERSION: u32 = 1;

/// Property → value, both as `zfs` spells them.
pub type Settings = BTreeMap<String, String>;
/// Metric → gain; the metrics are listed in `docs/plan-format.md`.
pub type Gains = BTreeMap<String, Gain>;

/// What `tune` found and advises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`FORMAT`].
    pub format: String,
    /// Of the format: [`VERSION`].
    pub version: u32,
    /// Program and version.
    pub creator: String,
    /// When it was finished, RFC 3339 in UTC.
    pub created: String,
    /// The database that was looked at.
    pub subject: Subject,
    /// What was asked for.
    pub goal: Goal,
    /// What the measurements ran on.
    pub machine: Machine,
    /// Every seed used, in order of use; each below 2^53.
    pub seeds: Vec<u64>,
    /// How compressible the files are.
    pub data: Data,
    /// The recording; without it no trial was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// Advice and evidence per role, largest first.
    pub roles: Vec<Role>,
    /// The pool's sector size.
    pub pool: Pool,
    /// The database's own settings that go with it.
    pub database: Vec<DatabaseSetting>,
    /// How much memory the ARC needs; plans of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Per raced role, the settings that no other tried one beats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<Pareto>,
    /// Per raced role, what each property contributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contributions: Vec<Contributions>,
    /// How good predictions were on workloads like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_record: Option<TrackRecord>,
    /// Published advice, held against today's settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<CheckedAdvice>,
    /// What was asked for, in full, so that the run can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestRecord>,
    /// How it compares with the plan that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// Gain of the whole plan against today.
    #[serde(default)]
    pub gain: Gains,
    /// What the recommended settings make much worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// What the database itself measured under the plan's settings, once `confirm` has run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// Replays run, repeats and failed ones counted.
    pub trials: u64,
    /// How many of `trials` gave no result.
    #[serde(default)]
    pub failed_trials: u64,
    /// Wall time of the analysis, recording left out.
    pub seconds: f64,
    /// Whether anything should change.
    pub verdict: Verdict,
    /// The verdict in one or two sentences.
    pub why: String,
    /// What a reader has to know before trusting the rest.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Property values that can lose or corrupt data, and so need [`Role::safe_because`].
const UNSAFE: [(&str, &str); 3] = [("sync", "disabled"), ("checksum", "off"), ("redundant_metadata", "none")];

impl Plan {
    /// The confirmation, if the database itself contradicts the verdict.
    pub fn contradiction(&self) -> Option<&Confirmation> {
        self.confirmation.as_ref().filter(|c| c.verdict == ConfirmationVerdict::NotConfirmed)
    }

    /// What makes this plan one that must not be applied, in words; empty for a sound one.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.format != FORMAT {
            found.push(format!("this is {:?}, not a {FORMAT}", self.format));
        }
        if self.version > VERSION {
            found.push(format!(
                "format version {} is newer than {VERSION}, the highest this release reads; \
                 use the release that wrote it ({})",
                self.version, self.creator
            ));
        }
        let changes = self.roles.iter().any(|r| !r.recommended.is_empty());
        if changes != (self.verdict == Verdict::Change) {
            found.push(format!("the verdict is {:?}, but the roles say otherwise", self.verdict));
        }
        let mut places: BTreeMap<&str, &Role> = BTreeMap::new();
        for role in &self.roles {
            let other = places.entry(&role.place.mountpoint).or_insert(role);
            if other.recommended != role.recommended {
                found.push(format!(
                    "{} and {} share {}, but are given different properties",
                    other.role, role.role, role.place.mountpoint
                ));
            }
            for (property, value) in UNSAFE {
                let set = role.recommended.get(property).is_some_and(|v| v == value);
                if set && !role.safe_because.contains_key(property) {
                    found.push(format!(
                        "{}: {property}={value} is not safe, and nothing says why it would be",
                        role.path
                    ));
                }
            }
        }
        found
    }
}

/// Whether anything should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least one role has a better setting beyond noise.
    Change,
    /// No setting is better than today's beyond noise (exit code 4).
    Keep,
}

/// The database that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Absolute path that was given.
    pub directory: String,
    /// Which layout was recognised, with its version where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Type of the file system it is on: `zfs`, `ext4`.
    pub file_system: String,
    /// The ZFS dataset, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Regular files seen.
    pub files: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// Sum of their blocks today, in bytes.
    pub allocated_bytes: u64,
    /// Files that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Absolute path.
    pub path: String,
    /// Why it was left out.
    pub reason: String,
}

/// What was asked for. The objective is the weighted geometric mean of the ratios to today's settings
/// (`docs/plan-format.md`, "goal"): lower is better, today is 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// `balanced`, `space`, `latency`, `throughput` or `endurance`.
    pub name: String,
    /// Metric → weight; positive, adding up to 1.
    pub weights: BTreeMap<String, f64>,
}

/// What the measurements ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and its release.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Version of the library that ran the trials.
    pub openzfs: String,
    /// Version of the kernel module, when one is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openzfs_kernel: Option<String>,
    /// CPU model name.
    pub cpu: String,
    /// Logical CPUs that the trials could use.
    pub cores: u32,
    /// Physical memory, or the control group's limit where that is lower.
    pub memory_bytes: u64,
    /// ARC limit of the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arc_bytes: Option<u64>,
    /// File system that held the trials' pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<String>,
    /// The device that was emulated.
    pub device: Device,
    /// Other programs whose version matters.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// A device profile and the numbers that made it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `none`, `nvme`, `sata-ssd`, `hdd`, `ebs-gp3`, `measured` or `custom`.
    pub profile: String,
    /// Latency added to a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_ns: Option<u64>,
    /// Latency added to a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_ns: Option<u64>,
    /// Latency added to a flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_latency_ns: Option<u64>,
    /// Read bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_s: Option<u64>,
    /// Write bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_s: Option<u64>,
    /// Added to a request that does not continue the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_ns: Option<u64>,
    /// Operations a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Operations in flight at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
}

/// How compressible the files are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// Bytes read to judge the data.
    pub sampled_bytes: u64,
    /// Shannon entropy of the byte values, 0 to 8.
    pub entropy_bits_per_byte: f64,
    /// Share of the sampled bytes in all-zero 4 KiB pages.
    pub zero_fraction: f64,
    /// Bytes per lz4 byte over 128 KiB chunks, before rounding to sectors.
    pub lz4_ratio: f64,
    /// The same for zstd-3.
    pub zstd3_ratio: f64,
    /// Where the bytes written in trials came from.
    pub replay_bytes: ReplayBytes,
}

/// Where the bytes written in trials came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayBytes {
    /// What the file has at that place now.
    #[default]
    File,
    /// Made, with the file's measured compressibility.
    Synthetic,
}

/// The recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The trace file, when it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Who recorded it.
    pub creator: String,
    /// What was followed: `dir:/path`, `pid:123`.
    pub subject: String,
    /// How it was seen.
    pub probe_set: String,
    /// Length of the recording in seconds.
    pub duration_s: f64,
    /// Events the kernel dropped.
    pub lost_events: u64,
    /// What the probe set cannot see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
    /// Operation → count.
    pub ops: BTreeMap<String, u64>,
    /// `read`, `write` → bytes.
    pub bytes: BTreeMap<String, u64>,
}

/// Something the probe set cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// In words.
    pub what: String,
    /// How often it was met.
    pub count: u64,
}

/// Advice for the files of one role that would share a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Role {
    /// `data`, `wal`, `binlog`, `temp`, `index`, `backup`, `archive`, `import`, `other`.
    pub role: String,
    /// Absolute path of the directory (or of the one file) that holds it.
    pub path: String,
    /// All files or directories of the role, `path` first.
    pub paths: Vec<String>,
    /// Regular files.
    pub files: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// The dataset it has or would have.
    pub place: DatasetLocation,
    /// Today's properties.
    pub current: Settings,
    /// Where `current` comes from.
    pub current_source: CurrentSource,
    /// What should change; empty means keep.
    pub recommended: Settings,
    /// Property → why its value can be used without losing data.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub safe_because: BTreeMap<String, String>,
    /// What the trace saw of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<RoleIo>,
    /// Other roles of the same dataset whose I/O was replayed in the same trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_with: Vec<String>,
    /// Everything that was tried, best objective first.
    pub evidence: Vec<Evidence>,
    /// Gain of `recommended` against `current`, for the role and those of `together_with`; all others as today.
    pub gain: Gains,
    /// Remarks for the person who applies it.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The dataset that a role has or would have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetLocation {
    /// Directory the dataset would be mounted on.
    pub mountpoint: String,
    /// The dataset mounted there today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Whether the database lets the role live there alone.
    pub separable: bool,
    /// What makes it so: a setting of the database, a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
}

/// Where today's properties come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CurrentSource {
    /// Read from the dataset.
    ZfsGet {
        /// The dataset's name.
        dataset: String,
    },
    /// The defaults of OpenZFS, because there is no dataset to ask.
    ZfsDefaults {
        /// For example "the directory is on ext4".
        why: String,
    },
}

/// What the trace saw of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleIo {
    /// Operation → count.
    pub ops: BTreeMap<String, u64>,
    /// `read`, `write` → bytes.
    pub bytes: BTreeMap<String, u64>,
    /// `(low, count)`: sizes from `low` bytes to below twice that.
    #[serde(default)]
    pub read_size_histogram: Vec<(u64, u64)>,
    /// The same for writes.
    #[serde(default)]
    pub write_size_histogram: Vec<(u64, u64)>,
}

/// The pool's sector size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Recommended: 2^ashift bytes.
    pub ashift: u8,
    /// Of the pool that the directory is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<u8>,
    /// In one sentence.
    pub why: String,
}

/// A setting of the database itself: advice to print. No verb edits a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSetting {
    /// As the database spells it.
    pub setting: String,
    /// As it would stand in the configuration.
    pub value: String,
    /// Value today, when it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// What it brings.
    pub why: String,
    /// What makes it safe; there must be one where a protection is turned off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_because: Option<String>,
    /// Properties that must be in force for it to hold.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: Settings,
    /// Whether the server has to be restarted.
    #[serde(default)]
    pub restart: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format's description.
    fn example() -> (serde_json::Value, Plan) {
        let page = include_str!("../../../docs/plan-format.md");
        let (_, rest) = page.split_once("```json\n").expect("the page has an example");
        let (text, _) = rest.split_once("\n```").expect("the example ends");
        (serde_json::from_str(text).unwrap(), serde_json::from_str(text).unwrap())
    }

    #[test]
    fn documented_example_is_read_and_written_whole() {
        let (value, plan) = example();
        assert_eq!(serde_json::to_value(&plan).unwrap(), value);
        assert_eq!(plan.problems(), Vec::<String>::new());
    }

    #[test]
    fn unsound_plans_are_named() {
        let (_, mut plan) = example();
        plan.verdict = Verdict::Keep;
        assert!(plan.problems()[0].contains("verdict"));
        plan.verdict = Verdict::Change;

        let mut twin = plan.roles[0].clone();
        twin.role = "wal".into();
        twin.recommended.insert("sync".into(), "disabled".into());
        plan.roles.push(twin);
        let problems = plan.problems().join("\n");
        assert!(problems.contains("data and wal share /srv/mariadb/data"), "{problems}");
        assert!(problems.contains("sync=disabled is not safe"), "{problems}");

        plan.version = VERSION + 1;
        assert!(plan.problems()[0].contains("newer"));
    }
}
