//! Recordings of a block device, compared with the kernel's own counters of it.

mod common;
#[path = "common/devices.rs"]
mod devices;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Live, installed, permitted, python, scratch};
use devices::{Counters, Device, Mounted, run, runs};
use poolwright_record::{BlockDevice, Subject, Summary};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Flags, Op, Trace};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Direct transfers between a device and aligned memory, for a Python program.
const DIRECT: &str = "
import fcntl, mmap, os, struct, sys
def opened(flags): return os.open(sys.argv[1], flags)
def memory(n):
    m = mmap.mmap(-1, n)
    m.write(b'x' * n)
    return m
def read(fd, at, n): assert os.preadv(fd, [memory(n)], at) == n
def write(fd, at, n): assert os.pwritev(fd, [memory(n)], at) == n
def ioctl(fd, number, at, n): fcntl.ioctl(fd, number, struct.pack('QQ', at, n))
";

/// Runs a Python program, with the functions of [`DIRECT`], on a device.
fn direct(device: &Path, program: &str) {
    let status = Command::new("python3").args(["-c", &format!("{DIRECT}{program}")]).arg(device).status();
    assert!(status.expect("python3 starts").success(), "the program failed: {program}");
}

/// A recording of a device, and what the kernel counted meanwhile.
struct Recorded {
    summary: Summary,
    trace: Trace,
    counters: Counters,
}

impl Recorded {
    /// Records what `load` does. `None` if that is not permitted.
    fn of(device: &Device, scratch: &Path, load: impl FnOnce()) -> Option<Recorded> {
        let subject = Subject::Device(BlockDevice::find(&device.path).unwrap());
        let before = device.counters();
        let live = Live::start(subject, &scratch.join("t.parquet"))?;
        load();
        let (summary, trace) = live.finish();
        Some(Recorded { summary, trace, counters: device.counters().since(&before) })
    }

    fn bytes(&self, op: Op) -> u64 {
        self.trace.events.iter().filter(|event| event.op == op).map(|event| event.len).sum()
    }

    /// The number of flushes that a device without FUA gets.
    fn flushes(&self) -> u64 {
        let is_one = |event: &&Event| event.op == Op::Fsync || event.flags.contains(Flags::SYNC);
        self.trace.events.iter().filter(is_one).count() as u64
    }

    fn ops(&self) -> Vec<(Op, u64, u64)> {
        self.trace.events.iter().map(|event| (event.op, event.offset, event.len)).collect()
    }

    /// Asserts that nothing was lost, and that each event has a duration.
    fn assert_complete(&self) {
        assert_eq!(self.summary.meta.lost_events, 0);
        assert_eq!(self.trace.meta.unseen, []);
        for event in &self.trace.events {
            assert!(
                event.dur_ns > 0 && event.t_ns + event.dur_ns <= self.trace.meta.duration_ns,
                "{event:?}"
            );
            assert!(event.pid != 0 && event.tid != 0, "{event:?}");
        }
    }
}

