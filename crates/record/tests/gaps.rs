//! Compares the recorded gaps between operations with what the program measured itself.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use common::{Live, events_on, scratch};
use poolwright_record::{Subject, Summary};
use poolwright_trace::{Event, Gap, Op, Trace};

/// Records `command` in a fresh directory, and returns its output; `None` if recording is not permitted.
fn record(mut command: Command) -> Option<(Summary, Trace, String)> {
    let scratch = scratch();
    let dir = scratch.path().join("db");
    std::fs::create_dir(&dir).unwrap();
    let live = Live::start(Subject::Dir(dir.clone()), &scratch.path().join("t.parquet"))?;
    let output = command.current_dir(&dir).stderr(Stdio::inherit()).output().expect("the program starts");
    assert!(output.status.success(), "{command:?}");
    let (summary, trace) = live.finish();
    Some((summary, trace, String::from_utf8(output.stdout).unwrap()))
}

fn python(program: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", program]);
    command
}

/// Returns each write with the preceding gap and the length of the gap in nanoseconds.
fn gaps(trace: &Trace, name: &str) -> Vec<(Event, Gap, u64)> {
    let events = events_on(trace, name);
    assert_eq!((events[0].op, events[0].gap), (Op::Create, None), "the thread's first operation");
    let pairs = events.windows(2).filter(|pair| pair[1].op == Op::Write);
    pairs
        .map(|pair| {
            let gap = pair[1].gap.unwrap_or_else(|| panic!("no gap: {:?}", pair[1]));
            let length = pair[1].t_ns - (pair[0].t_ns + pair[0].dur_ns);
            assert!(gap.cpu_ns + u64::from(gap.ready_ns) <= length + 1_000_000, "{gap:?} in {length}");
            (pair[1], gap, length)
        })
        .collect()
}

/// Between two writes, the program uses CPU time and then sleeps, sleeps and then uses CPU time, or does nothing. It
/// prints the thread's CPU time between the writes, the time slept, and the rest, which others took from the thread. It sleeps on a
/// different CPU each time, because the clocks of CPUs lag by different times.
const CPU_AND_SLEEP: &str = "
import os, time
def work(ms):
    end = time.thread_time_ns() + ms * 1000000
    while time.thread_time_ns() < end: pass
cpus = sorted(os.sched_getaffinity(0))
def rest(ms):
    cpus.append(cpus.pop(0))
    os.sched_setaffinity(0, cpus[:1])
    start = time.monotonic_ns()
    time.sleep(ms / 1000)
    return time.monotonic_ns() - start
fd = os.open('f', os.O_RDWR | os.O_CREAT)
lines = []
os.pwrite(fd, b'x', 0)
for i in range(12):
    cpu, slept, start = time.thread_time_ns(), 0, time.monotonic_ns()
    ms = 20 * (1 + i % 2)
    if i % 3 == 0:
        work(ms)
        slept = rest(40)
    if i % 3 == 1:
        slept = rest(40)
        work(ms)
    cpu = time.thread_time_ns() - cpu
    lost = max(time.monotonic_ns() - start - cpu - slept, 0)
    lines.append(f'{i % 3} {cpu} {slept} {lost}')
    os.pwrite(fd, b'x', 0)
print('\\n'.join(lines))
";

#[test]
fn cpu_time_and_sleep_are_kept_apart() {
    let Some((_, trace, printed)) = record(python(CPU_AND_SLEEP)) else { return };
    let gaps = &gaps(&trace, "db/f")[1..];
    assert_eq!(gaps.len(), 12);
    let mut unseen = 0;
    for (&(_, gap, length), line) in gaps.iter().zip(printed.lines()) {
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let [kind, cpu, slept, lost] = numbers[..] else { panic!("{line}") };
        println!("{line}: {gap:?}, {length} long");
        if kind == 2 {
            assert_eq!((gap.wake_ns, gap.waker), (0, 0), "it did not sleep");
            continue;
        }
        assert!(gap.cpu_ns.abs_diff(cpu) <= cpu / 5, "{line}: {gap:?}");
        let sleep = gap.sleep_ns(length);
        // The sleep that the program measures ends only when it runs again. What a hypervisor takes before the last wakeup counts as
        // sleep.
        let at_most = slept + slept / 5 + lost + 1_000_000;
        assert!(sleep >= slept / 2 && sleep <= at_most, "{line}: {gap:?} in {length}");
        // The kernel skips a program in an interrupt that comes while a program of the recorder runs. If the timer did, the last wakeup that
        // was seen is the one that moved the thread to its CPU, before the sleep.
        if u64::from(gap.wake_ns) > gap.cpu_ns + u64::from(gap.ready_ns) + slept / 2 {
            unseen += 1;
            continue;
        }
        assert_eq!(gap.waker, Gap::TIMER, "a timer ended the sleep");
        let after_wake = if kind == 1 { cpu - cpu / 5 } else { 1 };
        assert!(u64::from(gap.wake_ns) >= after_wake && u64::from(gap.wake_ns) < length, "{line}: {gap:?}");
    }
    assert!(unseen <= 1, "{unseen} of 8 wakeups were not seen");
}

