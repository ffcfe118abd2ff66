//! The assessment and the outcome of moving a database to another pool, as terminal text.

use std::fmt::Write as _;

use poolwright_apply::migration::{MigrationAssessment, MigrationOutcome};
use poolwright_base::quoted;
use poolwright_base::units::{counted, format_size};
use poolwright_plan::spelled_setting;

use crate::assessment_text::{downtime, running, settings};

/// The assessment as text.
pub fn assessment(assessment: &MigrationAssessment) -> String {
    let mut text = String::new();
    for of in &assessment.datasets {
        let _ = writeln!(text, "{} on {} moves to {}", of.source, quoted(&of.mountpoint), of.target);
        for (name, now) in &of.differing {
            let then = of.settings.get(name).map_or(now, |value| value);
            let _ =
                writeln!(text, "  {name}  {} → {}", spelled_setting(name, now), spelled_setting(name, then));
        }
        let same = of.settings.iter().filter(|(name, _)| !of.differing.contains_key(*name));
        let _ = writeln!(text, "  as today: {}", settings(same));
    }
    let _ = writeln!(
        text,
        "space: {} today, {} without compression; {} available in {}",
        format_size(assessment.referenced),
        format_size(assessment.logical),
        format_size(assessment.available),
        assessment.parent
    );
    text.extend(assessment.running.iter().map(|of| running(of, "the datasets are exchanged")));
    for note in &assessment.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The outcome as text. `plan` is the plan's file.
pub fn outcome(outcome: &MigrationOutcome, plan: &str) -> String {
    let (files, bytes) = (counted(outcome.files, "file"), format_size(outcome.bytes));
    let copied = format!("{files} copied and compared, {bytes}");
    let mut text = match (outcome.moved, outcome.unchanged) {
        (true, _) if outcome.standby => {
            "moved: a standby server has replaced the database's server\n".to_owned()
        }
        (true, _) if outcome.files == 0 => "the database is on the new pool\n".to_owned(),
        (true, _) => format!("moved: {copied}\n"),
        (false, true) => "moved back: nothing was written since, so nothing was copied\n".to_owned(),
        (false, false) if outcome.files == 0 => "the database is on its former datasets\n".to_owned(),
        (false, false) => format!("moved back: {copied}\n"),
    };
    text += &downtime(outcome.downtime_s, outcome.expected_downtime_s);
    if !outcome.kept_snapshots.is_empty() {
        let _ = writeln!(
            text,
            "kept, as the datasets were when the database moved: {}\nOnce you have checked the database, destroy them (zfs destroy)",
            outcome.kept_snapshots.join(", ")
        );
    }
    if !outcome.unused.is_empty() {
        let _ = writeln!(
            text,
            "kept for undo, not mounted: {}\n`poolwright undo {plan}` restores the previous state. To free their space, destroy \
             them (zfs destroy -r); after that, the database cannot be moved back",
            outcome.unused.join(", ")
        );
    }
    text
}
