//! Formats results: numbers with units, tables for the terminal, as Markdown and as CSV, plots as SVG, text for the
//! terminal, and self-contained HTML pages.
//!
//! This crate is independent of databases and ZFS. Its input is figures with their [`Unit`] and text, which is
//! untrusted (a file name can contain anything); the crate escapes text for each output.
//!
//! ```
//! use poolwright_report::{Cell, Table, Unit};
//!
//! let trials = [("16K", 118_000.0)];
//! let p99 = |(_, ns)| Cell::num(ns, Unit::Nanoseconds);
//! let table = Table::of(trials).left("recordsize", |(size, _)| size).right("read p99", p99).table();
//! assert_eq!(table.markdown(), "| recordsize | read p99 |\n| ---------- | -------: |\n| 16K        |   118 µs |\n");
//! ```

pub mod escape;
pub mod page;
pub mod plot;
pub mod table;
mod terminal_text;
pub mod text;

pub use page::{Callout, GENERATOR, Page, Section};
pub use plot::{Axis, Better, Mark, Plot};
pub use poolwright_base::units::{ColumnUnit, Unit};
pub use table::{Cell, Column, Table, TableColumns, Terminal, Tone};
pub use terminal_text::TerminalText;
