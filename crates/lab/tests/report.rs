//! Compares the report of a fictitious run with golden files.

use poolwright_lab::order::cases;
use poolwright_lab::report::{self, ClaimVerdict, Report};
use poolwright_lab::{Campaign, Measure, Outcome, PhaseOutcome, Run, Trial, TrialKey};

#[path = "../../report/tests/common/mod.rs"]
mod common;
mod made_up;

use common::golden;

fn page(campaign: &Campaign, run: &Run, trials: &[Trial]) -> String {
    let report = Report::new(campaign, 7, run, trials);
    report::html(&report, campaign, made_up::TEXT, trials, None)
}

/// Returns the part between `<h2>name</h2>` and the next heading.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let start = page.find(&format!("<h2>{name}</h2>")).unwrap_or_else(|| panic!("no section {name}"));
    let rest = &page[start + 1..];
    &rest[..rest.find("<h2>").unwrap_or(rest.len())]
}

#[test]
fn every_output_matches_its_golden_file() {
    let (campaign, run, trials) = made_up::run(1);
    let report = Report::new(&campaign, 7, &run, &trials);
    golden("made-up.html", &page(&campaign, &run, &trials));
    golden("made-up.md", &report::markdown(&report));
    golden("made-up.csv", &report::csv(&campaign, &trials));
    golden("made-up.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
    golden("made-up.txt", &report::text(&report, poolwright_report::Terminal::PLAIN));
}

#[test]
fn claims_are_counted_and_each_has_its_line() {
    let (campaign, run, trials) = made_up::run(1);
    let report = Report::new(&campaign, 7, &run, &trials);
    let verdicts: Vec<ClaimVerdict> = report.claims().map(|c| c.verdict).collect();
    use ClaimVerdict::{Agrees, DoesNotAgree, NoDifference, NotMeasured, TooFew};
    assert_eq!(verdicts, [Agrees, DoesNotAgree, Agrees, Agrees, NoDifference, NotMeasured, TooFew]);
    let line = &report.studies[0].claims[0].line;
    assert!(line.starts_with("agrees: primarycache=all imports faster than none – here "), "{line}");
    assert!(line.ends_with("; the original 6k/s against 1.40k/s, 4.29x"), "{line}");
    let html = page(&campaign, &run, &trials);
    let top = &html[..html.find("<h2>").unwrap()];
    let sentence =
        "The original&#39;s 7 claims: 3 agree, 1 does not agree, 1 with no difference beyond noise";
    assert!(top.contains(sentence), "{top}");
    assert!(
        top.contains("What its author would choose today") && top.contains("Recommended settings"),
        "{top}"
    );
}

#[test]
fn dangerous_settings_are_not_recommended_silently() {
    let (campaign, run, trials) = made_up::run(1);
    let report = Report::new(&campaign, 7, &run, &trials);
    let db = report.advice.iter().find(|a| a.dataset.as_deref() == Some("db")).unwrap();
    assert_eq!(db.set, [("compression".into(), "zstd-3".into()), ("sync".into(), "standard".into())]);
    assert!(db.dangerous[0].contains("db.sync=disabled: a crash loses writes"), "{:?}", db.dangerous);
    for advice in &report.advice {
        assert!(!advice.set.iter().any(|(_, v)| v == "disabled"), "{advice:?}");
    }
    assert!(page(&campaign, &run, &trials).contains("Better, but not recommended"));
}

#[test]
fn advice_uses_only_the_requested_cases() {
    let (mut campaign, run, trials) = made_up::run(1);
    for level in ["off", "gzip-9"] {
        let study = campaign.studies.iter_mut().find(|s| s.name == "space").unwrap();
        study.recommend[0].only = [("compression".into(), vec![level.into()])].into();
        study.recommend[0].original.clear();
        let report = Report::new(&campaign, 7, &run, &trials);
        let db = report.advice.iter().find(|a| a.dataset.as_deref() == Some("db")).unwrap();
        assert_eq!(db.set[0], ("compression".into(), level.into()), "{db:?}");
    }
}

/// The sentence of the question about compression.
fn conclusion(campaign: &Campaign, run: &Run, trials: &[Trial]) -> report::Advice {
    let report = Report::new(campaign, 7, run, trials);
    let asked = |a: &report::Advice| a.question == "Compression and sync of the database";
    report.advice.into_iter().find(asked).unwrap()
}

#[test]
fn every_output_opens_with_the_choice_and_its_reason() {
    let (campaign, run, trials) = made_up::run(1);
    let advice = conclusion(&campaign, &run, &trials);
    assert_eq!((advice.goal.as_str(), advice.criteria.len()), ("efficiency", 3));
    assert!((advice.criteria.iter().map(|c| c.weight).sum::<f64>() - 1.0).abs() < 1e-9);
    let line = &advice.line;
    assert!(line.contains(": zstd-3 – compression ratio (db) 2.60x, wall time "), "{line}");
    assert!(line.contains("the original chose gzip-9: 2.80x, "), "{line}");
    let report = Report::new(&campaign, 7, &run, &trials);
    let text = report::text(&report, poolwright_report::Terminal::PLAIN);
    let (choice, claims) =
        (text.find("What its author would choose today"), text.find("The original's 7 claims"));
    assert!(choice.is_some() && choice < claims, "{text}");
    assert!(text.contains("Wall time, s") && !text.contains("wall_s"), "titles with units: {text}");
    let html = page(&campaign, &run, &trials);
    let (plot, table) = (html.find("<svg").unwrap(), html.find("How long does the copy take?").unwrap());
    assert!(
        plot < table && html[table..].find("<svg") < html[table..].find("<table"),
        "the plot before the table"
    );
    let markdown = report::markdown(&report);
    assert!(markdown.find("What its author").unwrap() < markdown.find("What the original says").unwrap());
    for output in [&text, &markdown] {
        assert!(output.contains("the Pareto front") && output.contains("How much space does it save?"));
    }
}

#[test]
fn the_pareto_front_has_what_no_other_setting_beats() {
    let (campaign, run, trials) = made_up::run(1);
    let advice = conclusion(&campaign, &run, &trials);
    let front: Vec<&str> = advice.settings.iter().filter(|s| s.front).map(|s| s.set[0].1.as_str()).collect();
    // Off is slower than lz4 and takes more space.
    assert_eq!(front, ["zstd-3", "lz4", "gzip-9"]);
    assert!(advice.settings.iter().any(|s| s.set[0].1 == "off" && !s.front && s.worse));
}

/// A copy in a fraction of a second varies so much that nothing follows from it.
#[test]
fn wide_intervals_support_no_choice() {
    let (campaign, run, mut trials) = made_up::run(1);
    for (i, trial) in trials.iter_mut().filter(|t| t.key.study == "space").enumerate() {
        let Ok(outcome) = &mut trial.outcome else { continue };
        let wall = outcome.phases[0].measures.get_mut("wall_s").unwrap();
        wall.value *= [0.3, 1.0, 2.5][(i / 2 + trial.key.block as usize) % 3];
    }
    let advice = conclusion(&campaign, &run, &trials);
    assert_ne!(advice.verdict, report::Choice::Best);
    assert!(advice.imprecise.iter().all(|i| i.half_width > 0.3) && !advice.imprecise.is_empty());
    let told = advice.line.to_lowercase().contains("not told apart");
    assert!(told && advice.line.contains("too wide for this choice: wall time of "), "{}", advice.line);
}

#[test]
fn failed_trials_have_their_reason_and_missing_ones_are_counted() {
    let (campaign, run, mut trials) = made_up::run(1);
    let html = page(&campaign, &run, &trials);
    let failed = section(&html, "Failed trials");
    assert!(failed.contains("&lt;no space&gt; left on /scratch; free 4G &amp; start again"), "{failed}");
    trials.truncate(20);
    let report = Report::new(&campaign, 7, &run, &trials);
    assert_eq!((report.done, report.planned), (20, 15 + 36 + 4));
    assert!(page(&campaign, &run, &trials).contains("35 of 55 trials are missing"));
    trials.clear();
    let empty = page(&campaign, &run, &trials);
    assert!(empty.contains("55 of 55 trials are missing") && empty.contains("7 not measured"));
}

#[test]
fn two_runs_are_compared_cell_by_cell() {
    let report = |seed| {
        let (campaign, run, trials) = made_up::run(seed);
        Report::new(&campaign, seed as i64, &run, &trials)
    };
    let same = report::compare(&report(1), &report(1));
    assert_eq!((same.agree, same.share, same.apart.len()), (same.cells, Some(1.0), 0));
    let other = report::compare(&report(1), &report(2));
    assert!(
        other.share.unwrap() > 0.9 && other.cells == 3 * 5 + 12 * 5 && other.without_interval == 4,
        "{other:?}"
    );
    assert_eq!(other.unlike, ["seed: 1 and 2"]);
    let (campaign, run, mut trials) = made_up::run(1);
    for trial in trials.iter_mut().filter(|t| t.key.case.get("primarycache").is_some_and(|l| l == "all")) {
        for phase in trial.outcome.as_mut().unwrap().phases.iter_mut() {
            phase.measures.get_mut("entries_per_s").unwrap().value *= 1.5;
        }
    }
    let faster = report::compare(&report(1), &Report::new(&campaign, 2, &run, &trials));
    assert_eq!(faster.apart.len(), 1, "{faster:?}");
    assert!((faster.apart[0].ratio - 1.5).abs() < 1e-9 && faster.apart[0].label == "all");
    assert_eq!(faster.apart_of_host, 0, "a rate is that of the trial");
    for trial in trials.iter_mut().filter(|t| t.outcome.is_ok()) {
        for phase in trial.outcome.as_mut().unwrap().phases.iter_mut() {
            phase.measures.entry("host_cpu".into()).and_modify(|m| m.value *= 3.0);
        }
    }
    let disturbed = report::compare(&report(1), &Report::new(&campaign, 2, &run, &trials));
    assert!(disturbed.apart_of_host > 0, "{disturbed:?}");
    assert_eq!(disturbed.apart_of_host + 1, disturbed.apart.len(), "{disturbed:?}");
    let said = report::comparison_markdown(&disturbed);
    assert!(said.contains(&format!("of the others, {} measure", disturbed.apart_of_host)), "{said}");
}

#[test]
fn text_from_outside_cannot_become_mark_up() {
    let evil = "</title></svg></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`\u{1b}\u{0}|";
    let (mut campaign, mut run, mut trials) = made_up::run(1);
    campaign.title = evil.into();
    campaign.about = evil.into();
    campaign.source = evil.into();
    run.target = evil.into();
    run.machine.insert(evil.into(), evil.into());
    for study in &mut campaign.studies {
        study.title = evil.into();
        study.claims.iter_mut().for_each(|c| c.text = evil.into());
        for trial in trials.iter_mut().filter(|t| t.key.study == study.name) {
            trial.key.study = evil.into();
            let Ok(outcome) = &mut trial.outcome else {
                trial.outcome = Err(evil.into());
                continue;
            };
            outcome.versions.insert(evil.into(), evil.into());
            for phase in &mut outcome.phases {
                let series = phase.series.values().next().cloned().unwrap_or_default();
                phase.series.insert(evil.into(), series);
                phase.log.push((0.0, evil.into()));
                phase.changes.push((1.0, evil.into()));
                let histogram = phase.histograms.values().next().cloned().unwrap_or_default();
                phase.histograms.insert(evil.into(), histogram);
            }
        }
        study.name = evil.into();
    }
    let report = Report::new(&campaign, 1, &run, &trials);
    let html = report::html(&report, &campaign, evil, &trials, None);
    assert_eq!(html.matches("<script").count(), 1, "only the page's own script");
    assert!(!html.contains("<img") && !html.contains(['\u{1b}', '\u{0}']));
    assert_eq!(html.matches("</title>").count(), html.matches("<title>").count());
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    let text = report::text(&report, poolwright_report::Terminal::PLAIN);
    assert!(!text.contains(['\u{1b}', '\u{0}']));
    let markdown = report::markdown(&report);
    assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
}

#[test]
fn tables_of_a_study_fit_a_terminal() {
    let (campaign, run, trials) = made_up::run(1);
    let report = Report::new(&campaign, 7, &run, &trials);
    for (width, most) in [(None, 100), (Some(80), 80)] {
        let text = report::text(&report, poolwright_report::Terminal { width, ansi: false });
        let mut table = false;
        let studies = text.lines().take_while(|line| *line != "Failed trials");
        for line in studies {
            // From the rule below a heading to the empty line after the last row.
            table = (table || line.starts_with('─')) && !line.is_empty();
            assert!(!table || line.chars().count() <= most, "{width:?}: {line}");
        }
        assert!(text.contains('─'), "{text}");
    }
}

/// A run of a shipped campaign in which every measure has some value, different for each case and block.
fn every_measure(campaign: &Campaign) -> Vec<Trial> {
    let mut trials = Vec::new();
    for study in &campaign.studies {
        for (i, case) in cases(study).into_iter().enumerate() {
            for block in 0..3 {
                let value = 10.0 + i as f64 + 0.1 * f64::from(block);
                let mut phases = Vec::new();
                for phase in study.measured_phases() {
                    let of_phase = |name: &str| name.split_once('/').is_none_or(|(p, _)| p == phase.name);
                    let named = study.infos.iter().filter(|info| of_phase(&info.name));
                    let bare = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
                    let measures =
                        named.map(|info| (bare(&info.name), Measure { value, unit: info.unit.clone() }));
                    phases.push(PhaseOutcome {
                        name: phase.name.clone(),
                        measured: true,
                        measures: measures.collect(),
                        ..PhaseOutcome::default()
                    });
                }
                let key = TrialKey { study: study.name.clone(), case: case.clone(), block };
                let outcome = Ok(Outcome { phases, ..Outcome::default() });
                trials.push(Trial { key, position: 0, started: String::new(), node: String::new(), outcome });
            }
        }
    }
    trials
}

/// The report of every shipped campaign answers all its questions, in words.
#[test]
fn shipped_campaigns_are_reported_in_words() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns");
    for entry in std::fs::read_dir(directory).unwrap() {
        let (campaign, text) = Campaign::load(&entry.unwrap().path()).unwrap();
        let trials = every_measure(&campaign);
        for scale in ["small", "full"] {
            let (_, run, _) = made_up::run(1);
            let run = Run { campaign: campaign.name.clone(), scale: scale.into(), ..run };
            let report = Report::new(&campaign, 1, &run, &trials);
            assert!(!report.advice.is_empty(), "{}: no question", campaign.name);
            for advice in &report.advice {
                let measured = advice.verdict != report::Choice::NotMeasured;
                assert!(measured && advice.settings.iter().any(|s| s.front), "{}: {advice:?}", campaign.name);
                assert!(!advice.line.contains("_s"), "{}", advice.line);
            }
            for study in &report.studies {
                let titles = study.columns.iter().map(|column| &column.title);
                for title in titles {
                    assert!(!title.contains(['_', '/']), "{}, {}: {title}", campaign.name, study.name);
                }
            }
            let html = report::html(&report, &campaign, &text, &trials, None);
            assert!(html.contains("the Pareto front"), "{}", campaign.name);
            report::text(&report, poolwright_report::Terminal::PLAIN);
            report::markdown(&report);
        }
    }
}
