//! The main job: from a trace and a directory to a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use poolwright_openzfs::{Config, Engine};
use poolwright_replay::application::foreground_threads;
use poolwright_replay::{Capture, capture};
use poolwright_trace::{Event, Reader, Trace, stats};

use crate::accesses;
use crate::assemble::reconcile;
use crate::candidates::{grid, with};
use crate::current::detect;
use crate::findings::Findings;
use crate::groups::{Load, Loads};
use crate::plan::{self, Plan};
use crate::roles::{Files, fitting, place, take_inventory};
use crate::scatter::Scatter;
use crate::screen::{Forecast, Question, estimate};
use crate::trials::for_all;
use crate::tuner::{Progress, Request, Tuner, recommended_ashift, together_with};
use crate::{Error, Result};

/// The largest record tried; the capture takes regions of this size whole.
const REGION: u64 = 1 << 20;

/// Makes a plan; `progress` is called at each step.
pub fn tune(request: &Request, progress: &mut dyn FnMut(&Progress)) -> Result<Plan> {
    let began = Instant::now();
    // Only the codecs run in this process; pools live in the trials.
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() })?;
    progress(&Progress { doing: "reading the trace".into(), share: 0.0 });
    let trace = with_roles(&request.trace)?;
    let inventory = take_inventory(&request.dir, &trace);
    if inventory.files == 0 {
        return Err(Error::Nothing(format!("{} holds no file that can be read", request.dir.display())));
    }
    let warnings = check_files(&request.dir, &trace)?.into_iter().collect();
    progress(&Progress { doing: "taking the bytes that the trace touches".into(), share: 0.0 });
    let capture = take(request, &trace)?;
    let current = detect(&request.dir, &request.stated);
    let ashift = request.ashift.unwrap_or_else(|| recommended_ashift(&request.dir).0.into());
    let foreground = foreground_threads(&trace);
    let mut tuner = Tuner {
        request,
        trace: Arc::new(trace),
        capture: Arc::new(capture),
        inventory,
        current,
        ashift,
        began,
        trials: 0,
        failed: 0,
        fits: BTreeMap::new(),
        chosen: BTreeMap::new(),
        last_pairs: Vec::new(),
        scatter: Scatter::default(),
        calibration: None,
        calibrated: None,
        foreground,
        warnings,
        findings: Findings::default(),
        progress,
    };
    tuner.run()
}

/// Refuses a recording of other files; warns of one that is partly of other files.
fn check_files(dir: &Path, trace: &Trace) -> Result<Option<String>> {
    let found = fitting(dir, trace);
    let Some(example) = &found.example else { return Ok(None) };
    if found.inside == 0 {
        let subject = &trace.meta.subject;
        let recorded = match subject.strip_prefix("dir:") {
            Some(other) => format!("it was made of {other}: name that directory, or record this one"),
            None => format!("it was made with the subject {subject:?}; record this directory (--for 60s)"),
        };
        let lies = match found.outside {
            1 => format!("the only file in the recording, {example}, does not lie in {}", dir.display()),
            n => format!(
                "none of the {n} files in the recording lies in {} (the first is {example})",
                dir.display()
            ),
        };
        return Err(Error::OtherFiles(format!("{lies}\nhint: {recorded}")));
    }
    let share = found.ops_outside as f64 / found.ops.max(1) as f64;
    Ok(Some(format!(
        "{} of the {} files in the recording, with {:.0} % of its reads and writes, do not lie in {} (such as {example}): \
         their I/O is replayed, but nothing is known of the other files there",
        found.outside,
        found.inside + found.outside,
        share * 100.0,
        dir.display()
    )))
}

/// The trace with a role for every file: what no layout knows is judged by its use.
fn with_roles(path: &Path) -> Result<Trace> {
    let reader = Reader::open(path)?;
    let mut trace = Trace::load(path)?;
    if trace.files.iter().any(|f| f.role.is_empty()) {
        let stats = stats::collect(&reader)?;
        let by_path: BTreeMap<&str, &str> =
            stats.files.iter().map(|f| (f.path.as_str(), f.role.as_str())).collect();
        for file in trace.files.iter_mut().filter(|f| f.role.is_empty()) {
            let role = by_path.get(file.path.as_str()).copied().unwrap_or_default();
            file.role = if role.is_empty() { "other".into() } else { role.to_owned() };
        }
    }
    Ok(trace)
}

