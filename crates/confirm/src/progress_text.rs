//! Texts about the progress of a confirmation, for a status line on a terminal or for lines of a log.

use poolwright_base::units::{counted, format_duration, format_size};
use poolwright_lab::run::{Update, phase};
use poolwright_report::Unit;

use crate::Event;

/// Turns the events of a confirmation into texts.
#[derive(Debug)]
pub struct ConfirmationProgress {
    /// Whether the display has a status line; otherwise it is a log.
    has_status_line: bool,
    /// The current trial, with the estimated remaining time.
    head: String,
    /// The block and setting of the current trial.
    which: String,
}

impl ConfirmationProgress {
    /// Texts for a confirmation that has not begun.
    pub fn new(has_status_line: bool) -> ConfirmationProgress {
        ConfirmationProgress { has_status_line, head: String::new(), which: String::new() }
    }

    /// The change that an event causes.
    pub fn update(&mut self, event: &Event<'_>) -> Update {
        match event {
            Event::Begun { trials, bytes, overhead } => Update::Line(format!(
                "{}, each on a copy of {}: about {}, plus {trials} runs of your commands",
                counted((*trials).into(), "trial"),
                format_size(*bytes),
                format_duration(*overhead)
            )),
            Event::Trial { setting, block, number, of, left } => {
                let left =
                    left.map_or(String::new(), |left| format!(", about {} left", format_duration(left)));
                self.which = format!("block {}, {}", block + 1, setting.name());
                self.head = format!("trial {number} of {of}{left}: {}", self.which);
                Update::Status(self.head.clone())
            }
            Event::Progress(progress) => Update::Detail(format!("{}: {}", self.head, phase(progress))),
            Event::Ended { load_s, work_rate } => {
                let (load, rate) = (Unit::Seconds.format(*load_s), Unit::PerSecond.format(*work_rate));
                // On a terminal, the next trial replaces the line that names this one.
                let which = if self.has_status_line { &self.which } else { "" };
                Update::Line(format!("{which}  load of {load}, {rate}"))
            }
            Event::Failed { why } => Update::Line(format!("warning: the trial failed: {why}")),
        }
    }
}