#[test]
fn direct_transfers_are_recorded_with_their_whole_length() {
    let scratch = scratch();
    if !permitted() {
        return;
    }
    let Some(device) = Device::on_file(&scratch.path().join("disk"), 64 * MIB) else { return };
    // Larger requests are split.
    device.set_max_request(64);
    let load = || {
        direct(
            &device.path,
            "
fd = opened(os.O_RDWR | os.O_DIRECT)
read(fd, 0, 4096)
write(fd, 1 << 20, 4096)
write(fd, 2 << 20, 1 << 20)
os.fsync(fd)
read(fd, 8 << 20, 8 << 20)
write(fd, 32 << 20, 8 << 20)
",
        );
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let trace = &recorded.trace;
    let path = device.path.to_str().unwrap();
    assert_eq!(trace.meta.subject, format!("zvol:{path}"));
    assert_eq!(trace.meta.probe_set, "block");
    let [file] = trace.files.as_slice() else { panic!("{:?}", trace.files) };
    assert_eq!((file.path.as_str(), file.size, file.role, file.ino), (path, 64 * MIB, Some(Role::Volume), 0));
    let number = std::fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    assert_eq!(file.device, number.trim());

    let ops = recorded.ops();
    let first =
        [(Op::Read, 0, 4 * KIB), (Op::Write, MIB, 4 * KIB), (Op::Write, 2 * MIB, MIB), (Op::Fsync, 0, 0)];
    assert_eq!(ops[..4], first);
    // The kernel divides transfers that have more than 256 separate pieces of memory.
    assert!(ops[4..].iter().all(|(.., len)| *len > 64 * KIB), "{ops:?}");
    for (op, start) in [(Op::Read, 8 * MIB), (Op::Write, 32 * MIB)] {
        let mut parts: Vec<(u64, u64)> =
            ops[4..].iter().filter(|(of, ..)| *of == op).map(|(_, at, len)| (*at, *len)).collect();
        parts.sort_unstable();
        let end = parts.iter().fold(start, |end, (at, len)| {
            assert_eq!(*at, end, "{parts:?}");
            at + len
        });
        assert_eq!(end, start + 8 * MIB, "{parts:?}");
    }
    let Counters { read, written, discarded, flushes, .. } = recorded.counters;
    assert_eq!(
        (recorded.bytes(Op::Read), recorded.bytes(Op::Write), recorded.bytes(Op::Punch), recorded.flushes()),
        (read, written, discarded, flushes)
    );
    assert_eq!(recorded.summary.bytes, read + written);
}

#[test]
fn a_driver_of_bios_ends_them_itself() {
    let scratch = scratch();
    if !permitted() {
        return;
    }
    let Some(device) = Device::in_memory(64 * MIB) else { return };
    let load = || {
        direct(
            &device.path,
            "
fd = opened(os.O_RDWR | os.O_DIRECT)
write(fd, 1 << 20, 4096)
write(fd, 2 << 20, 1 << 20)
read(fd, 2 << 20, 1 << 20)
ioctl(fd, 0x1277, 4 << 20, 8 << 20) # BLKDISCARD
cached = opened(os.O_RDWR)
os.pwrite(cached, bytes(4 << 20), 32 << 20)
os.fsync(cached)
",
        );
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let ops = recorded.ops();
    let first = [
        (Op::Write, MIB, 4 * KIB),
        (Op::Write, 2 * MIB, MIB),
        (Op::Read, 2 * MIB, MIB),
        (Op::Punch, 4 * MIB, 8 * MIB),
    ];
    assert_eq!(ops[..4], first);
    assert!(ops[4..].iter().all(|(op, ..)| *op == Op::Write), "{ops:?}");
    let Counters { read, written, .. } = recorded.counters;
    assert_eq!((recorded.bytes(Op::Read), recorded.bytes(Op::Write)), (read, written));
    assert_eq!(written, 5 * MIB + 4 * KIB);
}

#[test]
fn synchronous_writes_and_discards_are_told_apart() {
    let scratch = scratch();
    if !permitted() {
        return;
    }
    let Some(device) = Device::on_file(&scratch.path().join("disk"), 64 * MIB) else { return };
    let load = || {
        direct(
            &device.path,
            "
fd = opened(os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
write(fd, 1 << 20, 8192)
ioctl(fd, 0x1277, 4 << 20, 8 << 20) # BLKDISCARD
",
        );
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let ops = recorded.ops();
    assert_eq!(ops, [(Op::Write, MIB, 8 * KIB), (Op::Fsync, 0, 0), (Op::Punch, 4 * MIB, 8 * MIB)]);
    let flags: Vec<Flags> = recorded.trace.events.iter().map(|event| event.flags).collect();
    assert_eq!(flags, [Flags::SYNC, Flags::default(), Flags::default()]);
    let Counters { read, written, discarded, flushes, .. } = recorded.counters;
    assert_eq!((read, written, discarded, flushes), (0, 8 * KIB, 8 * MIB, recorded.flushes()));

    // The kernel counts what the device zeroes as written.
    let load = || direct(&device.path, "ioctl(opened(os.O_RDWR), 0x127f, 16 << 20, 4 << 20) # BLKZEROOUT");
    let second = common::scratch();
    let Some(recorded) = Recorded::of(&device, second.path(), load) else { return };
    recorded.assert_complete();
    assert_eq!(recorded.bytes(Op::Punch) + recorded.bytes(Op::Write), 4 * MIB);
    assert_eq!(recorded.counters.written, 4 * MIB);
}

#[test]
fn a_file_system_on_the_device_is_recorded_to_the_byte() {
    let scratch = scratch();
    if !permitted() || !installed("mkfs.ext4") {
        return;
    }
    let Some(device) = Device::on_file(&scratch.path().join("disk"), 256 * MIB) else { return };
    let path = device.path.to_str().unwrap();
    let load = || {
        run("mkfs.ext4", &["-q", path]);
        let mounted = Mounted::mount(&[path], &scratch.path().join("mnt"));
        python(
            &mounted.point,
            "
import os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
for i in range(64):
    os.pwrite(fd, os.urandom(16384), i * 65536)
    os.fsync(fd)
os.pwrite(fd, os.urandom(32 << 20), 8 << 20)
os.close(fd)
open('g', 'wb').write(bytes(1 << 20))
os.remove('g')
",
        );
        drop(mounted);
        // Reads, which are not in the page cache any more.
        let mounted = Mounted::mount(&[path], &scratch.path().join("mnt"));
        python(&mounted.point, "assert len(open('f', 'rb').read()) == 40 << 20");
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let Counters { read, written, discarded, flushes, .. } = recorded.counters;
    eprintln!(
        "{:?}: {} events, {} punched, {} flushes",
        recorded.counters,
        recorded.trace.events.len(),
        recorded.bytes(Op::Punch),
        recorded.flushes()
    );
    assert!(read > 32 * MIB && written > 33 * MIB && flushes >= 64);
    assert_eq!(recorded.bytes(Op::Read), read);
    // The kernel counts what the device zeroes as written.
    assert_eq!(recorded.bytes(Op::Write) + recorded.bytes(Op::Punch), written + discarded);
    // Flushes that wait for another one share the next.
    assert!(recorded.flushes() >= flushes, "{} of {flushes}", recorded.flushes());
    // The log is written and flushed by the file system's thread.
    let writers = recorded.trace.events.iter().filter(|event| event.op == Op::Write).map(|event| event.pid);
    assert!(writers.collect::<std::collections::BTreeSet<u32>>().len() > 1);
}

#[test]
fn offsets_on_a_partition_are_those_of_the_device() {
    let scratch = scratch();
    if !permitted() {
        return;
    }
    let Some(device) = Device::on_file(&scratch.path().join("disk"), 64 * MIB) else { return };
    let path = device.path.to_str().unwrap();
    // 16 MiB at 4 MiB, in sectors.
    if !installed("addpart") || !runs("addpart", &[path, "1", "8192", "32768"]) {
        return common::skip("no partitions");
    }
    // There may be no udev to make the file of the partition.
    let name = format!("{}p1", device.name());
    let number = std::fs::read_to_string(format!("/sys/block/{}/{name}/dev", device.name())).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let partition = scratch.path().join(name);
    run("mknod", &[partition.to_str().unwrap(), "b", major, minor]);
    let refused = BlockDevice::find(&partition).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!(
            "cannot record {}: it is a partition\nhint: record {}, which includes the operations on its partitions",
            partition.display(),
            device.path.display()
        )
    );
    let load = || direct(&partition, "write(opened(os.O_RDWR | os.O_DIRECT), 1 << 20, 4096)");
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    assert_eq!(recorded.ops(), [(Op::Write, 5 * MIB, 4 * KIB)]);
    assert_eq!(recorded.counters.written, 4 * KIB);
}

#[test]
fn failed_requests_make_no_event() {
    let scratch = scratch();
    if !permitted() {
        return;
    }
    // A file system that is full, with a sparse file of more than its size.
    let small = Mounted::mount(&["-t", "tmpfs", "-o", "size=4M", "none"], &scratch.path().join("small"));
    let Some(device) = Device::on_file(&small.point.join("disk"), 64 * MIB) else { return };
    let load = || {
        direct(
            &device.path,
            "
fd = opened(os.O_RDWR | os.O_DIRECT)
write(fd, 0, 1 << 20)
try:
    for i in range(1, 32): write(fd, i << 20, 1 << 20)
except OSError: sys.exit()
sys.exit('no write failed')
",
        );
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let ops = recorded.ops();
    assert!(ops.len() < 5 && ops.iter().all(|(op, ..)| *op == Op::Write), "{ops:?}");
    assert_eq!(ops[0], (Op::Write, 0, MIB));
}

#[test]
fn requests_in_flight_at_the_end_are_recorded_without_a_duration() {
    let scratch = scratch();
    if !permitted() || !installed("mkfs.ext4") || !installed("fsfreeze") {
        return;
    }
    let Some(below) = Device::on_file(&scratch.path().join("below"), 64 * MIB) else { return };
    let path = below.path.to_str().unwrap();
    run("mkfs.ext4", &["-q", path]);
    let mounted = Mounted::mount(&[path], &scratch.path().join("mnt"));
    let Some(device) = Device::on_file(&mounted.point.join("disk"), 32 * MIB) else { return };
    let mut writer = None;
    let load = || {
        // The loop device waits for the frozen file system.
        run("fsfreeze", &["--freeze", mounted.point.to_str().unwrap()]);
        let program = format!("{DIRECT}write(opened(os.O_RDWR | os.O_DIRECT), 1 << 20, 4096)");
        writer = Command::new("python3").args(["-c", &program]).arg(&device.path).spawn().ok();
        let deadline = Instant::now() + Duration::from_secs(300);
        while device.counters().in_flight == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let recorded = Recorded::of(&device, scratch.path(), load);
    run("fsfreeze", &["--unfreeze", mounted.point.to_str().unwrap()]);
    let Some(recorded) = recorded else { return };
    assert!(writer.expect("python3 starts").wait().unwrap().success());
    assert_eq!(recorded.ops(), [(Op::Write, MIB, 4 * KIB)]);
    assert_eq!(recorded.trace.events[0].dur_ns, 0);
    let [(what, 1)] = recorded.trace.meta.unseen.as_slice() else {
        panic!("{:?}", recorded.trace.meta.unseen)
    };
    assert!(what.starts_with("requests of the device still in flight at the end"), "{what}");
}
