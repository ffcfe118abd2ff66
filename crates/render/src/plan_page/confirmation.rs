//! A confirmation: the changes that the database itself showed, next to the predicted ones. The page and the terminal have the
//! same table.

use poolwright_base::units::counted;
use poolwright_plan::metric::CONFIRMED;
use poolwright_plan::{
    Confirmation, ConfirmationVerdict, ConfirmedSetting, Contender, MetricName, Role, WorkUnit,
};
use poolwright_report::text::signed;
use poolwright_report::{Callout, Cell, Section, Table, Tone, Unit};

use super::format;

/// An explanation of the table.
pub const DEVIATION: &str = "Changes are relative to today's settings, from the pairs of each block, with 95 % intervals. The \
                             error is the measured change minus the predicted change, in percentage points.";

/// Fills the section of the page.
pub fn section(section: &mut Section, found: &Confirmation) {
    let kind = match found.verdict {
        ConfirmationVerdict::Confirmed | ConfirmationVerdict::BetterThanToday => Callout::Change,
        ConfirmationVerdict::NotConfirmed => Callout::Warning,
    };
    section.callout(kind, headline(found), &found.why);
    section.table(&table(found));
    section.paragraph(DEVIATION);
    section.list(&found.warnings);
    section.folded("How it was run", |inside| {
        inside.key_values(conditions(found));
    });
}

/// The verdict in a few words.
pub fn headline(found: &Confirmation) -> &'static str {
    match found.verdict {
        ConfirmationVerdict::Confirmed => "Confirmed",
        ConfirmationVerdict::BetterThanToday => "Better than today, but not as predicted",
        ConfirmationVerdict::NotConfirmed => "Not confirmed",
    }
}

/// The number and the duration of the trials: `3 blocks, 9 trials in 4.2 min`.
pub fn about(found: &Confirmation) -> String {
    let blocks = found.settings.iter().map(|s| s.blocks).max().unwrap_or(0);
    let trials: u32 = found.settings.iter().map(|s| s.blocks).sum::<u32>() + found.failed_trials;
    format!(
        "{}, {} in {}",
        counted(blocks.into(), "block"),
        counted(trials.into(), "trial"),
        Unit::Seconds.format(found.seconds)
    )
}

/// Returns a table with a row for each metric of each setting.
pub fn table(found: &Confirmation) -> Table {
    let today = found.settings.iter().find(|setting| setting.name == Contender::Today);
    let metrics = || CONFIRMED.iter().chain([&MetricName::Objective]).enumerate();
    let of_setting = |of| metrics().map(move |(i, metric)| (of, metric, i == 0));
    let has = |(of, metric, is_first): &(&ConfirmedSetting, &MetricName, bool)| {
        *is_first || of.metrics.contains_key(metric) || of.changes.contains_key(metric)
    };
    let change = |of: &ConfirmedSetting, metric: &MetricName| {
        let gain = of.changes.get(metric);
        let tone = gain.map_or(Tone::Plain, |g| format::tone(g.verdict));
        Cell::num(gain.map(|g| g.change), Unit::Change).tone(tone)
    };
    let error = |of: &ConfirmedSetting, metric: &MetricName| {
        let (gain, predicted) = (of.changes.get(metric)?, of.predicted.get(metric)?);
        Some(signed(100.0 * (gain.change - predicted.change), 1))
    };
    Table::of(found.settings.iter().flat_map(of_setting).filter(has))
        .left("setting", |(of, _, is_first)| {
            Cell::text(if is_first { label(of, today) } else { String::new() }).tone(Tone::Strong)
        })
        .left("metric", |(_, metric, _)| title(metric))
        .right("median", |(of, metric, _)| Cell::num(of.metrics.get(metric).map(|m| m.median), unit(metric)))
        .right("change", |(of, metric, _)| change(of, metric))
        .right("95 % interval", |(of, metric, _)| of.changes.get(metric).map(|g| Unit::Change.range(g.ci95)))
        .right("predicted", |(of, metric, _)| {
            Cell::num(of.predicted.get(metric).map(|p| p.change), Unit::Change)
        })
        .right("error", |(of, metric, _)| error(of, metric))
        .table()
}

fn title(metric: &MetricName) -> &str {
    match metric {
        MetricName::CpuNsPerOp => "CPU",
        other => other.title(),
    }
}

/// The unit of a metric. The work rate of a replay is a ratio of times, that of the database is work per second.
fn unit(metric: &MetricName) -> Unit {
    if *metric == MetricName::WorkRate { Unit::PerSecond } else { metric.unit() }
}

