//! One test suite for all stores.

#[cfg(feature = "postgres")]
mod postgres;

use std::collections::BTreeMap;

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
        outcome: outcome.map(whole).map_err(str::to_owned),
    }
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

    store.save(first, &trial("b", 1, Err("no room"))).unwrap();
    store.save(first, &trial("a", 0, Ok(1.5))).unwrap();
    store.save(second, &trial("a", 0, Ok(9.0))).unwrap();
    assert_eq!(store.trials(first).unwrap(), [trial("a", 0, Ok(1.5)), trial("b", 1, Err("no room"))]);
    store.save(first, &trial("b", 1, Err("no room again"))).unwrap();
    store.save(first, &trial("b", 1, Ok(2.5))).unwrap();
    store.save(first, &trial("a", 0, Ok(7.0))).unwrap();
    store.save(first, &trial("a", 0, Err("later"))).unwrap();
    let expected = [trial("a", 0, Ok(1.5)), trial("b", 1, Ok(2.5))];
    assert_eq!(store.trials(first).unwrap(), expected, "a failed trial is replaced, a finished one is not");
    drop(store);

    let mut store = open();
    assert_eq!(store.trials(first).unwrap(), expected);
    assert!(store.trials(third).unwrap().is_empty());
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
    assert_eq!(shown("postgresql:///lab?host=%2Frun"), "postgresql:///lab");
    assert_eq!(shown("lab:x@y.db"), "lab:x@y.db");
}
