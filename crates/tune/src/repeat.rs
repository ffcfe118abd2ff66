//! Repeating the run that made a plan: what the plan records of the run, whether trace and database are still the
//! same, and whether the repetition recommends the same settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poolwright_host::quoted;
use poolwright_openzfs::clock::Costs;
use poolwright_trace::{Reader, layout};

use crate::candidates::assignments;
use crate::current::detect;
use crate::observations::spelled;
use crate::plan::{Plan, Repetition, RequestRecord, Settings, VERSION, Verdict};
use crate::{Error, Goal, PoolTrials, Request, Requirement, Result};

/// The inputs of a plan's run, checked to be unchanged.
#[derive(Clone, Debug)]
pub struct Repeatable {
    /// Directory of the database.
    pub dir: PathBuf,
    /// Path of the recording.
    pub trace: PathBuf,
    /// The goal of the optimisation.
    pub goal: Goal,
    /// Conditions that the recommended settings must meet.
    pub requirements: Vec<Requirement>,
    /// All other inputs.
    pub record: RequestRecord,
}

impl Repeatable {
    /// The request of the repetition. `scratch`, `program`, `on`, `side_by_side` and `stop` are those of [`Request`]; `on` must name the dataset of the
    /// record.
    pub fn into_request(
        self,
        scratch: &Path,
        program: PathBuf,
        on: Option<PoolTrials>,
        side_by_side: usize,
        stop: Arc<AtomicBool>,
    ) -> Request {
        let Repeatable { dir, trace, goal, requirements, record } = self;
        Request {
            dir,
            trace,
            keep_trace: true,
            goal,
            requirements,
            budget: Duration::from_secs_f64(record.budget_s),
            arc_bytes: record.arc_bytes,
            dirty_bytes: record.dirty_bytes,
            ashift: record.ashift,
            device: record.device,
            costs: record.costs,
            on,
            scratch: scratch.to_owned(),
            program,
            stated: record.stated,
            seed: record.seed,
            max_bytes: record.sample_bytes,
            side_by_side,
            check_advice: record.check_advice,
            stop,
        }
    }
}

/// Checks whether the run that made `plan` can be repeated. `dir` and `trace` are the present paths if they differ
/// from those in the plan.
///
/// # Errors
/// Returns [`Error::NotRepeatable`], which names what the plan lacks or what has changed.
pub fn repeatable(plan: &Plan, dir: Option<&Path>, trace: Option<&Path>) -> Result<Repeatable> {
    if plan.version > VERSION {
        return refused(format!(
            "the plan has format version {}; this release reads versions up to {VERSION}",
            plan.version
        ));
    }
    let Some(record) = plan.request.clone() else {
        return refused(format!("the plan, made by {}, does not record its request", plan.creator));
    };
    let dir = same_directory(plan, dir)?;
    same_database(plan, &dir, &record.stated)?;
    let trace = same_trace(plan, trace, &record)?;
    if let Some(what) = out_of_range(&record) {
        return refused(format!("the plan's {what} is out of range"));
    }
    let Some(goal) = Goal::parse(&record.goal) else {
        return refused(format!("the goal {:?} is unknown", record.goal));
    };
    let requirement = |text: &String| Requirement::parse(text).map_err(Error::NotRepeatable);
    let requirements = record.requirements.iter().map(requirement).collect::<Result<Vec<_>>>()?;
    Ok(Repeatable { dir, trace, goal, requirements, record })
}

/// Returns the name of a figure that no run can have had, because a plan may have been edited.
fn out_of_range(record: &RequestRecord) -> Option<&'static str> {
    let device = &record.device;
    let checks = [
        ("budget", record.budget_s > 0.0 && record.budget_s < 1e7),
        ("ashift", record.ashift.is_none_or(|a| (9..=16).contains(&a))),
        ("device", device.queue_depth > 0 && (1..=24).contains(&device.disks)),
        ("sample size", record.sample_bytes > 0),
    ];
    checks.into_iter().find(|(_, good)| !good).map(|(what, _)| what)
}

