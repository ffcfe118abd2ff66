//! Runs a recording: moves events from the ring buffer to the trace until the recording ends.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::RingBuffer;
use poolwright_base::cpu::HostCpu;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::{kernel, process};
use poolwright_trace::layout::{self, Layout};
use poolwright_trace::{CodecTime, File, Meta, Processor, Writer};

use crate::announcement;
use crate::cpu::CpuSampler;
use crate::error::{Error, Result};
use crate::loader::{Config, Probes};
use crate::probes::{COUNTER_REAPED, COUNTER_SILENT, COUNTER_UNENDED, COUNTERS};
use crate::roots::{Announcing, Roots};
use crate::sink::{Sink, Watcher};
use crate::subject::Subject;
use crate::summary::{Ended, Summary};
use crate::tracker::Tracker;
use crate::wire;

/// Bounds of the ring buffer's size, in bytes.
const RING_MIN: u64 = 1 << 16;
const RING_MAX: u64 = 1 << 30;
/// The maximum number of records read before the recorder checks the time and `until`.
const BATCH: usize = 65_536;
/// Bounds of the sleep between two reads of the ring buffer. The programs never wake the recorder, because a wakeup per
/// event would cost the recorded database more than the event itself.
const SLEEP_MIN: Duration = Duration::from_millis(1);
const SLEEP_MAX: Duration = Duration::from_millis(40);
/// Size of a record with its header in the ring buffer, in bytes.
const RECORD_BYTES: usize = 80;
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// The interval of checks whether a followed process still runs, and whether a directory has new links.
const SUBJECT_EVERY: Duration = Duration::from_millis(100);
/// The interval of checks whether something was mounted.
const MOUNTS_EVERY: Duration = Duration::from_secs(1);
/// Recorders leave out the operations of threads with this name (`is_recorder()` in `bpf/syscall.bpf.c`): what another recorder
/// reads in a database's directory is no load.
const THREAD_NAME: &CStr = c"pw-recorder";

/// Measures codecs on the data of recorded files.
pub type MeasureCodecs = fn(&[File], &Meta) -> Vec<CodecTime>;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of the trace. The first event replaces an older trace of that name.
    pub out: PathBuf,
    /// Size of the ring buffer in bytes, rounded up to a power of two from 64 KiB to 1 GiB. When the buffer is full,
    /// events are lost and counted.
    pub ring_bytes: u64,
    /// Measures codecs on the data of the recorded files at the end of the recording.
    pub codec_times: Option<MeasureCodecs>,
}

impl Options {
    /// Returns options for a trace at `out` and a ring buffer of 32 MiB, which has space for about 400 000 events.
    pub fn new(out: impl Into<PathBuf>) -> Options {
        Options { out: out.into(), ring_bytes: 32 << 20, codec_times: None }
    }
}

/// The progress of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start of the recording.
    pub elapsed: Duration,
    /// The number of events recorded.
    pub events: u64,
    /// Bytes that these events read and wrote.
    pub bytes: u64,
    /// The number of files with an event.
    pub files: usize,
    /// The number of events lost because the ring buffer was full.
    pub lost: u64,
}

/// A running recording. It owns the programs: dropping it removes them and leaves a readable trace. It cannot be sent
/// to another thread.
pub struct Recorder {
    // Fields are dropped in this order: the ring buffer's reader before its maps.
    ring: RingBuffer<'static>,
    probes: Probes,
    inbox: Rc<RefCell<Inbox>>,
    subject: Subject,
    started: Instant,
    cpu: CpuSampler,
    sleep: Duration,
    ring_bytes: usize,
    roots: Roots,
    mounts: Vec<MountEntry>,
    mounts_read: Instant,
    codec_times: Option<MeasureCodecs>,
    _thread_name: ThreadName,
}

/// Names this thread, until it is dropped.
struct ThreadName(Option<CString>);

impl ThreadName {
    fn set() -> ThreadName {
        let old = rustix::thread::name().ok();
        let _ = rustix::thread::set_name(THREAD_NAME);
        ThreadName(old)
    }
}

impl Drop for ThreadName {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            let _ = rustix::thread::set_name(old);
        }
    }
}

/// The data that the ring buffer's callback writes to.
struct Inbox {
    tracker: Option<Tracker>,
    failed: Option<Error>,
    taken: usize,
}

