//! The state of a tuning run: its request and its results so far.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use poolwright_base::block::physical_sector;
use poolwright_openzfs::Device;
use poolwright_openzfs::clock::Costs;
use poolwright_openzfs::property::Settings;
use poolwright_replay::Capture;
use poolwright_replay::settings::RoleSettings;
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Trace};

use crate::candidates::with;
use crate::criteria::limits;
use crate::current::Current;
use crate::direct::DirectIo;
use crate::findings::Findings;
use crate::fit::{Calibration, Fit};
use crate::groups::Group;
use crate::objective::{Goal, Metrics};
use crate::requirement::Requirement;
use crate::roles::Inventory;
use crate::scatter::Scatter;
use crate::slice::{Profile, Slice};
use crate::space::EstimatedSpace;
use poolwright_plan as plan;

/// Input of one tuning run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Directory of the database.
    pub dir: PathBuf,
    /// Path of the recording.
    pub trace: PathBuf,
    /// Whether the trace file is kept, so that the plan may name it.
    pub keep_trace: bool,
    /// The goal of the optimisation.
    pub goal: Goal,
    /// Conditions that the recommended settings must meet.
    pub requirements: Vec<Requirement>,
    /// Time for estimates and trials. It is converted to a number of them by their expected durations ([`crate::fit`]), so that the
    /// search does not depend on how fast or busy the machine is.
    pub budget: Duration,
    /// ARC limit of the trials in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` of the trials in bytes.
    pub dirty_bytes: u64,
    /// Sector size as a power of two; `None` chooses it for the device.
    pub ashift: Option<u32>,
    /// The device to emulate.
    pub device: Device,
    /// The costs of operations on the trials' virtual clock.
    pub costs: Costs,
    /// Directory for pools and captures, used only by this run; the caller removes it.
    pub scratch: PathBuf,
    /// The program that runs `trial SPEC`.
    pub program: PathBuf,
    /// Property values that the user states as today's.
    pub stated: Settings,
    /// Seed of all random choices.
    pub seed: u64,
    /// Limit for the bytes of data with which a trial fills its pool.
    pub max_bytes: u64,
    /// Number of trials that run at the same time.
    pub side_by_side: usize,
    /// Whether to try published advice after the plan, outside the budget.
    pub check_advice: bool,
    /// Set to true by another thread to stop the run.
    pub stop: Arc<AtomicBool>,
}

impl Request {
    /// Returns the goal's limits on metrics that the user does not bound.
    pub(crate) fn limits(&self) -> Vec<Requirement> {
        let mut limits = limits(self.goal);
        limits.retain(|limit| self.requirements.iter().all(|r| r.name != limit.name));
        limits
    }

    /// Returns the user's requirements and the limits.
    pub(crate) fn bounds(&self) -> Vec<Requirement> {
        [self.requirements.clone(), self.limits()].concat()
    }
}

/// Progress of the run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The current step.
    pub doing: String,
    /// Share of the budget that is used, from 0 to 1.
    pub share: f64,
}

pub(crate) struct Tuner<'a> {
    pub request: &'a Request,
    pub trace: Arc<Trace>,
    pub profile: Profile,
    /// Where all trials begin, in seconds since the start of the recording.
    pub begin_s: f64,
    pub capture: Arc<Capture>,
    pub inventory: Inventory,
    /// Today's state of the directory.
    pub current: Current,
    /// Today's state of the roles behind symbolic links (see [`Inventory::linked`]).
    pub linked: BTreeMap<Role, Current>,
    pub ashift: u32,
    /// The space of each role's files under the settings that are tried on its dataset.
    pub space: BTreeMap<Role, Vec<EstimatedSpace>>,
    pub began: Instant,
    /// The part of the budget that is used, by the expected durations of estimates and trials.
    pub spent: Duration,
    /// The costs of operations on the trials' virtual clock, with the codecs measured so far.
    pub costs: Costs,
    pub trials: u64,
    pub failed: u64,
    pub fits: BTreeMap<Role, Fit>,
    /// Settings of the trials by role: today's, or the result of an earlier race.
    pub chosen: RoleSettings,
    /// The pairs of the last race that changed a setting.
    pub last_pairs: Vec<(Metrics, Metrics)>,
    /// The scatter between trials of one setting in that race.
    pub scatter: Scatter,
    pub calibration: Option<Calibration>,
    /// The metrics of the calibration trials, until a race takes them.
    pub calibrated: Vec<Metrics>,
    pub warnings: Vec<String>,
    pub findings: Findings,
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// Returns the length of a recording in seconds, at least 1.
pub(crate) fn recorded_s(trace: &Trace) -> f64 {
    (trace.meta.duration_ns as f64 / 1e9).max(1.0)
}

