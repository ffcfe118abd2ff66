//! A made-up plan at the terminal.

use super::role::{ALTERNATIVES, shortlist};
use super::*;
use crate::plan_page::tests::{assert_has, fixture};
use poolwright_plan::{Cost, Evidence, EvidenceKind, MetricName, Outcome, Role, Unseen};

fn printed(plan: &Plan, width: Option<usize>) -> String {
    text(plan, Terminal { width, ansi: false })
}

#[test]
fn a_change_says_what_to_set_what_it_brings_and_what_is_safe() {
    let text = printed(&fixture(), None);
    assert_has(
        &text,
        &[
            "Change: 16K records with zstd-3",
            "  set   recordsize=16K compression=zstd-3\n",
            "  was   recordsize=128K compression=lz4  (OpenZFS's defaults: the directory is on ext4)",
            "−78.6 to −75.0 %",
            "inside the noise",
            "21 not replayed, 1 failed",
            "innodb_doublewrite = OFF  (now ON, needs a restart)",
            "only  with recordsize=16K",
            "memory  for the ARC; computed",
            "  Knee at 192M: 12.6 % of the requests read from the device.\n",
            "ashift=12: the device's",
            "! 1 file could not be read",
            "  zfs create -o recordsize=16K -o compression=zstd-3 POOL/data\n    to be mounted on /srv/mariadb/data, for the files that are in /srv/mariadb/data today",
            "Existing files keep their record size",
        ],
    );
    assert!(!text.contains('\u{1b}'));
}

fn summarized(plan: &Plan, width: usize) -> String {
    summary(plan, Terminal { width: Some(width), ansi: false })
}

#[test]
fn the_summary_of_a_change_has_the_effect_and_the_command_on_a_dozen_lines() {
    let text = summarized(&fixture(), 100);
    assert!(text.lines().count() <= 12, "{text}");
    assert_has(
        &text,
        &[
            "Change: 16K records with zstd-3",
            "goal balanced: ",
            "\n  today  data: 128K lz4; wal: 128K lz4 ",
            "\n  plan   data: 16K zstd-3 ",
            "95 % ",
            "zfs create -o recordsize=16K -o compression=zstd-3 POOL/data\n",
            "Existing files keep their record size",
            "(-v shows all)",
        ],
    );
    assert!(text.lines().all(|l| l == l.trim_end() && l.chars().count() <= 100), "{text}");
}

#[test]
fn the_summary_names_what_must_not_be_followed() {
    let mut plan = fixture();
    plan.roles[0].recommended.insert("sync".into(), "disabled".into());
    let text = summarized(&plan, 120);
    assert!(text.contains("! Do not follow this plan: "), "{text}");
    assert!(text.contains("sync=disabled:"), "{text}");
}

#[test]
fn the_summary_of_a_plan_that_changes_nothing_has_no_command() {
    let mut plan = fixture();
    plan.verdict = Verdict::Keep;
    plan.why = "nothing beats today's settings beyond noise".into();
    let text = summarized(&plan, 100);
    assert!(text.starts_with("Keep: nothing beats today's settings beyond noise\n"), "{text}");
    assert!(!text.contains("zfs ") && text.lines().count() <= 6, "{text}");
}

#[test]
fn an_alternative_has_a_row_with_its_price_also_beside_a_plan_that_changes_nothing() {
    use poolwright_plan::{AlternativeKind, AlternativeSetting, GainVerdict, MeasuredChange};
    let mut plan = fixture();
    let slower = MeasuredChange { change: 0.25, ci95: (0.2, 0.3), verdict: GainVerdict::Worse };
    plan.roles[0].alternative = Some(AlternativeSetting {
        kind: AlternativeKind::Smaller,
        goal: "space".into(),
        changes: [("compression".to_owned(), "gzip-9".to_owned())].into(),
        trials: 1,
        change: [(MetricName::MeanLatencyNs, slower)].into(),
    });
    for verdict in [Verdict::Change, Verdict::Keep] {
        plan.verdict = verdict;
        let text = summarized(&plan, 100);
        assert_has(
            &text,
            &["\n  smaller  data: 128K gzip-9 ", "+25 %", "+20 to +30", "`tune --goal space` recommends"],
        );
        assert!(text.lines().count() <= 14, "{text}");
    }
    assert!(printed(&plan, None).contains("\nthe choices  "));
}

#[test]
fn costs_come_first_and_name_metric_and_figures() {
    let mut plan = fixture();
    let mut gain = plan.gain[&MetricName::MeanLatencyNs];
    (gain.change, gain.ci95) = (0.8, (0.7, 0.9));
    plan.costs = vec![
        Cost { role: None, metric: MetricName::MeanLatencyNs, gain },
        Cost { role: Some(Role::Data), metric: MetricName::FsyncP99Ns, gain },
    ];
    plan.roles[0].together_with = vec![Role::Wal];
    let text = printed(&plan, None);
    let costs = text.find("\ncosts  ").expect("a block of costs");
    assert!(costs < text.find("\ndata  ").unwrap(), "{text}");
    assert!(text.contains("  ! mean latency +80.0 % (+70.0 to +90.0 %), "), "{text}");
    assert!(text.contains("  ! fsync p99 +80.0 %") && text.contains(": data and wal alone\n"), "{text}");
    plan.costs.clear();
    assert!(!printed(&plan, None).contains("\ncosts"));
}