fn take(request: &Request, trace: &Trace) -> Result<Capture> {
    let options = capture::Options {
        region: REGION,
        max_bytes: request.max_bytes,
        seed: request.seed,
        roles: Vec::new(),
    };
    let inside = |path: &str| Path::new(path).to_owned();
    let capture = Capture::take(trace, &options, inside).map_err(|error| match error {
        poolwright_replay::Error::Nothing(_) => Error::Nothing(format!(
            "the recording of {} holds no read and no write of a file: put load on the database while it is recorded, or \
             record for longer (--for 5m)",
            request.dir.display()
        )),
        other => other.into(),
    })?;
    // A pool holds the image at most a little larger, and its overwrites until they are freed.
    capture::check_room(&request.scratch, capture.room(256 << 20))?;
    capture.save(&request.scratch.join("capture"))?;
    trace.save(request.scratch.join("trace.parquet"))?;
    Ok(capture)
}

/// What of the time that is left the `i`-th of `n` raced roles may use: most of it for the busiest, equal shares for the
/// others, and as much for the whole plan together. A single race compares the whole plan itself.
fn share_of_the_rest(n: usize, i: usize) -> f64 {
    let weight = |i: usize| if i == 0 { 6.0 } else { 1.0 };
    let later: f64 = (i..n).map(weight).sum();
    let together = if n > 1 { 1.0 } else { 0.0 };
    weight(i) / (later + together)
}

/// What of the time is left for the last of `n` groups and the whole plan.
fn later_share(n: usize) -> f64 {
    (0..n - 1).map(|i| 1.0 - share_of_the_rest(n, i)).product()
}

/// A warning says so where more than this share of the bytes is made up.
const MADE_UP: f64 = 0.2;

/// Why a role was not raced although it is busy enough.
const NO_TIME: &str =
    "no settings were tried: the time allowed is used up by busier files (--budget allows more)";

