//! How results look: tables for the terminal, Markdown and CSV, plots as SVG, and one HTML page that needs
//! nothing but itself.
//!
//! This crate knows nothing of databases or of ZFS. It takes figures with their [`Unit`] and text that may come
//! from anywhere (a file name is text chosen by somebody else), and escapes the latter for each output.
//!
//! ```
//! use poolwright_report::{Cell, Column, Table, Unit};
//!
//! let mut table = Table::new([Column::left("recordsize"), Column::right("read p99")]);
//! table.row([Cell::text("16K"), Cell::num(118_000.0, Unit::Nanoseconds)]);
//! assert_eq!(table.markdown(), "| recordsize | read p99 |\n| ---------- | -------: |\n| 16K        |   118 µs |\n");
//! ```

pub mod escape;
pub mod page;
pub mod plot;
pub mod table;
pub mod units;

pub use page::{Callout, GENERATOR, Page, Section};
pub use plot::{Axis, Better, Mark, Plot};
pub use table::{Cell, Column, Table, Terminal, Tone};
pub use units::Unit;
