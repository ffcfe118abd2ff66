//! Threads that serve a mount through `/dev/fuse`.
//!
//! Each thread has its own descriptor and buffer, and answers the requests that it reads: waking another thread would
//! cost more than most requests do.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use poolwright_openzfs::{Errno, NodeResult};
use zerocopy::IntoBytes;

use crate::counters::{Counters, Tally};
use crate::device::{self, Read};
use crate::fs::{Answer, FileSystem, Worker};
use crate::proto::wire::{InHeader, OutHeader};
use crate::proto::{MAX_WRITE, Negotiated, Op, Request, Wanted, answer_init};
use crate::sharded_lock::ShardedLock;
use crate::{Error, Result};

const PAGE: usize = 4096;
/// Offset of the header, which ends where the page-aligned payload begins.
const HEADER_AT: usize = PAGE - size_of::<OutHeader>();

/// Page-aligned memory.
pub(crate) struct Pages {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    pub(crate) fn new(len: usize) -> Pages {
        let bytes = vec![0u8; len + PAGE]; // the host allocates pages on first access
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Pages { bytes, start, len }
    }

    pub(crate) fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// A mount that is being served.
pub(crate) struct Session {
    pub(crate) sharded_lock: ShardedLock,
    pub(crate) device: Arc<OwnedFd>,
    pub(crate) agreed: Negotiated,
    /// Whether the kernel rejected an io_uring entry after it had agreed on io_uring.
    pub(crate) ring_refused: AtomicBool,
    /// Whether requests that would change the dataset fail with `EIO`, because the pool has lost a file.
    pub(crate) refuses_changes: AtomicBool,
    tallies: Vec<Tally>,
    running: AtomicUsize,
    finished: Mutex<Option<NodeResult<()>>>,
}

impl Session {
    /// Performs the handshake with the kernel; `workers` computes the number of threads from its result.
    pub(crate) fn meet(
        fs: FileSystem,
        device: OwnedFd,
        wanted: Wanted,
        workers: impl FnOnce(&Negotiated) -> usize,
    ) -> Result<Session> {
        let agreed = handshake(&device, wanted)?;
        let workers = workers(&agreed);
        Ok(Session {
            sharded_lock: ShardedLock::new(fs, workers),
            device: Arc::new(device),
            agreed,
            ring_refused: AtomicBool::new(false),
            refuses_changes: AtomicBool::new(false),
            tallies: (0..workers).map(|_| Tally::new()).collect(),
            running: AtomicUsize::new(workers),
            finished: Mutex::new(None),
        })
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters::sum(self.tallies.iter())
    }

    pub(crate) fn worker(&self, number: usize) -> Worker<'_> {
        Worker { number, tally: &self.tallies[number] }
    }

    /// Serves until the mount ends. The last thread to end writes the last changes and closes the dataset's nodes.
    pub(crate) fn run(&self, number: usize, fd: &OwnedFd) -> Result<()> {
        let result = self.serve(number, fd);
        self.leave();
        result
    }

    /// Removes one worker. The last one finishes the file system.
    pub(crate) fn leave(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            let end = self.sharded_lock.read(0).as_ref().map_or(Err(Errno(libc::EIO)), |fs| fs.finish());
            *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        }
    }

    /// Whether a worker has ended. Workers end when the mount no longer exists.
    pub(crate) fn is_ending(&self) -> bool {
        self.running.load(Ordering::Acquire) < self.tallies.len()
    }

    /// The result of [`FileSystem::finish`]; `None` while a worker serves.
    pub(crate) fn finished(&self) -> Option<NodeResult<()>> {
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn serve(&self, number: usize, fd: &OwnedFd) -> Result<()> {
        let mut input = Pages::new(self.agreed.max_write as usize + PAGE);
        let mut output = Pages::new(PAGE + MAX_WRITE as usize);
        let worker = self.worker(number);
        let (input, output) = (input.get(), output.get());
        loop {
            match device::read(fd, input)? {
                Read::Request(len) => self.one(&input[..len], output, fd, &worker)?,
                Read::Again => {}
                Read::Unmounted => return Ok(()),
            }
        }
    }

    fn one(&self, bytes: &[u8], output: &mut [u8], fd: &OwnedFd, worker: &Worker<'_>) -> Result<()> {
        let Some((header, request)) = Request::parse(bytes) else { return Ok(()) };
        let (front, payload) = output.split_at_mut(PAGE);
        let answer = match &request {
            Ok(request) => self.guarded(request, payload, worker),
            Err(malformed) => FileSystem::refuse(malformed, worker),
        };
        let Some((out, len)) = out_header(&header, answer) else { return Ok(()) };
        front[HEADER_AT..].copy_from_slice(out.as_bytes());
        let delivered = device::write(fd, &output[HEADER_AT..PAGE + len]);
        if let (Ok(false), Ok(request)) = (&delivered, &request)
            && let Some(fs) = &*self.sharded_lock.read(worker.number)
        {
            fs.undelivered(request, &output[PAGE..PAGE + len]);
        }
        delivered.map(drop)
    }

    /// Serves a request. Answers `EIO` if that panics, because the program would otherwise wait for ever.
    pub(crate) fn guarded(&self, request: &Request<'_>, out: &mut [u8], worker: &Worker<'_>) -> Answer {
        let serve = || match &*self.sharded_lock.read(worker.number) {
            Some(_) if self.refuses_changes.load(Ordering::Relaxed) && FileSystem::is_change(request) => {
                FileSystem::lost(request, worker)
            }
            Some(fs) => fs.serve(request, out, worker),
            None => FileSystem::lost(request, worker),
        };
        catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Answer::Error(libc::EIO))
    }
}

/// The header of an answer and the number of bytes that follow it; `None` for a request without an answer.
pub(crate) fn out_header(request: &InHeader, answer: Answer) -> Option<(OutHeader, usize)> {
    let (error, len) = match answer {
        Answer::None => return None,
        Answer::Bytes(len) => (0, len),
        Answer::Error(errno) => (-errno, 0),
    };
    Some((OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique: request.unique }, len))
}

/// Reads INIT, which is the first request of a mount, and answers it.
fn handshake(device: &OwnedFd, wanted: Wanted) -> Result<Negotiated> {
    let mut input = Pages::new(MAX_WRITE as usize + PAGE);
    let input = input.get();
    let strange = || Error::Device {
        doing: "FUSE handshake with the kernel",
        why: std::io::Error::other("the first request is not INIT"),
    };
    let len = loop {
        match device::read(device, input)? {
            Read::Request(len) => break len,
            Read::Again => {}
            Read::Unmounted => return Err(strange()),
        }
    };
    let (header, request) = Request::parse(&input[..len]).ok_or_else(strange)?;
    let Ok(Request { op: Op::Init(init, flags2), .. }) = request else { return Err(strange()) };
    let (mut message, result) = match answer_init(&init, flags2, wanted) {
        Some((agreed, out)) => (out.as_bytes().to_vec(), Ok(agreed)),
        None => (Vec::new(), Err(Error::OldKernel { major: init.major, minor: init.minor })),
    };
    let answer = if result.is_ok() { Answer::Bytes(message.len()) } else { Answer::Error(libc::EPROTO) };
    let (out, _) = out_header(&header, answer).ok_or_else(strange)?;
    message.splice(0..0, out.as_bytes().iter().copied());
    device::write(device, &message)?;
    result
}
