//! The emulated device gives the figures it is asked for.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use poolwright_openzfs::{Config, Device, Engine, Layout, Pool, Spec, Use, VdevGroup};

/// Operations a second and the median latency in nanoseconds of `threads` doing `each` requests.
fn drive(engine: Engine, threads: usize, each: usize, bytes: u64, sequential: bool) -> (f64, u64) {
    let start = Instant::now();
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let work = |t: usize| {
            let mut times = Vec::with_capacity(each);
            for i in 0..each {
                let at = if sequential {
                    i as u64 * bytes
                } else {
                    (((t * each + i) as u64 * 7919 % 100_000) * 17) << 16
                };
                let begin = Instant::now();
                Device::exercise(engine, "read", at, bytes);
                times.push(begin.elapsed().as_nanos() as u64);
            }
            times
        };
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
        handles.into_iter().flat_map(|h| h.join().unwrap()).collect()
    });
    let rate = (threads * each) as f64 / start.elapsed().as_secs_f64();
    all.sort_unstable();
    (rate, all[all.len() / 2])
}

/// The devices are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A busy machine makes a device late, never early: one good measurement of five is enough.
fn near(what: &str, want: f64, within: f64, mut measure: impl FnMut() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let got = measure();
        seen.push(got);
        if (got / want - 1.0).abs() < within {
            println!("{what}: {got:.0}, wanted {want:.0}");
            return;
        }
    }
    panic!("{what}: {seen:.0?} instead of {want:.0}");
}

#[test]
fn emulated_figures_come_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = Engine::start(&Config::default());
    // Latency at depth 1.
    engine.set_device(&Device::parse("read=1ms,depth=1,read_bw=0,iops=0").unwrap());
    near("1 ms read", 1e6, 0.10, || drive(engine, 1, 200, 4096, true).1 as f64);
    engine.set_device(&Device::parse("read=100us,depth=1,read_bw=0,iops=0").unwrap());
    near("100 us read", 1e5, 0.15, || drive(engine, 1, 1000, 4096, true).1 as f64);
    // Queue depth: four at once give four times the rate, sixteen callers no more than that.
    engine.set_device(&Device::parse("read=2ms,depth=4,read_bw=0,iops=0").unwrap());
    near("depth 4", 2000.0, 0.15, || drive(engine, 16, 60, 4096, true).0);
    // Bandwidth.
    engine.set_device(&Device::parse("read=100us,depth=8,read_bw=200M,iops=0").unwrap());
    near("200 MiB/s", 200.0, 0.15, || drive(engine, 4, 50, 1 << 20, true).0);
    // Operations a second.
    engine.set_device(&Device::parse("read=100us,depth=32,read_bw=0,iops=3000").unwrap());
    near("3000 iops", 3000.0, 0.15, || drive(engine, 4, 600, 4096, true).0);
    // Seeks: sequential requests are spared them.
    engine.set_device(&Device::parse("hdd").unwrap());
    near("hdd random", 1e9 / 12_722_000.0, 0.15, || drive(engine, 1, 60, 4096, false).0);
    let sequential = (0..5).map(|_| drive(engine, 1, 200, 65536, true).0).fold(0.0, f64::max);
    assert!(sequential > 1500.0, "sequential reads at {sequential:.0}/s pay for seeks");
    // A stripe: four disks do four times as many seeks at once, and a request over all of them waits for none twice.
    engine.set_device(&Device::parse("4xhdd").unwrap());
    near("4xhdd random", 4e9 / 12_722_000.0, 0.25, || drive(engine, 64, 8, 4096, false).0);
    engine
        .set_device(&Device { disks: 4, ..Device::parse("read=10ms,depth=1,read_bw=100M,iops=0").unwrap() });
    near("1M of a stripe", 12.5e6, 0.10, || drive(engine, 1, 20, 1 << 20, true).1 as f64);
    engine.set_device(&Device::host());
}

/// Every vdev file is a device of its own, of its own kind.
#[test]
fn files_are_devices_of_their_own() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = Engine::start(&Config::default());
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
    engine.set_device(&Device::host());
}
