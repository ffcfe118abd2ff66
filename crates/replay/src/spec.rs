//! One trial, completely described: what `poolwright trial SPEC.json` reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_openzfs::property::Settings;
use serde::{Deserialize, Serialize};

use crate::engine::EngineOptions;
use crate::error::host;
use crate::{Error, Result};

/// What the trial runs on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetSpec {
    /// A pool of its own.
    Engine(EngineOptions),
    /// A scratch directory below this one.
    Directory(PathBuf),
}

/// How an application's replay is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationSpec {
    /// CPU time of a call in nanoseconds that the application makes and the replay does not: that of a request to a FUSE
    /// file system, for example.
    #[serde(default)]
    pub call_ns: u64,
    /// The pass ends after so many seconds, however much of the work is done; left out: when the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_s: Option<f64>,
    /// Threads that serve the calls on each role's files, as those of a mounted file system; left out: a call is served by
    /// the thread that makes it, as in a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
}

/// A trial. Paths are of the machine it runs on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The trace.
    pub trace: PathBuf,
    /// The directory of its capture.
    pub capture: PathBuf,
    /// What it runs on.
    pub target: TargetSpec,
    /// Properties per role; a role that is left out has the engine's defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, Settings>,
    /// Replay only these roles; empty for all.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Recorded times, this many times as fast; left out: as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// Replay the application: think times and wakeups as recorded; not together with `pace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationSpec>,
    /// Passes over the trace before the measured one.
    #[serde(default)]
    pub warm_passes: u32,
    /// Share of the recorded time at the start of the pass that warms up and is not measured, 0 to 0.9.
    #[serde(default)]
    pub warm_share: f64,
    /// Replay only this much recorded time from the start, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
    /// Fill and settle only: space, without a pass.
    #[serde(default)]
    pub fill_only: bool,
}

impl Spec {
    /// Reads one from disk.
    pub fn load(path: &Path) -> Result<Spec> {
        let text = std::fs::read(path).map_err(host("reading", path))?;
        serde_json::from_slice(&text).map_err(|e| Error::Malformed {
            what: "trial specification",
            path: path.to_owned(),
            why: e.to_string(),
        })
    }

    /// Writes it to disk.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a specification has only string keys");
        poolwright_host::private::write(path, &text).map_err(host("writing", path))
    }
}
