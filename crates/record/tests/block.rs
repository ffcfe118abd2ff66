//! Recordings of a block device, compared with the kernel's own counters of it. `POOLWRIGHT_TEST_VOLUME` names a device for some of the tests, such
//! as a volume.

mod common;
#[path = "common/devices.rs"]
mod devices;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::{Live, installed, permitted, scratch};
use devices::{Counters, Device, Direct, Frozen, Mounted, run, runs};
use poolwright_record::{BlockDevice, Subject, Summary};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Flags, Op, Trace};
use rustix::fs::OFlags;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

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
    let Some(device) = Device::of_test(scratch.path()) else { return };
    // Larger requests are split.
    device.set_max_request(64);
    let load = || {
        let direct = Direct::open(&device.path, OFlags::empty());
        direct.read(0, 4 << 10);
        direct.write(MIB, 4 << 10);
        direct.write(2 * MIB, 1 << 20);
        direct.sync();
        direct.read(8 * MIB, 8 << 20);
        direct.write(32 * MIB, 8 << 20);
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let trace = &recorded.trace;
    let path = device.path.to_str().unwrap();
    assert_eq!(trace.meta.subject, format!("zvol:{path}"));
    assert_eq!(trace.meta.probe_set, "block");
    let [file] = trace.files.as_slice() else { panic!("{:?}", trace.files) };
    assert_eq!(
        (file.path.as_str(), file.size, file.role, file.ino),
        (path, device.bytes(), Some(Role::Volume), 0)
    );
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
        (recorded.bytes(Op::Read), recorded.bytes(Op::Write), recorded.bytes(Op::Punch)),
        (read, written, discarded)
    );
    // Only a driver of requests counts flushes.
    assert!(flushes == 0 || flushes == recorded.flushes(), "{flushes}");
    assert_eq!(recorded.summary.bytes, read + written);
}

#[test]
fn a_driver_of_bios_ends_them_itself() {
    let scratch = scratch();
    if !permitted() || !installed("blkdiscard") {
        return;
    }
    let Some(device) = Device::in_memory(64 * MIB) else { return };
    let load = || {
        let direct = Direct::open(&device.path, OFlags::empty());
        direct.write(MIB, 4 << 10);
        direct.write(2 * MIB, 1 << 20);
        direct.read(2 * MIB, 1 << 20);
        run("blkdiscard", &["--force", "--offset", "4M", "--length", "8M", device.path.to_str().unwrap()]);
        let cached = File::options().write(true).open(&device.path).unwrap();
        cached.write_all_at(&vec![b'x'; 4 << 20], 32 * MIB).unwrap();
        cached.sync_all().unwrap();
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
    if !permitted() || !installed("blkdiscard") {
        return;
    }
    let Some(device) = Device::on_file(&scratch.path().join("disk"), 64 * MIB) else { return };
    let path = device.path.to_str().unwrap();
    let load = || {
        Direct::open(&device.path, OFlags::DSYNC).write(MIB, 8 << 10);
        run("blkdiscard", &["--force", "--offset", "4M", "--length", "8M", path]);
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
    let load = || run("blkdiscard", &["--force", "--zeroout", "--offset", "16M", "--length", "4M", path]);
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
    let Some(device) = Device::of_test(scratch.path()) else { return };
    let path = device.path.to_str().unwrap();
    let load = || {
        run("mkfs.ext4", &["-q", "-F", path]);
        let mounted = Mounted::mount(&["-t", "ext4", path], &scratch.path().join("mnt"));
        let file = File::create(mounted.point.join("f")).unwrap();
        let page: Vec<u8> = (0..16384u32).flat_map(u32::to_le_bytes).collect();
        for n in 0..64 {
            file.write_all_at(&page[..16384], n * 65536).unwrap();
            file.sync_all().unwrap();
        }
        for n in 0..512 {
            file.write_all_at(&page, 8 * MIB + n * 65536).unwrap();
        }
        std::fs::write(mounted.point.join("g"), &page).unwrap();
        std::fs::remove_file(mounted.point.join("g")).unwrap();
        drop((file, mounted));
        // Reads, because the page cache has nothing of it any more.
        let mounted = Mounted::mount(&["-t", "ext4", path], &scratch.path().join("mnt"));
        assert_eq!(std::fs::read(mounted.point.join("f")).unwrap().len() as u64, 40 * MIB);
    };
    let Some(recorded) = Recorded::of(&device, scratch.path(), load) else { return };
    recorded.assert_complete();
    let Counters { read, written, discarded, flushes, .. } = recorded.counters;
    assert!(read > 32 * MIB && written > 33 * MIB && recorded.flushes() >= 64);
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
    let load = || Direct::open(&partition, OFlags::empty()).write(MIB, 4 << 10);
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
        let direct = Direct::open(&device.path, OFlags::empty());
        direct.write(0, 1 << 20);
        let failed = (1..32).any(|n| direct.try_write(n * MIB, 1 << 20).is_err());
        assert!(failed, "every write succeeded");
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
    let (mut writer, mut frozen) = (None, None);
    let load = || {
        // The loop device waits for the frozen file system.
        frozen = Some(Frozen::freeze(&mounted.point));
        let path = device.path.clone();
        writer = Some(thread::spawn(move || Direct::open(&path, OFlags::empty()).write(MIB, 4 << 10)));
        let deadline = Instant::now() + Duration::from_secs(300);
        while device.counters().in_flight == 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    };
    let recorded = Recorded::of(&device, scratch.path(), load);
    drop(frozen);
    let Some(recorded) = recorded else { return };
    writer.expect("the load has run").join().unwrap();
    assert_eq!(recorded.ops(), [(Op::Write, MIB, 4 * KIB)]);
    assert_eq!(recorded.trace.events[0].dur_ns, 0);
    let [(what, 1)] = recorded.trace.meta.unseen.as_slice() else {
        panic!("{:?}", recorded.trace.meta.unseen)
    };
    assert!(what.starts_with("requests of the device still in flight at the end"), "{what}");
}
