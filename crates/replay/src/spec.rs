//! The complete specification of one trial, which `poolwright trial SPEC.json` reads.

use std::path::{Path, PathBuf};

use poolwright_openzfs::clock::CodecCost;
use poolwright_trace::layout::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::EngineOptions;
use crate::error::host;
use crate::kernel_pool::KernelPoolOptions;
use crate::settings::RoleSettings;
use crate::{Error, Result};

/// The target of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetSpec {
    /// A scratch pool of the engine.
    Engine(EngineOptions),
    /// A scratch directory below this one.
    Directory(PathBuf),
    /// Scratch datasets of a pool of the kernel.
    KernelPool(KernelPoolOptions),
}

/// Options for the replay of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationSpec {
    /// CPU time in nanoseconds of a call that the application makes and the replay does not, for example a request to a
    /// FUSE file system.
    #[serde(default)]
    pub call_ns: u64,
    /// The maximum duration of the pass in seconds, even if work is left. Without it, the pass ends when the work is
    /// done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_s: Option<f64>,
    /// The number of threads that serve the calls on each role's files, as in a mounted file system. Without it, each
    /// thread serves its own calls, as in a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
}

/// A trial. Paths refer to the machine that runs it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// The trace file.
    pub trace: PathBuf,
    /// The directory of the trace's capture.
    pub capture: PathBuf,
    /// The target.
    pub target: TargetSpec,
    /// Properties per role. A role without an entry has the engine's defaults.
    #[serde(default)]
    pub settings: RoleSettings,
    /// The roles to replay; all if empty.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// Replays at the recorded times, sped up by this factor. Without it, the replay runs as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// Replays the application, with think times and wakeups as recorded. Excludes `pace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationSpec>,
    /// The number of passes over the trace before the measured one, at the same pace.
    #[serde(default)]
    pub warm_passes: u32,
    /// Share of the recorded time at the start of the pass that warms up and is not measured, 0 to 0.9.
    #[serde(default)]
    pub warm_share: f64,
    /// Begins at this time of the recording, in seconds: the files are filled as they were then, and earlier operations are not
    /// replayed. Without it, the replay begins at the start of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seconds: Option<f64>,
    /// Replays only this much recorded time from its begin, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
    /// Only fills the target and measures space, without a pass.
    #[serde(default)]
    pub fill_only: bool,
}

/// Adds costs of codecs and sizes that `known` does not have.
pub fn add_codec_costs(known: &mut Vec<CodecCost>, measured: &[CodecCost]) {
    let same = |a: &CodecCost, b: &CodecCost| CodecCost { ns: b.ns, ..*a } == *b;
    for cost in measured {
        if !known.iter().any(|old| same(old, cost)) {
            known.push(*cost);
        }
    }
}

impl Spec {
    /// Reads a specification from a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a valid specification.
    pub fn load(path: &Path) -> Result<Spec> {
        let text = std::fs::read(path).map_err(host("read", path))?;
        serde_json::from_slice(&text).map_err(|e| Error::Malformed {
            what: "trial specification",
            path: path.to_owned(),
            why: e.to_string(),
        })
    }

    /// Whether the trial runs on the engine's virtual clock, not in real time.
    pub fn is_virtual(&self) -> bool {
        matches!(&self.target, TargetSpec::Engine(options) if options.clock.is_some())
    }

    /// Returns the specification of the trial with this number. On the virtual clock, it charges the costs of codecs that earlier
    /// trials measured, so that all trials charge the same, and has random numbers of its own: two trials with the same numbers would
    /// give the same figures, and so say nothing of how much the figures depend on the order of requests.
    #[must_use]
    pub fn of_trial(&self, number: u64, measured: &[CodecCost]) -> Spec {
        let mut spec = self.clone();
        if let TargetSpec::Engine(EngineOptions { clock: Some(clock), .. }) = &mut spec.target {
            clock.seed = clock.seed.wrapping_add(number);
            add_codec_costs(&mut clock.costs.codecs, measured);
        }
        spec
    }

    /// Writes the specification to a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a specification has only string keys");
        poolwright_base::private::write(path, &text).map_err(host("write", path))
    }
}
