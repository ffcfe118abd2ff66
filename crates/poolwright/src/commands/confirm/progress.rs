//! The progress of a confirmation: one changing line on a terminal, separate lines elsewhere.

use indicatif::ProgressBar;
use poolwright_confirm::Event;
use poolwright_report::Unit;
use poolwright_trace::{counted, format_size};

use crate::commands::lab::progress::{human_duration, phase, spinner};

/// Prints events to standard error.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    /// The current trial, with the estimated remaining time.
    head: String,
    /// The block and setting of the current trial.
    which: String,
}

impl ProgressLine {
    /// A line that is still empty.
    pub fn new() -> ProgressLine {
        ProgressLine { bar: spinner(), head: String::new(), which: String::new() }
    }

    /// Removes the changing line.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Begun { trials, bytes, overhead } => self.line(&format!(
                "{}, each on a copy of {}: about {}, plus {trials} runs of your commands",
                counted(trials.into(), "trial"),
                format_size(bytes),
                human_duration(overhead)
            )),
            Event::Trial { setting, block, number, of, left } => {
                let left =
                    left.map_or(String::new(), |left| format!(", about {} left", human_duration(left)));
                self.which = format!("block {}, {}", block + 1, setting.name());
                self.head = format!("trial {number} of {of}{left}: {}", self.which);
                match &self.bar {
                    Some(bar) => bar.set_message(self.head.clone()),
                    None => eprintln!("{}", self.head),
                }
            }
            Event::Progress(progress) => self.progress(progress),
            Event::Ended { load_s, work_rate } => {
                let (load, rate) = (Unit::Seconds.format(load_s), Unit::PerSecond.format(work_rate));
                // On a terminal, the next trial replaces the line that names this one.
                let which = if self.bar.is_some() { &self.which } else { "" };
                self.line(&format!("{which}  load of {load}, {rate}"));
            }
            Event::Failed { why } => self.line(&format!("warning: the trial failed: {why}")),
        }
    }

    fn progress(&self, progress: &poolwright_lab::run::Progress) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(format!("{}: {}", self.head, phase(progress)));
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }
}
