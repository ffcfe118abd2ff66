//! Options of a mount.

use std::sync::Arc;
use std::time::Duration;

use crate::Observer;

/// The kernel's caching of file data, in addition to the ARC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// None: every read and write of a program reaches the engine, so measurements show the ARC. Shared mappings work.
    #[default]
    Through,
    /// The kernel's page cache; writes are passed to the engine at once.
    Pages,
    /// The kernel's page cache, for writes too, until the kernel writes them back or a program calls `fsync`, which then
    /// returns the errors of writes.
    Writeback,
}

impl Caching {
    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Caching> {
        [Caching::Through, Caching::Pages, Caching::Writeback].into_iter().find(|mode| mode.name() == name)
    }

    /// The mode's name: `through`, `pages` or `writeback`.
    pub fn name(self) -> &'static str {
        match self {
            Caching::Through => "through",
            Caching::Pages => "pages",
            Caching::Writeback => "writeback",
        }
    }
}

/// Options of a mount.
#[derive(Clone)]
pub struct Options {
    /// Number of threads that serve requests, at least 1. With io_uring: threads per CPU, fewer on machines with many CPUs.
    pub threads: usize,
    /// The kernel's caching of file data.
    pub caching: Caching,
    /// Whether the mount is read-only.
    pub readonly: bool,
    /// Whether set-id bits and device files are honoured, as on the host's own file systems. Off by default, because an
    /// image may come from an untrusted source. Needs privilege.
    pub suid_dev: bool,
    /// Whether users other than the mounting one may use the mount. Always on with privilege.
    pub allow_other: bool,
    /// Whether to use io_uring instead of `/dev/fuse`. Needs Linux 6.14 and either a mount by root or a fuse module in which
    /// root has enabled io_uring (`echo Y > /sys/module/fuse/parameters/enable_uring`).
    pub uring: bool,
    /// How long the kernel may cache names and attributes. Only this process changes them, and it then notifies the kernel.
    pub trust: Duration,
    /// Whether to mount over a directory that is not empty; see [`crate::check_mount_point`].
    pub overlay: bool,
    /// Receives every operation.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 4,
            caching: Caching::default(),
            readonly: false,
            suid_dev: false,
            allow_other: false,
            uring: true,
            trust: Duration::from_secs(3600),
            overlay: false,
            observer: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("threads", &self.threads)
            .field("caching", &self.caching)
            .field("readonly", &self.readonly)
            .field("suid_dev", &self.suid_dev)
            .field("allow_other", &self.allow_other)
            .field("uring", &self.uring)
            .field("trust", &self.trust)
            .field("overlay", &self.overlay)
            .field("observer", &self.observer.is_some())
            .finish()
    }
}
