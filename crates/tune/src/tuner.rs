//! The main job: from a trace and a directory to a plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Compression, Config, Device, Engine, Geometry, codec};
use poolwright_replay::{Capture, EngineOptions, Replay, Spec, TargetSpec, capture, child};
use poolwright_trace::{Reader, Trace, stats};

use crate::candidates::{difference, grid, with};
use crate::current::{Current, look, physical_sector};
use crate::model::Surroundings;
use crate::objective::{Goal, Metrics, metrics};
use crate::plan::{self, Plan, Verdict};
use crate::race::{Limits, Outcome, Race};
use crate::roles::{Files, Survey, place, survey};
use crate::screen::{Question, Screened, estimate, screen};
use crate::{Error, Result, database, evidence, machine};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The database's directory.
    pub dir: PathBuf,
    /// Its recording.
    pub trace: PathBuf,
    /// Whether the trace stays where it is (so that the plan may name it).
    pub keep_trace: bool,
    /// What counts.
    pub goal: Goal,
    /// Wall time for estimates and trials.
    pub budget: Duration,
    /// ARC limit of the trials in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` of the trials in bytes.
    pub dirty_bytes: u64,
    /// Sector size as a power of two; chosen if left out.
    pub ashift: Option<u32>,
    /// The device to emulate.
    pub device: Device,
    /// Where pools and captures go; a directory of its own that the caller removes.
    pub scratch: PathBuf,
    /// The program that runs `trial SPEC`.
    pub program: PathBuf,
    /// Values that the user says are today's.
    pub stated: Settings,
    /// For everything that is drawn.
    pub seed: u64,
    /// The most bytes of data that a trial fills its pool with.
    pub max_bytes: u64,
    /// Set from elsewhere to stop.
    pub stop: Arc<AtomicBool>,
}

/// Where the tuner is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What it does now.
    pub doing: String,
    /// Share of the budget used.
    pub share: f64,
}

/// A change has to be worth the rewriting of the files: 3 % of the objective.
const WORTHWHILE: f64 = 0.03;
/// A role with less than this share of both operations and bytes of the trace is not raced.
const NEGLIGIBLE: f64 = 0.01;
/// The largest record tried; the capture takes regions of this size whole.
const REGION: u64 = 1 << 20;
const PAIRS: u32 = 5;
/// The least ARC that the engine takes.
const LEAST_ARC: u64 = 64 << 20;
/// `zfs_txg_timeout` in seconds.
const TXG_S: f64 = 5.0;
/// Of the whole plan against today.
const PAIRS_TOGETHER: u32 = 3;
/// A quarter of the recorded time fills the caches after the files were written; then it is measured.
const WARM_SHARE: f64 = 0.25;

struct Tuner<'a> {
    request: &'a Request,
    trace: Trace,
    capture: Capture,
    survey: Survey,
    current: Current,
    ashift: u32,
    began: Instant,
    trials: u64,
    failed: u64,
    fits: BTreeMap<String, Fit>,
    warnings: Vec<String>,
    progress: &'a mut dyn FnMut(&Progress),
}

/// How much of the recording a role's trials replay.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// Share of the captured regions.
    thin: f64,
    /// Recorded seconds from the start.
    seconds: f64,
}

/// Makes a plan; `progress` is called at each step.
pub fn tune(request: &Request, progress: &mut dyn FnMut(&Progress)) -> Result<Plan> {
    let began = Instant::now();
    // Only the codecs run in this process; pools live in the trials.
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() });
    progress(&Progress { doing: "reading the trace".into(), share: 0.0 });
    let trace = with_roles(&request.trace)?;
    let survey = survey(&request.dir, &trace);
    if survey.files == 0 {
        return Err(Error::Nothing(format!("{} holds no file that can be read", request.dir.display())));
    }
    progress(&Progress { doing: "taking the bytes that the trace touches".into(), share: 0.0 });
    let capture = take(request, &trace)?;
    let current = look(&request.dir, &request.stated);
    let ashift = request.ashift.unwrap_or_else(|| recommended_ashift(&request.dir).0.into());
    let mut tuner = Tuner {
        request,
        trace,
        capture,
        survey,
        current,
        ashift,
        began,
        trials: 0,
        failed: 0,
        fits: BTreeMap::new(),
        warnings: Vec::new(),
        progress,
    };
    tuner.run()
}

