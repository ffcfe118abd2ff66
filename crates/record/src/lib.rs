//! Records a live database's file I/O, or the I/O of a volume, with eBPF.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use poolwright_record::{Options, Recorder, Subject};
//!
//! let recorder = Recorder::start(Subject::Dir("/var/lib/mysql".into()), &Options::new("mysql.parquet"))?;
//! let end = Instant::now() + Duration::from_secs(60);
//! let summary = recorder.run(|| Instant::now() >= end, |progress| eprintln!("{} events", progress.events))?;
//! println!("{} events, {} lost", summary.trace.events, summary.meta.lost_events);
//! # Ok::<(), poolwright_record::Error>(())
//! ```
//!
//! [`Recorder::watch`] writes no trace and passes each event to a [`Watcher`] during the recording.
//!
//! # How the recorder sees I/O
//!
//! A *probe set* is a table of programs and tracepoints (`src/probes.rs`). The programs of the set `syscall` run at system call entry and exit and
//! at the tracepoints of io_uring and of the page cache. They find the open file of a descriptor in the kernel's tables, so file, position
//! and flags are exact without following `lseek`, and they read a file's path while the file is in use. The set needs
//! no tracefs, no kprobes and no `bpf_probe_read_kernel`, so it works under lockdown.
//!
//! A trace lists the operations that were not seen (`Meta::unseen`). Two facts are invisible to any probe set of this kind: the order
//! of two overlapping transfers by two threads at the position of *one* descriptor, and what a program writes to a page
//! that is already mapped. A [`poolwright_trace::Op::Map`] with a duration is a call of `mmap`; one without a duration is a page fault. A
//! failed call makes no event, and a descriptor closed by the end of its process makes no
//! [`poolwright_trace::Op::Close`]. `docs/recorded-io.md` has a table of the ways to do I/O, which a test generates.
//!
//! An operation of a plain system call also records what its thread did since its previous operation
//! ([`poolwright_trace::Gap`]): `bpf/gap.h` reads the scheduler's statistics of the thread, and the tracepoint
//! `sched_waking` identifies the thread that woke it.
//!
//! The set `block` records the requests that reach one block device ([`Subject::Device`]), as operations on one file; they have no gaps.
//! `bpf/block.bpf.c` describes what a request is, and how it is recognized at its end.
//!
//! # Requirements
//!
//! Linux 5.17 or later with BTF, x86-64, as root or with `CAP_BPF` and `CAP_PERFMON`, in the host's process namespace.

mod announcement;
mod cpu;
mod device;
mod error;
mod loader;
mod mounts;
mod names;
mod probes;
mod recorder;
mod roots;
mod sink;
mod subject;
mod summary;
mod summary_text;
mod tracker;
mod wire;

pub use device::BlockDevice;
pub use error::{Error, Result};
pub use recorder::{MeasureCodecs, Options, Progress, Recorder};
pub use sink::Watcher;
pub use subject::Subject;
pub use summary::{Ended, RecordingSummary, Summary};
pub use tracker::NO_FILE;
