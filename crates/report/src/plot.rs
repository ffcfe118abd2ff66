//! Plots as SVG, drawn by hand: a few shapes, thin grid lines, a tool tip on everything that stands for a figure.
//!
//! Colours are CSS variables, so one drawing is readable on light and dark pages. They are those of Okabe and Ito
//! ("Color Universal Design", 2008), told apart with any colour vision; series differ in shape or dash too.
//! What cannot be drawn (not finite, or not positive on a logarithmic axis) is counted under the plot.

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

/// Style of everything inside a plot; the page and a stand-alone SVG both carry it.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// Natural width of a plot: that of the page's text, so that letters keep their size.
pub const WIDTH: f64 = 872.0;
/// Width of one of two plots side by side.
pub const HALF: f64 = 420.0;

/// Which way an axis or a metric gets better.
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

/// What a point or a cell is to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// One of many.
    #[default]
    None,
    /// Today's setting.
    Today,
    /// The one advised.
    Chosen,
}

/// Something that draws itself.
pub trait Plot {
    /// The drawing, at the plot's natural size.
    fn draw(&self) -> Drawing;

    /// For a page that carries the style already.
    fn svg(&self) -> String {
        self.draw().inline()
    }

    /// A file of its own.
    fn svg_file(&self) -> String {
        self.draw().standalone(STYLE)
    }
}
