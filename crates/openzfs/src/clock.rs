//! The clock of the engine, and the primitives with which threads that call the engine wait on it.
//!
//! On the real clock, time is the host's. On the virtual one ([`crate::Config::clock`]), threads are fibers of one thread of
//! the host, and each has its own time: waiting costs no CPU time, and work costs as much as [`Costs`] specifies. The same calls then take
//! the same time on any machine, however busy it is. A thread that calls the engine must be the one that started it, or one of [`Threads`].
//! Between threads of the virtual clock, a mutex of the standard library must not be held across a call of the engine or of this module.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::check;
use crate::{Result, ffi};

/// The virtual clock of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualClock {
    /// The number of processors of the simulated machine, 1 to 64.
    pub processors: u32,
    /// The seed of random numbers. Two runs with the same seed make the same decisions.
    pub seed: u64,
    /// What work costs.
    pub costs: Costs,
}

/// What the engine's work costs on the virtual clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// A call of a lock or queue, with the code up to the next one, in nanoseconds.
    pub call_ns: u64,
    /// A processor's switch to another thread, in nanoseconds.
    pub switch_ns: u64,
    /// A byte that is copied from or to the application, in picoseconds.
    pub copy_ps: u64,
    /// A byte of a checksum, in picoseconds.
    pub checksum_ps: u64,
    /// The time of a codec on the simulated machine for 1000 that it is measured to take on this one.
    #[serde(default = "equal", skip_serializing_if = "is_equal")]
    pub codec_permille: u64,
    /// Codecs. One that is missing is measured while it runs, after [`Costs::measure_codecs`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codecs: Vec<CodecCost>,
}

/// What a codec costs for a record of a size that it compresses by a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodecCost {
    /// The codec's number in OpenZFS (`enum zio_compress`).
    pub codec: u32,
    /// Its level; 0 when it decompresses.
    pub level: u32,
    /// The number of bits of the record's size in bytes.
    pub size_bits: u32,
    /// The number of halvings that lead from the record's size to its compressed size: 0 below a ratio of 2, 1 below 4; at most 7.
    pub ratio_bits: u32,
    /// Whether it decompresses.
    pub decompress: bool,
    /// The cost of one record in nanoseconds.
    pub ns: u64,
}

/// The default of [`Costs::codec_permille`]: the simulated machine is as fast as this one.
fn equal() -> u64 {
    1000
}

fn is_equal(permille: &u64) -> bool {
    *permille == equal()
}

impl VirtualClock {
    /// A clock of `processors` processors; at least one.
    pub fn of(processors: u32, seed: u64, costs: Costs) -> VirtualClock {
        VirtualClock { processors: processors.max(1), seed, costs }
    }
}

impl Costs {
    /// The costs of the machine of `docs/derivations.md` ("What work costs"), without those of codecs.
    pub fn reference() -> Costs {
        let codec_permille = equal();
        Costs {
            call_ns: 40,
            switch_ns: 6000,
            copy_ps: 100,
            checksum_ps: 200,
            codec_permille,
            codecs: Vec::new(),
        }
    }

    /// The costs of a machine that takes these times as long as that one for calls, switches and copies, and `codecs` times as long as
    /// this machine for codecs.
    pub fn scaled([calls, switches, copies]: [f64; 3], codecs: f64) -> Costs {
        let reference = Costs::reference();
        let scaled = |cost: u64, times: f64| (cost as f64 * times).round() as u64;
        Costs {
            call_ns: scaled(reference.call_ns, calls),
            switch_ns: scaled(reference.switch_ns, switches),
            copy_ps: scaled(reference.copy_ps, copies),
            checksum_ps: scaled(reference.checksum_ps, copies),
            codec_permille: scaled(equal(), codecs),
            codecs: Vec::new(),
        }
    }