/// Returns the recommended ashift of the pool, and the reason.
pub(crate) fn recommended_ashift(dir: &Path) -> (u8, String) {
    match physical_sector(dir) {
        Some(bytes) if bytes > 4096 => {
            let ashift = bytes.next_power_of_two().ilog2() as u8;
            (ashift.min(16), format!("the device's physical sector is {bytes} bytes"))
        }
        Some(4096) => (12, "the device's physical sector is 4096 bytes".into()),
        Some(bytes) => (
            12,
            format!(
                    "the device reports sectors of {bytes} bytes, but flash and 512e disks rewrite 4096 bytes for each; a vdev's ashift \
                     cannot be changed later"
            ),
        ),
        None => (
            12,
            "the device's sector size is unknown; 4096 bytes suit nearly all devices, and a vdev's ashift cannot be changed later"
                .into(),
        ),
    }
}

impl Tuner<'_> {
    pub(crate) fn report_progress(&mut self, doing: impl Into<String>) {
        let share = self.spent.as_secs_f64() / self.request.budget.as_secs_f64().max(1e-3);
        (self.progress)(&Progress { doing: doing.into(), share: share.min(1.0) });
    }

    pub(crate) fn remaining_time(&self) -> Duration {
        self.request.budget.saturating_sub(self.spent)
    }

    /// Returns the recorded seconds from the start of the trials to the end of the recording.
    pub(crate) fn replayable(&self) -> f64 {
        recorded_s(&self.trace) - self.begin_s
    }

    /// Returns the slice of a trial of `seconds` recorded seconds.
    pub(crate) fn slice(&self, seconds: f64) -> Slice {
        Slice { begin_s: self.begin_s, seconds }
    }

    /// Whether the subject is a volume.
    pub(crate) fn is_of_volume(&self) -> bool {
        self.inventory.roles.contains_key(&Role::Volume)
    }

    /// The ARC of a trial in bytes, scaled with the sample.
    pub(crate) fn arc_bytes(&self) -> u64 {
        ((self.request.arc_bytes as f64 * self.capture.rate) as u64).max(64 << 20)
    }

    /// The release of OpenZFS that has the database's files, major and minor number, if a kernel's has them.
    pub(crate) fn release(&self) -> Option<(u32, u32)> {
        self.current.release(poolwright_base::kernel::zfs_module_version().as_deref())
    }

    /// How OpenZFS treats `O_DIRECT` where the database is.
    pub(crate) fn direct_io(&self) -> DirectIo {
        DirectIo::of(&self.current, poolwright_base::kernel::zfs_module_version().as_deref())
    }

    /// The recorded events of these roles' files.
    pub(crate) fn events_of<'t>(&'t self, roles: &'t [Role]) -> impl Iterator<Item = &'t Event> {
        self.trace.events.iter().filter(|event| roles.contains(&self.capture.roles[event.file as usize]))
    }
}

/// Returns the other roles that are replayed in the same trials as `role`.
pub(crate) fn together_with(role: Role, raced: &[Group]) -> Vec<Role> {
    let group = raced.iter().find(|g| g.roles.contains(&role));
    group.into_iter().flat_map(|g| &g.roles).filter(|r| **r != role).copied().collect()
}

/// Returns the settings for each of the roles that share a dataset.
pub(crate) fn for_all(roles: &[Role], settings: &Settings) -> RoleSettings {
    roles.iter().map(|role| (*role, settings.clone())).collect()
}

/// Returns the settings of all roles today, or those that the plan recommends.
pub(crate) fn settings_of(roles: &[plan::RolePlan], recommended: bool) -> RoleSettings {
    let of =
        |r: &plan::RolePlan| if recommended { with(&r.current, &r.recommended) } else { r.current.clone() };
    roles.iter().map(|r| (r.role, of(r))).collect()
}