impl Inbox {
    fn take(&mut self, bytes: &[u8]) -> i32 {
        self.taken += 1;
        let Some(tracker) = self.tracker.as_mut() else { return 0 };
        let Some(record) = wire::decode(bytes) else {
            tracker.undecodable();
            return 0;
        };
        match tracker.take(record) {
            Ok(()) => 0,
            Err(error) => {
                self.failed = Some(error);
                -1
            }
        }
    }
}

impl Recorder {
    /// Attaches the probe set, creates the trace, and announces the subject's files to
    /// the programs. From then on, the subject's operations are recorded in the ring buffer, until [`Recorder::run`]
    /// empties it.
    ///
    /// # Errors
    ///
    /// Returns an error if the subject does not exist, the trace cannot be created, or BPF is not permitted.
    pub fn start(subject: Subject, options: &Options) -> Result<Recorder> {
        // Before the probes are attached, which make its system calls slower.
        let processor = Processor::measure();
        let create = |meta| {
            let meta = Meta { processor, ..meta };
            Ok(Sink::trace(Writer::create(&options.out, meta)?))
        };
        let recorder = Recorder::start_into(subject, options.ring_bytes, create)?;
        Ok(Recorder { codec_times: options.codec_times, ..recorder })
    }

    /// Starts a recording without a trace, which passes each event to `watcher`. `ring_bytes` is as in [`Options`].
    ///
    /// # Errors
    ///
    /// Returns an error if the subject does not exist or BPF is not permitted.
    pub fn watch(subject: Subject, ring_bytes: u64, watcher: Box<dyn Watcher>) -> Result<Recorder> {
        Recorder::start_into(subject, ring_bytes, |meta| Ok(Sink::watched(watcher, meta)))
    }

    fn start_into(
        subject: Subject,
        ring_bytes: u64,
        create: impl FnOnce(Meta) -> Result<Sink>,
    ) -> Result<Recorder> {
        let thread_name = ThreadName::set();
        let subject = subject.checked()?;
        let ring_bytes = ring_bytes.clamp(RING_MIN, RING_MAX).next_power_of_two();
        let config = Config { subject: &subject, ring_bytes: ring_bytes as u32 };
        // Create the trace second: if recording is refused, an older trace of that name must remain.
        let probes = Probes::attach(config)?;
        let mut tracker = Tracker::new(create(meta(&subject, &probes))?);
        if let Subject::Device(device) = &subject {
            tracker.set_device(device.file()?);
        }
        let mounts = mountinfo::read()?;
        let inbox = Rc::new(RefCell::new(Inbox { tracker: Some(tracker), failed: None, taken: 0 }));
        let callback_inbox = Rc::clone(&inbox);
        let ring = probes.ring(move |bytes| callback_inbox.borrow_mut().take(bytes))?;
        let roots =
            announcement::announce(&subject, &probes, &mounts, &mut || drain(&ring, &inbox).map(drop))?;
        let start_ns = probes.start_ns()?;
        let started = Instant::now();
        let mut recorder = Recorder {
            ring,
            probes,
            inbox,
            sleep: SLEEP_MAX,
            started,
            cpu: CpuSampler::new(started),
            ring_bytes: ring_bytes as usize,
            subject,
            roots,
            mounts,
            mounts_read: started,
            codec_times: None,
            _thread_name: thread_name,
        };
        recorder.begin(start_ns)?;
        Ok(recorder)
    }

    fn begin(&mut self, start_ns: u64) -> Result<()> {
        let layout = layout_of(&self.subject);
        let (roots, mounts) = (self.roots.paths.clone(), self.mounts.clone());
        self.with_tracker(|tracker| tracker.begin(roots, mounts, layout, start_ns))
    }

