//! Threads that serve a mount through io_uring (Linux 6.14; the fuse module's parameter `enable_uring`).
//!
//! The kernel has a queue per CPU, and puts a request into the queue of the CPU that its caller runs on. Each thread has
//! one ring with one entry of one queue: the memory through which the kernel and the thread exchange requests and answers.
//! One system call submits the answer and waits for the next request. The first thread of each queue is pinned to the
//! queue's CPU, which avoids wake-ups across CPUs between caller and server. The other threads are not pinned, and serve
//! requests while the first one waits for a disk.
//!
//! The kernel offers io_uring only if root has enabled it. A mount by root enables it during the handshake with the kernel;
//! the result of the handshake holds for as long as the file system is mounted.
//!
//! FORGET and INTERRUPT still arrive through `/dev/fuse`, so one thread reads from it.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::thread::CpuSet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::fs::{Answer, FileSystem, Worker};
use crate::proto::wire::{InHeader, OutHeader};
use crate::proto::{MAX_WRITE, Parts, decode};
use crate::session::{Pages, Session, out_header};
use crate::{Error, Result};

/// Offsets in the kernel's `fuse_uring_req_header`.
const OP_AT: usize = 128;
const ENTRY_AT: usize = 256;
const HEADER_LEN: usize = ENTRY_AT + size_of::<EntryInOut>();

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Bytes of the longest answer to a request that carries names or data: the value or the list of extended attributes.
const SCRATCH: usize = 68 << 10;

/// `fuse_uring_ent_in_out`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct EntryInOut {
    flags: u64,
    commit_id: u64,
    payload: u32,
    padding: u32,
    reserved: u64,
}

/// `fuse_uring_cmd_req`, in the command area of a submission.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Command {
    flags: u64,
    commit_id: u64,
    queue: u16,
    padding: [u8; 6],
}

/// Whether this process may use io_uring with 128-byte submissions. Containers often forbid io_uring.
pub(crate) fn available() -> bool {
    IoUring::<Entry128, cqueue::Entry>::builder().build(2).is_ok()
}

/// The fuse module's parameter that decides, at the start of a mount, whether the kernel offers io_uring.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Keeps the parameter enabled; dropping it restores the previous value.
pub(crate) struct SwitchedOn(Option<File>);

impl SwitchedOn {
    /// Enables the parameter. Does nothing if it is enabled already, or cannot be enabled (older kernel, no privilege).
    pub(crate) fn now() -> SwitchedOn {
        SwitchedOn(Self::try_now().ok().flatten())
    }

    fn try_now() -> io::Result<Option<File>> {
        let mut switch = OpenOptions::new().read(true).write(true).open(SWITCH)?;
        // Without the lock, a concurrent mount could disable it too early, or find it enabled and leave it so for ever.
        rustix::fs::flock(&switch, rustix::fs::FlockOperation::LockExclusive)?;
        let mut is = String::new();
        switch.read_to_string(&mut is)?;
        if is.trim() == "Y" {
            return Ok(None);
        }
        switch.write_all(b"Y")?;
        Ok(Some(switch))
    }
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        if let Some(switch) = &mut self.0 {
            let _ = switch.write_all(b"N");
        }
    }
}

/// Number of queues that the kernel will create: one per possible CPU.
pub(crate) fn queues() -> usize {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<usize>().ok());
    last.map_or(1, |last| last + 1)
}

/// One entry of one queue.
struct Ring {
    ring: IoUring<Entry128, cqueue::Entry>,
    device: i32,
    queue: u16,
    header: Pages,
    payload: Pages,
    /// The addresses of `header` and `payload`, which the kernel reads when the entry is registered.
    places: Box<[libc::iovec; 2]>,
}

impl Ring {
    fn new(device: &OwnedFd, queue: u16) -> io::Result<Ring> {
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(2)?;
        let (mut header, mut payload) = (Pages::new(4096), Pages::new(MAX_WRITE as usize));
        let location =
            |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let places = Box::new([location(&mut header.get()[..HEADER_LEN]), location(payload.get())]);
        Ok(Ring { ring, device: device.as_raw_fd(), queue, header, payload, places })
    }