impl Tuner<'_> {
    fn run(&mut self) -> Result<Plan> {
        self.check_surroundings();
        let names: Vec<String> = self.inventory.roles.keys().cloned().collect();
        let loads = self.loads();
        let groups = loads.to_race();
        if !groups.is_empty() {
            self.calibrate()?;
        }
        let mut raced = Vec::new();
        let mut roles = Vec::new();
        let groups_with_time = self.with_time(groups.len());
        // The busiest first; each later one is tried beside what was chosen before. The others are only estimated.
        for (i, group) in groups.iter().take(groups_with_time).enumerate() {
            let budget = self.left().mul_f64(share_of_the_rest(groups_with_time, i));
            let role = self.role(&group.roles, Some(budget))?;
            let chosen = with(&role.current, &role.recommended);
            self.chosen.extend(for_all(&group.roles, &chosen));
            roles.push(role);
            raced.push(group.clone());
        }
        let leads = |name: &String| raced.iter().any(|g| g.roles.first() == Some(name));
        for name in names.iter().filter(|n| !leads(n)) {
            let mut role = self.role(std::slice::from_ref(name), None)?;
            let no_time = groups.iter().any(|g| g.roles.contains(name))
                && !raced.iter().any(|g| g.roles.contains(name));
            let why = if no_time { NO_TIME.to_owned() } else { loads.why_not(name, &raced) };
            role.notes.insert(0, why);
            role.together_with = together_with(name, &raced);
            roles.push(role);
        }
        reconcile(&mut roles, &raced);
        roles.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.role.cmp(&b.role)));
        let together = self.together(&roles)?;
        self.plan(roles, together)
    }

    /// How many of so many groups the time allows to race; one at least.
    fn with_time(&self, groups: usize) -> usize {
        let enough = |n: &usize| {
            self.is_enough_for_a_race(self.left().mul_f64(share_of_the_rest(*n, *n - 1) * later_share(*n)))
        };
        (2..=groups).rev().find(enough).unwrap_or(groups.min(1))
    }

    /// What the recording did to each role, and where the role lies.
    fn loads(&self) -> Loads {
        let load = |(role, files): (&String, &Files)| Load {
            role: role.clone(),
            mountpoint: place(&self.inventory, &self.request.dir, role).mountpoint,
            ops: files.ops,
            bytes: files.io.bytes.values().sum(),
            captured: self.fills(role),
        };
        Loads::new(self.inventory.roles.iter().map(load).collect())
    }

    fn fills(&self, role: &str) -> bool {
        self.capture.files.iter().zip(&self.capture.roles).any(|(f, r)| r == role && !f.extents.is_empty())
    }

    fn check_surroundings(&mut self) {
        let rate = self.capture.rate;
        if rate < 1.0 {
            self.warnings.push(format!(
                "trials hold {:.1} % of the touched regions, and the ARC was scaled by the same: operations elsewhere are left out, \
                 so changes of the work rate are understated; --sample-bytes takes more",
                rate * 100.0
            ));
            if (self.request.arc_bytes as f64 * rate) < (64 << 20) as f64 {
                self.warnings.push("the scaled ARC would be below the engine's least of 64M, so trials cache more than the real pool".into());
            }
        }
        if self.capture.image_bytes() < (self.request.arc_bytes as f64 * rate) as u64 {
            self.warnings.push(format!(
                "everything that was touched fits the ARC of {}, so reads hardly ever miss in the trials; --arc tries a smaller one",
                poolwright_trace::format_size(self.request.arc_bytes)
            ));
        }
        let (made_up, all) = (self.capture.synthetic_bytes as f64, self.capture.image_bytes().max(1) as f64);
        if made_up > MADE_UP * all {
            self.warnings.push(format!(
                "{:.0} % of the bytes in the trials are made up from files of the same kind, because the recorded ones are gone or \
                 are logs: space and codec speed are those of similar data",
                made_up / all * 100.0
            ));
        }
        let n = self.inventory.skipped.len();
        if n > 0 {
            let files = poolwright_trace::counted(n as u64, "unreadable file");
            self.warnings.push(format!("{files} left out; see subject.skipped"));
        }
    }

    /// Estimates, screens and, with a share of the budget, races roles that share a dataset; what is said stands under
    /// the first of them.
    fn role(&mut self, roles: &[String], budget: Option<Duration>) -> Result<plan::Role> {
        let began = Instant::now();
        let name = roles[0].as_str();
        let today = self.current.settings.clone();
        let files = self.inventory.roles[name].clone();
        let combinations = grid(name).combinations(self.run_bytes(roles));
        self.say(format!("{name}: estimating space"));
        let share = if budget.is_some() { 0.04 } else { 0.01 };
        let limit = self.request.budget.mul_f64(share).min(Duration::from_secs(20));
        let stop = &self.request.stop;
        let space = match estimate(
            &files.paths,
            &combinations,
            &today,
            self.ashift,
            self.request.seed,
            limit,
            stop,
        ) {
            Ok(space) => space,
            Err(error) if error.is_interruption() => return Err(error),
            Err(error) => {
                // The race measures space itself; only the choice of whom to race is poorer.
                self.warnings.push(format!("the space of {name} could not be estimated: {error}"));
                None
            }
        };
        let (trace, capture) = (Arc::clone(&self.trace), Arc::clone(&self.capture));
        let (foreground, around) = (self.foreground.clone(), self.surroundings());
        let question = Question {
            trace: &trace,
            capture: &capture,
            roles,
            criteria: self.request.criteria(),
            ashift: self.ashift,
            around: &around,
            anchor: self.calibration.as_ref().and_then(|c| c.anchor),
            foreground: &foreground,
        };
        let forecast = Forecast::new(&question, &today, space.as_ref())?;
        let screened = forecast.rank(&today, &combinations)?;
        let outcome = match budget {
            Some(budget) => {
                Some(self.race(roles, &forecast, &screened, budget.saturating_sub(began.elapsed()))?)
            }
            None => None,
        };
        let role = self.role_of_plan(roles, &files, &screened, outcome.as_ref());
        self.findings.add(&role, space, outcome.as_ref(), self.request.goal);
        if let (false, Some(outcome)) = (role.gain.is_empty(), outcome) {
            self.scatter = outcome.scatter();
            self.last_pairs = outcome.pairs;
        }
        Ok(role)
    }

    /// How long the runs are in which the files of these roles are read and written; 0 where the trials hold only a sample of
    /// the regions, so that no long record would be whole.
    fn run_bytes(&self, roles: &[String]) -> u64 {
        if self.capture.rate < 1.0 {
            return 0;
        }
        let is_theirs = |e: &&Event| roles.contains(&self.capture.roles[e.file as usize]);
        accesses::run_bytes(self.trace.events.iter().filter(is_theirs))
    }
}
