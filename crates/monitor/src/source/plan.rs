//! Plans of `tune`, compared with the present state of the datasets that hold their files.

mod dataset;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use poolwright_base::file_sample::FileSample;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_openzfs::property::canonical;
use poolwright_plan::{
    BesidePlan as _, CurrentSource, Measured, MetricName, Outcome, Plan, RiskyValues, RoleIo, RolePlan,
    Settings, Verification, VerificationVerdict,
};
use poolwright_zfs::kernel::{CommandOptions, ZfsCommands};

use self::dataset::{IoCounters, PresentDataset};
use crate::family::*;
use crate::source::{Discovery, SourceName};
use crate::{Readings, Result, Source};

/// Files are examined and reads are averaged over this time.
const INTERVAL: Duration = Duration::from_secs(30);
/// The number of files of a role that are examined at most.
const MAX_FILES: u64 = 10_000;

/// The plans with these files.
#[derive(Clone, Debug)]
pub struct Plans(pub Vec<PathBuf>);

impl Discovery for Plans {
    fn sources(&self) -> Vec<Box<dyn Source>> {
        self.0.iter().map(|file| Box::new(PlanFile::new(file.clone())) as Box<dyn Source>).collect()
    }
}

/// One plan. The label `pool` of the source has the path of its file.
#[derive(Debug)]
struct PlanFile {
    path: PathBuf,
    /// The plan, and the time of the file's last change.
    plan: Option<(Arc<Plan>, Option<SystemTime>)>,
    /// Kept between reads: a command that hangs keeps further ones from starting.
    commands: ZfsCommands,
    /// The counters of the datasets at the previous read.
    before: BTreeMap<String, IoCounters>,
}

impl Source for PlanFile {
    fn name(&self) -> SourceName {
        SourceName { source: "plan", pool: self.path.to_string_lossy().into_owned() }
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn read(&mut self) -> Result<Readings> {
        let plan = self.load()?;
        let mounts = mountinfo::read()?;
        let mut readings = Readings::default();
        let file = self.path.to_string_lossy().into_owned();
        let verification = Verification::beside(&self.path, &plan)?;
        add_plan(&mut readings, &file, &plan, verification.as_ref());
        let mut now = BTreeMap::new();
        // Roles often share a dataset.
        let mut datasets: HashMap<&Path, Option<PresentDataset>> = HashMap::new();
        for role in &plan.roles {
            let present = match mount_of(&mounts, Path::new(&role.path)) {
                None => &None,
                Some(mount) => match datasets.entry(&mount.point) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(dataset::read(mount, &self.commands)?),
                },
            };
            let labels =
                RoleLabels { plan: &file, role, dataset: present.as_ref().map_or("", |of| &of.name) };
            labels.add_properties(&mut readings, present.as_ref());
            labels.add_files(&mut readings, present.as_ref());
            if let (Some(present), Some(io)) = (present, &role.io) {
                if let (Some(before), Some(counters)) = (self.before.get(&present.name), present.io) {
                    labels.add_sizes(&mut readings, io, counters.since(*before));
                }
                now.extend(present.io.map(|counters| (present.name.clone(), counters)));
            }
        }
        self.before = now;
        Ok(readings)
    }
}

impl PlanFile {
    fn new(path: PathBuf) -> PlanFile {
        let commands = ZfsCommands::new(CommandOptions { max_stuck: 1, ..CommandOptions::default() });
        PlanFile { path, plan: None, commands, before: BTreeMap::new() }
    }

    /// The plan, read again if its file has changed.
    fn load(&mut self) -> Result<Arc<Plan>> {
        let changed = std::fs::metadata(&self.path).and_then(|meta| meta.modified()).ok();
        match &self.plan {
            Some((plan, at)) if *at == changed && changed.is_some() => Ok(Arc::clone(plan)),
            _ => {
                let plan = Arc::new(Plan::read(&self.path, RiskyValues::Read)?);
                self.plan = Some((Arc::clone(&plan), changed));
                Ok(plan)
            }
        }
    }
}

/// The time at which a plan was made, in seconds since 1970.
fn created(plan: &Plan) -> Option<u64> {
    poolwright_base::time::parse_rfc3339(&plan.created)
}