    /// Passes the codecs' costs to the engine, before it starts, and returns the other costs.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library has no such codec.
    pub(crate) fn set(&self) -> Result<ffi::pw_costs> {
        for cost in &self.codecs {
            let &CodecCost { codec, level, size_bits: shift, ratio_bits: ratio, decompress, ns } = cost;
            let raw = ffi::pw_codec_cost { codec, level, shift, ratio, direction: u32::from(decompress), ns };
            // SAFETY: the callee copies the struct; no other thread of the engine runs yet.
            check("setting the cost of", "a codec", unsafe { ffi::pw_cost_set_codec(&raw) })?;
        }
        let &Costs { call_ns, switch_ns, copy_ps, checksum_ps, codec_permille, codecs: _ } = self;
        Ok(ffi::pw_costs { call_ns, switch_ns, copy_ps, checksum_ps, codec_permille })
    }

    /// From now on, codecs whose costs are not known are measured. Until then, they cost nothing.
    pub fn measure_codecs() {
        // SAFETY: sets a number.
        unsafe { ffi::pw_cost_measure() }
    }

    /// Returns the codecs' costs: those that were set, and those measured in at least 32 samples. Only on the virtual clock.
    pub fn of_codecs() -> Vec<CodecCost> {
        const ROOM: usize = 1024;
        let mut raw = [ffi::pw_codec_cost::default(); ROOM];
        // SAFETY: the callee writes at most ROOM elements; on the virtual clock, no other thread of the engine runs now.
        let n = unsafe { ffi::pw_cost_codecs(raw.as_mut_ptr(), ROOM as u32) } as usize;
        let cost = |raw: &ffi::pw_codec_cost| CodecCost {
            codec: raw.codec,
            level: raw.level,
            size_bits: raw.shift,
            ratio_bits: raw.ratio,
            decompress: raw.direction != 0,
            ns: raw.ns,
        };
        raw[..n].iter().map(cost).collect()
    }
}

/// A time of the engine's clock, in nanoseconds since an unknown begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// Returns the present time of this thread.
    pub fn now() -> Time {
        // SAFETY: reads a clock.
        Time(unsafe { ffi::pw_clock_now() })
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time that has passed since then.
    pub fn elapsed(self) -> Duration {
        Time::now().since(self)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, time: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Whether the engine of this process runs on the virtual clock.
pub fn is_virtual() -> bool {
    // SAFETY: set once, before the engine and its threads start.
    unsafe { ffi::pw_clock_is_virtual != 0 }
}

/// Waits until this time.
pub fn sleep_until(time: Time) {
    // SAFETY: waits.
    unsafe { ffi::pw_clock_sleep_until(time.0) }
}

/// Waits for this long.
pub fn sleep(time: Duration) {
    if is_virtual() { sleep_until(Time::now() + time) } else { std::thread::sleep(time) }
}

/// Moves this thread's time by CPU time that the simulated application uses. Only on the virtual clock.
pub fn work(time: Duration) {
    // Other threads may need the processor in between.
    const PIECE_NS: u64 = 1_000_000;
    let mut left = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    while left > 0 {
        let now = left.min(PIECE_NS);
        left -= now;
        // SAFETY: adds to the running thread's time, then lets others run.
        unsafe {
            ffi::pw_clock_charge(now);
            ffi::pw_clock_call();
        }
    }
}

/// Returns the CPU time of all threads on the virtual clock so far.
pub fn cpu_time() -> Duration {
    // SAFETY: reads a counter.
    Duration::from_nanos(unsafe { ffi::pw_clock_charged() })
}

/// The stack of a thread on the virtual clock, in bytes. Only pages that are used take memory.
const STACK_BYTES: usize = 1 << 20;

/// Threads that may call the engine and wait on its clock. One that waits for their end on the virtual clock must call
/// [`Threads::wait`] before it joins them.
#[derive(Debug, Default)]
pub struct Threads {
    running: AtomicUsize,
    ended: Event,
}

/// A running thread of [`Threads`], which ends with the thread, also by a panic.
struct Running<'a>(&'a Threads);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify();
    }
}

/// The body of a thread on the virtual clock.
type Body<'a> = Box<dyn FnOnce() + Send + 'a>;

