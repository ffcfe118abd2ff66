//! Common code of all crates: access to the host (private files and directories, scratch directories, files that a trace names, and facts
//! that the kernel reports in `/proc` and `/sys`), number formats ([`units`]), statistics ([`stats`]), and error reporting
//! ([`ReportedError`]).
//!
//! Poolwright often runs as root on machines with other users, and its files contain a database's pages. Files and
//! directories are therefore created with private modes, links that another user placed at a predictable name are not
//! followed, and a path from a trace is opened only if it names a regular file.
//!
//! Each file of `/proc` has one reader: [`mountinfo`], [`process`], [`cpu`], [`memory`], [`block`], [`kernel`]. A reader skips
//! lines that it cannot parse, and file names need not be UTF-8, because safety checks depend on the rest of the table. The
//! tests parse files captured from real hosts.

pub mod block;
pub mod cpu;
pub mod device;
pub mod directory;
pub mod extents;
pub mod file_sample;
mod guardian;
pub mod kernel;
pub mod kernel_users;
pub mod machine;
pub mod memory;
mod memory_file;
pub mod memory_limit;
pub mod mountinfo;
pub mod output;
pub mod part;
mod path_error;
pub mod private;
pub mod process;
mod quoted;
pub mod read_only;
pub mod recordsize;
pub mod regular;
mod reported_error;
pub mod room;
pub mod scratch;
pub mod stats;
mod sweep;
mod temporary;
pub mod time;
pub mod transient;
pub mod units;
mod unmount;
pub mod volume;
pub mod writers;

pub use guardian::Guardian;
pub use memory_file::{end_of, memory_file};
pub use output::Output;
pub use part::Part;
pub use path_error::{PathError, cannot};
pub use quoted::{Quoted, quoted};
pub use reported_error::{Exit, ReportedError};
pub use scratch::Scratch;
pub use temporary::check as check_temporary;
pub use transient::Transient;
pub use unmount::unmount_command;
