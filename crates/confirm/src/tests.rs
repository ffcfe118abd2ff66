//! The selection of settings and datasets, and the verdict.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_plan::{
    ConfirmationVerdict, Contender, GainVerdict, MetricName, Outcome, Plan, Role, Settings, Verdict,
};
use poolwright_tune::objective::Metrics;

use super::*;

/// The example of the format's description, with one more raced setting.
fn plan() -> Plan {
    let mut plan: Plan = serde_json::from_str(include_str!("../../../docs/examples/plan.json")).unwrap();
    plan.subject.directory = "/srv/mariadb/data".into();
    plan.goal.weights = BTreeMap::from([(MetricName::WorkRate, 0.5), (MetricName::WriteAmplification, 0.5)]);
    let mut gain = plan.gain[&MetricName::WriteAmplification];
    (gain.change, gain.ci95) = (0.2, (0.15, 0.25));
    plan.gain.insert(MetricName::WorkRate, gain);
    let role = &mut plan.roles[0];
    let mut raced = role.evidence[1].clone();
    raced.settings.insert("recordsize".into(), "32K".into());
    (raced.objective, raced.outcome) = (Some(0.8), Outcome::Raced);
    raced.metrics.get_mut(&MetricName::AllocatedBytes).unwrap().median /= 2.0;
    let mut worse = raced.clone();
    worse.settings.insert("recordsize".into(), "1M".into());
    worse.objective = Some(1.7);
    role.evidence.extend([raced, worse]);
    plan
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn today_the_recommended_one_and_the_best_of_the_others_are_run() {
    let plan = plan();
    let found = contenders(&plan, &dataset_layout(&plan)).unwrap();
    let names: Vec<&str> = found.iter().map(|c| c.name.name()).collect();
    assert_eq!(names, ["today", "recommended", "runner-up"]);
    assert_eq!(found[0].datasets["db"], plan.roles[0].current);
    assert_eq!(found[1].datasets["db"]["compression"], "zstd-3");
    assert_eq!(found[1].datasets["db"]["logbias"], "latency", "what does not change is as today");
    assert_eq!(found[2].datasets["db"]["recordsize"], "32K");
    let predicted = &found[1].predicted;
    let interval = plan.expected(&MetricName::WorkRate, 0.2, (0.15, 0.25));
    assert!(interval.0 < 0.15 && interval.1 > 0.25, "that of the trials is narrower than earlier errors");
    assert_eq!(
        (predicted[&MetricName::WorkRate].change, predicted[&MetricName::WorkRate].ci95),
        (0.2, Some(interval))
    );
    let expected = ((0.5 * (1.0f64 / 1.2).ln()) + 0.5 * (1.0f64 - 0.595).ln()).exp() - 1.0;
    assert!((predicted[&MetricName::Objective].change - expected).abs() < 1e-12);
    assert!((found[2].predicted[&MetricName::AllocatedBytes].change + 0.5).abs() < 1e-12);
    assert!((found[2].predicted[&MetricName::Objective].change + 0.2).abs() < 1e-12);
}

#[test]
fn a_plan_that_says_keep_is_tried_against_the_best_other_setting() {
    let mut plan = plan();
    plan.verdict = Verdict::Keep;
    plan.gain.clear();
    plan.roles[0].recommended.clear();
    plan.roles[0].evidence[0].outcome = Outcome::Raced;
    let found = contenders(&plan, &dataset_layout(&plan)).unwrap();
    assert_eq!(found.iter().map(|c| c.name).collect::<Vec<_>>(), [Contender::Today, Contender::RunnerUp]);
    assert_eq!(found[1].datasets["db"]["recordsize"], "16K");
    plan.roles[0].evidence.clear();
    let why = contenders(&plan, &dataset_layout(&plan)).unwrap_err().to_string();
    assert!(why.contains("no setting to compare"), "{why}");
}

/// A role of the plan's directory.
fn add(plan: &mut Plan, role: Role, path: &str, paths: &[&str], mountpoint: &str) {
    let mut new = plan.roles[0].clone();
    (new.role, new.path, new.files) = (role, path.into(), paths.len() as u64);
    new.paths = paths.iter().map(|p| (*p).to_owned()).collect();
    new.location.mountpoint = mountpoint.into();
    new.recommended = settings(&[("logbias", "throughput")]);
    plan.roles.push(new);
}

#[test]
fn a_role_has_a_dataset_of_its_own_where_its_files_lie_alone() {
    let mut plan = plan();
    plan.subject.directory = "/pg".into();
    plan.roles[0].paths = vec!["/pg/base/1/2".into(), "/pg/PG_VERSION".into()];
    plan.roles[0].location.mountpoint = "/pg".into();
    // A directory that the plan would move beside the database's.
    add(&mut plan, Role::Wal, "/pg/pg_wal/0001", &["/pg/pg_wal/0001"], "/pg-wal");
    // Below the directory, as a dataset there today.
    add(&mut plan, Role::Temp, "/pg/tmp", &["/pg/tmp/a", "/pg/tmp/b"], "/pg/tmp");
    // Files beside the data: no dataset can hold them alone.
    add(&mut plan, Role::Backup, "/pg", &["/pg/x.old", "/pg/base/y.old"], "/pg-backup");
    let found = dataset_layout(&plan);
    let all: Vec<(&str, &Path, &[usize])> =
        found.datasets.iter().map(|d| (d.name.as_str(), d.path.as_path(), &*d.roles)).collect();
    assert_eq!(
        all,
        [
            ("db", Path::new(""), &[0, 3][..]),
            ("db1", Path::new("pg_wal"), &[1]),
            ("db2", Path::new("tmp"), &[2])
        ]
    );
    assert_eq!(found.datasets[0].lead, Some(0));
    assert_eq!(found.warnings.len(), 1);
    assert!(
        found.warnings[0].starts_with("logbias=throughput for backup was not tried"),
        "{:?}",
        found.warnings
    );
    let chosen = contenders(&plan, &found).unwrap();
    assert_eq!(chosen[1].datasets["db1"]["logbias"], "throughput");
    assert_eq!(chosen[1].datasets["db"]["logbias"], "latency");
    // Another role's file in it: it is not alone.
    plan.roles[0].paths.push("/pg/pg_wal/stray".into());
    assert_eq!(dataset_layout(&plan).datasets.len(), 2);
}

/// Blocks in which a setting does `rate` times today's work, with `wear` times the bytes; `noise` alternates.
fn blocks(name: Contender, rate: f64, wear: f64, noise: f64) -> Vec<Block> {
    let metrics = |rate: f64, wear: f64| -> Metrics {
        Metrics::from([(MetricName::WorkRate, 100.0 * rate), (MetricName::VdevWriteBytes, 5e6 * wear)])
    };
    (0..3)
        .map(|i| {
            let drift = 1.0 + 0.3 * f64::from(i);
            let off = 1.0 + noise * f64::from(i - 1);
            Block::from([(Contender::Today, metrics(drift, 1.0)), (name, metrics(drift * rate * off, wear))])
        })
        .collect()
}

#[test]
fn a_verdict_compares_with_today_and_with_the_prediction() {
    use ConfirmationVerdict::{BetterThanToday, Confirmed, NotConfirmed};
    let plan = plan();
    let all = contenders(&plan, &dataset_layout(&plan)).unwrap();
    let of = |rate, wear, noise| judge(&plan, &all, &blocks(Contender::Recommended, rate, wear, noise));
    // Predicted are 20 % (15 to 25).
    for (rate, verdict, points) in
        [(1.22, Confirmed, 2.0), (1.29, Confirmed, 9.0), (1.4, BetterThanToday, 20.0)]
    {
        let found = of(rate, 0.5, 0.0);
        assert_eq!(found.verdict, verdict, "{}", found.why);
        assert!((found.error_points.unwrap() - points).abs() < 1e-9, "{:?}", found.error_points);
    }
    let worse = of(0.9, 1.0, 0.01);
    assert_eq!(worse.verdict, NotConfirmed);
    assert!(
        worse.why.contains("worse than today's") && worse.why.ends_with("Keep today's settings."),
        "{}",
        worse.why
    );
    let noisy = of(1.2, 1.0, 0.4);
    assert_eq!(noisy.verdict, NotConfirmed);
    assert!(noisy.why.contains("no better than today's beyond noise"), "{}", noisy.why);
    assert!(noisy.why.contains("more blocks make it narrower"), "{}", noisy.why);
    let why = of(1.22, 0.5, 0.0).why;
    assert!(why.contains("; predicted +20.0 % (") && why.contains(", an error of +2.0 points."), "{why}");
    // The objective weighs the bytes written as write amplification, which a database does not tell.
    let changes = &of(1.2, 0.5, 0.0).settings[1].changes;
    let expected = (0.5 * (1.0f64 / 1.2).ln() + 0.5 * 0.5f64.ln()).exp() - 1.0;
    assert!((changes[&MetricName::Objective].change - expected).abs() < 1e-9);
    assert_eq!(changes[&MetricName::Objective].verdict, GainVerdict::Better);
    assert!(!changes.contains_key(&MetricName::WriteAmplification), "it was not measured");
}

#[test]
fn a_requirement_that_the_database_misses_is_a_contradiction() {
    use ConfirmationVerdict::NotConfirmed;
    let mut plan = plan();
    let request = plan.request.as_mut().expect("the example has a request");
    request.requirements =
        ["write_bytes<=-40%", "work_rate>=30%", "cpu<=10%", "joy>=1%"].map(str::to_owned).to_vec();
    let all = contenders(&plan, &dataset_layout(&plan)).unwrap();
    let of = |rate, noise| judge(&plan, &all, &blocks(Contender::Recommended, rate, 0.5, noise));
    let missed = of(1.22, 0.0);
    assert_eq!(
        (missed.verdict, missed.missed.as_slice()),
        (NotConfirmed, &["work_rate>=30%".to_owned()][..])
    );
    for part in [
        "write_bytes<=-40% is met",
        "work_rate>=30% is NOT met: +22.0 %",
        "cpu<=10% was not measured",
        "joy>=1% was not checked",
    ] {
        assert!(missed.why.contains(part), "{part:?} is not in {}", missed.why);
    }
    assert!(!missed.why.contains("Keep today's"), "it is better than today's: {}", missed.why);
    let unclear = of(1.22, 0.05);
    assert_eq!(unclear.verdict, ConfirmationVerdict::Confirmed);
    assert!(unclear.why.contains("Whether work_rate>=30% is met is unclear"), "{}", unclear.why);
}

#[test]
fn a_runner_up_that_misses_a_requirement_does_not_contradict_keep() {
    let mut plan = plan();
    plan.verdict = Verdict::Keep;
    plan.roles[0].recommended.clear();
    let of = |plan: &Plan| {
        let all = contenders(plan, &dataset_layout(plan)).unwrap();
        judge(plan, &all, &blocks(Contender::RunnerUp, 1.3, 0.5, 0.0))
    };
    let better = of(&plan);
    assert_eq!(better.verdict, ConfirmationVerdict::NotConfirmed);
    let request = plan.request.as_mut().expect("the example has a request");
    request.requirements = vec!["work_rate>=40%".to_owned()];
    let missed = of(&plan);
    assert_eq!(missed.verdict, ConfirmationVerdict::Confirmed, "{}", missed.why);
    assert!(missed.missed.is_empty(), "today's settings are kept");
    let runner_up = missed.settings.last().unwrap();
    assert_eq!(runner_up.missed, ["work_rate>=40%"]);
    assert!(runner_up.is_better() && !runner_up.is_acceptable());
    assert!(missed.why.contains("work_rate>=40% is NOT met"), "{}", missed.why);
}

#[test]
fn keep_is_confirmed_if_the_runner_up_is_no_better() {
    let mut plan = plan();
    plan.verdict = Verdict::Keep;
    plan.roles[0].recommended.clear();
    let all = contenders(&plan, &dataset_layout(&plan)).unwrap();
    let same = judge(&plan, &all, &blocks(Contender::RunnerUp, 1.0, 1.0, 0.05));
    assert_eq!(same.verdict, ConfirmationVerdict::Confirmed, "{}", same.why);
    let better = judge(&plan, &all, &blocks(Contender::RunnerUp, 1.5, 0.5, 0.05));
    assert_eq!(better.verdict, ConfirmationVerdict::NotConfirmed, "{}", better.why);
    assert!(better.why.contains("The runner-up is better than today's"), "{}", better.why);
}

#[test]
fn one_block_is_too_few_for_a_verdict() {
    let plan = plan();
    let all = contenders(&plan, &dataset_layout(&plan)).unwrap();
    let found = judge(&plan, &all, &blocks(Contender::Recommended, 1.5, 0.5, 0.0)[..1]);
    assert_eq!(found.verdict, ConfirmationVerdict::NotConfirmed);
    assert!(found.why.starts_with("Too few blocks"), "{}", found.why);
    assert_eq!((found.settings[1].blocks, found.settings[2].blocks), (1, 0));
}
