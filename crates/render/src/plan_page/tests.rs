//! Pages of an invented plan, of the documented example, and of nearly empty plans.

use poolwright_mrc::advice::{Explained, Given};
use poolwright_plan::{
    Cost, EvidenceKind, GainVerdict, Measured, Measurements, MetricName, Outcome, Plan, Role, Unseen, Verdict,
};

/// The made-up plan.
pub fn fixture() -> Plan {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/plan.json"));
    serde_json::from_str(text).expect("the fixture is a plan")
}

/// The page of a plan that was not confirmed.
fn html(plan: &Plan) -> String {
    super::html(plan, &Measurements::default())
}

/// The example of the format's description, which has all optional fields.
pub fn documented() -> Plan {
    let text = include_str!("../../../../docs/examples/plan.json");
    serde_json::from_str(text).expect("the example is a plan")
}

/// A plan that found nothing: one role, nothing recorded, nothing tried.
fn bare() -> Plan {
    let mut plan = fixture();
    plan.verdict = Verdict::Keep;
    plan.why = "nothing was found".into();
    plan.trace = None;
    plan.memory = None;
    plan.database.clear();
    plan.gain.clear();
    plan.seeds.clear();
    plan.warnings.clear();
    plan.goal.weights.clear();
    plan.subject.skipped.clear();
    plan.subject.database = None;
    plan.roles.truncate(1);
    let role = &mut plan.roles[0];
    role.recommended.clear();
    role.current.clear();
    role.evidence.clear();
    role.gain.clear();
    role.notes.clear();
    role.io = None;
    plan
}

#[test]
fn memory_is_what_the_curve_means() {
    let plan = fixture();
    let memory = plan.memory.as_ref().unwrap();
    let explained = memory.curve.as_ref().unwrap();
    let given = Given {
        seconds: plan.trace.as_ref().map(|t| t.duration_s),
        miss_latency_ns: memory.miss_latency_ns,
        footprint_bytes: None,
        host: memory.host,
    };
    let again = Explained::new(explained.curve.clone(), &given);
    assert_eq!(*explained, again, "{}", serde_json::to_string(&again).unwrap());
    let page = html(&plan);
    let memory = section(&page, "Memory");
    assert_has(
        memory,
        &["Knee at 192M", "today&#39;s ARC, 256M", "data in records of 16K", "Effect of 32M more"],
    );
}

#[test]
fn memory_that_is_not_known_says_why() {
    let mut plan = fixture();
    let memory = plan.memory.as_mut().unwrap();
    memory.curve = None;
    memory.unknown = Some("the recording of 3 s holds 20 reads".into());
    assert!(section(&html(&plan), "Memory").contains("is not known: the recording of 3 s holds 20 reads."));
    plan.memory = None;
    assert!(!html(&plan).contains("<h2>Memory</h2>"), "an old plan has none");
}

/// Checks that the text has each of the parts.
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// What stands between `<h2>name</h2>` and the next one.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let start = page.find(&format!("<h2>{name}</h2>")).unwrap_or_else(|| panic!("no section {name}"));
    let rest = &page[start + 1..];
    &rest[..rest.find("<h2>").unwrap_or(rest.len())]
}

#[test]
fn the_fixture_is_sound_and_says_that_it_is_made_up() {
    let plan = fixture();
    assert_eq!(plan.problems(), Vec::<String>::new());
    assert!(plan.creator.contains("MADE-UP"));
    assert!(html(&plan).contains("MADE-UP FIGURES"));
}

#[test]
fn verdict_gains_and_settings_come_first() {
    let page = html(&fixture());
    assert!(page.contains("Change data to recordsize=16K compression=zstd-3"));
    assert!(page.contains("16K records with zstd-3 write 77 % fewer bytes"));
    let tile = "<div class=\"what\">write amplification</div><div class=\"value good\">−76.8 %</div>";
    assert!(page.contains(tile));
    assert!(page.contains("trials −78.6\u{a0}to\u{a0}−75.0\u{a0}%"));
    let settings = section(&page, "Settings");
    assert!(settings.contains("<td class=\"strong\">16K zstd-3</td>"), "{settings}");
    assert_eq!(settings.matches(">keep</td>").count(), 2, "wal and binlog stay");
    let database = section(&page, "Database");
    assert!(database.contains("<h3>innodb_doublewrite = OFF</h3>"), "{database}");
    assert!(database.contains("lies in exactly one 16K record"), "{database}");
}

