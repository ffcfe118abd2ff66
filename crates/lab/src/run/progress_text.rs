//! Texts about the progress of a run, for a status line on a terminal or for lines of a log.

use std::time::{Duration, Instant};

use poolwright_base::units::{counted, format_duration};

use super::{Event, Progress};
use crate::TrialKey;

/// A change of a progress display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// A line that stays.
    Line(String),
    /// The new text of the status line; a line of its own in a log.
    Status(String),
    /// The new text of the status line, with details that a log omits.
    Detail(String),
}

/// Turns the events of a run into texts.
#[derive(Debug)]
pub struct RunProgress {
    campaign: String,
    /// Whether the display has a status line; otherwise it is a log.
    has_status_line: bool,
    /// The number of the current trial, and the remaining time of the run. A narrow terminal cuts off the end of the line,
    /// so the current phase follows this part directly.
    head: String,
    /// The study, case and block of the current trial.
    which: String,
    /// The start of the current trial.
    began: Instant,
}

impl RunProgress {
    /// Texts for a run of this campaign.
    pub fn new(campaign: &str, has_status_line: bool) -> RunProgress {
        RunProgress {
            campaign: campaign.to_owned(),
            has_status_line,
            head: String::new(),
            which: String::new(),
            began: Instant::now(),
        }
    }

    /// The changes that an event causes, in order.
    pub fn updates(&mut self, event: &Event<'_>) -> Vec<Update> {
        match event {
            Event::Begun { trials, skipped, changed } => begun(*trials, *skipped, *changed),
            Event::Trial { key, number, of, left } => {
                let left =
                    left.map_or(String::new(), |left| format!(" · about {} left", format_duration(left)));
                self.began = Instant::now();
                self.head = format!("{} · trial {number} of {of}{left}", self.campaign);
                self.which = trial_name(key);
                vec![Update::Status(format!("{} · {}", self.head, self.which))]
            }
            Event::Progress(progress) => {
                vec![Update::Detail(format!("{} · {} · {}", self.head, phase(progress), self.which))]
            }
            Event::Ended(trial) => match &trial.outcome {
                Ok(_) if self.has_status_line => Vec::new(),
                Ok(_) => vec![Update::Line(ended_after(self.began.elapsed()))],
                Err(why) => vec![Update::Line(format!("trial failed: {}: {why}", trial_name(&trial.key)))],
            },
            Event::Note(text) => vec![Update::Line(text.clone())],
        }
    }
}

fn begun(trials: usize, skipped: usize, changed: bool) -> Vec<Update> {
    let changed = changed.then(|| {
        "the campaign's file has changed since its last run, so this is a new run; the old one is kept"
            .to_owned()
    });
    let skipped = (skipped > 0).then(|| {
        format!(
            "{skipped} of {} {} already in the results; continuing",
            counted(trials as u64, "trial"),
            if trials == 1 { "is" } else { "are" }
        )
    });
    changed.into_iter().chain(skipped).map(Update::Line).collect()
}

fn ended_after(time: Duration) -> String {
    format!("  done in {}", format_duration(time))
}

/// The phase of a trial, with the completed share if it is known: `load 40 %`.
pub fn phase(progress: &Progress) -> String {
    if progress.of > 0.0 {
        format!("{} {:.0} %", progress.phase, (progress.done / progress.of * 100.0).min(100.0))
    } else {
        progress.phase.to_string()
    }
}

/// The name of a trial: `study factor=level factor=level, block 2`, with the block counted from 1.
pub fn trial_name(key: &TrialKey) -> String {
    let levels: String = key.case.iter().map(|(factor, level)| format!(" {factor}={level}")).collect();
    format!("{}{levels}, block {}", key.study, key.block + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TrialKey {
        TrialKey { study: "load".into(), case: [("recordsize".into(), "8K".into())].into(), block: 1 }
    }

    #[test]
    fn a_trial_is_named_and_counted() {
        let mut text = RunProgress::new("smoke", true);
        let left = Some(Duration::from_secs(720));
        let begun = text.updates(&Event::Trial { key: &key(), number: 3, of: 8, left });
        let status = "smoke · trial 3 of 8 · about 12 min left · load recordsize=8K, block 2";
        assert_eq!(begun, [Update::Status(status.into())]);
    }

    #[test]
    fn a_resumed_run_says_how_much_is_done() {
        let mut text = RunProgress::new("smoke", false);
        let begun = text.updates(&Event::Begun { trials: 8, skipped: 2, changed: false });
        assert_eq!(begun, [Update::Line("2 of 8 trials are already in the results; continuing".into())]);
        assert_eq!(text.updates(&Event::Begun { trials: 8, skipped: 0, changed: true }).len(), 1);
    }
}