/// The trace with a role for every file: what no layout knows is judged by its use.
fn with_roles(path: &Path) -> Result<Trace> {
    let reader = Reader::open(path)?;
    let mut trace = Trace::load(path)?;
    if trace.files.iter().any(|f| f.role.is_empty()) {
        let stats = stats::collect(&reader)?;
        let by_path: BTreeMap<&str, &str> = stats.files.iter().map(|f| (f.path.as_str(), f.role.as_str())).collect();
        for file in trace.files.iter_mut().filter(|f| f.role.is_empty()) {
            let role = by_path.get(file.path.as_str()).copied().unwrap_or_default();
            file.role = if role.is_empty() { "other".into() } else { role.to_owned() };
        }
    }
    Ok(trace)
}

fn take(request: &Request, trace: &Trace) -> Result<Capture> {
    let options =
        capture::Options { region: REGION, max_bytes: request.max_bytes, seed: request.seed, roles: Vec::new() };
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
    capture::check_room(&request.scratch, capture.image_bytes() * 3 + (256 << 20))?;
    capture.save(&request.scratch.join("capture"))?;
    trace.save(request.scratch.join("trace.parquet"))?;
    Ok(capture)
}

/// The pool's sector size, and why.
fn recommended_ashift(dir: &Path) -> (u8, String) {
    match physical_sector(dir) {
        Some(bytes) if bytes > 4096 => {
            let ashift = bytes.next_power_of_two().ilog2() as u8;
            (ashift.min(16), format!("the device's physical sector is {bytes} bytes"))
        }
        Some(4096) => (12, "the device's physical sector is 4096 bytes".into()),
        Some(bytes) => (
            12,
            format!(
                "the device says {bytes} bytes, but flash and 512e disks rewrite 4096 for each; a vdev's ashift cannot be \
                 changed later"
            ),
        ),
        None => (12, "the device's sector size is unknown; 4096 suits nearly all, and it cannot be changed later".into()),
    }
}

