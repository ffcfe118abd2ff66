//! Records a live database's file I/O with eBPF.
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
//! [`Recorder::watch`] writes no trace and hands each event to a [`Watcher`] while it happens.
//!
//! # How it sees
//!
//! A *probe set* is a table of programs and tracepoints (`src/probes.rs`); the recorder takes the first that the
//! kernel permits. `syscall` runs at system call entry and exit and at the tracepoints of io_uring and of the page
//! cache. It finds the open file behind a descriptor in the kernel's own tables, so that file, position and flags are
//! exact without following `lseek`, and a file's path is read while it is in use. It needs no tracefs, no kprobes, no
//! `bpf_probe_read_kernel`, and so runs under lockdown.
//!
//! A trace says what was not seen (`Meta::unseen`). Two things no probe set of this kind can know: which of two
//! threads' transfers through *one* descriptor's own position came first when they overlap, and what a program writes
//! into a page that is mapped already. A [`poolwright_trace::Op::Map`] with a duration is a call of `mmap`, one
//! without is a page fault. A failed call is no event, and a descriptor closed by the end of its process or by
//! `close_range` makes no [`poolwright_trace::Op::Close`].
//!
//! An operation of a plain system call also says what its thread did since its previous one ([`poolwright_trace::Gap`]):
//! `bpf/gap.h` reads the scheduler's account of the thread, and the tracepoint `sched_waking` tells who woke it.
//!
//! # Where it runs
//!
//! Linux 5.17 or later with BTF, x86-64, as root or with `CAP_BPF` and `CAP_PERFMON`, in the host's process namespace.

mod cpu;
mod error;
mod loader;
mod mounts;
mod probes;
mod recorder;
mod sink;
mod subject;
mod support;
mod tracker;
mod wire;

pub use error::{Error, Result};
pub use recorder::{Ended, Options, Progress, Recorder, Summary};
pub use sink::Watcher;
pub use subject::Subject;
pub use support::{Support, probe_support};
pub use tracker::NO_FILE;
