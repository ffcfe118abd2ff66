//! The tabs: each makes rows of text from a sample.

pub mod arc;
pub mod datasets;
pub mod plan;
pub mod pools;
pub mod sources;

/// A tab of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tab {
    /// Pools and their vdevs.
    #[default]
    Pools,
    /// Datasets.
    Datasets,
    /// ARCs.
    Arc,
    /// Plans compared with the present.
    Plan,
    /// Sources of the readings.
    Sources,
}

impl Tab {
    /// All tabs, from left to right.
    pub const ALL: [Tab; 5] = [Tab::Pools, Tab::Datasets, Tab::Arc, Tab::Plan, Tab::Sources];

    /// The title.
    pub fn title(self) -> &'static str {
        match self {
            Tab::Pools => "Pools",
            Tab::Datasets => "Datasets",
            Tab::Arc => "ARC",
            Tab::Plan => "Plan",
            Tab::Sources => "Sources",
        }
    }

    /// The index in [`Tab::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The tab this many positions to the right; the first tab follows the last.
    pub fn moved(self, by: isize) -> Tab {
        Tab::ALL[self.index().wrapping_add_signed(by).wrapping_add(Tab::ALL.len()) % Tab::ALL.len()]
    }
}
