//! The main function: from a trace and a directory to a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use poolwright_base::{quoted, regular};
use poolwright_openzfs::property::{self, canonical};
use poolwright_openzfs::{Config, Engine};
use poolwright_replay::{Capture, SourceFiles, capture};
use poolwright_trace::layout::Layout;
use poolwright_trace::layout::Role;
use poolwright_trace::{File, Trace, stats};

use crate::accesses;
use crate::assemble::reconcile;
use crate::candidates::{Candidates, grid, with};
use crate::current::detect;
use crate::findings::Findings;
use crate::fit::{self, expected_slice_s};
use crate::groups::{Group, Load, Loads};
use crate::roles::{Files, dataset_location, files_in_directory, take_inventory};
use crate::scatter::Scatter;
use crate::slice::Profile;
use crate::space;
use crate::tuner::{Progress, Request, Tuner, for_all, recommended_ashift, recorded_s, together_with};
use crate::{Error, Result};
use poolwright_plan::{self as plan, Plan, Settings};

/// The largest record tried, in bytes; the capture takes whole regions of this size.
const REGION: u64 = 1 << 20;

/// Makes a plan; calls `progress` at each step.
///
/// # Errors
/// Fails if the trace, the directory or the files cannot be read, if there is nothing to tune, if the trace
/// describes other files, if scratch space is too small, if a required trial or the model fails, or if the user
/// interrupts the run.
pub fn tune(request: &Request, progress: &mut dyn FnMut(&Progress)) -> Result<Plan> {
    let began = Instant::now();
    // This process runs only the codecs; the trials run the pools.
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() })?;
    progress(&Progress { doing: "reading the trace".into(), share: 0.0 });
    let mut trace = stats::load_with_roles(&request.trace)?;
    check_stated(request)?;
    name_volume(&request.dir, &mut trace);
    let inventory = take_inventory(&request.dir, &trace);
    if inventory.files == 0 {
        return Err(Error::Nothing(format!("{} contains no readable file", quoted(&request.dir))));
    }
    let warnings = check_files(&request.dir, &trace)?.into_iter().collect();
    progress(&Progress { doing: "copying the accessed regions".into(), share: 0.0 });
    let capture = take_capture(request, &trace)?;
    let current = detect(&request.dir, &request.stated);
    let linked = inventory.linked.iter().map(|(role, dir)| (*role, detect(dir, &request.stated)));
    let linked = linked.collect();
    // A volume's new version is made in its pool, whose vdevs keep their sector size.
    let of_volume = current.ashift.filter(|_| inventory.roles.contains_key(&Role::Volume)).map(u32::from);
    let ashift = request.ashift.or(of_volume).unwrap_or_else(|| recommended_ashift(&request.dir).0.into());
    let trace = Arc::new(trace);
    let profile = Profile::new(Arc::clone(&trace), recorded_s(&trace));
    let begin_s = profile.begin(expected_slice_s(request.budget.as_secs_f64()));
    let mut tuner = Tuner {
        request,
        trace,
        profile,
        begin_s,
        capture: Arc::new(capture),
        inventory,
        current,
        linked,
        ashift,
        space: BTreeMap::new(),
        began,
        spent: Duration::ZERO,
        costs: request.costs.clone(),
        trials: 0,
        failed: 0,
        fits: BTreeMap::new(),
        chosen: BTreeMap::new(),
        last_pairs: Vec::new(),
        scatter: Scatter::default(),
        calibration: None,
        calibrated: Vec::new(),
        warnings,
        findings: Findings::default(),
        progress,
    };
    tuner.run()
}

/// Refuses values of today that the subject cannot have, before any trial fails because of them.
fn check_stated(request: &Request) -> Result<()> {
    let is_volume = regular::is_block_device(&request.dir);
    match request.stated.keys().find_map(|name| property::misplaced(name, is_volume)) {
        Some(why) => Err(Error::Nothing(why)),
        None => Ok(()),
    }
}

/// Gives the file of a trace that is this block device the role of a volume, which an imported trace does not have.
fn name_volume(dir: &Path, trace: &mut Trace) {
    let Some(real) = dir.canonicalize().ok().filter(|_| regular::is_block_device(dir)) else { return };
    let is_device = |file: &&mut File| file.host_path().canonicalize().is_ok_and(|path| path == real);
    trace.files.iter_mut().filter(is_device).for_each(|file| file.role = Some(Role::Volume));
}

