//! How a mount behaves.

use std::sync::Arc;
use std::time::Duration;

use crate::Observer;

/// Where the bytes of a file are kept besides the ARC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Nowhere: every read and write of a program reaches the engine, so that what is measured is the ARC. Shared
    /// mappings work.
    #[default]
    Through,
    /// In the kernel's page cache; writes go on to the engine at once.
    Pages,
    /// In the kernel's page cache, writes too, until the kernel writes them back or `fsync` asks for it. Errors of a
    /// write then show at `fsync`.
    Writeback,
}

/// Options of a mount.
#[derive(Clone)]
pub struct Options {
    /// Threads that serve requests; each answers what it received. Least 1. With io_uring: threads per
    /// CPU, fewer where there are many CPUs.
    pub threads: usize,
    /// Where bytes are kept.
    pub caching: Caching,
    /// Nothing can be changed through this mount.
    pub readonly: bool,
    /// Programs with set-id bits and device files work, as on a file system of the host's own. Off, because an image
    /// may come from anywhere; only with privilege.
    pub suid_dev: bool,
    /// Other users than the mounting one may use it. Always so with privilege.
    pub allow_other: bool,
    /// Use io_uring instead of `/dev/fuse` where the kernel can: from Linux 6.14 on, where root mounts, or has switched it
    /// on before (`echo Y > /sys/module/fuse/parameters/enable_uring`).
    pub uring: bool,
    /// How long the kernel may trust names and attributes. Nobody else changes them; what changes them here tells it.
    pub trust: Duration,
    /// Mount over a directory that holds something: see [`crate::check_mount_point`].
    pub overlay: bool,
    /// Is told of every operation.
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
