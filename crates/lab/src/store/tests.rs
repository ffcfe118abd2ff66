//! One test suite for all stores.

#[cfg(feature = "postgres")]
mod postgres;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::{Measure, PhaseOutcome};

fn run(seed: u64) -> Run {
    Run {
        campaign: "x".into(),
        text: format!("name = \"x\" # ü {}", "long ".repeat(4000)),
        scale: "small".into(),
        seed,
        target: "pool".into(),
        started: "2026-01-02T03:04:05Z".into(),
        machine: BTreeMap::from([("host".into(), "here".into()), ("cpu".into(), "a".into())]),
    }
}

fn trial(level: &str, block: u32, outcome: std::result::Result<f64, &str>) -> Trial {
    let whole = |value: f64| {
        let measures = BTreeMap::from([("wall_s".to_owned(), Measure { value, unit: "s".into() })]);
        let phase = PhaseOutcome { name: "run".into(), measured: true, measures, ..Default::default() };
        Outcome { phases: vec![phase], seconds: value * 2.0, ..Default::default() }
    };
    Trial {
        key: TrialKey { study: "s".into(), case: BTreeMap::from([("f".into(), level.into())]), block },
        position: block,
        started: "2026-01-02T03:04:06Z".into(),
        node: "here".into(),
        outcome: outcome.map(whole).map_err(str::to_owned),
    }
}

const LONG: Duration = Duration::from_secs(600);

fn claimant(node: &str, lease: Duration) -> Claimant {
    // Of another system, so that its end is not noticed.
    let process = Process { boot: "another".into(), namespace: String::new(), pid: 1, start_ticks: 1 };
    Claimant { node: node.into(), process, lease, studies: Vec::new() }
}

/// Saves a trial as a worker does. Its position is the next one.
fn put(store: &mut dyn Store, run: i64, trial: Trial) {
    store.clear_queue(run).unwrap();
    store.enqueue(run, 0, std::slice::from_ref(&trial.key)).unwrap();
    let claim = store.claim(run, &claimant("here", LONG)).unwrap().unwrap();
    assert_eq!(claim.key, trial.key);
    assert!(store.save(run, &claim, &Trial { position: claim.position, ..trial }).unwrap());
}