const ROUNDS: u64 = 40;

/// Two threads write in turn. The waiter waits for the notifier.
fn take_turns() {
    let turn = (Mutex::new(0), Condvar::new());
    let play = |name: &str, own: u64, pause: Duration| {
        let file = File::create(name).unwrap();
        for round in 0..ROUNDS {
            let mut now = turn.0.lock().unwrap();
            while *now != 2 * round + own {
                now = turn.1.wait(now).unwrap();
            }
            drop(now);
            file.write_all_at(b"x", round).unwrap();
            std::thread::sleep(pause);
            *turn.0.lock().unwrap() += 1;
            turn.1.notify_one();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play("notifier", 0, Duration::from_millis(5)));
        scope.spawn(|| play("waiter", 1, Duration::ZERO));
    });
}

/// The program of `a_thread_that_wakes_another_is_named`, run as a child process.
#[test]
fn child() {
    if std::env::var_os("POOLWRIGHT_TEST_CHILD").is_some() {
        take_turns();
    }
}

#[test]
fn a_thread_that_wakes_another_is_named() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child"]).env("POOLWRIGHT_TEST_CHILD", "1");
    let Some((_, trace, _)) = record(command) else { return };
    let notifier = events_on(&trace, "db/notifier")[0].tid;
    let waits = gaps(&trace, "db/waiter");
    assert_eq!(waits.len() as u64, ROUNDS);
    for (event, gap, length) in &waits {
        // If the waiter was late, its turn had begun and it did not sleep.
        assert!([0, notifier].contains(&gap.waker), "{event:?}");
        assert!(event.tid != notifier && u64::from(gap.wake_ns) < *length, "{event:?}");
        assert_eq!(gap.waker == 0, gap.wake_ns == 0, "{event:?}");
    }
    let named = waits.iter().filter(|(_, gap, _)| gap.waker == notifier).count() as u64;
    println!("{named} of {ROUNDS} writes name the notifier");
    assert!(named >= ROUNDS / 2, "{named}");
}

/// A server that writes once per request, and a client in another process that uses no file.
const SERVER: &str = "
import os, socket, time
server, client = socket.socketpair()
if os.fork() == 0:
    for i in range(40):
        time.sleep(0.003)
        client.send(b'x')
        client.recv(1)
    os._exit(0)
fd = os.open('f', os.O_RDWR | os.O_CREAT)
for i in range(40):
    server.recv(1)
    os.pwrite(fd, b'x', i)
    server.send(b'x')
os.wait()
";

#[test]
fn a_client_is_another_waker() {
    let Some((_, trace, _)) = record(python(SERVER)) else { return };
    let gaps = gaps(&trace, "db/f");
    assert_eq!(gaps.len(), 40);
    let woken = gaps.iter().filter(|(_, gap, _)| gap.waker == Gap::OTHER).count();
    assert!(gaps.iter().all(|(_, gap, _)| [0, Gap::OTHER].contains(&gap.waker)), "{gaps:?}");
    assert!(woken >= 20, "{woken} of 40 writes followed a wakeup");
}

/// A thread without files hands out work to a thread that writes, which later sleeps before each write.
const POOL: &str = "
import os, threading, time
work = threading.Semaphore(0)
def serve():
    fd = os.open('f', os.O_RDWR | os.O_CREAT)
    for i in range(80):
        work.acquire()
        if i >= 40: time.sleep(0.002)
        os.pwrite(fd, b'x', i)
server = threading.Thread(target=serve)
server.start()
for i in range(80):
    time.sleep(0.006)
    work.release()
