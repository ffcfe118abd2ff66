//! Errors of a recording.

use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks the capabilities to load BPF programs.
    #[error(
        "cannot record: loading BPF programs needs the capabilities {0}, which this process lacks\n\
         hint: run poolwright as root, or grant it CAP_BPF and CAP_PERFMON"
    )]
    Privilege(String),
    /// The kernel (lockdown, or a container's seccomp filter) refused although the process has the capabilities.
    #[error("cannot record: the kernel refused {what}: {why}")]
    Refused {
        /// The operation, as an infinitive.
        what: String,
        /// The message of the kernel or libbpf.
        why: String,
    },
    /// The kernel has no description of its types (BTF).
    #[error(
        "cannot record: this kernel has no BTF (/sys/kernel/btf/vmlinux)\nhint: use a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// The kernel lacks a feature that the probe set requires.
    #[error("cannot record: kernel {release} has no {what} (5.17 or later is required)")]
    Kernel {
        /// The kernel's release (`uname -r`).
        release: String,
        /// The missing feature.
        what: String,
    },
    /// The recorder runs in a separate PID namespace.
    #[error(
        "cannot record from inside a PID namespace (a container), where processes have other IDs\n\
         hint: run the recorder on the host"
    )]
    Namespace,
    /// The directory to record does not exist or is not a directory.
    #[error("cannot record {}: {source}\nhint: name the database's data directory", quoted(path))]
    Directory {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// There is no such volume, or udev has not linked its device.
    #[error(
        "cannot record the volume {}: {source}\nhint: list the volumes with `zfs list -t volume`",
        quoted(name)
    )]
    Volume {
        /// The name of the volume.
        name: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The path to record is not that of a block device.
    #[error(
        "cannot record {}: {source}\nhint: name a volume (POOL/VOLUME) or the path of a block device, such as /dev/zd0",
        quoted(path)
    )]
    Device {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The block device to record is a partition.
    #[error(
        "cannot record {}: it is a partition\nhint: record {}, which includes the operations on its partitions",
        quoted(path),
        quoted(disk)
    )]
    Partition {
        /// The path of the partition.
        path: PathBuf,
        /// The path of the whole device.
        disk: PathBuf,
    },
    /// The process to record does not exist.
    #[error("cannot record process {0}: no such process\nhint: find its ID with `pidof mariadbd`")]
    Process(u32),
    /// The number is that of a thread.
    #[error("cannot record process {tid}: it is a thread of process {pid}\nhint: record process {pid}")]
    Thread {
        /// The number.
        tid: u32,
        /// The process of the thread.
        pid: u32,
    },
    /// A file of the kernel's interface (`/proc`, `/sys`) cannot be read.
    #[error(transparent)]
    Read(#[from] PathError),
    /// libbpf failed on a loaded object. This is unexpected.
    #[error("cannot {what}: {why}")]
    Bpf {
        /// The operation, as a verb.
        what: String,
        /// The message of libbpf.
        why: String,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Trace(cause) => cause.exit(),
            _ => Exit::Failed,
        }
    }

    /// Where recording is impossible for this process on this host, another source of traces.
    fn hint(&self) -> Option<String> {
        match self {
            Error::Privilege(_)
            | Error::Refused { .. }
            | Error::NoBtf
            | Error::Kernel { .. }
            | Error::Namespace => Some(
                "without privileges, record a fio job (fio --write_iolog=FILE) and import its log with `poolwright trace import`"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