#[test]
fn every_piece_of_evidence_has_its_row_or_line() {
    let plan = fixture();
    let page = html(&plan);
    let data = section(&page, "data");
    let role = &plan.roles[0];
    let of = |outcome| role.evidence.iter().filter(|e| e.outcome == outcome).count();
    let evidence = &data[data.find("<h3>Evidence</h3>").unwrap()..];
    let rows = evidence.matches("<tr>").count() - evidence.matches("<thead>").count();
    assert_eq!(rows, role.evidence.len() - of(Outcome::Failed));
    assert_eq!(evidence.matches("<li>Failed:").count(), of(Outcome::Failed));
    assert_eq!(evidence.matches("<thead>").count(), 2, "trials and estimates apart");
    assert!(evidence.contains("a 4K record cannot be smaller than one 4K sector"));
    assert!(evidence.contains("mean_latency_ns_low"), "the CSV holds the spread");
}

#[test]
fn pictures_mark_today_and_the_recommended_one() {
    let page = html(&fixture());
    let data = section(&page, "data");
    for title in
        ["Space against mean latency", "Space against write amplification", "Objective", "Space ratio"]
    {
        assert!(data.contains(&format!("class=\"title\">{title}</text>")), "{title}");
    }
    assert!(data.contains("16K zstd-3 (recommended)") && data.contains("128K lz4 (today)"));
    assert!(data.contains("128K × lz4: 1.00 (today)"), "the objective of today is 1");
    assert!(data.contains("16K × zstd-3: 2.16x (recommended)"));
    // the log's candidates all take the same space
    assert!(section(&page, "wal").contains(">Write amplification against mean latency</text>"));
}

#[test]
fn only_what_can_be_compared_shares_a_picture() {
    let mut plan = fixture();
    let role = &mut plan.roles[0];
    let mut mixed = role.evidence[0].clone();
    mixed.settings.insert("recordsize".into(), "64K".into());
    mixed.settings.insert("compression".into(), "zstd-19".into());
    mixed.others.insert(Role::Wal, mixed.settings.clone());
    mixed.outcome = Outcome::Raced;
    mixed.metrics.remove(&MetricName::SpaceRatio); // the role's space does not depend on the others
    role.evidence.push(mixed);
    let mut sectors = role.evidence.iter().find(|e| e.kind == EvidenceKind::Estimate).unwrap().clone();
    sectors.ashift = Some(9);
    sectors.metrics.insert(MetricName::SpaceRatio, Measured { median: 7.77, low: 7.7, high: 7.8 });
    role.evidence.push(sectors);
    let page = html(&plan);
    let data = section(&page, "data");
    let pictures = &data[..data.find("<h3>Evidence</h3>").unwrap()];
    assert!(!pictures.contains("zstd-19") && !pictures.contains("7.77x"));
    assert!(pictures.contains("1 trial that also changed other roles left out"));
    let evidence = &data[pictures.len()..];
    assert!(evidence.contains("with wal: recordsize=64K compression=zstd-19"), "{evidence}");
    assert!(evidence.contains(" ashift=9</td>"));
}

#[test]
fn nothing_found_is_a_page_too() {
    let page = html(&bare());
    assert!(page.contains("<div class=\"callout note\"><b>Keep today"));
    assert!(
        page.contains("nothing was found") && page.contains("No I/O was recorded, so nothing was replayed")
    );
    assert!(!page.contains("class=\"tiles\"") && !page.contains("<figure>"));
    assert!(section(&page, "data").contains("Nothing was tried for this role."));
    assert!(section(&page, "What it ran on").contains("There is no recording."));

    let mut empty = bare();
    empty.roles.clear();
    let page = html(&empty);
    assert!(!page.contains("<h2>Settings</h2>") && page.contains("<h2>Pool</h2>"));
}

#[test]
fn figures_that_cannot_be_drawn_do_no_harm() {
    let mut plan = fixture();
    let role = &mut plan.roles[0];
    for e in &mut role.evidence {
        for m in e.metrics.values_mut() {
            *m = Measured { median: 0.0, low: f64::NAN, high: f64::INFINITY };
        }
        e.metrics.insert("quarks_s".into(), Measured { median: 5.0, low: 4.0, high: 6.0 });
        e.settings = [("atime".to_owned(), "off".to_owned())].into();
        e.objective = Some(f64::NAN);
    }
    role.current.clear();
    plan.pool.ashift = 200;
    let page = html(&plan);
    assert!(page.contains("quarks_s"), "a metric of a later release is shown by its name");
    assert!(!page.contains("NaN"));
}