/// Layouts of stores that merge sorted tables in the background (LSM trees and similar).
const MERGING: &[&str] =
    &["rocksdb", "prometheus", "victoriametrics", "clickhouse", "influxdb", "elasticsearch", "lucene"];

/// Returns a warning if the replay cannot know how much such a store merges under other settings: it merges as much as in the recording.
fn merging_warning(layout: &Layout) -> Option<String> {
    MERGING.contains(&layout.name).then(|| {
        format!(
            "{} merges its files in the background, more or less for the same work depending on its speed; the trials merge as much as \
             in the recording. Predictions of RocksDB's work rate were 10 to 42 points off: confirm the plan with the database",
            layout.title
        )
    })
}

/// Refuses a recording of other files; returns a warning for a recording that is partly of other files.
fn check_files(dir: &Path, trace: &Trace) -> Result<Option<String>> {
    let found = files_in_directory(dir, trace);
    let Some(example) = &found.example else { return Ok(None) };
    if found.inside == 0 {
        let subject = &trace.meta.subject;
        let recorded = match subject.strip_prefix("dir:").or_else(|| subject.strip_prefix("zvol:")) {
            Some(other) => format!("the recording is of {other}: name that, or record this one"),
            None => format!("the recording's subject is {subject:?}: record this directory"),
        };
        let lies = match found.outside {
            1 => format!("the only file in the recording, {example}, is not in {}", quoted(&dir)),
            n => format!(
                "none of the {n} files in the recording is in {} (the first is {example})",
                quoted(&dir)
            ),
        };
        return Err(Error::OtherFiles(format!("{lies}\nhint: {recorded}")));
    }
    let share = found.ops_outside as f64 / found.ops.max(1) as f64;
    Ok(Some(format!(
        "{} of the {} files in the recording, with {:.0} % of its reads and writes, {} not in {} (such as {example}): their \
         I/O is replayed, but other files in those directories are not examined",
        found.outside,
        found.inside + found.outside,
        share * 100.0,
        if found.outside == 1 { "is" } else { "are" },
        quoted(dir)
    )))
}

fn take_capture(request: &Request, trace: &Trace) -> Result<Capture> {
    let options = capture::Options {
        region: REGION,
        max_bytes: request.max_bytes,
        side_by_side: request.side_by_side,
        seed: request.seed,
        roles: Vec::new(),
    };
    // The user says that the recording is of this directory, also if the files were restored or rewritten since.
    let source = SourceFiles::at_recorded_paths(trace);
    let capture = Capture::take(trace, &options, &source, &request.scratch.join("capture")).map_err(
        |error| match error {
            poolwright_replay::Error::Nothing(_) => Error::NoIo(request.dir.clone()),
            other => other.into(),
        },
    )?;
    trace.save(request.scratch.join("trace.parquet"))?;
    Ok(capture)
}

/// Returns the share of the remaining time that the `i`-th of `n` raced groups may use. The busiest group gets six
/// shares, each other group one, and the comparison of the whole plan one. A single race compares the whole plan
/// itself (docs/derivations.md, "The budget").
fn share_of_the_rest(n: usize, i: usize) -> f64 {
    let weight = |i: usize| if i == 0 { 6.0 } else { 1.0 };
    let later: f64 = (i..n).map(weight).sum();
    let together = if n > 1 { 1.0 } else { 0.0 };
    weight(i) / (later + together)
}

/// Returns the share of the time that remains for the last of `n` groups and the comparison of the whole plan.
fn later_share(n: usize) -> f64 {
    (0..n - 1).map(|i| 1.0 - share_of_the_rest(n, i)).product()
}

/// The plan has a warning if more than this share of the bytes is synthetic.
const SYNTHETIC_SHARE: f64 = 0.2;

/// Why a role was not raced although it is busy enough.
const NO_TIME: &str =
    "no settings were tried: busier files used up the time budget; a larger budget allows more trials";

