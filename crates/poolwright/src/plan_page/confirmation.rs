//! What the database itself measured, beside what the plan predicts: the same table on the page and at the terminal.

use poolwright_report::{Callout, Cell, Column, Section, Table, Tone, Unit};
use poolwright_tune::confirm::{MEASURED, OBJECTIVE};
use poolwright_tune::plan::{Confirmation, ConfirmationVerdict, ConfirmedSetting, Contender, WorkUnit};

use super::words;

/// What the table's last column is.
pub const DEVIATION: &str = "Changes are against today's settings, paired by block, with their 95 % intervals. The error is \
                             the measured change minus the predicted one, in percentage points.";

/// The section of the page.
pub fn section(section: &mut Section, found: &Confirmation) {
    let kind = match found.verdict {
        ConfirmationVerdict::Confirmed | ConfirmationVerdict::BetterThanToday => Callout::Change,
        ConfirmationVerdict::NotConfirmed => Callout::Warning,
    };
    section.callout(kind, headline(found), &found.why);
    section.table(&table(found));
    section.paragraph(DEVIATION);
    if !found.warnings.is_empty() {
        section.list(&found.warnings);
    }
    section.folded("How it was run", |inside| {
        inside.key_values(conditions(found));
    });
}

/// The verdict in two or three words.
pub fn headline(found: &Confirmation) -> &'static str {
    match found.verdict {
        ConfirmationVerdict::Confirmed => "Confirmed",
        ConfirmationVerdict::BetterThanToday => "Better than today, not as predicted",
        ConfirmationVerdict::NotConfirmed => "Not confirmed",
    }
}

/// `3 blocks, 9 trials in 4.2 min`.
pub fn about(found: &Confirmation) -> String {
    let blocks = found.settings.iter().map(|s| s.blocks).max().unwrap_or(0);
    let trials: u32 = found.settings.iter().map(|s| s.blocks).sum::<u32>() + found.failed_trials;
    format!(
        "{}, {} in {}",
        words::counted(blocks.into(), "block"),
        words::counted(trials.into(), "trial"),
        Unit::Seconds.format(found.seconds)
    )
}

/// A row for each metric of each setting.
pub fn table(found: &Confirmation) -> Table {
    let mut table = Table::new([
        Column::left("setting"),
        Column::left("metric"),
        Column::right("median"),
        Column::right("change").key("change"),
        Column::right("95 % interval"),
        Column::right("predicted"),
        Column::right("error"),
    ]);
    for setting in &found.settings {
        for (i, metric) in MEASURED.iter().chain([&OBJECTIVE]).enumerate() {
            let name = if i == 0 { label(setting) } else { String::new() };
            let has = setting.metrics.contains_key(*metric) || setting.changes.contains_key(*metric);
            if i == 0 || has {
                table.row(row(setting, metric, name));
            }
        }
    }
    table
}

fn row(setting: &ConfirmedSetting, metric: &str, name: String) -> [Cell; 7] {
    let (gain, predicted) = (setting.changes.get(metric), setting.predicted.get(metric));
    let figure = |value: Option<f64>, unit| value.map_or(Cell::missing(), |value| Cell::num(value, unit));
    let error = gain.zip(predicted).map(|(gain, predicted)| 100.0 * (gain.change - predicted.change));
    let tone = gain.map_or(Tone::Plain, words::tone);
    [
        Cell::text(name).tone(Tone::Strong),
        Cell::text(title(metric)),
        figure(setting.metrics.get(metric).map(|m| m.median), unit(metric)),
        figure(gain.map(|g| g.change), Unit::Change).tone(tone),
        gain.map_or(Cell::missing(), |g| Cell::text(words::interval(g))),
        figure(predicted.map(|p| p.change), Unit::Change),
        error.map_or(Cell::missing(), |points| Cell::text(format!("{points:+.1}").replace('-', "−"))),
    ]
}

fn title(metric: &str) -> &str {
    match metric {
        "cpu_ns_per_op" => "CPU",
        other => words::title(other),
    }
}

/// A replay's work rate is a ratio of times; the database's is work done per second.
fn unit(metric: &str) -> Unit {
    if metric == "work_rate" { Unit::PerSecond } else { words::unit(metric) }
}

/// `recommended: 16K zstd-3`, of all of its datasets.
fn label(setting: &ConfirmedSetting) -> String {
    let main = |p: &str, s: &poolwright_tune::plan::ConfirmedDataset| s.settings.get(p).cloned();
    let all: Vec<String> = setting
        .datasets
        .iter()
        .map(|d| {
            ["recordsize", "compression"].iter().filter_map(|p| main(p, d)).collect::<Vec<_>>().join(" ")
        })
        .collect();
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
            WorkUnit::Stated => "as the load command counts it",
        }
        .into(),
    ));
    all.push(("settling".into(), Unit::Seconds.format(found.settle_s)));
    all.push(("trials".into(), about(found)));
    all.push(("finished".into(), found.created.clone()));
    for setting in &found.settings {
        for dataset in &setting.datasets {
            let what = format!("{}, {}", setting.name.name(), dataset.place);
            let roles = if dataset.roles.is_empty() {
                String::new()
            } else {
                format!(" ({})", dataset.roles.join(", "))
            };
            all.push((what, words::settings(&dataset.settings) + &roles));
        }
    }
    all
}