server.join()
";

#[test]
fn a_thread_of_the_same_process_is_a_sibling() {
    let Some((_, trace, _)) = record(python(POOL)) else { return };
    let gaps = gaps(&trace, "db/f");
    assert_eq!(gaps.len(), 80);
    let (at_once, later) = gaps.split_at(40);
    let woken = at_once.iter().filter(|(_, gap, _)| gap.waker == Gap::SIBLING).count();
    assert!(woken >= 20, "{woken} of 40 writes followed a wakeup: {gaps:?}");
    // A timer ended the last sleep; before it, the thread had waited for work.
    let is_served = |gap: &Gap, length| {
        let after_work = length - u64::from(gap.served_ns);
        gap.waker == Gap::TIMER && gap.served_ns > 0 && after_work >= 2_000_000
    };
    let served = later.iter().filter(|(_, gap, length)| is_served(gap, *length)).count();
    assert!(served >= 20, "{served} of 40 writes followed a wait for work and a sleep: {gaps:?}");
}

#[test]
fn the_second_event_of_a_call_has_no_gap_and_failed_calls_end_none() {
    let Some((_, trace, _)) = record(python(
        "
import os, time
a = os.open('a', os.O_RDWR | os.O_CREAT)
b = os.open('b', os.O_RDWR | os.O_CREAT)
os.pwrite(a, b'x' * 4096, 0)
os.sendfile(b, a, 0, 4096)
os.pwrite(b, b'y', 0)
time.sleep(0.05)
try: os.pwrite(b, b'y', -1)
except OSError: pass
os.ftruncate(b, 7)
os.rename('b', 'c')",
    )) else {
        return;
    };
    let gap = |name: &str, op| events_on(&trace, name).into_iter().find(|e| e.op == op).unwrap().gap;
    assert!(gap("db/a", Op::Read).is_some(), "the read of the sendfile");
    let writes: Vec<_> = events_on(&trace, "db/c").into_iter().filter(|e| e.op == Op::Write).collect();
    assert_eq!(writes.iter().map(|e| e.gap.is_some()).collect::<Vec<_>>(), [false, true]);
    let truncate = gap("db/c", Op::Truncate).unwrap();
    assert_eq!(truncate.waker, Gap::TIMER, "the sleep was before the call that failed: {truncate:?}");
    assert!(truncate.cpu_ns < 50_000_000);
    assert!(gap("db/c", Op::Rename).is_some());
}

/// Uses three seconds of CPU time while writing, and prints the CPU time.
const BUSY: &str = "
import os, time
fd = os.open('f', os.O_RDWR | os.O_CREAT)
while time.thread_time_ns() < 3000000000:
    os.pwrite(fd, b'x', 0)
    end = time.thread_time_ns() + 20000000
    while time.thread_time_ns() < end: pass
print(time.thread_time_ns())
";

fn check_seconds(summary: &Summary, trace: &Trace, cpu: u64) {
    let Trace { meta, .. } = trace;
    assert_eq!(meta, &summary.meta);
    assert_eq!(meta.cores as usize, std::thread::available_parallelism().unwrap().get());
    assert_eq!(meta.cpu.len() as u64, meta.duration_ns / 1_000_000_000);
    let host: u64 = meta.cpu.iter().map(|second| second.host_ns).sum();
    let subject: u64 = meta.cpu.iter().map(|second| second.subject_ns).sum();
    // The seconds at the edges are missing: those before the process is known, and the last, incomplete one.
    assert!(subject <= cpu + cpu / 10 && subject >= cpu / 4, "{subject} of {cpu}: {:?}", meta.cpu);
    assert!(host >= subject / 2 && host <= meta.duration_ns * u64::from(meta.cores) * 11 / 10, "{host}");
}

#[test]
fn the_cpu_time_of_each_second_is_kept() {
    let Some((summary, trace, printed)) = record(python(BUSY)) else { return };
    check_seconds(&summary, &trace, printed.trim().parse().unwrap());

    let scratch = scratch();
    let child = python(BUSY).current_dir(scratch.path()).stdout(Stdio::piped()).spawn().unwrap();
    let live = Live::start(Subject::Pid(child.id()), &scratch.path().join("t.parquet")).unwrap();
    let output = child.wait_with_output().unwrap();
    let (summary, trace) = live.join();
    check_seconds(&summary, &trace, String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
}