fn refused<T>(why: String) -> Result<T> {
    Err(Error::NotRepeatable(why))
}

fn same_directory(plan: &Plan, dir: Option<&Path>) -> Result<PathBuf> {
    let recorded = Path::new(&plan.subject.directory);
    let found = dir.unwrap_or(recorded);
    let location = match found.canonicalize() {
        Ok(location) if location.is_dir() => location,
        Ok(_) => return refused(format!("{} is not a directory", quoted(&found))),
        Err(why) => {
            return refused(format!("cannot open the database's directory {}: {why}", quoted(&found)));
        }
    };
    if location != recorded {
        return refused(format!(
            "the plan was made for the database in {}, not in {}",
            quoted(&recorded),
            quoted(&location)
        ));
    }
    Ok(location)
}

/// The message that the directory contains another database system than the one for which the plan was made; `None` if it is the
/// same.
pub fn other_database(plan: &Plan, dir: &Path) -> Option<String> {
    let title = layout::locate(dir).map(|found| found.layout.title);
    let recorded = plan.subject.database.as_deref();
    let is_same = match (title, recorded) {
        (Some(now), Some(then)) => then.starts_with(now),
        (now, then) => now.is_none() && then.is_none(),
    };
    let name = |database: Option<&str>| database.unwrap_or("an unknown database").to_owned();
    (!is_same).then(|| {
        format!("{} contains {}, but the plan was made for {}", quoted(&dir), name(title), name(recorded))
    })
}

/// Checks that the directory contains the same database system on the same file system. Its files may have changed.
fn same_database(plan: &Plan, dir: &Path, stated: &Settings) -> Result<()> {
    if let Some(why) = other_database(plan, dir) {
        return refused(why);
    }
    let current = detect(dir, stated);
    let location = |kind: &str, dataset: Option<&String>| {
        dataset.map_or_else(|| kind.to_owned(), |dataset| format!("{kind} ({dataset})"))
    };
    let now = location(&current.file_system, current.dataset.as_ref());
    let then = location(&plan.subject.file_system, plan.subject.dataset.as_ref());
    if now != then {
        return refused(format!("{} is on {now}, but was on {then} when the plan was made", quoted(&dir)));
    }
    Ok(())
}

fn same_trace(plan: &Plan, trace: Option<&Path>, record: &RequestRecord) -> Result<PathBuf> {
    let recorded = plan.trace.as_ref();
    let named = trace.map(Path::to_owned).or_else(|| recorded?.path.as_ref().map(PathBuf::from));
    let Some(path) = named else {
        return refused(
            "the plan's recording was not kept\nhint: keep the recording of the next run, or name the file of a kept one"
                .into(),
        );
    };
    let reader = match Reader::open(&path) {
        Ok(reader) => reader,
        Err(why) => return refused(format!("cannot open the plan's recording: {why}")),
    };
    let subject = recorded.map_or("", |t| t.subject.as_str());
    if reader.meta().subject != subject {
        return refused(format!(
            "{} is a recording of {}, but the plan was made from one of {subject}",
            quoted(&path),
            reader.meta().subject
        ));
    }
    let checksum = reader.fingerprint();
    if checksum != record.trace_checksum {
        return refused(format!(
            "{} is not the plan's recording: its checksum is {checksum}, the plan's is {}",
            quoted(&path),
            record.trace_checksum
        ));
    }
    Ok(path)
}

/// Returns the record of `request` for the plan. `costs` are those of the trials, with the codecs that they measured.
///
/// # Errors
/// Fails if the trace cannot be opened.
pub(crate) fn record(request: &Request, costs: Option<Costs>) -> Result<RequestRecord> {
    Ok(RequestRecord {
        goal: request.goal.name().into(),
        requirements: request.requirements.iter().map(ToString::to_string).collect(),
        budget_s: request.budget.as_secs_f64(),
        arc_bytes: request.arc_bytes,
        dirty_bytes: request.dirty_bytes,
        ashift: request.ashift,
        device: request.device.clone(),
        costs,
        on: request.on.as_ref().map(|on| on.options.parent.clone()),
        stated: request.stated.clone(),
        seed: request.seed,
        sample_bytes: request.max_bytes,
        check_advice: request.check_advice,
        trace_checksum: Reader::open(&request.trace)?.fingerprint(),
    })
}

