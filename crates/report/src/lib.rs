//! Formats results: tables for the terminal, as Markdown and as CSV, plots as SVG, and self-contained HTML pages.
//!
//! This crate is independent of databases and ZFS. Its input is figures with their [`Unit`] and text, which is
//! untrusted (a file name can contain anything); the crate escapes text for each output.
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
mod terminal_text;
pub mod text;
pub mod units;

pub use page::{Callout, GENERATOR, Page, Section};
pub use plot::{Axis, Better, Mark, Plot};
pub use table::{Cell, Column, Table, TableColumns, Terminal, Tone};
pub use terminal_text::TerminalText;
pub use units::{ColumnUnit, Unit};
