//! Emulated devices have the requested figures.

use std::sync::{Mutex, PoisonError};

use poolwright_openzfs::{Config, Device, Engine, Layout, Pool, Spec, Use, VdevGroup};

/// Returns the operations per second and the median latency in nanoseconds of `callers` that each do `each` requests, one after the
/// other. Uses a simulated clock, so the result does not depend on the machine.
fn drive(engine: Engine, callers: usize, each: usize, bytes: u64, sequential: bool) -> (f64, f64) {
    const START: u64 = 1_000_000_000;
    let mut free = vec![(START, 0); callers];
    let mut times = Vec::new();
    while let Some((caller, (now, i))) =
        free.iter().copied().enumerate().filter(|(_, (_, i))| *i < each).min_by_key(|(_, (now, _))| *now)
    {
        let location = ((caller * each + i) as u64 * 7919 % 100_000) * 17;
        let at = if sequential { i as u64 * bytes } else { location << 16 };
        let done = engine.device_completion("read", at, bytes, now);
        times.push(done - now);
        free[caller] = (done, i + 1);
    }
    let last = free.iter().map(|(done, _)| *done).max().unwrap();
    times.sort_unstable();
    (times.len() as f64 / ((last - START) as f64 / 1e9), times[times.len() / 2] as f64)
}

/// Serializes the tests, because the devices belong to the process.
static ALONE: Mutex<()> = Mutex::new(());

fn near(what: &str, want: f64, got: f64) {
    assert!((got / want - 1.0).abs() < 0.02, "{what}: {got:.0} instead of {want:.0}");
}

#[test]
fn emulated_devices_have_the_requested_figures() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = Engine::start(&Config::default()).unwrap();
    let device = |text: &str| engine.set_device(&Device::parse(text).unwrap());
    // Latency at depth 1.
    device("read=1ms,depth=1,read_bw=0,iops=0");
    near("1 ms read", 1e6, drive(engine, 1, 200, 4096, true).1);
    // Queue depth: four callers have four times the rate of one, sixteen callers have the same rate as four.
    device("read=2ms,depth=4,read_bw=0,iops=0");
    near("depth 4", 2000.0, drive(engine, 16, 60, 4096, true).0);
    // Bandwidth.
    device("read=100us,depth=8,read_bw=200M,iops=0");
    near("200 MiB/s", 200.0, drive(engine, 4, 500, 1 << 20, true).0);
    // Operations per second.
    device("read=100us,depth=32,read_bw=0,iops=3000");
    near("3000 iops", 3000.0, drive(engine, 4, 600, 4096, true).0);
    // Seeks: sequential requests have none.
    device("hdd");
    near("hdd random", 1e9 / 12_722_000.0, drive(engine, 1, 60, 4096, false).0);
    device("hdd"); // resets its clock
    let sequential = drive(engine, 1, 1000, 65536, true).0;
    assert!(sequential > 1500.0, "sequential reads at {sequential:.0}/s pay for seeks");
    // The read cache: what was just read, and what the disk has read ahead since, needs no seek; what was written does.
    device("read=0,write=0,seek=5ms,cache=16M,read_bw=100M,write_bw=100M,iops=0,depth=1");
    let mut now = 1_000_000_000;
    let mut takes = |op: &str, at: u64, idle: u64| {
        let began = now + idle;
        now = engine.device_completion(op, at, 128 << 10, began);
        now - began
    };
    const SEEK: u64 = 5_000_000;
    const FAR: u64 = 1 << 30;
    assert!(takes("read", FAR, 0) > SEEK, "the first read");
    assert!(takes("read", FAR, 0) < SEEK, "the same bytes again");
    assert!(takes("read", FAR + (256 << 10), 4_000_000) < SEEK, "read ahead in 4 ms: 400 KiB");
    assert!(takes("read", 2 * FAR, 0) > SEEK, "another place");
    assert!(takes("read", FAR + (256 << 10), 0) < SEEK, "still cached");
    assert!(takes("read", FAR + (900 << 10), 0) > SEEK, "not read ahead so far");
    assert!(takes("write", FAR + (64 << 10), 0) > SEEK, "a write has no cache");
    assert!(takes("read", FAR, 0) > SEEK, "the write changed it");
    for other in 3..30 {
        takes("read", other * FAR, 0);
    }
    assert!(takes("read", 2 * FAR, 0) > SEEK, "replaced by 16 others");
    // A stripe: four disks do four times as many seeks, and a request over all disks waits for each only once.
    device("4xhdd");
    let random = drive(engine, 64, 100, 4096, false).0 / (4e9 / 12_722_000.0);
    assert!((0.8..1.01).contains(&random), "4xhdd random: {random:.2} of what four disks do");
    engine
        .set_device(&Device { disks: 4, ..Device::parse("read=10ms,depth=1,read_bw=100M,iops=0").unwrap() });
    near("1M of a stripe", 12.5e6, drive(engine, 1, 20, 1 << 20, true).1);
    engine.set_device(&Device::none());
}

/// A request never ends before its emulated time. How much later it ends depends on the machine: on a busy core, a thread that yields
/// the CPU continues only milliseconds later.
#[cfg(feature = "fault-injection")]
#[test]
fn a_request_takes_its_time() {
    use std::time::{Duration, Instant};
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = Engine::start(&Config::default()).unwrap();
    engine.set_device(&Device::parse("read=1ms,depth=1,read_bw=0,iops=0").unwrap());
    let mut took = Vec::new();
    for i in 0..200 {
        let begin = Instant::now();
        engine.exercise_device("read", i * 4096, 4096);
        took.push(begin.elapsed());
    }
    engine.set_device(&Device::none());
    took.sort_unstable();
    println!("a request of 1 ms took {:?}", took[100]);
    assert!(took[0] >= Duration::from_millis(1) && took[100] < Duration::from_millis(500), "{took:?}");
}

/// Each vdev file is a separate device, of its own kind.
#[test]
fn each_file_is_a_separate_device() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = Engine::start(&Config::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let paths = ["fast", "slow"].map(|name| dir.path().join(name));
    let files = paths.iter().map(|p| (p.clone(), 1 << 30)).collect();
    let groups = vec![VdevGroup { layout: Layout::Mirror, usage: Use::Data, files }];
    let pool = Pool::create(engine, &Spec { name: "kinds".into(), ashift: 12, groups }).unwrap();
    engine.set_device_of(&paths[1], &Device::parse("write=250ms,flush=250ms,depth=32").unwrap()).unwrap();
    let moved = || paths.each_ref().map(|p| pool.vdev_stats().into_iter().find(|(q, _)| p == q).unwrap().1);
    let before = moved();
    for _ in 0..2 {
        let dataset = pool.open_dataset("").unwrap();
        dataset
            .set("recordsize", if dataset.get("recordsize").unwrap() == "16384" { "32K" } else { "16K" })
            .unwrap();
        drop(dataset);
        pool.sync().unwrap();
    }
    let after = moved();
    let mean = [0, 1].map(|i| {
        let moved = after[i].since(&before[i]);
        assert!(moved.write_ops > 5, "{moved:?}");
        moved.write_ns / moved.write_ops
    });
    assert!(mean[1] >= 250_000_000 && mean[0] < mean[1] / 2, "{mean:?}");
    drop(pool);
    engine.set_device(&Device::none());
}