#[test]
fn the_verdict_stands_over_the_figures_that_it_quotes() {
    let text = printed(&fixture(), None);
    let whole = text.find("\nthe whole plan  ").expect("the comparison of the whole plan");
    let role = text.find("\ndata  ").unwrap();
    assert!(whole < role && text[whole..role].contains("write amplification"), "{text}");
    assert!(text[role..].contains("  data alone, everything else as today:\n"), "{text}");
}

#[test]
fn roles_without_trials_say_why() {
    let mut plan = fixture();
    plan.roles[2].notes = vec!["tried together with data: both lie in /srv/mariadb".into()];
    let text = printed(&plan, None);
    let rest = &text[text.find("\nother roles").expect("the binlog has no trials")..];
    assert!(rest.contains("    - tried together with data"), "{rest}");
    assert!(!text.contains("too little I/O"), "{text}");
}

#[test]
fn all_warnings_stand_in_one_place() {
    let mut plan = fixture();
    plan.roles[0].recommended.insert("sync".into(), "disabled".into());
    plan.warnings = (0..5).map(|i| format!("warning {i}")).collect();
    let trace = plan.trace.as_mut().unwrap();
    trace.lost_events = 17;
    trace.unseen = vec![Unseen { what: "direct maps".into(), count: 2 }];
    let text = printed(&plan, None);
    assert_eq!(text.matches("before you trust this").count(), 1, "{text}");
    let section = &text[text.find("before you trust this").unwrap()..text.find("\nnext").unwrap()];
    assert_has(
        section,
        &["sync=disabled:", "lost 17 events", "warning 4", "not in the trace: direct maps (2 times)"],
    );
}

#[test]
fn lines_fit_the_terminal() {
    for width in [80, 100, 132] {
        let text = printed(&fixture(), Some(width));
        let long = text.lines().find(|l| l.chars().count() > width);
        assert_eq!(long, None, "{width}");
        assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
    }
}

#[test]
fn findings_are_short_and_fit_the_terminal() {
    let plan = crate::plan_page::tests::documented();
    let text = printed(&plan, None);
    assert_has(
        &text,
        &[
            "\nOn MariaDB, work rate was predicted within 10 points of the truth for 7 of 8 settings (largest error 10.1",
            "\nPareto-optimal settings  of data, in work rate, space and bytes written together\n",
            "  1 other tried setting is beaten by one of these; one trial's standard deviation: space 0.0 %",
            "\nwhat each property contributes  of data, from 20 trials\n",
            "  - compression=zstd-3: not separated",
            "\npublished advice  compared with today's settings",
            "not tried",
            "--check-advice tries what the search has not tried.",
        ],
    );
    let mut many = plan.clone();
    let mut other = many.pareto[0].settings[0].clone();
    other.outcome = Outcome::Raced;
    many.pareto[0].settings.splice(0..0, vec![other; 9]);
    let long = printed(&many, None);
    assert!(long.contains("  4 more in the report\n") && long.contains("recommended\n"), "{long}");
    let narrow = printed(&plan, Some(100));
    assert_eq!(narrow.lines().find(|l| l.chars().count() > 100), None, "{narrow}");
}

#[test]
fn keeping_needs_no_next_step() {
    let mut plan = fixture();
    plan.verdict = Verdict::Keep;
    plan.trace = None;
    plan.why = "nothing beats today's".into();
    plan.database.clear();
    plan.warnings.clear();
    plan.roles.truncate(1);
    let role = &mut plan.roles[0];
    role.recommended.clear();
    role.gain.clear();
    role.evidence.clear();
    let text = printed(&plan, Some(80));
    assert!(text.starts_with("Keep: nothing beats today's\n"), "{text}");
    assert!(text.contains("  keep  recordsize=128K compression=lz4"), "{text}");
    assert!(text.contains("no recording, estimates only"), "{text}");
    assert!(!text.contains("\nnext") && text.matches("before you trust").count() == 1, "{text}");
    assert!(text.contains("  ! No I/O was recorded, so nothing was replayed"), "{text}");
}

#[test]
fn estimates_are_shown_where_nothing_was_replayed() {
    let mut plan = fixture();
    let role = &mut plan.roles[0];
    role.evidence.retain(|e| e.kind == EvidenceKind::Estimate);
    role.evidence[3].outcome = Outcome::Raced;
    role.evidence[4].outcome = Outcome::Current;
    let text = printed(&plan, None);
    assert!(text.contains("\n  estimated"), "{text}");
    assert!(text.contains("19 not replayed\n"), "{text}");
}

#[test]
fn the_shortlist_always_has_what_is_compared() {
    let plan = fixture();
    let trials = || plan.roles[0].evidence.iter().filter(|e| e.objective.is_some());
    let backwards: Vec<&Evidence> = trials().collect::<Vec<_>>().into_iter().rev().collect();
    for order in [trials().collect(), backwards] {
        let shown = shortlist(&order);
        assert_eq!(shown.len(), ALTERNATIVES);
        let has = |outcome| shown.iter().any(|e| e.outcome == outcome);
        assert!(has(Outcome::Recommended) && has(Outcome::Current));
    }
}

#[test]
fn what_is_to_be_copied_is_quoted_and_cannot_steer_the_terminal() {
    let mut plan = fixture();
    let role = &mut plan.roles[0];
    role.location.dataset = Some("tank/my db".into());
    role.recommended.insert("compression".into(), "lz4; reboot".into());
    role.path = "/srv/\u{1b}]0;title\u{7}\nx".into();
    let text = printed(&plan, None);
    let command = "zfs set recordsize=16K 'compression=lz4; reboot' 'tank/my db'\n";
    assert!(text.contains(command), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
}
