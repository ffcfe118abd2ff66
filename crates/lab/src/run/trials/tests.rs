use std::path::{Path, PathBuf};

use super::*;
use crate::outcome::{Measure, Outcome};
use crate::{Assets, RunTarget, statistics};

const CAMPAIGN: &str = r#"
        name = "x"
        title = "x"
        decide = { most = 5 }
        [datasets.d]
        [[study]]
        name = "s"
        title = "s"
        driver = "files"
        measures = ["wall_s"]
        [[study.factor]]
        name = "n"
        path = "workload.n"
        levels = [1, 2, 3]
        [[study.phase]]
        name = "run"
        [[study.claim]]
        text = "clear"
        measure = "wall_s"
        better = { n = 3 }
        than = { n = 1 }
        [[study.claim]]
        text = "close"
        measure = "wall_s"
        better = { n = 2 }
        than = { n = 1 }
    "#;

fn options(repeats: Option<u32>) -> Options {
    Options {
        assets: Assets::at(Path::new("/nowhere")),
        program: PathBuf::new(),
        scale: "small".into(),
        seed: 1,
        repeats,
        limit: None,
        only: Vec::new(),
        target: RunTarget::Pool,
        scratch: PathBuf::new(),
        keep: false,
    }
}

/// A trial of the case n: 1 and 2 are noisy, 3 is ten times as much.
fn trial(key: &TrialKey) -> Trial {
    let noise = [1.0, 1.3, 0.8, 1.1, 0.9][key.block as usize];
    let value = match &*key.case["n"] {
        "1" => 10.0,
        "2" => 10.0 * noise,
        _ => 100.0 + f64::from(key.block),
    };
    Trial { key: key.clone(), ..statistics::tests::trial("s", &[], key.block, value) }
}

fn next(trials: &RunTrials<'_>) -> Option<TrialKey> {
    trials.missing().into_iter().flatten().next()
}

/// Runs until the number of trials is reached; returns the trials in their order.
fn run(trials: &mut RunTrials<'_>, most: usize) -> Vec<Trial> {
    let mut ran = Vec::new();
    while ran.len() < most {
        let Some(key) = next(trials) else { break };
        ran.push(trial(&key));
        trials.ended(trial(&key), &mut |_| {});
    }
    ran
}

#[test]
fn only_the_cases_of_undecided_claims_get_more_blocks_and_a_continued_run_has_the_same() {
    let campaign = Campaign::parse(Path::new("x.toml"), CAMPAIGN).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let new = |trials: Vec<Trial>| RunTrials::new(1, &campaign, &studies, &options, trials);
    let whole = run(&mut new(Vec::new()), usize::MAX);
    let added: Vec<&TrialKey> = whole.iter().map(|t| &t.key).filter(|key| key.block >= 3).collect();
    assert_eq!((whole.len(), added.len()), (13, 4), "two blocks of the cases 1 and 2");
    assert!(added.iter().all(|key| key.case["n"] != "3"), "{added:?}");
    assert!(whole[..9].iter().all(|t| t.key.block < 3), "the study's own blocks are first");
    for done in [0, 5, 9, 10, 12, 13] {
        let rest = run(&mut new(whole[..done].to_vec()), usize::MAX);
        let keys = |trials: &[Trial]| trials.iter().map(|t| t.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&rest), keys(&whole[done..]), "continued after {done}");
    }
}

#[test]
fn a_study_with_claims_runs_before_one_without() {
    let unclaimed = CAMPAIGN[CAMPAIGN.find("[[study]]").unwrap()..CAMPAIGN.find("[[study.claim]]").unwrap()]
        .replace("name = \"s\"", "name = \"r\"");
    let header = CAMPAIGN.find("[[study]]").unwrap();
    let text = format!("{}{unclaimed}{}", &CAMPAIGN[..header], &CAMPAIGN[header..]);
    let campaign = Campaign::parse(Path::new("x.toml"), &text).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    let mut ran: Vec<(String, u32)> = Vec::new();
    while let Some(key) = next(&trials) {
        ran.push((key.study.clone(), key.block));
        let slower = f64::from(ran.len() as u32);
        let Ok(outcome) = trial(&key).outcome else { panic!("{key:?}") };
        trials
            .ended(Trial { outcome: Ok(Outcome { seconds: slower, ..outcome }), ..trial(&key) }, &mut |_| {});
    }
    let own = ran.iter().position(|(study, _)| study == "r").unwrap();
    assert!(ran[..own].iter().all(|(_, block)| *block < 3), "{ran:?}");
    assert_eq!(own, 9, "the study with claims first: {ran:?}");
    assert_eq!(ran.len(), 22, "two blocks of the undecided claim's two cases follow: {ran:?}");
}