impl Tuner<'_> {
    fn run(&mut self) -> Result<Plan> {
        self.check_surroundings();
        let names: Vec<Role> = self.inventory.roles.keys().copied().collect();
        let loads = self.loads();
        let groups = loads.to_race();
        self.estimate_space(&names, &groups)?;
        if !groups.is_empty() {
            self.calibrate()?;
        }
        let mut raced = Vec::new();
        let mut roles = Vec::new();
        let groups_with_time = self.with_time(groups.len());
        // The busiest first; each later group is raced beside the settings chosen so far. The other roles
        // are only estimated.
        for (i, group) in groups.iter().take(groups_with_time).enumerate() {
            let budget = self.remaining_time().mul_f64(share_of_the_rest(groups_with_time, i));
            let role = self.role(&group.roles, Some(budget))?;
            let chosen = with(&role.current, &role.recommended);
            self.chosen.extend(for_all(&group.roles, &chosen));
            roles.push(role);
            raced.push(group.clone());
        }
        let leads = |name: &Role| raced.iter().any(|g| g.roles.first() == Some(name));
        for name in names.iter().filter(|n| !leads(n)) {
            let mut role = self.role(std::slice::from_ref(name), None)?;
            let no_time = groups.iter().any(|g| g.roles.contains(name))
                && !raced.iter().any(|g| g.roles.contains(name));
            let why = if no_time { NO_TIME.to_owned() } else { loads.why_not(*name, &raced) };
            role.notes.insert(0, why);
            role.together_with = together_with(*name, &raced);
            roles.push(role);
        }
        reconcile(&mut roles, &raced);
        roles.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.role.cmp(&b.role)));
        let together = self.compare_whole_plan(&roles)?;
        self.plan(roles, together)
    }

    /// Returns the number of groups that the time budget allows to race, at least one.
    fn with_time(&self, groups: usize) -> usize {
        let enough = |n: &usize| {
            self.is_enough_for_a_race(
                self.remaining_time().mul_f64(share_of_the_rest(*n, *n - 1) * later_share(*n)),
            )
        };
        (2..=groups).rev().find(enough).unwrap_or(groups.min(1))
    }

    /// Returns the recorded load of each role, and the directory of its dataset.
    fn loads(&self) -> Loads {
        let load = |(role, files): (&Role, &Files)| Load {
            role: *role,
            mountpoint: dataset_location(&self.inventory, &self.request.dir, *role).mountpoint,
            ops: files.ops,
            bytes: files.io.bytes.values().sum(),
            captured: self.captured_bytes(&[*role]) > 0,
        };
        Loads::new(self.inventory.roles.iter().map(load).collect())
    }

    /// Returns the captured bytes of these roles' files. A trial's pool has at most so many of them.
    pub(crate) fn captured_bytes(&self, roles: &[Role]) -> u64 {
        let files =
            self.capture.files.iter().zip(&self.capture.roles).filter(|(_, role)| roles.contains(role));
        files.flat_map(|(file, _)| &file.extents).map(|extent| extent.len).sum()
    }

    fn check_surroundings(&mut self) {
        let rate = self.capture.rate;
        if rate < 1.0 {
            self.warnings.push(format!(
                "trials contain {:.1} % of the accessed regions, and their ARC is scaled accordingly: operations on other regions \
                 are omitted, so changes of the work rate are understated; a larger sample avoids this",
                rate * 100.0
            ));
            if (self.request.arc_bytes as f64 * rate) < (64 << 20) as f64 {
                self.warnings.push("the scaled ARC would be smaller than the engine's minimum of 64M, so trials cache more than the real pool".into());
            }
        }
        if self.capture.image_bytes() < self.arc_bytes() {
            self.warnings.push(format!(
                "all accessed data fits into the ARC of {}, so reads rarely miss in the trials; try a smaller ARC",
                poolwright_base::units::format_size(self.request.arc_bytes)
            ));
        }
        let (synthetic, all) =
            (self.capture.synthetic_bytes as f64, self.capture.image_bytes().max(1) as f64);
        if synthetic > SYNTHETIC_SHARE * all {
            self.warnings.push(format!(
                "{:.0} % of the bytes in the trials are synthesised from files of the same kind, because the recorded ones were \
                 removed or are logs: space and codec speed are those of similar data",
                synthetic / all * 100.0
            ));
        }
        self.warnings.extend(self.inventory.found.as_ref().and_then(|found| merging_warning(found.layout)));
        let is_known = self.current.layout.is_some() || self.current.dataset.is_none();
        if self.is_of_volume() && !is_known {
            self.warnings
                .push("the layout of the pool's vdevs is not known: space is that of single disks".into());
        }
        let n = self.inventory.skipped.len();
        if n > 0 {
            let files = poolwright_base::units::counted(n as u64, "unreadable file");
            self.warnings.push(format!("{files} omitted; see subject.skipped in the plan"));
        }
    }

    /// Races roles that share a dataset, if they have a budget. Returns the plan's entry for the first of them.
    fn role(&mut self, roles: &[Role], budget: Option<Duration>) -> Result<plan::RolePlan> {
        let name = roles[0];
        let files = self.inventory.roles[&name].clone();
        let outcome = match budget {
            Some(budget) => Some(self.race(roles, &self.candidates(roles), budget)?),
            None => None,
        };
        let role = self.role_of_plan(roles, &files, outcome.as_ref());
        self.findings.add(&role, outcome.as_ref(), self.request.goal);
        if let (false, Some(outcome)) = (role.gain.is_empty(), outcome) {
            self.scatter = outcome.scatter();
            self.last_pairs = outcome.pairs;
        }
        Ok(role)
    }

    /// Estimates the space of each role's files under the settings that are tried on its dataset. A failure adds a warning.
    fn estimate_space(&mut self, roles: &[Role], groups: &[Group]) -> Result<()> {
        for name in roles {
            if self.inventory.roles[name].paths.is_empty() {
                continue;
            }
            self.report_progress(format!("{name}: estimating space"));
            let mountpoint = dataset_location(&self.inventory, &self.request.dir, *name).mountpoint;
            let group = groups.iter().find(|g| g.mountpoint == mountpoint).map(|g| g.roles.clone());
            let (share, tried_with) = match group {
                Some(group) => (0.02, group),
                None => (0.01, vec![*name]),
            };
            let combinations = self.candidates(&tried_with).combinations();
            let time = self.request.budget.mul_f64(share).min(Duration::from_secs(20));
            let (seed, stop) = (self.request.seed, &self.request.stop);
            let (paths, current) = (&self.inventory.roles[name].paths, self.current_of(*name));
            let pool = (current.layout.unwrap_or(poolwright_estimate::Layout::Plain), self.ashift);
            let estimated = space::estimate(paths, &combinations, &current.settings, pool, seed, time, stop);
            self.spent += time;
            match estimated {
                Ok(estimated) => {
                    self.space.insert(*name, estimated);
                }
                Err(error) if error.is_interruption() => return Err(error),
                Err(error) => self.warnings.push(format!(
                    "cannot estimate the space of {name}: {error}; the plan's figures of space are those of the replayed regions only"
                )),
            }
        }
        Ok(())
    }

    /// Returns the settings to try for roles that share a dataset. Records that are longer than the usual ones are tried only if the
    /// trials contain the whole recording, because a long record would not be complete in a sample of its regions.
    fn candidates(&self, roles: &[Role]) -> Candidates {
        let run_bytes = if self.capture.rate < 1.0 { 0 } else { accesses::run_bytes(self.events_of(roles)) };
        let request_bytes = accesses::request_bytes(self.events_of(roles));
        let mut candidates = grid(roles[0]).candidates(run_bytes, request_bytes);
        let current = self.current_of(roles[0]);
        let today = &current.settings;
        let is_new = |refinement: &Settings| {
            refinement.iter().any(|(name, value)| {
                current.value(name).is_none_or(|today| canonical(name, &today) != canonical(name, value))
            })
        };
        candidates.refinements.retain(is_new);
        let bytes = roles.iter().map(|role| self.inventory.roles[role].bytes).sum();
        let budget_s = self.request.budget.as_secs_f64();
        fit::omit_slow(&mut candidates, self.captured_bytes(roles), bytes, budget_s);
        // First, because it usually matters most.
        candidates.refinements.splice(0..0, self.direct_io().refinement(self.events_of(roles), today));
        candidates
    }
}

#[cfg(test)]
mod tests {
    use poolwright_trace::layout::LAYOUTS;

    use super::{MERGING, merging_warning};

    #[test]
    fn stores_that_merge_are_named() {
        let warned = LAYOUTS.iter().filter(|layout| merging_warning(layout).is_some());
        assert_eq!(warned.count(), MERGING.len(), "a name is misspelt");
        let rocksdb = LAYOUTS.iter().find(|layout| layout.name == "rocksdb").unwrap();
        assert!(merging_warning(rocksdb).unwrap().starts_with(rocksdb.title));
    }
}