/// Compares the plan `new` with `old`, which it repeats.
pub fn compare(old: &Plan, new: &Plan) -> Repetition {
    let mut differences = Vec::new();
    let verdict = |plan: &Plan| match plan.verdict {
        Verdict::Change => "change",
        Verdict::Keep => "keep",
    };
    differ(&mut differences, "verdict", verdict(old), verdict(new));
    differ(&mut differences, "ashift", old.pool.ashift, new.pool.ashift);
    let (then, now) = (recommendations(old), recommendations(new));
    for (role, settings) in &then {
        let other = now.iter().find(|(name, _)| name == role).map(|(_, s)| s.clone());
        differ(
            &mut differences,
            role,
            format_settings(settings),
            other.map_or("nothing".into(), |s| format_settings(&s)),
        );
    }
    for (role, settings) in now.iter().filter(|(name, _)| !then.iter().any(|(known, _)| known == name)) {
        differ(&mut differences, role, "nothing".to_owned(), format_settings(settings));
    }
    Repetition {
        of: old.created.clone(),
        same: differences.is_empty(),
        differences,
        circumstances: circumstances(old, new),
    }
}

/// Returns the recommended settings of each role, in the engine's spelling.
fn recommendations(plan: &Plan) -> Vec<(String, Settings)> {
    plan.roles
        .iter()
        .map(|r| (format!("{} in {}", r.role, r.location.mountpoint), spelled(&r.recommended)))
        .collect()
}

fn format_settings(settings: &Settings) -> String {
    if settings.is_empty() {
        return "keep".into();
    }
    assignments(settings)
}

/// Returns the differences between the circumstances of the two runs.
fn circumstances(old: &Plan, new: &Plan) -> Vec<String> {
    let mut all = Vec::new();
    let (a, b) = (&old.machine, &new.machine);
    differ(&mut all, "program", &old.creator, &new.creator);
    differ(&mut all, "operating system", &a.os, &b.os);
    differ(&mut all, "kernel", &a.kernel, &b.kernel);
    differ(&mut all, "OpenZFS", &a.openzfs, &b.openzfs);
    differ(&mut all, "CPU", &a.cpu, &b.cpu);
    differ(&mut all, "logical CPUs", a.cores, b.cores);
    differ(&mut all, "memory in bytes", a.memory_bytes, b.memory_bytes);
    differ(&mut all, "file system of the trials", or_unknown(&a.backing), or_unknown(&b.backing));
    differ(&mut all, "files", old.subject.files, new.subject.files);
    differ(&mut all, "bytes of the files", old.subject.bytes, new.subject.bytes);
    for role in &old.roles {
        let Some(now) = new.roles.iter().find(|r| r.role == role.role && r.path == role.path) else {
            continue;
        };
        let what = format!("today's settings of {}", role.role);
        differ(
            &mut all,
            &what,
            format_settings(&spelled(&role.current)),
            format_settings(&spelled(&now.current)),
        );
    }
    all
}

fn or_unknown(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("unknown")
}