    /// Queues a command for the next [`Ring::wait`].
    fn command(&mut self, what: u32, commit_id: u64) {
        let request = Command { commit_id, queue: self.queue, ..Command::default() };
        let mut area = [0u8; 80];
        area[..size_of::<Command>()].copy_from_slice(request.as_bytes());
        let plain = opcode::UringCmd80::new(types::Fd(self.device), what).cmd(area).build();
        // The crate has no setters for the two fields that describe the entry's memory (`addr` and `len`).
        // SAFETY: both types have 128 bytes, and the entry is plain memory in the kernel's layout.
        let mut raw: [u8; 128] = unsafe { std::mem::transmute(plain) };
        raw[16..24].copy_from_slice(&(self.places.as_ptr() as u64).to_ne_bytes());
        raw[24..28].copy_from_slice(&2u32.to_ne_bytes());
        // SAFETY: as above.
        let entry: Entry128 = unsafe { std::mem::transmute(raw) };
        // SAFETY: the memory it points to (`places`, `header`, `payload`) is owned by `self` and lives as long as the
        // ring. While the kernel has the entry, `self` does not access it. The queue has room for two commands and holds one.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        debug_assert!(pushed.is_ok());
    }

    /// Submits the queued command and waits for a request. Returns the completion's result: 0, or a negative errno.
    fn wait(&mut self) -> io::Result<i32> {
        loop {
            if let Some(done) = self.ring.completion().next() {
                return Ok(done.result());
            }
            match self.ring.submit_and_wait(1) {
                Err(why) if why.kind() != io::ErrorKind::Interrupted => return Err(why),
                _ => {}
            }
        }
    }
}

impl Session {
    /// Serves one entry of a queue until the mount ends; uses `/dev/fuse` if the kernel rejects the entry.
    pub(crate) fn run_uring(&self, number: usize, queue: usize, pinned: bool) -> Result<()> {
        let result = match self.serve_uring(number, queue, pinned) {
            Ok(true) => Ok(()),
            // The kernel rejected the entry and uses /dev/fuse for all requests.
            Ok(false) => {
                self.ring_refused.store(true, Ordering::Relaxed);
                self.serve(number, &self.device)
            }
            Err(why) => Err(Error::Device { doing: "serving requests through io_uring", why }),
        };
        self.leave();
        result
    }

    /// Returns false if the kernel rejected the entry.
    fn serve_uring(&self, number: usize, queue: usize, pinned: bool) -> io::Result<bool> {
        if pinned {
            let mut cpus = CpuSet::new();
            cpus.set(queue);
            // An absent or forbidden CPU is not an error: the thread can run on any other.
            let _ = rustix::thread::sched_setaffinity(None, &cpus);
        }
        let worker = self.worker(number);
        let Ok(mut ring) = Ring::new(&self.device, queue as u16) else { return Ok(false) };
        let mut scratch = vec![0u8; SCRATCH];
        ring.command(REGISTER, 0);
        let mut registered = false;
        loop {
            match -ring.wait()? {
                ..=0 => registered = true,
                libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::ENODEV => return Ok(true),
                _ if !registered => return Ok(false),
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
            let commit_id = self.one_uring(&mut ring, &mut scratch, &worker);
            ring.command(COMMIT_AND_FETCH, commit_id);
        }
    }

    /// Serves the request in the entry's memory and writes the answer there. Returns the request's commit ID.
    fn one_uring(&self, ring: &mut Ring, scratch: &mut [u8], worker: &Worker<'_>) -> u64 {
        let (header, payload) = (ring.header.get(), ring.payload.get());
        let entry =
            EntryInOut::read_from_prefix(&header[ENTRY_AT..]).map_or_else(|_| EntryInOut::default(), |e| e.0);
        let request = InHeader::read_from_prefix(header).map_or_else(|_| InHeader::default(), |h| h.0);
        let given = (entry.payload as usize).min(payload.len());
        // The answer to a request without names or data, such as READ, is written directly to the payload.
        let (rest, out) =
            if given == 0 { (&[][..], &mut payload[..]) } else { (&payload[..given], &mut scratch[..]) };
        let parts = Parts { head: Some(&header[OP_AT..ENTRY_AT]), rest };
        let answer = match decode(request, parts) {
            Ok(request) => self.guarded(&request, out, worker),
            Err(malformed) => FileSystem::refuse(&malformed, worker),
        };
        let (head, len) = out_header(&request, answer).unwrap_or((
            OutHeader { len: size_of::<OutHeader>() as u32, error: 0, unique: request.unique },
            0,
        ));
        if given > 0 && matches!(answer, Answer::Bytes(_)) {
            payload[..len].copy_from_slice(&scratch[..len]);
        }
        header[..size_of::<OutHeader>()].copy_from_slice(head.as_bytes());
        let filled = EntryInOut { payload: len as u32, ..entry };
        header[ENTRY_AT..HEADER_LEN].copy_from_slice(filled.as_bytes());
        entry.commit_id
    }
}
