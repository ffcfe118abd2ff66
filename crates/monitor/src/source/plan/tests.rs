use super::*;

/// The example in the documentation of the format, as a file, with its directory replaced.
fn example(dir: &Path) -> PathBuf {
    let text = include_str!("../../../../../docs/examples/plan.json");
    let file = dir.join("plan.json");
    std::fs::write(&file, text.replace("/srv/mariadb", dir.to_str().unwrap())).unwrap();
    file
}

#[test]
fn a_plan_whose_files_are_not_on_zfs() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = PlanFile::new(example(dir.path()));
    let readings = source.read().unwrap();
    let plan = readings.resources.iter().find(|of| std::ptr::eq(of.of, &PLAN)).unwrap();
    assert_eq!(plan.value(&PLAN_CREATED), Some(1_768_473_000.0));
    let property = readings.resources.iter().find(|of| std::ptr::eq(of.of, &PLAN_PROPERTY)).unwrap();
    assert_eq!(property.value(&PLAN_PROPERTY_KEPT), Some(0.0));
    assert_eq!((&*property.labels[3], &*property.labels[6]), ("", ""));
    std::fs::write(dir.path().join("plan.json"), "{}").unwrap();
    assert!(matches!(source.read(), Err(crate::Error::PlanFile(_))));
}

#[test]
fn a_verified_plan_has_its_verdict_and_changes() {
    let dir = tempfile::tempdir().unwrap();
    let file = example(dir.path());
    let plan = Plan::read(&file, RiskyValues::Read).unwrap();
    let metric = MetricName::WorkRate.name();
    let measurement = |created: &str| {
        serde_json::json!({"created": created, "seconds": 60.0, "blocks": 10, "events": 1000, "lost_events": 0,
            "rate": "file-operations", "metrics": {metric: [1.0]}, "bytes": 1,
            "mix": {"reads_s": 1.0, "writes_s": 1.0, "syncs_s": 1.0, "read_bytes": 1.0, "write_bytes": 1.0}})
    };
    let verification = serde_json::json!({
        "format": Verification::FORMAT, "version": 1, "plan": plan.id(),
        "before": measurement("2026-01-15T00:00:00Z"), "after": measurement("2026-01-16T00:00:00Z"),
        "promises": [{"metric": metric, "promised": {"change": 0.5}, "is_goal": true, "verdict": "broken",
            "measured": {"from": 1.0, "to": 0.75, "change": -0.25, "ci95": [-0.3, -0.2]}}],
        "verdict": "broken", "why": "it is slower"
    });
    std::fs::write(Verification::path_beside(&file), verification.to_string()).unwrap();
    let readings = PlanFile::new(file).read().unwrap();
    let of = |kind| readings.resources.iter().find(|of| std::ptr::eq(of.of, kind)).unwrap();
    assert_eq!(of(&PLAN).value(&PLAN_BROKEN), Some(1.0));
    assert_eq!(of(&PLAN).value(&PLAN_VERIFIED_AT), Some(1_768_521_600.0));
    let promise = of(&PLAN_VERIFIED);
    assert_eq!(&*promise.labels[1], metric);
    let values =
        [&VERIFIED_PROMISED, &VERIFIED_CHANGE, &VERIFIED_LOW, &VERIFIED_HIGH].map(|of| promise.value(of));
    assert_eq!(values, [Some(0.5), Some(-0.25), Some(-0.3), Some(-0.2)]);
}

#[test]
fn a_plan_is_held_against_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan::read(&example(dir.path()), RiskyValues::Read).unwrap();
    let role = &plan.roles[0];
    let mut present = PresentDataset { name: "tank/db".to_owned(), properties: planned(role), io: None };
    let kept = |present: &PresentDataset| {
        let labels = RoleLabels { plan: "p", role, dataset: &present.name };
        let mut readings = Readings::default();
        labels.add_properties(&mut readings, Some(present));
        let kept = readings.resources.iter().map(|of| of.value(&PLAN_PROPERTY_KEPT).unwrap());
        (readings.resources.len(), kept.sum::<f64>())
    };
    let (count, sum) = kept(&present);
    assert!(count > 0 && sum == count as f64);
    present.properties.insert("recordsize".to_owned(), "1M".to_owned());
    assert_eq!(kept(&present).1, sum - 1.0);
}

#[test]
fn spellings_that_mean_the_same() {
    assert_eq!(canonical("recordsize", "16384"), canonical("recordsize", "16K"));
    assert_eq!(canonical("compression", "zstd"), canonical("compression", "zstd-3"));
    assert_ne!(canonical("compression", "zstd"), canonical("compression", "zstd-9"));
    assert_ne!(canonical("recordsize", ""), canonical("recordsize", "16K"));
}

#[test]
fn mean_sizes_since_the_last_reading() {
    let before = IoCounters { read_bytes: 100, reads: 1, written_bytes: 0, writes: 0 };
    let after = IoCounters { read_bytes: 900, reads: 3, written_bytes: 0, writes: 0 };
    let since = after.since(before);
    assert_eq!(mean(Some(since.read_bytes), Some(since.reads)), Some(400.0));
    assert_eq!(mean(Some(since.written_bytes), Some(since.writes)), None);
    assert_eq!(before.since(after), IoCounters::default());
}
