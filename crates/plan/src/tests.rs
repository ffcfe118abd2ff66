use super::*;

/// The documented example.
pub(super) fn example() -> (serde_json::Value, Plan) {
    let text = include_str!("../../../docs/examples/plan.json");
    (serde_json::from_str(text).unwrap(), serde_json::from_str(text).unwrap())
}

#[test]
fn documented_example_is_read_and_written_whole() {
    let (value, plan) = example();
    assert_eq!(serde_json::to_value(&plan).unwrap(), value);
    assert_eq!(plan.problems(), Vec::<String>::new());
    assert_eq!(plan.longest_slice().map(|slice| slice.end_s), Some(12.5));
}

#[test]
fn the_documented_confirmation_is_read_beside_its_plan_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let (_, mut plan) = example();
    let text = include_str!("../../../docs/examples/confirmation.json");
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(Measurements::beside(&path, &plan).unwrap(), Measurements::default());
    std::fs::write(dir.path().join("plan.confirmation.json"), text).unwrap();
    let found = Measurements::beside(&path, &plan).unwrap();
    assert_eq!(serde_json::to_value(found.confirmation.as_ref().unwrap()).unwrap(), value);
    assert_eq!((found.contradiction(), &found.verification), (None, &None));
    // A plan of another run was written to the path.
    plan.created = "2026-01-16T11:10:00Z".into();
    assert_eq!(Measurements::beside(&path, &plan).unwrap(), Measurements::default());
    // A file that cannot be read is not taken for a missing one: it could contradict the plan.
    std::fs::write(dir.path().join("plan.confirmation.json"), "{").unwrap();
    let why = Measurements::beside(&path, &plan).unwrap_err().to_string();
    assert!(why.contains("is not a poolwright-confirmation"), "{why}");
    // Only a regular file is opened: a pipe would block.
    std::fs::create_dir(dir.path().join("plan.verification.json")).unwrap();
    assert!(matches!(Verification::beside(&path, &plan), Err(PlanFileError::Read(_))));
}

#[test]
fn roles_are_grouped_by_mountpoint_in_the_order_of_paths() {
    let mut plan = example().1;
    let first = plan.roles[0].clone();
    let role = |role, mountpoint: &str| {
        let location = DatasetLocation { mountpoint: mountpoint.into(), ..first.location.clone() };
        RolePlan { role, location, ..first.clone() }
    };
    plan.roles = vec![
        role(Role::Wal, "/srv/pg-wal"),
        role(Role::Temp, "/srv/pg"),
        role(Role::Other, "/srv/pg/log"),
        role(Role::Data, "/srv/pg"),
    ];
    plan.roles[2].recommended.clear();
    let groups = plan.roles_by_mountpoint();
    let found: Vec<(&Path, Vec<Role>)> =
        groups.iter().map(|(path, roles)| (*path, roles.iter().map(|of| of.role).collect())).collect();
    let expected = [
        ("/srv/pg", vec![Role::Temp, Role::Data]),
        ("/srv/pg/log", vec![Role::Other]),
        ("/srv/pg-wal", vec![Role::Wal]),
    ];
    assert_eq!(found, expected.map(|(path, roles)| (Path::new(path), roles)));
}

#[test]
fn plans_of_older_releases_are_read() {
    let (mut value, mut plan) = example();
    value["roles"][0].as_object_mut().unwrap().remove("replayed").expect("the example has a slice");
    plan.roles[0].replayed = None;
    let old: Plan = serde_json::from_value(value).unwrap();
    assert_eq!((old.longest_slice(), &old), (None, &plan));
}

#[test]
fn metrics_of_another_release_are_kept_in_the_order_of_their_names() {
    let (mut value, known) = example();
    let gain = value["gain"]["write_amplification"].clone();
    for name in ["zeal", "a_metric"] {
        value["gain"][name] = gain.clone();
    }
    value["goal"]["weights"]["zeal"] = 0.1.into();
    let text = serde_json::to_string(&value).unwrap();
    let plan: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(plan.problems(), known.problems());
    assert_eq!(plan.gain.len(), known.gain.len() + 2);
    assert_eq!(plan.gain[&MetricName::from("zeal")], plan.gain[&MetricName::WriteAmplification]);
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(written, value);
    let names: Vec<&str> = plan.gain.keys().map(MetricName::name).collect();
    assert_eq!(names, ["a_metric", "write_amplification", "zeal"]);
}

#[test]
fn unsound_plans_are_named() {
    let (_, mut plan) = example();
    plan.verdict = Verdict::Keep;
    assert!(plan.problems()[0].contains("verdict"));
    plan.verdict = Verdict::Change;

    let mut twin = plan.roles[0].clone();
    twin.role = Role::Wal;
    twin.recommended.insert("sync".into(), "disabled".into());
    plan.roles.push(twin);
    let problems = plan.problems().join("\n");
    assert!(problems.contains("data and wal share /srv/mariadb/data"), "{problems}");
    assert!(problems.contains("sync=disabled: fsync returns at once"), "{problems}");

    plan.version = VERSION + 1;
    assert!(plan.problems()[0].contains("this release reads versions up to"));
}

#[test]
fn only_values_of_tuned_properties_are_accepted() {
    let found = |name: &str, value: &str| {
        let mut plan = example().1;
        plan.roles[0].recommended = Settings::from([(name.to_owned(), value.to_owned())]);
        (plan.defects(), plan.risks())
    };
    for (name, value) in
        [("recordsize", "1M"), ("compression", "zstd-19"), ("sync", "always"), ("copies", "2")]
    {
        assert_eq!(found(name, value), (Vec::new(), Vec::new()), "{name}={value}");
    }
    for (name, value) in [
        ("sharenfs", "rw=*"),
        ("setuid", "on"),
        ("mountpoint", "/etc/x"),
        ("quota", "1M"),
        ("snapdir", "visible"),
        ("redund_md", "none"),
        ("compress", "off"),
        ("poolwright:plan", "x"),
        ("-o", "x"),
        ("checksum", "noparity"),
        ("recordsize", "3K"),
        ("compression", "lz4 -o setuid=on"),
        ("sync", "DISABLED"),
    ] {
        assert_eq!(found(name, value).0.len(), 1, "{name}={value}");
    }
}

#[test]
fn the_reason_in_a_plan_does_not_make_a_value_safe() {
    let mut plan = example().1;
    for (name, value) in
        [("sync", "disabled"), ("checksum", "off"), ("redundant_metadata", "some"), ("copies", "1")]
    {
        plan.roles[0].recommended.insert(name.into(), value.into());
        plan.roles[0].safe_because.insert(name.into(), "x".into());
    }
    let risky: Vec<String> = plan.risks().into_iter().map(|risk| risk.property).collect();
    assert_eq!(risky, RISKY_PROPERTIES);
}

#[test]
fn texts_of_a_plan_do_not_move_the_cursor() {
    let mut plan = example().1;
    plan.database[0].value = "0\u{1b}[2J".into();
    assert!(plan.problems()[0].contains("control characters"), "{:?}", plan.problems());
}
