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

fn trial(level: &str, position: u32, outcome: Done<f64>) -> Trial {
    let whole = |value: f64| {
        let measures = BTreeMap::from([("wall_s".to_owned(), Measure { value, unit: "s".into() })]);
        let phase = PhaseOutcome { name: "run".into(), measured: true, measures, ..Default::default() };
        Outcome { phases: vec![phase], seconds: value * 2.0, ..Default::default() }
    };
    Trial {
        key: TrialKey { study: "s".into(), case: BTreeMap::from([("f".into(), level.into())]), block: 1 },
        position,
        started: "2026-01-02T03:04:06Z".into(),
        node: "node1".into(),
        outcome: outcome.map(whole),
    }
}

#[test]
fn runs_and_trials_are_kept_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.db");
    let mut store = Store::open(&path).unwrap();
    assert!(store.runs().unwrap().is_empty());
    let first = store.begin(&run(1)).unwrap();
    let second = store.begin(&run(2)).unwrap();
    let elsewhere = Run { machine: BTreeMap::from([("host".into(), "there".into())]), ..run(1) };
    let third = store.begin(&elsewhere).unwrap();
    assert!(first != second && second != third && first != third);
    let later = Run { started: "2027-01-01T00:00:00Z".into(), ..run(1) };
    assert_eq!(store.begin(&later).unwrap(), first, "the start time does not distinguish runs");

    store.save(first, &trial("a", 0, Ok(1.5))).unwrap();
    store.save(first, &trial("b", 0, Err("no room".into()))).unwrap();
    store.save(second, &trial("a", 0, Ok(9.0))).unwrap();
    let failed = trial("b", 1, Err("no room".into()));
    assert_eq!(store.trials(first).unwrap(), [trial("a", 0, Ok(1.5)), failed]);
    store.save(first, &trial("b", 0, Ok(2.5))).unwrap();
    store.save(first, &trial("a", 0, Ok(7.0))).unwrap();
    let expected = [trial("a", 0, Ok(1.5)), trial("b", 1, Ok(2.5))];
    assert_eq!(store.trials(first).unwrap(), expected, "a failed trial is replaced, a finished one is not");
    let node = BTreeMap::from([("cpu".to_owned(), "x".to_owned())]);
    store.save_node(third, "b", &BTreeMap::new()).unwrap();
    store.save_node(third, "b", &node).unwrap();
    drop(store);

    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.trials(first).unwrap(), expected);
    assert_eq!(store.nodes(third).unwrap(), BTreeMap::from([("b".to_owned(), node)]));
    assert!(store.nodes(first).unwrap().is_empty());
    let runs = store.runs().unwrap();
    assert_eq!(runs.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [first, second, third]);
    assert_eq!(runs[0].1, run(1));
    let query = "SELECT group_concat(measure || '=' || value || unit, ' ') FROM lab_measure WHERE run = 1";
    let other = Connection::open(&path).unwrap();
    let measures: String = other.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(measures, "wall_s=1.5s wall_s=2.5s");
    other.execute("UPDATE lab_format SET version = 2", []).unwrap();
    let why = Store::open(&path).unwrap_err().to_string();
    assert!(why.contains("format is 2") && why.contains("reads 1"), "{why}");
}

/// The tables of the release before trials had the column `node`: it was in the queue's table, which the first releases did not have.
#[test]
fn results_of_earlier_releases_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    for (name, has_queue) in [("first.db", false), ("second.db", true)] {
        let path = dir.path().join(name);
        let mut store = Store::open(&path).unwrap();
        let id = store.begin(&run(1)).unwrap();
        store.save(id, &trial("a", 0, Ok(1.5))).unwrap();
        drop(store);
        let old = Connection::open(&path).unwrap();
        old.execute_batch("ALTER TABLE lab_trial DROP COLUMN node").unwrap();
        if has_queue {
            old.execute_batch(
                "CREATE TABLE lab_task (run, study, levels, block, node); \
                 INSERT INTO lab_task SELECT run, study, levels, block, 'node7' FROM lab_trial",
            )
            .unwrap();
        }
        let node = |store: &mut Store| store.trials(id).unwrap()[0].node.clone();
        let expected = if has_queue { "node7" } else { "here" };
        assert_eq!(node(&mut Store::open(&path).unwrap()), expected);
        assert_eq!(node(&mut Store::open(&path).unwrap()), expected, "again");
    }
}

#[test]
fn what_is_no_results_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    std::fs::write(&path, "this is a text of some length, and no database ".repeat(100)).unwrap();
    for path in [path.as_path(), Path::new("/nowhere/at/all.db")] {
        let why = Store::open(path).unwrap_err().to_string();
        assert!(why.contains(path.to_str().unwrap()), "{why}");
    }
}
