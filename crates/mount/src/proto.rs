//! The FUSE protocol: requests out of bytes, answers into bytes.
//!
//! One decoder serves both transports. Through `/dev/fuse` a request is one run of bytes; through io_uring the
//! structure of the operation and what follows it (names, data) arrive apart. [`Parts`] hides that.

mod decode;
mod encode;
mod init;
mod opcode;

pub mod wire;

pub use decode::{Malformed, Op, Parts, Request, SetXattr, decode};
pub use encode::{Dirents, put};
pub use init::{MAX_WRITE, Negotiated, Wanted, answer_init};
pub use opcode::{LIMIT, Opcode};
