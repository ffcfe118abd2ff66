//! Plots as SVG with few shapes, thin grid lines, and a tooltip on each element that represents a figure.
//!
//! Colours are CSS variables, so that a drawing is readable on light and dark pages. They are those of Okabe and Ito
//! ("Color Universal Design", 2008), which are distinguishable with any colour vision; series also differ in shape or
//! dash. Figures that cannot be drawn (not finite, or not positive on a logarithmic axis) are counted below the plot.

mod bars;
mod draw;
mod frame;
mod heat;
mod histogram;
mod interval;
mod scale;
mod scatter;
mod series;

pub use bars::Bars;
pub use draw::Drawing;
pub use heat::HeatMap;
pub use histogram::Histogram;
pub use interval::Intervals;
pub use scale::Axis;
pub use scatter::{Point, Scatter};
pub use series::{Line, TimeSeries};

/// The style of a plot's elements.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// The default width of a plot in pixels: that of the page's text, so that the font is not scaled.
pub const WIDTH: f64 = 872.0;
/// The width of one of two plots side by side, in pixels.
pub const HALF: f64 = 420.0;

/// The direction in which an axis or a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Latency, space, amplification.
    Lower,
    /// Throughput, compression ratio, hit ratio.
    Higher,
}

impl Better {
    /// Whether `a` is at least as good as `b`.
    fn at_least(self, a: f64, b: f64) -> bool {
        match self {
            Better::Lower => a <= b,
            Better::Higher => a >= b,
        }
    }
}

/// The emphasis of a point or cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// No emphasis.
    #[default]
    None,
    /// The current setting.
    Today,
    /// The recommended setting.
    Chosen,
}

impl Mark {
    /// The remark on a marked figure in its tooltip.
    fn remark(self) -> &'static str {
        match self {
            Mark::None => "",
            Mark::Today => " (today)",
            Mark::Chosen => " (recommended)",
        }
    }
}

/// A plot.
pub trait Plot {
    /// Draws the plot at its default size.
    fn draw(&self) -> Drawing;

    /// Returns SVG without its style, which the page contains.
    fn svg(&self) -> String {
        self.draw().svg()
    }
}
