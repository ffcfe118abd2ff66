//! Threads that serve a mount through io_uring (Linux 6.14; the fuse module's parameter `enable_uring`).
//!
//! The kernel has a queue per CPU and puts a request into the queue of the CPU that its caller runs on. A thread here
//! has one ring with one entry of one queue: memory where the kernel places a request, and where the answer is found.
//! One system call hands the answer over and waits for the next request. The first thread of each queue stays on the
//! queue's CPU, so that caller and server need no wake-up across CPUs; the others are free, for when that one waits
//! for a disk.
//!
//! The kernel offers this only where root has switched it on. A mount by root does that for the moment in which it meets
//! the kernel; what is agreed on then holds for as long as it is mounted.
//!
//! FORGET and INTERRUPT come through `/dev/fuse` nevertheless, so one thread reads there.

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

/// Where the kernel's structure of a request has its parts.
const OP_AT: usize = 128;
const ENTRY_AT: usize = 256;
const HEADER_LEN: usize = ENTRY_AT + size_of::<EntryInOut>();

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// The longest answer to a request that comes with names or data: a value of an extended attribute, or a list of them.
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

/// Whether this process may use io_uring as it is needed here. Containers often forbid it.
pub(crate) fn available() -> bool {
    IoUring::<Entry128, cqueue::Entry>::builder().build(2).is_ok()
}

/// The fuse module's switch: whether the kernel offers io_uring to a mount, asked when the mount begins.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The switch is on while this lives, and then as it was before.
pub(crate) struct SwitchedOn(Option<File>);

impl SwitchedOn {
    /// Where it is on already, or cannot be switched on (an older kernel, no privilege), nothing changes.
    pub(crate) fn now() -> SwitchedOn {
        SwitchedOn(Self::try_now().ok().flatten())
    }

    fn try_now() -> io::Result<Option<File>> {
        let mut switch = OpenOptions::new().read(true).write(true).open(SWITCH)?;
        // Another mount that begins now would switch it off under this one, or find it on and leave it so for good.
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

/// Queues that the kernel will have: one per CPU that there could be.
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
    /// Where both are; the kernel reads this when the entry is registered.
    places: Box<[libc::iovec; 2]>,
}

impl Ring {
    fn new(device: &OwnedFd, queue: u16) -> io::Result<Ring> {
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(2)?;
        let (mut header, mut payload) = (Pages::new(4096), Pages::new(MAX_WRITE as usize));
        let place =
            |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let places = Box::new([place(&mut header.get()[..HEADER_LEN]), place(payload.get())]);
        Ok(Ring { ring, device: device.as_raw_fd(), queue, header, payload, places })
    }

    /// Queues a command for the next [`Ring::wait`].
    fn command(&mut self, what: u32, commit_id: u64) {
        let request = Command { commit_id, queue: self.queue, ..Command::default() };
        let mut area = [0u8; 80];
        area[..size_of::<Command>()].copy_from_slice(request.as_bytes());
        let plain = opcode::UringCmd80::new(types::Fd(self.device), what).cmd(area).build();
        // The crate has no setter for the two fields that say where the entry's memory is (`addr` and `len`).
        // SAFETY: the entry is plain memory of the kernel's layout, and of the same size.
        let mut raw: [u8; 128] = unsafe { std::mem::transmute(plain) };
        raw[16..24].copy_from_slice(&(self.places.as_ptr() as u64).to_ne_bytes());
        raw[24..28].copy_from_slice(&2u32.to_ne_bytes());
        // SAFETY: as above.
        let entry: Entry128 = unsafe { std::mem::transmute(raw) };
        // SAFETY: what it points to lives as long as the ring (`places`, `header`, `payload` are fields beside it), and
        // while the kernel has the entry nobody here touches that memory. The queue has two places and one command.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        debug_assert!(pushed.is_ok());
    }

    /// Hands over what is queued and waits for a request. Its result: 0, or a negative errno.
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
    /// Serves one entry of a queue until the mount is gone; through `/dev/fuse` should the kernel not want it.
    pub(crate) fn run_uring(&self, number: usize, queue: usize, pinned: bool) -> Result<()> {
        let result = match self.serve_uring(number, queue, pinned) {
            Ok(true) => Ok(()),
            // Refused: the kernel then uses /dev/fuse for all.
            Ok(false) => {
                self.ring_refused.store(true, Ordering::Relaxed);
                self.serve(number, &self.device)
            }
            Err(why) => Err(Error::Device { doing: "serving requests through io_uring", why }),
        };
        self.leave();
        result
    }

    /// False: the kernel does not want the entry.
    fn serve_uring(&self, number: usize, queue: usize, pinned: bool) -> io::Result<bool> {
        if pinned {
            let mut cpus = CpuSet::new();
            cpus.set(queue);
            // A CPU that is not there or not allowed: the thread is as good anywhere.
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

    /// Serves the request in the entry's memory and puts the answer there. Gives what the kernel knows it by.
    fn one_uring(&self, ring: &mut Ring, scratch: &mut [u8], worker: &Worker<'_>) -> u64 {
        let (header, payload) = (ring.header.get(), ring.payload.get());
        let entry =
            EntryInOut::read_from_prefix(&header[ENTRY_AT..]).map_or_else(|_| EntryInOut::default(), |e| e.0);
        let request = InHeader::read_from_prefix(header).map_or_else(|_| InHeader::default(), |h| h.0);
        let given = (entry.payload as usize).min(payload.len());
        // A request that came with nothing but its structure, as READ does, is answered right into the payload.
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
