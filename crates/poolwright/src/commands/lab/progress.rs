//! How far a run is: one line that changes on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use poolwright_lab::TrialKey;
use poolwright_lab::run::{Event, Progress};
use poolwright_trace::counted;

/// Shows events on standard error.
pub struct Shown {
    bar: Option<ProgressBar>,
    campaign: String,
    /// Of the trial that runs: its number and how long the rest will take, and which it is. What it does stands between:
    /// a narrow terminal cuts off the end.
    head: String,
    which: String,
    began: Instant,
}

impl Shown {
    pub fn new(campaign: &str) -> Shown {
        Shown {
            bar: spinner(),
            campaign: campaign.to_owned(),
            head: String::new(),
            which: String::new(),
            began: Instant::now(),
        }
    }

    /// The last line goes.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    pub fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begun { trials, skipped, changed } => {
                if changed {
                    self.line("the campaign's file has changed since its last run, so this is a new run; the old one is kept");
                }
                if skipped > 0 {
                    self.line(&format!(
                        "{skipped} of {} {} in the results already; going on",
                        counted(trials as u64, "trial"),
                        if trials == 1 { "is" } else { "are" }
                    ));
                }
            }
            Event::Trial { key, number, of, left } => self.trial_begins(key, number, of, left),
            Event::Progress(progress) => self.progress(progress),
            Event::Ended(trial) => match &trial.outcome {
                Ok(_) if self.bar.is_some() => {}
                Ok(_) => self.line(&format!("  done in {}", human_duration(self.began.elapsed()))),
                Err(why) => self.line(&format!("trial failed: {}: {why}", spelled(&trial.key))),
            },
            Event::Note(text) => self.line(&text),
        }
    }

    fn trial_begins(&mut self, key: &TrialKey, number: usize, of: usize, left: Option<Duration>) {
        let left = left.map_or(String::new(), |left| format!(" · about {} left", human_duration(left)));
        self.began = Instant::now();
        self.head = format!("{} · trial {number} of {of}{left}", self.campaign);
        self.which = spelled(key);
        let whole = format!("{} · {}", self.head, self.which);
        match &self.bar {
            Some(bar) => bar.set_message(whole),
            None => eprintln!("{whole}"),
        }
    }

    fn progress(&self, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(format!("{} · {} · {}", self.head, phase(progress), self.which));
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("poolwright: {text}")),
            None => eprintln!("poolwright: {text}"),
        }
    }
}

/// A line on standard error that changes; `None` where it is no terminal.
pub fn spinner() -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}").expect("a fixed template");
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
        bar
    })
}

/// `load 40 %`; without the share where the phase does not say how much there is.
pub fn phase(progress: &Progress) -> String {
    if progress.of > 0.0 {
        format!("{} {:.0} %", progress.phase, (progress.done / progress.of * 100.0).min(100.0))
    } else {
        progress.phase.to_string()
    }
}

/// `study factor=level factor=level, block 2`, the block from 1.
pub fn spelled(key: &TrialKey) -> String {
    let levels: String = key.case.iter().map(|(factor, level)| format!(" {factor}={level}")).collect();
    format!("{}{levels}, block {}", key.study, key.block + 1)
}

/// `40 s`, `12 min`, `3.5 h`.
pub fn human_duration(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{:.1} h", s as f64 / 3600.0),
    }
}