/// Adds a line if the values differ.
fn differ<T: PartialEq + std::fmt::Display>(lines: &mut Vec<String>, what: &str, then: T, now: T) {
    if then != now {
        lines.push(format!("{what}: {then} then, {now} now"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_openzfs::Device;
    use poolwright_trace::{File, Meta, Trace};

    /// The documented example, with a directory and a trace that exist.
    fn plan(dir: &Path) -> Plan {
        let page = include_str!("../../../docs/plan-format.md");
        let (_, rest) = page.split_once("```json\n").unwrap();
        let mut plan: Plan = serde_json::from_str(rest.split_once("\n```").unwrap().0).unwrap();
        let dir = dir.canonicalize().unwrap();
        let path = dir.join("t.parquet");
        let meta = Meta { subject: "dir:/db".into(), ..Meta::default() };
        let files = vec![File { path: "/db/t".into(), ..File::default() }];
        Trace { meta, files, ..Trace::default() }.save(&path).unwrap();
        plan.subject.directory = dir.join("db").display().to_string();
        std::fs::create_dir(dir.join("db")).unwrap();
        plan.subject.database = None;
        plan.subject.file_system = detect(&dir, &Settings::new()).file_system;
        let trace = plan.trace.as_mut().unwrap();
        trace.path = Some(path.display().to_string());
        trace.subject = "dir:/db".into();
        plan.request = Some(RequestRecord {
            goal: "space".into(),
            requirements: vec!["work_rate>=-5%".into()],
            budget_s: 4.0,
            arc_bytes: 64 << 20,
            dirty_bytes: 64 << 20,
            ashift: None,
            device: Device::none(),
            costs: None,
            on: None,
            stated: Settings::new(),
            seed: 1,
            sample_bytes: 1 << 30,
            check_advice: false,
            trace_checksum: Reader::open(&path).unwrap().fingerprint(),
        });
        plan
    }

    #[test]
    fn what_is_recorded_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let found = repeatable(&plan(dir.path()), None, None).unwrap();
        assert_eq!(found.goal, Goal::Space);
        assert_eq!(found.requirements, [Requirement::parse("work_rate>=-5%").unwrap()]);
        assert!(found.dir.ends_with("db") && found.trace.ends_with("t.parquet"));
    }

    #[test]
    fn whatever_is_not_the_same_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let good = plan(dir.path());
        let why = |plan: &Plan, at: Option<&Path>, trace: Option<&Path>| {
            repeatable(plan, at, trace).expect_err("expected a refusal").to_string()
        };
        let check = |change: fn(&mut Plan), words: &str| {
            let mut bad = good.clone();
            change(&mut bad);
            let message = why(&bad, None, None);
            assert!(message.contains(words), "{message}");
        };
        check(|p| p.request = None, "does not record its request");
        check(|p| p.subject.directory += "-gone", "db-gone: No such file");
        check(
            |p| p.subject.database = Some("SQLite".into()),
            "contains an unknown database, but the plan was made for SQLite",
        );
        check(|p| p.subject.file_system = "zfs".into(), "was on zfs when the plan was made");
        check(|p| p.trace.as_mut().unwrap().path = None, "was not kept");
        check(
            |p| p.trace.as_mut().unwrap().subject = "dir:/other".into(),
            "the plan was made from one of dir:/other",
        );
        check(|p| p.request.as_mut().unwrap().trace_checksum = "0".into(), "is not the plan's recording");
        check(|p| p.request.as_mut().unwrap().budget_s = f64::NAN, "budget is out of range");
        let message = why(&good, Some(dir.path()), None);
        assert!(message.contains("the plan was made for the database in"), "{message}");
        let message = why(&good, None, Some(&dir.path().join("db")));
        assert!(message.starts_with("cannot open the plan's recording"), "{message}");
    }

    #[test]
    fn only_another_recommendation_makes_a_difference() {
        let dir = tempfile::tempdir().unwrap();
        let old = plan(dir.path());
        let mut new = old.clone();
        new.roles[0].recommended.insert("recordsize".into(), "16384".into());
        new.subject.files += 1;
        let found = compare(&old, &new);
        assert!(found.same && found.circumstances[0].starts_with("files: 214 then"), "{found:?}");
        new.roles[0].recommended.insert("recordsize".into(), "32K".into());
        let found = compare(&old, &new);
        assert!(!found.same, "{found:?}");
        assert!(found.differences[0].contains("recordsize=16384 then"), "{found:?}");
        new.roles[0].recommended.clear();
        new.verdict = Verdict::Keep;
        assert_eq!(compare(&old, &new).differences.len(), 2);
    }
}
