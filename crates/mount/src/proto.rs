//! The FUSE protocol: decoding requests and encoding answers.
//!
//! Both transports use the same decoder. A request from `/dev/fuse` is one contiguous buffer; io_uring delivers the
//! operation's structure and what follows it (names, data) separately. [`Parts`] hides the difference.

mod decode;
mod encode;
mod init;
mod opcode;

pub mod wire;

pub use decode::{Malformed, Op, Parts, Request, SetXattr, decode};
pub use encode::{Dirents, put};
pub use init::{MAX_WRITE, Negotiated, Wanted, answer_init};
pub use opcode::{LIMIT, Opcode};
