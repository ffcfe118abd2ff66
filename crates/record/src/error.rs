//! What can stop a recording.

use std::path::PathBuf;

/// Ways to a trace that need no privilege; part of every refusal.
const OTHER_WAYS: &str =
    "without privilege: `poolwright trace import` reads the log of a fio job (fio --write_iolog=FILE)";

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks the capabilities to load BPF programs.
    #[error(
        "cannot record: loading BPF programs needs the capabilities {missing}, which this process lacks; \
         run it as root or give it CAP_BPF and CAP_PERFMON; {OTHER_WAYS}"
    )]
    Privilege {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel (lockdown, a container's seccomp filter) refused although the capabilities are there.
    #[error("cannot record: the kernel refused {what}: {why}; {OTHER_WAYS}")]
    Refused {
        /// What was tried.
        what: String,
        /// The kernel's or libbpf's words.
        why: String,
    },
    /// The kernel does not describe its own types.
    #[error(
        "cannot record: this kernel has no BTF (/sys/kernel/btf/vmlinux); it must be built with CONFIG_DEBUG_INFO_BTF; \
         {OTHER_WAYS}"
    )]
    NoBtf,
    /// The kernel lacks something that the probe set cannot do without.
    #[error("cannot record: kernel {release} has no {what} (5.17 or later is needed); {OTHER_WAYS}")]
    Kernel {
        /// `uname -r`.
        release: String,
        /// What is missing.
        what: String,
    },
    /// The recorder runs in a process namespace of its own.
    #[error(
        "cannot record from inside a process namespace (a container): the kernel numbers processes differently there; \
         run the recorder on the host; {OTHER_WAYS}"
    )]
    Namespace,
    /// The directory to follow is missing or is not one.
    #[error("cannot follow {}: {source}; name the database's data directory", path.display())]
    Directory {
        /// What was named.
        path: PathBuf,
        /// Why it cannot be opened.
        source: std::io::Error,
    },
    /// The process to follow does not exist.
    #[error("cannot follow process {pid}: no such process; `pidof mariadbd` or `ps` names the running ones")]
    Process {
        /// What was named.
        pid: u32,
    },
    /// A path that is part of the kernel's interface could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// libbpf failed on a loaded object; not expected in use.
    #[error("cannot {what}: {why}")]
    Bpf {
        /// What was tried.
        what: String,
        /// libbpf's words.
        why: String,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