#[test]
fn with_a_time_limit_cases_that_no_claim_needs_run_last() {
    let text = CAMPAIGN.replace("levels = [1, 2, 3]", "levels = [1, 2, 3, 4]");
    let campaign = Campaign::parse(Path::new("x.toml"), &text).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = Options { limit: Some(std::time::Duration::from_secs(60)), ..options(None) };
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    let ran = run(&mut trials, usize::MAX);
    let of = |trials: &[Trial], level: &str| trials.iter().filter(|t| t.key.case["n"] == level).count();
    assert_eq!(ran.len(), 16);
    assert!(ran[..6].iter().all(|t| t.key.block < 2), "two blocks of the cases of claims");
    assert_eq!((of(&ran[6..12], "1"), of(&ran[6..12], "2")), (3, 3), "blocks of the undecided claim");
    assert_eq!((of(&ran[12..], "3"), of(&ran[12..], "4")), (1, 3), "the rest of the study's three blocks");
}

#[test]
fn a_begun_block_is_finished_before_one_that_decides_more() {
    let claims = &CAMPAIGN[CAMPAIGN.find("[[study.claim]]").unwrap()..];
    let header = CAMPAIGN.find("[[study]]").unwrap();
    let study = |name: &str, claims: &str| {
        let end = CAMPAIGN.find("[[study.claim]]").unwrap();
        format!("{}{claims}", &CAMPAIGN[header..end]).replace("name = \"s\"", &format!("name = \"{name}\""))
    };
    let last = &claims[claims.rfind("[[study.claim]]").unwrap()..];
    let text = format!("{}{}{}", &CAMPAIGN[..header], study("one", last), study("two", claims));
    let campaign = Campaign::parse(Path::new("x.toml"), &text).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    // A block of the study with one claim has begun; a block of the other one would decide two claims in the same time.
    let begun = trials.missing().into_iter().flatten().find(|key| key.study == "one").unwrap();
    let Ok(outcome) = trial(&begun).outcome else { panic!("{begun:?}") };
    let ended = Trial { outcome: Ok(Outcome { seconds: 1.0, ..outcome }), ..trial(&begun) };
    trials.ended(ended, &mut |_| {});
    let blocks = trials.missing();
    assert_eq!((blocks[0].len(), &*blocks[0][0].study, blocks[0][0].block), (2, "one", begun.block));
    assert!(blocks[1].iter().all(|key| key.study == "two"), "{blocks:?}");
}

#[test]
fn the_block_that_is_expected_to_decide_a_claim_runs_before_one_that_is_not() {
    let claims = &CAMPAIGN[CAMPAIGN.find("[[study.claim]]").unwrap()..];
    let header = CAMPAIGN.find("[[study]]").unwrap();
    let last = &claims[claims.rfind("[[study.claim]]").unwrap()..];
    let study = |name: &str| {
        let text = &CAMPAIGN[header..CAMPAIGN.find("[[study.claim]]").unwrap()];
        format!("{text}{last}").replace("name = \"s\"", &format!("name = \"{name}\""))
    };
    let text = format!("{}{}{}", &CAMPAIGN[..header], study("far"), study("near"));
    let campaign = Campaign::parse(Path::new("x.toml"), &text.replace("most = 5", "most = 12")).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    while let Some(key) = next(&trials).filter(|key| key.block < 3) {
        let noise = [1.0, 1.3, 0.8][key.block as usize];
        let value = match (&*key.study, &*key.case["n"]) {
            ("far", "2") => 10.0 * noise,
            ("near", "2") => 10.7 + noise,
            _ => 10.0,
        };
        let ended = Trial { key: key.clone(), ..statistics::tests::trial(&key.study, &[], key.block, value) };
        trials.ended(ended, &mut |_| {});
    }
    let next: Vec<String> = trials.missing().iter().map(|block| block[0].study.clone()).collect();
    assert_eq!(next, ["near", "far"]);
}

#[test]
fn a_hypervisor_that_takes_the_processors_is_named_once() {
    let campaign = Campaign::parse(Path::new("x.toml"), CAMPAIGN).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    let mut notes = Vec::new();
    for steal in [4.0, 24.0, 30.0] {
        let mut trial = trial(&next(&trials).unwrap());
        let phase = &mut trial.outcome.as_mut().unwrap().phases[0];
        phase.measures.insert("host_steal".into(), Measure { value: steal, unit: "percent".into() });
        trials.ended(trial, &mut |event| {
            notes.extend(if let Event::Note(text) = event { Some(text) } else { None })
        });
    }
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("the hypervisor takes 24 %"), "{notes:?}");
}

#[test]
fn a_given_number_of_blocks_is_not_exceeded() {
    let campaign = Campaign::parse(Path::new("x.toml"), CAMPAIGN).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(Some(2));
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    assert_eq!(run(&mut trials, usize::MAX).len(), 6);
}

#[test]
fn a_claim_without_figures_gets_no_more_blocks() {
    let campaign = Campaign::parse(Path::new("x.toml"), CAMPAIGN).unwrap();
    let studies: Vec<&Study> = campaign.studies.iter().collect();
    let options = options(None);
    let mut trials = RunTrials::new(1, &campaign, &studies, &options, Vec::new());
    let mut ran = 0;
    while let Some(key) = next(&trials) {
        trials.ended(Trial { outcome: Err("failed".into()), ..trial(&key) }, &mut |_| {});
        ran += 1;
    }
    assert_eq!(ran, 9);
}