/// The name of a setting with the record size and compression of each dataset, and the other properties that today's settings do not
/// have: `recommended: 16K zstd-3 logbias=throughput`.
fn label(setting: &ConfirmedSetting, today: Option<&ConfirmedSetting>) -> String {
    const MAIN: [&str; 2] = ["recordsize", "compression"];
    let is_new = |property: &str, value: &str| {
        let mut todays = today.into_iter().flat_map(|today| &today.datasets);
        !todays.any(|dataset| dataset.settings.get(property).is_some_and(|todays| todays == value))
    };
    let of_dataset = |dataset: &poolwright_plan::ConfirmedDataset| {
        let main = MAIN.iter().filter_map(|property| dataset.settings.get(*property).cloned());
        let others = dataset
            .settings
            .iter()
            .filter(|(property, value)| !MAIN.contains(&property.as_str()) && is_new(property, value));
        main.chain(others.map(|(property, value)| format!("{property}={value}")))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all: Vec<String> = setting.datasets.iter().map(of_dataset).collect();
    let name = match setting.name {
        Contender::Today => "today",
        Contender::Recommended => "recommended",
        Contender::RunnerUp => "runner-up",
    };
    format!("{name}: {}", all.join(", "))
}

fn conditions(found: &Confirmation) -> Vec<(String, String)> {
    let commands = &found.commands;
    let named = [
        ("start", commands.start.as_ref()),
        ("load", Some(&commands.load)),
        ("stop", commands.stop.as_ref()),
    ];
    let mut all: Vec<(String, String)> =
        named.iter().filter_map(|(name, text)| Some(((*name).to_owned(), text.cloned()?))).collect();
    all.push((
        "unit of work".into(),
        match found.work {
            WorkUnit::Run => "one run of the load command",
            WorkUnit::Stated => "as counted by the load command",
        }
        .into(),
    ));
    all.push(("settling".into(), Unit::Seconds.format(found.settle_s)));
    all.push(("trials".into(), about(found)));
    all.push(("finished".into(), found.created.clone()));
    for setting in &found.settings {
        for dataset in &setting.datasets {
            let what = format!("{}, {}", setting.name.name(), dataset.location);
            let roles = if dataset.roles.is_empty() {
                String::new()
            } else {
                format!(" ({})", Role::list(&dataset.roles))
            };
            all.push((what, format::settings(&dataset.settings) + &roles));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use poolwright_plan::{Measurements, Plan};

    use crate::plan_page::tests::assert_has;

    /// The documented examples of a plan and of its confirmation.
    fn documented() -> (Plan, Measurements) {
        let plan = serde_json::from_str(include_str!("../../../../docs/examples/plan.json"));
        let confirmation = serde_json::from_str(include_str!("../../../../docs/examples/confirmation.json"));
        (plan.unwrap(), Measurements { confirmation: Some(confirmation.unwrap()), verification: None })
    }

    /// The page and what `confirm` prints.
    fn shown(plan: &Plan, measured: &Measurements) -> (String, String) {
        let found = measured.confirmation.as_ref().unwrap();
        let text = crate::plan_text::confirmation(plan, found, poolwright_report::Terminal::PLAIN);
        (super::super::html(plan, measured), text)
    }

    #[test]
    fn what_was_measured_stands_beside_what_was_predicted() {
        let (plan, measured) = documented();
        let (page, text) = shown(&plan, &measured);
        let start = page.find("<h2>With the database itself</h2>").expect("a section");
        let section = &page[start..start + page[start..].find("<h2>Settings</h2>").unwrap()];
        assert_has(
            section,
            &[
                "Confirmed",
                "recommended: 16K zstd-3",
                "954/s",
                "+17.5 %",
                "+14.1 to +21.0 %",
                "+20.0 %",
                "−2.5",
                "./load.sh",
            ],
        );
        assert!(text.contains("\nwith the database itself  3 blocks, 6 trials in 402 s\n"), "{text}");
        assert!(text.contains("  Confirmed: The recommended"), "{text}");
        let without = super::super::html(&plan, &Measurements::default());
        assert!(!without.contains("With the database itself"));
    }

    #[test]
    fn a_plan_that_the_database_contradicts_says_so_first() {
        let (plan, mut measured) = documented();
        assert!(!shown(&plan, &measured).0.contains(super::super::CONTRADICTED));
        let found = measured.confirmation.as_mut().unwrap();
        found.verdict = poolwright_plan::ConfirmationVerdict::NotConfirmed;
        let (page, terminal) = shown(&plan, &measured);
        let at = page.find(super::super::CONTRADICTED).expect("the contradiction");
        assert!(at < page.find("Was recommended: data").expect("the verdict"));
        assert!(terminal.starts_with(super::super::CONTRADICTED), "{terminal}");
        assert!(terminal.contains("\nWas recommended: ") && !terminal.contains("\nChange: "), "{terminal}");
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let (plan, mut measured) = documented();
        let found = measured.confirmation.as_mut().unwrap();
        found.commands.load = "<script>alert(1)</script>".into();
        found.warnings = vec!["<b>\u{1b}[31m".into()];
        let (page, text) = shown(&plan, &measured);
        assert!(!page.contains("<script>alert(1)") && !page.contains("<b>\u{1b}"));
        assert!(!text.contains('\u{1b}'));
    }
}
