//! On the virtual clock, the same work takes the same time, and a wait takes no time of the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use poolwright_openzfs::clock::{self, CodecCost, Costs, Event, Threads, Time, Turn, VirtualClock};
use poolwright_openzfs::{Config, Device, Engine, Pool, Spec};

mod common;

const RECORD: usize = 16 << 10;
const RECORDS: u64 = 2000;
const THREADS: u64 = 4;
const STEPS: u64 = 300;

fn start(processors: u32) -> Engine {
    // Metadata is compressed with lz4.
    let codec = |n: u32| CodecCost {
        codec: 15,
        level: 0,
        size_bits: 8 + n / 2,
        ratio_bits: 0,
        decompress: n % 2 == 1,
        ns: 2000 + u64::from(n) * 20,
    };
    let codecs = (0..24).map(codec).collect();
    let costs =
        Costs { call_ns: 50, switch_ns: 3000, copy_ps: 100, checksum_ps: 200, codecs, ..Costs::reference() };
    let clock = Some(VirtualClock { processors, seed: 7, costs });
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, clock, ..Config::default() }).unwrap();
    assert!(clock::is_virtual());
    engine
}

/// Random reads, writes and syncs by several threads on an emulated device; its figures as text.
fn workload(processors: u32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(processors);
    // The pool contains the path, compressed, so it must be the same in each run.
    std::env::set_current_dir(dir.path()).unwrap();
    let pool = Pool::create(engine, &Spec::single("tank", Path::new("/proc/self/cwd/vdev"), 12)).unwrap();
    let settings = [("compression", "off"), ("recordsize", "16K"), ("primarycache", "metadata")];
    let settings: BTreeMap<String, String> =
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let file = pool.create_dataset("d", &settings).unwrap().create_file("f").unwrap();
    let content = common::noise(RECORD, 1);
    for n in 0..RECORDS {
        file.write_at(n * RECORD as u64, &content).unwrap();
    }
    pool.sync().unwrap();
    engine.set_device(&Device::parse("nvme").unwrap());
    let (before, began, worked) = (engine.vdev_stats(), Time::now(), clock::cpu_time());
    let threads = Threads::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (file, content) = (&file, &content);
            let body = move || {
                let mut buf = vec![0; RECORD];
                for step in 0..STEPS {
                    let at = (thread * STEPS + step) * 7919 % RECORDS * RECORD as u64;
                    match step % 10 {
                        0 => file.write_sync_at(at, content).unwrap(),
                        1..4 => file.write_at(at, content).unwrap(),
                        _ => assert_eq!(file.read_at(at, &mut buf).unwrap(), RECORD),
                    }
                    clock::work(Duration::from_micros(20));
                }
            };
            threads.spawn(scope, format!("lane{thread}"), body).unwrap();
        }
        assert!(threads.wait(Duration::MAX));
    });
    let took = began.elapsed();
    let io = engine.vdev_stats().since(&before);
    let worked = clock::cpu_time() - worked;
    engine.set_device(&Device::none());
    format!("{} {io:?} {worked:?}", took.as_nanos())
}

/// A process has one engine, so each run is a process of its own.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn victim() {
    let processors = std::env::var("PROCESSORS").unwrap().parse().unwrap();
    println!("figures {}", workload(processors));
}

/// Returns the figures of a run; the first is its time in nanoseconds.
fn figures(processors: &str) -> String {
    let done = common::victim(&[("PROCESSORS", processors)]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("figures "));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&done.stderr))).to_owned()
}

fn nanoseconds(figures: &str) -> u64 {
    figures.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_same_work_takes_the_same_time() {
    let runs: Vec<String> = (0..5).map(|_| figures("2")).collect();
    let first = runs[0].clone();
    assert!(runs.iter().all(|run| *run == first), "{runs:?}");
    // Each thread works 6 ms itself, and waits for the device in at least every second step.
    let least = STEPS * 20_000;
    assert!(nanoseconds(&first) > least, "{first}");
    // With one processor, the threads' own work alone takes four times as long.
    let one = figures("1");
    assert!(nanoseconds(&one) > THREADS * least, "{one}");
    assert!(nanoseconds(&one) > nanoseconds(&first), "one processor: {one}, two: {first}");
}

#[test]
fn threads_wait_on_the_clock_and_not_on_the_host() {
    start(2);
    let began = Time::now();
    clock::sleep(Duration::from_secs(60));
    assert_eq!(began.elapsed().as_secs(), 60);
    // No thread notifies this event.
    let never = Event::default();
    never.wait(Duration::from_secs(40), || false);
    assert_eq!(began.elapsed().as_secs(), 100);
    let (turn, order, threads) = (Turn::default(), std::sync::Mutex::new(Vec::new()), Threads::default());
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (turn, order) = (&turn, &order);
            let body = move || {
                let _mine = turn.take();
                clock::sleep(Duration::from_secs(10));
                order.lock().unwrap().push((number, began.elapsed().as_secs() - 100));
            };
            threads.spawn(scope, format!("turn{number}"), body).unwrap();
        }
        assert!(!threads.wait(Duration::from_secs(15)));
        assert!(threads.wait(Duration::MAX));
    });
    assert_eq!(order.into_inner().unwrap(), [(0, 10), (1, 20), (2, 30)]);
}
