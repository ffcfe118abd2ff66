//! The assessment and the outcome of applying a plan, as terminal text.

use std::fmt::Write as _;

use poolwright_apply::assessment::{
    Assessment, DatasetAssessment, PropertyAssessment, RelocationAssessment, RunningDatabase,
};
use poolwright_apply::run::{Action, Outcome};
use poolwright_base::quoted;
use poolwright_base::units::format_size;
use poolwright_plan::spelled_setting;

/// The assessment as text.
pub fn assessment(assessment: &Assessment) -> String {
    let mut text = String::new();
    for dataset in &assessment.datasets {
        add_dataset(&mut text, dataset);
    }
    text.extend(assessment.running.iter().map(|of| running(of, "files are replaced")));
    for left in &assessment.left {
        let _ = writeln!(text, "not done: {left}");
    }
    text
}

/// A line about the database that will be stopped, and during what.
pub(crate) fn running(of: &RunningDatabase, during: &str) -> String {
    let unit = of.unit.as_ref().map_or_else(String::new, |unit| format!(" ({unit})"));
    let (name, pid) = (&of.name, of.pid);
    format!("{name} (process {pid}{unit}) has files open for writing: it is stopped while {during}\n")
}

/// Settings in a list: `recordsize=16K, compression=lz4`.
pub(crate) fn settings<'a>(of: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let one = |(name, value): (&String, &String)| format!("{name}={}", spelled_setting(name, value));
    of.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

fn add_dataset(text: &mut String, of: &DatasetAssessment) {
    let _ = writeln!(text, "{} on {}", of.dataset, quoted(&of.mountpoint));
    let width = of.properties.iter().map(|of| of.property.len()).max().unwrap_or(0).max("snapshot".len());
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:width$}  {value}");
    };
    for property in &of.properties {
        let PropertyAssessment { dataset, property, now, source, then } = property;
        let (now, then) = (spelled_setting(property, now), spelled_setting(property, then));
        row(
            property,
            match *dataset == of.dataset {
                true => format!("{now} ({source}) → {then}"),
                false => format!("{now} ({source}) becomes local in {dataset}, which keeps its value"),
            },
        );
    }
    for moves in &of.relocations {
        row("moves", relocation(moves));
    }
    if of.rewritten_files == 0 {
        row("files", format!("{}; none has to be rewritten", of.files));
    } else {
        let (rewritten, bytes) = (of.rewritten_files, format_size(of.rewritten_bytes));
        row("files", format!("{rewritten} of {} to rewrite, {bytes}", of.files));
    }
    if of.rewritten_files == 0 && of.relocations.is_empty() {
        return;
    }
    row(
        "space",
        format!(
            "about {} needed while the old blocks are kept, at most {}; {} available",
            format_size(of.needed),
            format_size(of.needed_at_most),
            format_size(of.available)
        ),
    );
    if let Some(snapshot) = &of.snapshot {
        row("snapshot", format!("{snapshot} keeps the old blocks, for undo"));
    }
    if of.snapshots > 0 {
        row("", format!("{} other snapshots keep the old blocks too", of.snapshots));
    }
}

fn relocation(of: &RelocationAssessment) -> String {
    format!(
        "{} ({} files, {}) to the new dataset {} on {}, with {}; it becomes a link there",
        quoted(&of.directory),
        of.files,
        format_size(of.bytes),
        of.dataset,
        quoted(&of.mountpoint),
        settings(&of.settings)
    )
}

/// The outcome as text. `plan` is the plan's file.
pub fn outcome(outcome: &Outcome, plan: &str) -> String {
    let mut text = match outcome.action {
        Action::Nothing => "nothing to do\n".to_owned(),
        Action::Applied => format!("applied: {}\n{}", rewritten(outcome), moved(outcome)),
        Action::Undone if outcome.rolled_back => {
            "undone: the datasets were rolled back to their snapshots\n".to_owned()
        }
        Action::Undone => format!("undone: {}\n{}", rewritten(outcome), moved(outcome)),
        Action::Discarded => "the snapshots are destroyed; the plan stays applied\n".to_owned(),
    };
    text += &downtime(outcome.downtime_s, outcome.expected_downtime_s);
    if !outcome.snapshots.is_empty() {
        let _ = writeln!(
            text,
            "kept for undo: {}\n`poolwright undo {plan}` restores the previous state; `poolwright undo --discard {plan}` frees the old blocks instead",
            outcome.snapshots.join(", ")
        );
    }
    text
}

/// A line about how long the database was stopped, and was expected to be; nothing if it was not.
pub(crate) fn downtime(downtime_s: Option<f64>, expected_s: Option<f64>) -> String {
    let Some(downtime) = downtime_s else { return String::new() };
    let expected = expected_s
        .map_or_else(String::new, |of| format!(" (expected: {of:.1} s, and the time to stop and start it)"));
    format!("the database was stopped for {downtime:.1} s{expected}\n")
}

/// A line for each directory that moved.
fn moved(outcome: &Outcome) -> String {
    let line = |directory| match outcome.action {
        Action::Undone => format!("{} is a directory again\n", quoted(directory)),
        _ => format!("{} is a link to a dataset of its own now\n", quoted(directory)),
    };
    outcome.relocated.iter().map(line).collect()
}

fn rewritten(outcome: &Outcome) -> String {
    match outcome.files {
        0 => "properties set, no file had to be rewritten".to_owned(),
        files => {
            format!("properties set, {files} files rewritten and compared, {}", format_size(outcome.bytes))
        }
    }
}