    /// Records until `until` returns true (called at least every 40 ms) or the followed process ends, then finishes the
    /// trace. It calls `progress` twice a second.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written or libbpf fails.
    pub fn run(mut self, until: impl Fn() -> bool, mut progress: impl FnMut(&Progress)) -> Result<Summary> {
        let mut next_progress = Instant::now();
        let mut next_look = Instant::now();
        let mut survivor = announcement::Survivor::default();
        let ended = loop {
            let taken = drain(&self.ring, &self.inbox)?;
            if until() {
                break Ended::Asked;
            }
            let now = Instant::now();
            if now >= next_look {
                next_look = now + SUBJECT_EVERY;
                if matches!(self.subject, Subject::Pid(_)) && !survivor.exists(&self.probes)? {
                    break Ended::SubjectGone;
                }
                self.follow_changes(now)?;
            }
            if self.cpu.is_due(now) {
                self.sample_cpu(now)?;
            }
            if now >= next_progress {
                next_progress = now + PROGRESS_EVERY;
                progress(&self.progress()?);
                self.with_tracker(|tracker| tracker.sink().tick())?;
            }
            self.pause(taken);
        };
        self.finish(ended)
    }

    /// Follows what the directory leads to now: links, mounts, another directory of that name.
    fn follow_changes(&mut self, now: Instant) -> Result<()> {
        if self.subject.dir().is_none() {
            return Ok(());
        }
        let leads = self.with_tracker(|tracker| Ok(tracker.take_leads()))?;
        let mut mounts = None;
        if now.duration_since(self.mounts_read) >= MOUNTS_EVERY {
            self.mounts_read = now;
            mounts = mountinfo::read().ok().filter(|read| *read != self.mounts);
        }
        if leads.is_empty() && mounts.is_none() && !self.roots.is_outdated() {
            return Ok(());
        }
        if let Some(mounts) = &mounts {
            self.mounts.clone_from(mounts);
            self.with_tracker(|tracker| {
                tracker.set_mounts(mounts.clone());
                Ok(())
            })?;
        }
        self.probes.set_announcing(true)?;
        let (ring, inbox) = (&self.ring, &self.inbox);
        let mut announcing = Announcing {
            drain: &mut || drain(ring, inbox).map(drop),
            named: &mut |path| {
                let mut inbox = inbox.borrow_mut();
                inbox.tracker.as_mut().expect("the tracker exists until the end").add_root(path.to_owned());
                Ok(())
            },
        };
        let followed = self.roots.follow_changes(mounts.as_deref(), leads, &mut announcing);
        self.probes.set_announcing(false)?;
        followed
    }

    fn sample_cpu(&mut self, now: Instant) -> Result<()> {
        if matches!(self.subject, Subject::Pid(_)) {
            self.cpu.sample(now, &mut self.probes.followed()?.into_iter().collect());
        } else {
            let mut inbox = self.inbox.borrow_mut();
            let tracker = inbox.tracker.as_mut().expect("the tracker exists until the end");
            self.cpu.sample(now, tracker.pids());
        }
        Ok(())
    }

    /// Sleeps so that the ring buffer should be at most an eighth full at the next read.
    fn pause(&mut self, taken: usize) {
        let bytes = taken * RECORD_BYTES;
        if bytes > self.ring_bytes / 8 {
            self.sleep = (self.sleep / 2).max(SLEEP_MIN);
        } else if bytes < self.ring_bytes / 32 {
            self.sleep = (self.sleep * 2).min(SLEEP_MAX);
        }
        std::thread::sleep(self.sleep);
    }

    fn progress(&self) -> Result<Progress> {
        let lost = self.probes.counters()?[0];
        self.with_tracker(|tracker| {
            Ok(Progress {
                elapsed: self.started.elapsed(),
                events: tracker.sink().len(),
                bytes: tracker.bytes(),
                files: tracker.sink().files().len(),
                lost,
            })
        })
    }

    fn finish(mut self, ended: Ended) -> Result<Summary> {
        let end = Instant::now();
        let duration = end.duration_since(self.started);
        self.sample_cpu(end)?;
        self.probes.detach();
        while drain(&self.ring, &self.inbox)? > 0 {}
        let mut counters = self.probes.counters()?;
        match self.subject {
            Subject::Dir(_) | Subject::Pid(_) => self.end_calls(&mut counters)?,
            Subject::Device(_) => self.end_requests(&mut counters)?,
        }
        let tracker = self.inbox.borrow_mut().tracker.take().expect("the tracker is taken only here");
        let bytes = tracker.bytes();
        let (mut sink, unresolved) = tracker.end()?;
        let mut unseen = self.unseen(&counters);
        unseen.extend(self.roots.unseen());
        unseen.extend(unresolved);
        let meta = sink.meta_mut();
        meta.duration_ns = duration.as_nanos() as u64;
        meta.lost_events = counters[0];
        meta.unseen = unseen;
        // Set only at the end, because otherwise every footer would repeat the seconds so far.
        meta.cpu = self.cpu.into_samples();
        let mut meta = meta.clone();
        if let Some(measure) = self.codec_times.filter(|_| sink.len() > 0) {
            // Whatever ends this process meanwhile, the recording is complete.
            sink.checkpoint()?;
            meta.codecs = measure(sink.files(), &meta);
            sink.meta_mut().codecs.clone_from(&meta.codecs);
        }
        Ok(Summary { trace: sink.finish()?, meta, bytes, ended })
    }

