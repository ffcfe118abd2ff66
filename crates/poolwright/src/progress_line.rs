//! The progress of long work on standard error: one changing line on a terminal, separate lines elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use poolwright_lab::run::Update;

/// A progress bar of this length, or one without an end, in the form of an indicatif template.
pub fn bar(length: Option<u64>, template: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("a fixed template");
    length.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style)
}

/// The bar, redrawn five times a second.
pub fn ticking(bar: ProgressBar) -> ProgressBar {
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The line, if standard error is a terminal.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    /// Starts each line that stays.
    prefix: &'static str,
}

impl ProgressLine {
    /// An empty line. `prefix` starts each line that stays.
    pub fn new(prefix: &'static str) -> ProgressLine {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = is_terminal.then(|| ticking(bar(None, "{spinner} {elapsed} {wide_msg}")));
        ProgressLine { bar, prefix }
    }

    /// Whether the line changes.
    pub fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows the updates.
    pub fn show(&self, updates: Vec<Update>) {
        for update in updates {
            match (update, &self.bar) {
                (Update::Line(text), Some(bar)) => bar.println(format!("{}{text}", self.prefix)),
                (Update::Line(text), None) => tell!("{}{text}", self.prefix),
                (Update::Status(text) | Update::Detail(text), Some(bar)) => bar.set_message(text),
                (Update::Status(text), None) => tell!("{text}"),
                (Update::Detail(_), None) => {}
            }
        }
    }

    /// Removes the changing line.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
