//! Access to the host: private files and directories, scratch directories, files that a trace names, memory.
//!
//! Poolwright often runs as root on machines with other users, and its files contain a database's pages. Files and
//! directories are therefore created with private modes, links that another user placed at a predictable name are not
//! followed, and a path from a trace is opened only if it names a regular file.

pub mod memory;
pub mod part;
pub mod private;
pub mod regular;
pub mod room;
pub mod scratch;
mod sweep;
pub mod time;
pub mod transient;

pub use part::Part;
pub use scratch::Scratch;
pub use transient::Transient;
