use super::*;
use crate::{Outcome, TrialKey};

fn key(level: &str) -> TrialKey {
    TrialKey { study: "s".into(), case: [("f".into(), level.into())].into(), block: 0 }
}

fn result(level: &str, seconds: f64) -> Trial {
    let outcome = Ok(Outcome { seconds, ..Outcome::default() });
    Trial { key: key(level), position: 0, started: format!("2026 {level}"), node: "a".into(), outcome }
}

/// A directory with two tasks, of two trials and of one.
fn shared(path: &Path, lease_s: u64) -> SharedDir {
    let run = Run {
        campaign: "x".into(),
        text: String::new(),
        scale: "small".into(),
        seed: 1,
        target: "pool".into(),
        started: "2026".into(),
        machine: BTreeMap::new(),
    };
    let tasks = vec![vec![key("a"), key("b")], vec![key("c")]];
    SharedDir::write(path, SharedRun { run, only: Vec::new(), lease_s, tasks }).unwrap()
}

fn counts(dir: &SharedDir) -> (usize, usize, usize) {
    let TaskCounts { queued, claimed, done } = dir.counts().unwrap();
    (queued, claimed, done)
}

/// Makes a claim as old as if its node had been silent for an hour.
fn age(claim: &Claim) {
    let file = File::open(&claim.path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
}

#[test]
fn a_task_belongs_to_one_node_until_its_lease_expires() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = shared(scratch.path(), 600);
    assert_eq!(SharedDir::open(scratch.path()).unwrap().unwrap().shared, dir.shared);
    assert!(SharedDir::open(&scratch.path().join("other")).unwrap().is_none());
    let claim = |task, node| dir.claim(task, node, &|| true);
    assert!(matches!(claim(2, "a"), Err(Error::Usage(_))));
    assert!(matches!(claim(0, "a"), Err(Error::Interrupted)));
    let never = || false;
    let first = dir.claim(0, "a", &never).unwrap().unwrap();
    assert_eq!(counts(&dir), (1, 1, 0));
    assert!(dir.available(0, "b").unwrap().is_none(), "it is claimed");
    assert!(dir.available(0, "a").unwrap().is_some(), "an earlier process on the same node has ended");
    age(&first);
    assert_eq!(counts(&dir), (2, 0, 0), "the node is lost");
    let second = dir.claim(0, "b", &never).unwrap().unwrap();
    assert!(!touched(&first.path).unwrap() && touched(&second.path).unwrap());
    assert_eq!(counts(&dir), (1, 1, 0));
    second.release();
    assert_eq!(counts(&dir), (2, 0, 0));
    dir.claim(0, "a", &never).unwrap().unwrap().end().unwrap();
    assert_eq!(counts(&dir), (1, 0, 1));
    assert!(dir.claim(0, "b", &never).unwrap().is_none(), "it has ended");
}

#[test]
fn a_lost_claim_is_noticed() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = shared(scratch.path(), 1);
    let first = dir.claim(0, "a", &|| false).unwrap().unwrap();
    let keeper = first.keep();
    std::thread::sleep(Duration::from_secs(2));
    assert!(!keeper.is_lost() && counts(&dir) == (1, 1, 0), "it is renewed");
    renamed(&first.path, &dir.at(CLAIMED, "0@b")).unwrap();
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while !keeper.is_lost() {
        assert!(std::time::Instant::now() < limit, "the loss was not noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_trial_has_one_result_and_all_are_collected() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = shared(&scratch.path().join("shared"), 600);
    let frozen = dir.claim(0, "a", &|| false).unwrap().unwrap();
    age(&frozen);
    let heir = dir.claim(0, "b", &|| false).unwrap().unwrap();
    assert!(heir.add_result(0, &result("a", 1.0)).unwrap());
    assert!(!frozen.add_result(0, &result("a", 2.0)).unwrap(), "the second result");
    assert!(frozen.add_result(1, &result("b", 3.0)).unwrap() && heir.has_result(1));
    heir.end().unwrap();
    frozen.end().unwrap();
    assert_eq!(counts(&dir), (1, 0, 1));
    dir.put_node("b", &BTreeMap::from([("cpu".into(), "x".into())])).unwrap();
    let mut store = Store::open(&scratch.path().join("r.db")).unwrap();
    let run = store.begin(&dir.shared.run).unwrap();
    for _ in 0..2 {
        dir.collect(&mut store, run).unwrap();
        let stored = store.trials(run).unwrap();
        let seconds: Vec<f64> = stored.iter().map(|trial| trial.outcome.as_ref().unwrap().seconds).collect();
        assert_eq!(seconds, [1.0, 3.0], "each once");
        assert_eq!(store.nodes(run).unwrap()["b"]["cpu"], "x");
    }
    // New tasks take the place of the old ones.
    let dir = shared(&scratch.path().join("shared"), 600);
    assert_eq!(counts(&dir), (2, 0, 0));
    assert!(dir.collect(&mut store, run).unwrap().is_empty());
}