#[test]
fn what_is_wrong_with_a_plan_stands_above_it() {
    let mut plan = fixture();
    plan.roles[0].recommended.insert("sync".into(), "disabled".into());
    let trace = plan.trace.as_mut().unwrap();
    trace.lost_events = 17;
    trace.unseen.push(Unseen { what: "direct maps".into(), count: 1 });
    let page = html(&plan);
    let top = &page[..page.find("<h2>").unwrap()];
    assert_has(
        top,
        &[
            "Do not follow this plan: ",
            "sync=disabled: fsync",
            "lost 17 events",
            "not in the trace: direct maps (once)",
            "1 file could not",
        ],
    );
}

#[test]
fn all_warnings_stand_in_one_place_and_costs_before_them() {
    let mut plan = fixture();
    let mut gain = plan.gain[&MetricName::MeanLatencyNs];
    (gain.change, gain.ci95) = (0.8, (0.7, 0.9));
    plan.costs = vec![Cost { role: None, metric: MetricName::MeanLatencyNs, gain }];
    for warnings in [1, 2, 7] {
        plan.warnings = (0..warnings).map(|i| format!("warning {i}.")).collect();
        plan.trace.as_mut().unwrap().lost_events = 17;
        let page = html(&plan);
        let top = &page[..page.find("<h2>").unwrap()];
        assert_eq!(page.matches("Before you trust this").count(), 1);
        let list = &top[top.find("<h3>Before you trust this</h3>").expect("a heading")..];
        assert_eq!(list.matches("<li>").count(), warnings + 1, "{list}");
        let costs = top.find("What it costs").expect("a box of costs");
        assert!(costs < top.find("Before you trust this").unwrap());
        assert!(top[costs..].contains("mean latency +80.0 % (+70.0 to +90.0 %)"), "{top}");
    }
    assert!(section(&html(&plan), "The whole plan").contains("What would change"));
}

#[test]
fn a_gain_inside_the_noise_or_only_estimated_is_called_that() {
    let mut plan = fixture();
    let gain = plan.gain.get_mut(&MetricName::AllocatedBytes).unwrap();
    gain.pairs = 0;
    let gain = plan.gain.get_mut(&MetricName::WriteAmplification).unwrap();
    (gain.ci95, gain.verdict) = ((-0.8, 0.1), GainVerdict::Noise);
    let page = html(&plan);
    assert!(page.contains("better, estimated"));
    assert!(page.contains("<div class=\"value muted\">no clear change</div>"));
    assert!(page.contains("inside the noise"));
}

#[test]
fn names_from_outside_are_text() {
    let mut plan = fixture();
    let bad = "</pre><script>alert(1)</script>";
    plan.subject.directory = format!("/srv/{bad}");
    plan.why = bad.into();
    plan.creator = bad.into();
    plan.database[0].safe_because = Some(bad.into());
    let role = &mut plan.roles[0];
    role.path = format!("/srv/{bad}");
    role.notes = vec![bad.into()];
    role.evidence[0].settings.insert(bad.into(), bad.into());
    role.evidence[1].metrics.insert(bad.into(), Measured { median: 1.0, low: 1.0, high: 2.0 });
    let page = html(&plan);
    assert!(!page.contains("<script>alert"), "not escaped");
    assert_eq!(page.matches("<script").count(), 1, "only the page's own");
    assert!(!page.contains("src=") && !page.contains("<link"), "nothing is fetched");
}

#[test]
fn findings_have_their_sections_and_predictions_are_called_that() {
    let page = html(&documented());
    let unbeaten = section(&page, "Pareto-optimal settings");
    assert!(
        unbeaten.contains("recordsize=16K compression=zstd-3") && unbeaten.contains("+21.0 %"),
        "{unbeaten}"
    );
    assert!(unbeaten.contains("work rate 3.4 %"), "the noise: {unbeaten}");
    let shares = section(&page, "What each property contributes");
    assert_has(shares, &["recordsize=16K alone instead of 128K", "compression=zstd-3: not separated"]);
    let advice = section(&page, "Published advice");
    assert_has(advice, &["innodb-page", "+19.0 %", "not tried", "Workload%20Tuning.html#innodb"]);
    let top = &page[..page.find("<h2>").unwrap()];
    assert!(top.contains("On MariaDB, work rate was predicted within 10 points"), "{top}");
    let old = html(&fixture());
    assert!(
        !old.contains("Published advice") && !old.contains("was predicted within"),
        "an old plan has none"
    );
}
