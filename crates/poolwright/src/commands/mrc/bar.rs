//! The progress bar on a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use poolwright_base::units::format_count;
use poolwright_mrc::analysis::AnalysisPhase;
use poolwright_mrc::sweep::Progress;

use crate::progress_line;

/// A phase that is shorter shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// Shows how much of the trace the current phase has read.
#[derive(Default)]
pub struct Bar {
    current: Option<(AnalysisPhase, Instant)>,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// Updates the bar; a new phase starts a new one.
    pub fn show(&mut self, phase: AnalysisPhase, read: &Progress) {
        if self.current.is_none_or(|(current, _)| current != phase) {
            self.clear();
            self.current = Some((phase, Instant::now()));
        }
        let shows = |(_, began): (AnalysisPhase, Instant)| {
            began.elapsed() >= QUIET && std::io::stderr().is_terminal()
        };
        if !self.current.is_some_and(shows) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let prefix = match phase {
                AnalysisPhase::Measuring => "measuring",
                AnalysisPhase::Modelling => "modelling",
                AnalysisPhase::Dividing => "dividing",
            };
            progress_line::bar(Some(1000), "{prefix} {bar:24} {msg}").with_prefix(prefix)
        });
        let share = read.share.unwrap_or(0.0);
        bar.set_position((share * 1000.0) as u64);
        let requests = match read.requests {
            0 => String::new(),
            n => format!(", {} requests", format_count(n)),
        };
        bar.set_message(format!("{:.0} %{requests}", share * 100.0));
    }

    /// Removes the bar from the terminal.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
