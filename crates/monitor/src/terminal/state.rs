//! The state of the screen: the samples, and which part of them is shown.

mod history;

use std::sync::Arc;
use std::time::Duration;

use crate::terminal::sample::MonitorSample;
use crate::terminal::tab::Tab;
use crate::terminal::tab::datasets::DatasetChoice;

pub use history::{ArcHistory, ArcPoint};

/// The selected row of a tab, and the first one that is visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The selected row.
    pub selected: usize,
    /// The first visible row.
    pub top: usize,
}

impl Scroll {
    /// Keeps the selection within `count` rows, of which `height` are visible, and makes it visible.
    pub fn fit(&mut self, count: usize, height: usize) {
        let height = height.max(1);
        self.selected = self.selected.min(count.saturating_sub(1));
        let lowest = self.selected.saturating_sub(height - 1);
        self.top = self.top.clamp(lowest, self.selected).min(count.saturating_sub(height));
    }
}

/// The state of the screen.
#[derive(Debug)]
pub struct ScreenState {
    /// The time between two samples.
    pub every: Duration,
    /// The shown tab.
    pub tab: Tab,
    /// The position in each tab.
    pub scrolls: [Scroll; Tab::ALL.len()],
    /// Number of rows that were visible when the screen was last drawn.
    pub page: usize,
    /// Which datasets are shown.
    pub choice: DatasetChoice,
    /// Whether keys edit the filter.
    pub is_editing: bool,
    /// Whether the help is shown.
    pub has_help: bool,
    /// Sizes and hit ratios of the ARCs.
    pub history: ArcHistory,
    /// The sample that is shown; `None` before the first one.
    shown: Option<Arc<MonitorSample>>,
    /// While the screen is paused, the last sample, which is not shown.
    waiting: Option<Arc<MonitorSample>>,
    is_paused: bool,
}

impl ScreenState {
    /// The state before the first sample.
    pub fn new(every: Duration) -> ScreenState {
        ScreenState {
            every,
            tab: Tab::default(),
            scrolls: Default::default(),
            page: 1,
            choice: DatasetChoice::default(),
            is_editing: false,
            has_help: false,
            history: ArcHistory::default(),
            shown: None,
            waiting: None,
            is_paused: false,
        }
    }

    /// Shows a new sample, at once or after the pause.
    pub fn receive(&mut self, sample: MonitorSample) {
        let sample = Arc::new(sample);
        if self.is_paused {
            self.waiting = Some(sample);
        } else {
            self.show(sample);
        }
    }

    fn show(&mut self, sample: Arc<MonitorSample>) {
        self.history.add(&sample);
        self.shown = Some(sample);
    }

    /// The sample that is shown.
    pub fn sample(&self) -> Option<Arc<MonitorSample>> {
        self.shown.clone()
    }

    /// Whether new samples are not shown.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Starts or ends the pause.
    pub fn toggle_pause(&mut self) {
        self.is_paused = !self.is_paused;
        if let Some(sample) = self.waiting.take() {
            self.show(sample);
        }
    }

    /// The position in the shown tab.
    pub fn scroll(&mut self) -> &mut Scroll {
        &mut self.scrolls[self.tab.index()]
    }
}