/// The plan as a whole, and what `poolwright verify` has measured since it was applied.
fn add_plan(readings: &mut Readings, file: &str, plan: &Plan, verification: Option<&Verification>) {
    let verified = verification.filter(|of| of.after.is_some());
    let ended = verified.and_then(|of| of.after.as_ref()?.created.as_deref());
    let is_broken = verified.map(|of| of.verdict == VerificationVerdict::Broken);
    readings
        .add(&PLAN, [file])
        .count(&PLAN_CREATED, created(plan))
        .count(&PLAN_VERIFIED_AT, ended.and_then(poolwright_base::time::parse_rfc3339))
        .flag(&PLAN_BROKEN, is_broken);
    for promise in verified.iter().flat_map(|of| &of.promises) {
        let measured = promise.measured;
        readings
            .add(&PLAN_VERIFIED, [file, promise.metric.name()])
            .set(&VERIFIED_PROMISED, Some(promise.promised.change))
            .set(&VERIFIED_CHANGE, measured.map(|of| of.change))
            .set(&VERIFIED_LOW, measured.map(|of| of.ci95.0))
            .set(&VERIFIED_HIGH, measured.map(|of| of.ci95.1));
    }
}

/// The mount that holds a file or directory now.
fn mount_of<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    // A path that no longer exists is on the file system of its parent.
    let found = path.ancestors().find_map(|path| std::fs::canonicalize(path).ok())?;
    mountinfo::containing(mounts, &found)
}

/// A role of a plan, and the values of its labels.
struct RoleLabels<'a> {
    plan: &'a str,
    role: &'a RolePlan,
    dataset: &'a str,
}

impl RoleLabels<'_> {
    fn add_properties(&self, readings: &mut Readings, present: Option<&PresentDataset>) {
        for (property, planned) in planned(self.role) {
            let value = present.and_then(|of| of.properties.get(&property)).map_or("", String::as_str);
            let labels =
                [self.plan, self.role.role.name(), &self.role.path, self.dataset, &property, &planned, value];
            readings
                .add(&PLAN_PROPERTY, labels)
                .flag(&PLAN_PROPERTY_KEPT, canonical(&property, value) == canonical(&property, &planned));
        }
    }

    fn add_files(&self, readings: &mut Readings, present: Option<&PresentDataset>) {
        let recordsize = present.and_then(|of| bytes(of.properties.get("recordsize")?));
        let Some(sample) = FileSample::of(&self.role.paths, recordsize, MAX_FILES) else { return };
        if recordsize.is_some() {
            readings
                .add(&PLAN_ROLE, [self.plan, self.role.role.name(), &self.role.path, self.dataset])
                .count(&PLAN_FILES, sample.large)
                .count(&PLAN_FILES_OTHER_SIZE, sample.other_block_size);
        }
        let recommended = self.role.evidence.iter().find(|of| of.outcome == Outcome::Recommended);
        let promise = recommended.and_then(|of| of.metrics.get(&MetricName::SpaceRatio)).copied();
        if let (Some(promise), Some(ratio)) = (promise, sample.space_ratio()) {
            let Measured { median, low, high } = promise;
            readings
                .add(&PLAN_PROMISE, self.promise(MetricName::SpaceRatio.name()))
                .set(&PROMISE_VALUE, median)
                .set(&PROMISE_LOW, low)
                .set(&PROMISE_HIGH, high)
                .set(&PROMISE_PRESENT, ratio);
        }
    }

    /// Adds the mean sizes of reads and writes: in the recording, and since the last reading.
    fn add_sizes(&self, readings: &mut Readings, recorded: &RoleIo, present: IoCounters) {
        let figures = [
            ("read", "mean_read_bytes", present.read_bytes, present.reads),
            ("write", "mean_write_bytes", present.written_bytes, present.writes),
        ];
        for (op, metric, bytes, ops) in figures {
            let planned = mean(recorded.bytes.get(op).copied(), recorded.ops.get(op).copied());
            if let (Some(planned), Some(present)) = (planned, mean(Some(bytes), Some(ops))) {
                readings
                    .add(&PLAN_PROMISE, self.promise(metric))
                    .set(&PROMISE_VALUE, planned)
                    .set(&PROMISE_PRESENT, present);
            }
        }
    }

    fn promise<'a>(&'a self, metric: &'a str) -> [&'a str; 5] {
        [self.plan, self.role.role.name(), &self.role.path, self.dataset, metric]
    }
}

fn mean(bytes: Option<u64>, ops: Option<u64>) -> Option<f64> {
    Some(bytes? as f64 / ops.filter(|ops| *ops > 0)? as f64)
}

/// The values that the dataset should have: the recommended ones, and those that the plan keeps.
fn planned(role: &RolePlan) -> Settings {
    let mut planned = match role.current_source {
        CurrentSource::ZfsGet { .. } => role.current.clone(),
        CurrentSource::ZfsDefaults { .. } => Settings::new(),
    };
    planned.extend(role.recommended.clone());
    planned
}

fn bytes(value: &str) -> Option<u64> {
    poolwright_openzfs::property::parse_size(value).ok()
}

#[cfg(test)]
mod tests;