impl Tuner<'_> {
    fn say(&mut self, doing: impl Into<String>) {
        let share = self.began.elapsed().as_secs_f64() / self.request.budget.as_secs_f64().max(1e-3);
        (self.progress)(&Progress { doing: doing.into(), share: share.min(1.0) });
    }

    fn left(&self) -> Duration {
        self.request.budget.saturating_sub(self.began.elapsed())
    }

    fn run(&mut self) -> Result<Plan> {
        self.check_surroundings();
        let names: Vec<String> = self.survey.roles.keys().cloned().collect();
        let raced = self.to_race(&names);
        let mut roles = Vec::new();
        for name in &names {
            let share = raced.iter().position(|r| r == name).map(|i| self.budget_share(&raced, i));
            roles.push(self.role(name, share)?);
        }
        self.reconcile(&mut roles);
        roles.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.role.cmp(&b.role)));
        let together = self.together(&roles)?;
        self.plan(roles, together)
    }

    /// Roles with I/O that count, most of it first; of several that share a directory only the busiest.
    fn to_race(&self, names: &[String]) -> Vec<String> {
        let mut busy: Vec<String> =
            names.iter().filter(|r| self.share_of(r) >= NEGLIGIBLE && self.fills(r)).cloned().collect();
        busy.sort_by(|a, b| self.share_of(b).total_cmp(&self.share_of(a)));
        let mut taken = Vec::new();
        busy.retain(|role| {
            let mountpoint = place(&self.survey, &self.request.dir, role).mountpoint;
            let first = !taken.contains(&mountpoint);
            taken.push(mountpoint);
            first
        });
        busy
    }

    /// The role's share of operations or of bytes in the trace, whichever is larger.
    fn share_of(&self, role: &str) -> f64 {
        let bytes = |f: &Files| f.io.bytes.values().sum::<u64>() as f64;
        let all_ops: u64 = self.survey.roles.values().map(|f| f.ops).sum();
        let all_bytes: f64 = self.survey.roles.values().map(bytes).sum();
        let f = &self.survey.roles[role];
        (f.ops as f64 / all_ops.max(1) as f64).max(bytes(f) / all_bytes.max(1.0))
    }

    fn fills(&self, role: &str) -> bool {
        self.capture.files.iter().zip(&self.capture.roles).any(|(f, r)| r == role && !f.extents.is_empty())
    }

    /// Most of the time goes to the role with most I/O; a sixth is kept for the whole plan together.
    fn budget_share(&self, raced: &[String], i: usize) -> f64 {
        match (raced.len(), i) {
            (1, _) => 0.83,
            (_, 0) => 0.55,
            (n, _) => 0.28 / (n - 1) as f64,
        }
    }

    fn check_surroundings(&mut self) {
        let meta = &self.trace.meta;
        if meta.lost_events > 0 {
            self.warnings.push(format!("{} events were lost while recording; rates are too low by that", meta.lost_events));
        }
        let rate = self.capture.rate;
        if rate < 1.0 {
            self.warnings.push(format!(
                "trials hold {:.1} % of the touched regions, and the ARC was scaled by the same; --sample-bytes takes more",
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
        let n = self.survey.skipped.len();
        if n > 0 {
            self.warnings.push(format!("{n} files could not be read and are left out; see subject.skipped"));
        }
    }

    fn spec(&self, roles: Vec<String>, settings: BTreeMap<String, Settings>) -> Spec {
        let fit = roles.first().and_then(|r| self.fits.get(r).copied());
        Spec {
            trace: self.request.scratch.join("trace.parquet"),
            capture: self.request.scratch.join("capture"),
            target: TargetSpec::Engine(EngineOptions {
                scratch: self.request.scratch.clone(),
                ashift: self.ashift,
                arc_bytes: self.request.arc_bytes,
                dirty_bytes: self.request.dirty_bytes,
                device: self.request.device.clone(),
                txg_timeout_s: 5,
            }),
            settings,
            roles,
            pace: None,
            warm_passes: 0,
            warm_share: WARM_SHARE,
            first_seconds: fit.map(|f| f.seconds),
            thin: fit.map_or(1.0, |f| f.thin),
            fill_only: false,
        }
    }

    fn trial(&mut self, spec: &Spec) -> Result<Replay> {
        let stop = Arc::clone(&self.request.stop);
        self.trials += 1;
        let result = child::run(&self.request.program, spec, &self.request.scratch, &|| stop.load(Ordering::Relaxed));
        let interrupted = matches!(result, Err(poolwright_replay::Error::Interrupted));
        if let (Err(error), false) = (&result, interrupted) {
            self.failed += 1;
            self.warnings.push(format!("a trial gave no result: {error}"));
        }
        Ok(result?)
    }

    /// Estimates, screens and, with a share of the budget, races one role.
    fn role(&mut self, name: &str, share: Option<f64>) -> Result<plan::Role> {
        let today = self.current.settings.clone();
        let files = self.survey.roles[name].clone();
        let the_grid = grid(name);
        self.say(format!("{name}: estimating space"));
        let limit = self.request.budget.mul_f64(0.06).min(Duration::from_secs(20));
        let stop = &self.request.stop;
        let space = match estimate(&files.paths, the_grid, &today, self.ashift, self.request.seed, limit, stop) {
            Ok(space) => space,
            Err(error) if error.is_interruption() => return Err(error),
            Err(error) => {
                // The race measures space itself; only the choice of whom to race is poorer.
                self.warnings.push(format!("the space of {name} could not be estimated: {error}"));
                None
            }
        };
        let question = Question {
            trace: &self.trace,
            capture: &self.capture,
            role: name,
            goal: self.request.goal,
            ashift: self.ashift,
            around: &self.surroundings(),
        };
        let screened = screen(&question, the_grid, &today, space.as_ref());
        let outcome = match share {
            Some(share) => Some(self.race(name, &screened, share)?),
            None => None,
        };
        Ok(self.role_of_plan(name, &files, &screened, outcome.as_ref()))
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            arc_bytes: ((self.request.arc_bytes as f64 * self.capture.rate) as u64).max(64 << 20),
            dirty_bytes: self.request.dirty_bytes,
            txg_ns: 5_000_000_000,
            device: self.request.device.clone(),
            cores: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        }
    }

    fn race(&mut self, name: &str, screened: &[Screened], share: f64) -> Result<Outcome> {
        let today = self.current.settings.clone();
        let budget = self.request.budget.mul_f64(share).min(self.left());
        self.fit_to_budget(name, &today, screened.iter().filter(|s| s.survives).count(), budget)?;
        let survivors: Vec<Settings> =
            screened.iter().filter(|s| s.survives).map(|s| with(&today, &s.settings)).collect();
        let refinements: Vec<Settings> =
            grid(name).refinements.iter().map(|(k, v)| Settings::from([(k.to_string(), v.to_string())])).collect();
        let goal = self.request.goal;
        let mut done = 0;
        let mut run = |settings: &Settings| {
            done += 1;
            self.say(format!("{name}: trial {done}: {}", spelled(settings, &today)));
            let spec = self.spec(vec![name.to_owned()], BTreeMap::from([(name.to_owned(), settings.clone())]));
            self.trial(&spec)
        };
        let limits = Limits { budget, pairs: PAIRS };
        Race { run: &mut run, goal, limits }.race(today.clone(), survivors, &refinements)
    }

    /// One trial of today's settings tells how long they take; if the race would not fit, less of the recording is
    /// replayed in each.
    fn fit_to_budget(&mut self, name: &str, today: &Settings, survivors: usize, budget: Duration) -> Result<()> {
        self.say(format!("{name}: how long a trial takes"));
        let spec = self.spec(vec![name.to_owned()], BTreeMap::from([(name.to_owned(), today.clone())]));
        let began = Instant::now();
        self.trial(&spec)?;
        let whole = began.elapsed().as_secs_f64();
        // The first round, half of it again, the refinements and the confirmation.
        let trials = survivors as f64 * 1.75 + 6.0 + f64::from(2 * PAIRS);
        let share = budget.as_secs_f64() / trials / whole;
        if share >= 1.0 {
            return Ok(());
        }
        // Fewer regions first: that leaves rates and times as they are. The cache shrinks along, down to the engine's
        // least. What is then still too much is cut off at the end, but two transaction groups have to be measured.
        let arc = self.request.arc_bytes as f64 * self.capture.rate;
        let sampled = !capture::is_whole(name);
        let thin = if sampled { share.max(LEAST_ARC as f64 / arc).clamp(0.1, 1.0) } else { 1.0 };
        let recorded = self.trace.meta.duration_ns as f64 / 1e9;
        let seconds = (recorded * share / thin).max(2.0 * TXG_S / (1.0 - WARM_SHARE)).min(recorded.max(1.0));
        self.fits.insert(name.to_owned(), Fit { thin, seconds });
        Ok(())
    }

    fn role_of_plan(&self, name: &str, files: &Files, screened: &[Screened], outcome: Option<&Outcome>) -> plan::Role {
        let today = &self.current.settings;
        let better = outcome.is_some_and(|o| o.is_better(WORTHWHILE));
        let chosen = outcome.and_then(|o| o.best.map(|i| &o.others[i].settings)).filter(|_| better);
        let recommended = chosen.map(|c| difference(c, today)).unwrap_or_default();
        let mut notes = Vec::new();
        if let Some(fit) = self.fits.get(name) {
            notes.push(format!(
                "to fit the time allowed, trials replayed the first {:.0} s of the recording on {:.0} % of the regions",
                fit.seconds,
                fit.thin * self.capture.rate * 100.0
            ));
        }
        if outcome.is_none() {
            notes.push("too little of the recorded I/O was on these files to try settings; nothing is recommended".into());
        }
        if recommended.contains_key("recordsize") || recommended.contains_key("compression") {
            notes.push(format!("takes effect for what is written from then on: apply rewrites {} files", files.paths.len()));
        }
        let place = place(&self.survey, &self.request.dir, name);
        plan::Role {
            role: name.to_owned(),
            path: common_directory(files).unwrap_or_else(|| place.mountpoint.clone()),
            paths: paths(files),
            files: files.paths.len() as u64,
            bytes: files.bytes,
            place: plan::Place { dataset: self.current.dataset.clone(), ..place },
            current: today.clone(),
            current_source: self.current.source.clone(),
            recommended,
            safe_because: BTreeMap::new(),
            io: (files.ops > 0).then(|| files.io.clone()),
            evidence: evidence::collect(outcome, better, screened, today, self.request.goal, self.ashift),
            gain: outcome.filter(|_| better).map(|o| evidence::gains(&o.pairs)).unwrap_or_default(),
            notes,
        }
    }

    /// Roles that cannot leave their directory get what is recommended for the data that lies there.
    fn reconcile(&self, roles: &mut [plan::Role]) {
        let lead: BTreeMap<String, (u64, Settings)> = roles.iter().fold(BTreeMap::new(), |mut map, r| {
            let ops = r.io.as_ref().map_or(0, |io| io.bytes.values().sum::<u64>());
            let entry = map.entry(r.place.mountpoint.clone()).or_insert_with(|| (0, Settings::new()));
            if ops >= entry.0 {
                *entry = (ops, r.recommended.clone());
            }
            map
        });
        for role in roles {
            let shared = &lead[&role.place.mountpoint].1;
            if role.recommended != *shared {
                role.notes.push("lies in the same directory as files with more I/O and shares their dataset".into());
                role.recommended = shared.clone();
                role.gain.clear();
            }
        }
    }

    /// Everything at once, today's against recommended, in fresh pairs.
    fn together(&mut self, roles: &[plan::Role]) -> Result<Vec<(Metrics, Metrics)>> {
        let mut pairs = Vec::new();
        if roles.iter().all(|r| r.recommended.is_empty()) {
            return Ok(pairs);
        }
        let side = |new: bool| -> BTreeMap<String, Settings> {
            let of = |r: &plan::Role| if new { with(&r.current, &r.recommended) } else { r.current.clone() };
            roles.iter().map(|r| (r.role.clone(), of(r))).collect()
        };
        let thinnest = self.fits.values().map(|f| f.thin).reduce(f64::min);
        let shortest = self.fits.values().map(|f| f.seconds).reduce(f64::min);
        for i in 0..PAIRS_TOGETHER {
            self.say(format!("the whole plan against today: pair {} of {PAIRS_TOGETHER}", i + 1));
            let mut one = |new: bool| -> Result<Option<Metrics>> {
                let spec = Spec {
                    first_seconds: shortest,
                    thin: thinnest.unwrap_or(1.0),
                    ..self.spec(Vec::new(), side(new))
                };
                match self.trial(&spec) {
                    Ok(replay) => Ok(Some(metrics(&replay))),
                    Err(error) if error.is_interruption() => Err(error),
                    Err(_) => Ok(None),
                }
            };
            let (first, second) = (one(i % 2 == 1)?, one(i % 2 == 0)?);
            let (today, new) = if i % 2 == 0 { (first, second) } else { (second, first) };
            if let (Some(today), Some(new)) = (today, new) {
                pairs.push((today, new));
            }
        }
        Ok(pairs)
    }

    fn plan(&mut self, roles: Vec<plan::Role>, pairs: Vec<(Metrics, Metrics)>) -> Result<Plan> {
        let verdict =
            if roles.iter().any(|r| !r.recommended.is_empty()) { Verdict::Change } else { Verdict::Keep };
        let gain = evidence::gains(&pairs);
        let database = self.database_settings(&roles);
        let (device_ashift, why) = recommended_ashift(&self.request.dir);
        let subject = self.subject();
        Ok(Plan {
            format: plan::FORMAT.into(),
            version: plan::VERSION,
            creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")).into(),
            created: machine::now(),
            subject,
            goal: self.request.goal.to_plan(),
            machine: machine::describe(self.request.arc_bytes, &self.request.device, &self.request.scratch),
            seeds: vec![self.request.seed],
            data: data_summary(&self.capture)?,
            trace: Some(self.trace_summary()),
            why: why_of(verdict, &roles, &gain),
            roles,
            pool: plan::Pool {
                ashift: self.request.ashift.map_or(device_ashift, |a| a as u8),
                current: self.current.ashift,
                why: if self.request.ashift.is_some() { "given with --ashift".into() } else { why },
            },
            database,
            gain,
            trials: self.trials,
            failed_trials: self.failed,
            seconds: self.began.elapsed().as_secs_f64(),
            verdict,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    fn database_settings(&self, roles: &[plan::Role]) -> Vec<plan::DatabaseSetting> {
        let Some(found) = &self.survey.found else { return Vec::new() };
        let page = found.layout.page_size(&found.root).map(|p| u64::from(p.bytes));
        let data = roles.iter().find(|r| r.role == "data");
        let settings = data.map(|r| with(&r.current, &r.recommended)).unwrap_or_default();
        let recordsize = settings.get("recordsize").cloned().unwrap_or_else(|| "128K".into());
        database::advise(found.layout.name, page, &recordsize)
    }

    fn subject(&self) -> plan::Subject {
        let name = self.survey.found.as_ref().map(|f| match machine::database_version(f.layout.name) {
            Some(version) => format!("{} {version}", f.layout.title),
            None => f.layout.title.to_owned(),
        });
        plan::Subject {
            directory: self.request.dir.display().to_string(),
            database: name,
            file_system: self.current.file_system.clone(),
            dataset: self.current.dataset.clone(),
            files: self.survey.files,
            bytes: self.survey.bytes,
            allocated_bytes: self.survey.allocated,
            skipped: self.survey.skipped.clone(),
        }
    }

    fn trace_summary(&self) -> plan::TraceSummary {
        let meta = &self.trace.meta;
        let mut summary = plan::TraceSummary {
            path: self.request.keep_trace.then(|| self.request.trace.display().to_string()),
            creator: meta.creator.clone(),
            subject: meta.subject.clone(),
            probe_set: meta.probe_set.clone(),
            duration_s: meta.duration_ns as f64 / 1e9,
            lost_events: meta.lost_events,
            unseen: meta.unseen.iter().map(|(what, count)| plan::Unseen { what: what.clone(), count: *count }).collect(),
            ..plan::TraceSummary::default()
        };
        for files in self.survey.roles.values() {
            for (op, n) in &files.io.ops {
                *summary.ops.entry(op.clone()).or_default() += n;
            }
            for (way, n) in &files.io.bytes {
                *summary.bytes.entry(way.clone()).or_default() += n;
            }
        }
        summary
    }
}

/// At most this many paths of a role are named one by one; otherwise their directories.
const NAMED: usize = 50;

fn paths(files: &Files) -> Vec<String> {
    if files.paths.len() <= NAMED {
        return files.paths.iter().map(|p| p.display().to_string()).collect();
    }
    let mut dirs: Vec<String> = files.paths.iter().filter_map(|p| Some(p.parent()?.display().to_string())).collect();
    dirs.sort();
    dirs.dedup();
    dirs
}

/// The directory (or the one file) that holds a role's files.
fn common_directory(files: &Files) -> Option<String> {
    if let [one] = files.paths.as_slice() {
        return Some(one.display().to_string());
    }
    let mut common = files.paths.first()?.parent()?.to_owned();
    for path in &files.paths {
        while !path.starts_with(&common) {
            common = common.parent()?.to_owned();
        }
    }
    Some(common.display().to_string())
}

/// Only what differs from today, as `zfs set` takes it.
fn spelled(settings: &Settings, today: &Settings) -> String {
    let changed: Vec<String> = difference(settings, today).iter().map(|(k, v)| format!("{k}={v}")).collect();
    if changed.is_empty() { "today's".into() } else { changed.join(" ") }
}

fn why_of(verdict: Verdict, roles: &[plan::Role], gain: &plan::Gains) -> String {
    if verdict == Verdict::Keep {
        return "No setting that was tried is better than today's beyond noise.".into();
    }
    let changes: Vec<String> = roles
        .iter()
        .filter(|r| !r.gain.is_empty())
        .map(|r| {
            let set: Vec<String> = r.recommended.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("{} with {}", r.role, set.join(" "))
        })
        .collect();
    let said = [("allocated_bytes", "space"), ("mean_latency_ns", "mean latency"), ("vdev_write_bytes", "bytes written to devices")];
    let effects: Vec<String> = said
        .iter()
        .filter_map(|(metric, words)| {
            let g = gain.get(*metric)?;
            if g.verdict == plan::GainVerdict::Noise || g.change.abs() < 0.005 {
                return Some(format!("{words} unchanged"));
            }
            Some(format!("{words} {:+.0} % ({:+.0} to {:+.0})", g.change * 100.0, g.ci95.0 * 100.0, g.ci95.1 * 100.0))
        })
        .collect();
    format!("{}: {}.", changes.join("; "), effects.join(", "))
}

/// Entropy and compressibility of the captured bytes that are the files' own, over at most 64 MiB of 128K chunks.
fn data_summary(capture: &Capture) -> Result<plan::Data> {
    const CHUNK: u64 = 128 << 10;
    const MOST: u64 = 64 << 20;
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() });
    let geometry = Geometry::plain(9);
    let codecs = [Compression::parse("lz4")?, Compression::parse("zstd-3")?];
    let mut codecs = codecs.map(|c| codec::Codec::new(engine, &c, CHUNK as usize));
    let step = (capture.real_bytes / MOST).max(1);
    let (mut seen, mut read, mut zero, mut packed, mut entropy) = (0u64, 0u64, 0u64, [0u64; 2], 0.0);
    for (file, f) in capture.files.iter().enumerate() {
        for extent in &f.extents {
            for at in (0..extent.real).step_by(CHUNK as usize) {
                seen += 1;
                if !seen.is_multiple_of(step) {
                    continue;
                }
                let (chunk, _) = capture.bytes(file as u32, extent.offset + at, CHUNK.min(extent.real - at));
                read += chunk.len() as u64;
                entropy += order0(chunk) * chunk.len() as f64;
                zero += chunk.chunks(4096).filter(|page| page.iter().all(|b| *b == 0)).map(|p| p.len() as u64).sum::<u64>();
                for (codec, total) in codecs.iter_mut().zip(&mut packed) {
                    codec.store(chunk, &geometry)?;
                    *total += if codec.compressed().is_empty() && chunk.iter().any(|b| *b != 0) {
                        chunk.len()
                    } else {
                        codec.compressed().len()
                    } as u64;
                }
            }
        }
    }
    let n = read.max(1) as f64;
    Ok(plan::Data {
        sampled_bytes: read,
        entropy_bits_per_byte: entropy / n,
        zero_fraction: zero as f64 / n,
        lz4_ratio: n / packed[0].max(1) as f64,
        zstd3_ratio: n / packed[1].max(1) as f64,
        replay_bytes: if capture.synthetic_bytes <= capture.real_bytes / 20 {
            plan::ReplayBytes::File
        } else {
            plan::ReplayBytes::Synthetic
        },
    })
}

/// Shannon entropy of the byte values in bits.
fn order0(bytes: &[u8]) -> f64 {
    let mut counts = [0u64; 256];
    for b in bytes {
        counts[*b as usize] += 1;
    }
    let n = bytes.len().max(1) as f64;
    counts.iter().filter(|c| **c > 0).map(|c| -(*c as f64 / n) * (*c as f64 / n).log2()).sum()
}