/// The required behaviour of a queue.
fn queues(store: &mut dyn Store, run: i64) {
    let key = |level: &str, block| trial(level, block, Ok(0.0)).key;
    let all = [key("a", 0), key("b", 0), key("a", 1)];
    store.enqueue(run, 0, &all).unwrap();
    store.enqueue(run, 5, &all).unwrap();
    assert_eq!(store.queue(run).unwrap().iter().map(|task| task.rank).collect::<Vec<_>>(), [0, 1, 2]);

    // A worker that dies: its lease expires.
    let dead = store.claim(run, &claimant("one", Duration::ZERO)).unwrap().unwrap();
    assert_eq!((&dead.key, dead.position), (&all[0], 0));
    std::thread::sleep(Duration::from_millis(20));
    let one = claimant("one", LONG);
    let heir = store.claim(run, &one).unwrap().unwrap();
    assert_eq!((&heir.key, heir.position), (&all[0], 1));
    assert!(!store.renew(run, &one, &dead).unwrap() && store.renew(run, &one, &heir).unwrap());
    store.release(run, &dead).unwrap();
    let result = |value: f64, claim: &Claim| Trial {
        key: claim.key.clone(),
        position: claim.position,
        ..trial("x", 0, Ok(value))
    };
    assert!(!store.save(run, &dead, &result(1.0, &dead)).unwrap(), "the claim was lost");
    assert!(store.trials(run).unwrap().is_empty());
    assert!(store.save(run, &heir, &result(2.0, &heir)).unwrap());
    // As after a lost answer of the database.
    assert!(store.save(run, &heir, &result(3.0, &heir)).unwrap());
    assert_eq!(
        store.trial(run, &heir.key).unwrap().unwrap().outcome,
        trial("a", 0, Ok(2.0)).outcome,
        "only once"
    );

    // Another node takes another block, and the first one goes on with its own.
    let other = store.claim(run, &claimant("two", LONG)).unwrap().unwrap();
    assert_eq!(other.key, all[2]);
    assert_eq!(store.claim(run, &claimant("three", LONG)).unwrap(), None);
    let second = store.claim(run, &one).unwrap().unwrap();
    assert_eq!(second.key, all[1]);
    store.clear_queue(run).unwrap();
    assert_eq!(store.queue(run).unwrap().len(), 3, "claimed trials stay");

    // A worker gives its trial back; another one kills each of its workers.
    store.release(run, &second).unwrap();
    assert!(!store.save(run, &second, &result(1.0, &second)).unwrap());
    for _ in 0..MOST_ATTEMPTS {
        assert_eq!(store.claim(run, &claimant("one", Duration::ZERO)).unwrap().unwrap().key, all[1]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(store.claim(run, &claimant("one", Duration::ZERO)).unwrap(), None);
    let failed = store.trial(run, &all[1]).unwrap().unwrap().outcome.unwrap_err();
    assert!(failed.contains("5 workers ended without a result"), "{failed}");
    let ended: Vec<TaskState> = store.queue(run).unwrap().iter().map(|task| task.state).collect();
    assert_eq!(ended, [TaskState::Ended, TaskState::Failed, TaskState::Claimed]);
}

/// The required behaviour of every store; `open` opens the same database again each time.
fn conforms(open: &dyn Fn() -> Box<dyn Store>) {
    let mut store = open();
    assert!(store.runs().unwrap().is_empty());
    let first = store.begin(&run(1)).unwrap();
    assert_eq!(store.begin(&run(1)).unwrap(), first, "the same run is found");
    let second = store.begin(&run(2)).unwrap();
    let elsewhere = Run { machine: BTreeMap::from([("host".into(), "there".into())]), ..run(1) };
    let third = store.begin(&elsewhere).unwrap();
    assert!(first != second && second != third && first != third);
    let later = Run { started: "2027-01-01T00:00:00Z".into(), ..run(1) };
    assert_eq!(store.begin(&later).unwrap(), first, "the start time does not distinguish runs");

    put(&mut *store, first, trial("a", 0, Ok(1.5)));
    put(&mut *store, first, trial("b", 1, Err("no room")));
    put(&mut *store, second, trial("a", 0, Ok(9.0)));
    assert_eq!(store.trials(first).unwrap(), [trial("a", 0, Ok(1.5)), trial("b", 1, Err("no room"))]);
    put(&mut *store, first, trial("b", 1, Err("no room again")));
    put(&mut *store, first, trial("b", 1, Ok(2.5)));
    let again = trial("a", 0, Ok(7.0)).key;
    store.enqueue(first, 0, std::slice::from_ref(&again)).unwrap();
    assert_eq!(
        store.claim(first, &claimant("here", LONG)).unwrap(),
        None,
        "a trial that has ended is not repeated"
    );
    let expected = [trial("a", 0, Ok(1.5)), Trial { position: 3, ..trial("b", 1, Ok(2.5)) }];
    assert_eq!(store.trials(first).unwrap(), expected, "a failed trial is replaced, a finished one is not");
    assert_eq!(store.trial(first, &again).unwrap(), Some(trial("a", 0, Ok(1.5))));
    assert_eq!(store.trial(third, &again).unwrap(), None);
    queues(&mut *store, third);
    let node = BTreeMap::from([("cpu".to_owned(), "x".to_owned())]);
    store.save_node(third, "b", &BTreeMap::new()).unwrap();
    store.save_node(third, "b", &node).unwrap();
    assert_eq!(store.nodes(third).unwrap(), BTreeMap::from([("b".to_owned(), node)]));
    assert!(store.nodes(first).unwrap().is_empty());
    drop(store);

    let mut store = open();
    assert_eq!(store.trials(first).unwrap(), expected);
    assert_eq!(store.trials(third).unwrap().len(), 2);
    let runs = store.runs().unwrap();
    assert_eq!(runs.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [first, second, third]);
    assert_eq!(runs[0].1, run(1));
}

#[test]
fn sqlite_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.db");
    conforms(&|| super::open(path.to_str().unwrap()).unwrap());
    let mut other = rusqlite::Connection::open(&path).unwrap();
    let query = "SELECT group_concat(measure || '=' || value || unit, ' ') FROM lab_measure WHERE run = 1";
    let outcomes: String = other.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(outcomes, "wall_s=1.5s wall_s=2.5s");
    let transaction = other.transaction().unwrap();
    transaction.execute("UPDATE lab_format SET version = 2", []).unwrap();
    transaction.commit().unwrap();
    let why = super::open(path.to_str().unwrap()).err().unwrap().to_string();
    assert!(why.contains("format is 2") && why.contains("reads 1"), "{why}");
}

#[test]
fn what_is_no_results_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    std::fs::write(&path, "this is a text of some length, and no database ".repeat(100)).unwrap();
    for location in [path.to_str().unwrap(), "/nowhere/at/all.db"] {
        let why = super::open(location).err().unwrap().to_string();
        assert!(why.contains(location), "{why}");
    }
    let why = super::open("postgres://me:secret@127.0.0.1:1/db?connect_timeout=2").err().unwrap().to_string();
    assert!(why.contains("postgres://me@127.0.0.1:1/db") && !why.contains("secret"), "{why}");
    assert_eq!(why.contains("built without"), cfg!(not(feature = "postgres")), "{why}");
}

#[test]
fn a_password_is_never_shown() {
    let shown = |location| super::shown(location);
    assert_eq!(shown("postgres://me:se@cret@db:5432/x?password=secret"), "postgres://me@db:5432/x");
    assert_eq!(shown("postgres://me:se?cret@db/x"), "postgres://me@db/x");
    assert_eq!(shown("postgres://me:s@e?cret@db/x?a=b@c"), "postgres://me@db/x");
    assert_eq!(shown("postgres://db/x?user=a@b"), "postgres://db/x");
    assert_eq!(shown("postgres://db:5432/x?user=a@b"), "postgres://db:5432/x");
    assert!(!shown("postgres://me:se/cret@db/x").contains("se"), "{}", shown("postgres://me:se/cret@db/x"));
    let has = |location| super::has_password(location);
    assert!(
        has("postgres://me:secret@db/x")
            && has("postgres://db/x?a=b&password=c")
            && has("postgres://me:s/t@db/x")
    );
    assert!(!has("postgres://me@db/x") && !has("postgres://db:5432/x?user=a") && !has("lab:x@y.db"));
    assert_eq!(shown("postgresql:///lab?host=%2Frun"), "postgresql:///lab");
    assert_eq!(shown("lab:x@y.db"), "lab:x@y.db");
}