extern "C" fn run_body(body: *mut c_void) {
    // SAFETY: made by `start_virtual` for this call.
    let body = unsafe { Box::from_raw(body.cast::<Body<'_>>()) };
    body();
}

/// Starts a thread on the virtual clock.
///
/// # Safety
/// What `body` borrows must live until it has returned. It must not panic.
unsafe fn start_virtual(body: Body<'_>) {
    let body = Box::into_raw(Box::new(body)).cast::<c_void>();
    // SAFETY: `run_body` takes the body.
    unsafe { ffi::pw_clock_new(Some(run_body), body, STACK_BYTES) };
}

impl Threads {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the host cannot start a thread.
    pub fn spawn<'scope, 'env, F, T>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        name: String,
        body: F,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let body = move || {
            let _running = Running(self);
            body()
        };
        self.running.fetch_add(1, Ordering::SeqCst);
        if !is_virtual() {
            let started = Builder::new().name(name).spawn_scoped(scope, body);
            if started.is_err() {
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
            return started;
        }
        // This thread of the host stands for the virtual one: the scope waits for it, and it ends with the result.
        let (send, receive) = sync_channel(1);
        let stand_in = move || match receive.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => unreachable!("the virtual thread sends its result"),
        };
        let started = Builder::new().name(name).spawn_scoped(scope, stand_in);
        if started.is_err() {
            self.running.fetch_sub(1, Ordering::SeqCst);
            return started;
        }
        let body: Body<'scope> = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(body));
            // The stand-in waits for it.
            let _ = send.send(result);
        });
        // SAFETY: the scope's data live until the stand-in has ended, and so until the body has.
        unsafe { start_virtual(body) };
        started
    }

    /// Waits until all threads have ended, for at most `longest`. Returns whether they have.
    pub fn wait(&self, longest: Duration) -> bool {
        let have_ended = || self.running.load(Ordering::SeqCst) == 0;
        self.ended.wait(longest, have_ended);
        have_ended()
    }
}

/// A condition that threads wait for.
#[derive(Debug, Default)]
pub struct Event {
    /// The number of threads that wait on the real clock. Without one, a notification costs no lock.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    moved: Condvar,
    waiters: Waiters,
}

#[derive(Debug)]
struct Waiters(std::cell::UnsafeCell<ffi::pw_waiters>);
// SAFETY: on the virtual clock only fibers of one thread of the host use it; on the real one it is not used.
unsafe impl Send for Waiters {}
// SAFETY: as above.
unsafe impl Sync for Waiters {}

impl Default for Waiters {
    fn default() -> Waiters {
        let none = ffi::pw_waiters { first: std::ptr::null_mut(), last: std::ptr::null_mut() };
        Waiters(std::cell::UnsafeCell::new(none))
    }
}

impl Event {
    /// Waits until `ready` returns true, for at most `longest`. Another thread makes it so and then calls [`Event::notify`].
    pub fn wait(&self, longest: Duration, ready: impl Fn() -> bool) {
        if is_virtual() {
            let deadline = Time::now() + longest;
            while !ready() && Time::now() < deadline {
                // SAFETY: this thread runs on the virtual clock; `waiters` lives as long as `self`, which this borrows.
                unsafe { ffi::pw_clock_wait(self.waiters.0.get(), deadline.0) };
            }
            return;
        }
        if ready() {
            return;
        }
        let began = Instant::now();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !ready() {
            let left = longest.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            guard = self.moved.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all threads that wait.
    pub fn notify(&self) {
        if is_virtual() {
            // SAFETY: as above.
            unsafe { ffi::pw_clock_wake_all(self.waiters.0.get()) };
            return;
        }
        // Either this sees the waiting thread, or that thread sees what the caller changed before.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.moved.notify_all();
        }
    }
}

/// A lock that a thread may hold while it calls the engine.
#[derive(Debug, Default)]
pub struct Turn {
    taken: AtomicBool,
    free: Event,
}

/// The turn of a thread, which ends when it is dropped.
#[derive(Debug)]
pub struct TurnGuard<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    pub fn take(&self) -> TurnGuard<'_> {
        while self.taken.swap(true, Ordering::Acquire) {
            self.free.wait(Duration::from_secs(1), || !self.taken.load(Ordering::Relaxed));
        }
        TurnGuard(self)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
        self.0.free.notify();
    }
}
