//! The failure of a request.

use serde::{Deserialize, Serialize};

/// The failure of a request, as sent through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// A Linux errno. `EBUSY`: refused because a program uses the object; `ENOENT`: the object does not exist.
    pub errno: i32,
    /// The message: operation, object, cause, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault with this errno.
    pub fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into() }
    }

    /// An invalid request.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }

    /// The answer to every request while the owner is closing its pool: the client should retry when that process has ended.
    pub fn ending(pool: &str, pid: u32) -> Fault {
        Fault::new(
            libc::ESHUTDOWN,
            format!(
                "process {pid} is closing {pool} and accepts no more requests; try again when it has ended"
            ),
        )
    }

    /// Whether the request was refused because a program uses the object.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether the request was refused for safety: the object is in use, or a mount point must not be covered.
    pub fn is_refusal(&self) -> bool {
        matches!(self.errno, libc::EBUSY | libc::EPERM | libc::ENOTEMPTY | libc::EROFS)
    }

    /// Whether the owner is closing the pool: see [`Fault::ending`].
    pub fn is_ending(&self) -> bool {
        self.errno == libc::ESHUTDOWN
    }
}

impl From<poolwright_openzfs::Error> for Fault {
    fn from(error: poolwright_openzfs::Error) -> Fault {
        use poolwright_openzfs::Error as E;
        let errno = match &error {
            E::Locked(_) | E::Busy(_) => libc::EBUSY,
            refusal if refusal.is_refusal() => libc::EPERM,
            E::Exists(_) => libc::EEXIST,
            other => other.errno().unwrap_or(libc::EINVAL),
        };
        Fault::new(errno, error.to_string())
    }
}