    /// Records the requests of libaio that are still in flight, and counts them and those of io_uring.
    fn end_calls(&self, counters: &mut [u64]) -> Result<()> {
        for io in self.probes.pending("aio")?.iter().filter_map(|value| wire::decode_pending(value)) {
            counters[COUNTER_REAPED] += 1;
            self.with_tracker(|tracker| tracker.take(wire::Record::Io(io)))?;
        }
        let in_flight = self.probes.pending("uring")?;
        self.with_tracker(|tracker| {
            // A request on a fixed file (number 0) may be on any file.
            counters[COUNTER_SILENT] += in_flight
                .iter()
                .filter_map(|value| wire::decode_pending(value))
                .filter(|io| io.file != 0 || tracker.used_by(io.pid))
                .count() as u64;
            Ok(())
        })
    }

    /// Records and counts the requests of a block device that are still in flight.
    fn end_requests(&self, counters: &mut [u64]) -> Result<()> {
        for value in self.probes.pending("bios")? {
            let ios = wire::decode_request(&value);
            counters[COUNTER_UNENDED] += u64::from(!ios.is_empty());
            for io in ios {
                self.with_tracker(|tracker| tracker.take(wire::Record::Io(io)))?;
            }
        }
        Ok(())
    }

    fn unseen(&self, counters: &[u64]) -> Vec<(String, u64)> {
        let missing = self.probes.unseen.iter().map(|what| (*what, 0));
        let skipped = (
            "calls or requests for which the kernel skipped a program of the recorder",
            self.probes.skipped(),
        );
        let counted = COUNTERS.iter().copied().zip(counters.iter().copied()).skip(1).chain([skipped]);
        missing.chain(counted.filter(|(_, n)| *n > 0)).map(|(what, n)| (what.to_owned(), n)).collect()
    }

    fn with_tracker<T>(&self, act: impl FnOnce(&mut Tracker) -> Result<T>) -> Result<T> {
        act(self.inbox.borrow_mut().tracker.as_mut().expect("the tracker exists until the end"))
    }
}

/// Reads up to one batch from the ring buffer and returns the number of records.
fn drain(ring: &RingBuffer<'static>, inbox: &Rc<RefCell<Inbox>>) -> Result<usize> {
    inbox.borrow_mut().taken = 0;
    let status = ring.consume_raw_n(BATCH);
    let mut inbox = inbox.borrow_mut();
    match inbox.failed.take() {
        Some(error) => Err(error),
        None if status < 0 && inbox.taken == 0 => Err(Error::Bpf {
            what: "read the ring buffer".to_owned(),
            why: std::io::Error::from_raw_os_error(-status).to_string(),
        }),
        None => Ok(inbox.taken),
    }
}

fn meta(subject: &Subject, probes: &Probes) -> Meta {
    Meta {
        creator: format!("poolwright {}", env!("CARGO_PKG_VERSION")),
        probe_set: probes.set_name().to_owned(),
        subject: subject.describe(),
        cores: HostCpu::read().unwrap_or_default().cores,
        host: format!("Linux {} {}", kernel::release(), std::env::consts::ARCH),
        ..Meta::default()
    }
}

/// Detects the layout of the recorded database. A server's working directory is usually its data directory.
fn layout_of(subject: &Subject) -> Option<&'static Layout> {
    match subject {
        Subject::Dir(dir) => layout::detect(dir),
        Subject::Pid(pid) => {
            let cwd = process::working_directory(*pid as i32)?;
            layout::detect(&cwd).filter(|_| cwd.parent().is_some())
        }
        Subject::Device(_) => None,
    }
}
