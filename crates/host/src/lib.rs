//! What every part asks of the host: private files and directories, scratch directories, files that a trace names, memory.
//!
//! Poolwright often runs as root beside other users, and what it writes holds a database's pages. So a file or directory is
//! private from the call that makes it, a predictable name is never followed through a link that another user placed, and a
//! path that comes out of a trace is opened only if it is a regular file.

pub mod memory;
pub mod part;
pub mod private;
pub mod regular;
pub mod room;
pub mod scratch;
mod sweep;
pub mod transient;

pub use part::Part;
pub use scratch::Scratch;
pub use transient::Transient;
