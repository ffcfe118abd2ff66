use poolwright_mrc::advice::StepVerdict;
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Flags, Op};

use super::*;
use poolwright_plan::{CurrentSource, DatasetLocation, Gains};

const PAGE: u64 = 16384;

/// A recording that reads 16K `pages`, one per millisecond, of a file of `of` pages.
fn recording(pages: impl Iterator<Item = u64>, of: u64) -> Trace {
    let read = |(i, page): (usize, u64)| Event {
        t_ns: i as u64 * 1_000_000,
        dur_ns: 1,
        op: Op::Read,
        file: 0,
        offset: page * PAGE,
        len: PAGE,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    };
    let events: Vec<Event> = pages.enumerate().map(read).collect();
    let file = File { path: "/db/table".into(), size: of * PAGE, role: Some(Role::Data), ..File::default() };
    let mut trace = Trace { files: vec![file], events, ..Trace::default() };
    trace.meta.duration_ns = trace.events.len() as u64 * 1_000_000;
    trace
}

fn settings(recordsize: &str, compression: &str) -> Settings {
    Settings::from([("recordsize".into(), recordsize.into()), ("compression".into(), compression.into())])
}

/// The advice for a role whose records have a compression ratio of 2 at 16K.
fn advise_of(
    trace: &Trace,
    role: RolePlan,
    device: &Device,
    direct_io: bool,
    stop: &AtomicBool,
) -> Result<Memory> {
    let is_16k = role.recommended.get("recordsize").is_some_and(|size| size == "16K");
    let ratios = BTreeMap::from([(Role::Data, if is_16k { 2.0 } else { 1.0 })]);
    advise(trace, &[role], &ratios, device, direct_io, stop)
}

fn role(recommended: Settings) -> RolePlan {
    RolePlan {
        role: Role::Data,
        path: "/db".into(),
        paths: vec!["/db".into()],
        files: 1,
        bytes: 0,
        location: DatasetLocation::default(),
        current: settings("128K", "lz4"),
        current_source: CurrentSource::ZfsDefaults { why: "a test".into() },
        recommended,
        safe_because: BTreeMap::new(),
        io: None,
        together_with: Vec::new(),
        replayed: None,
        evidence: Vec::new(),
        gain: Gains::new(),
        alternative: None,
        excluded: None,
        notes: Vec::new(),
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut x = seed;
    move |n| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    }
}

fn not_stopped() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn the_curve_is_that_of_the_recommended_records() {
    // 512 MiB of pages drawn uniformly; compressed by half they take 256 MiB.
    let pages = (512 << 20) / PAGE;
    let mut draw = random(7);
    let trace = recording((0..6 * pages).map(|_| draw(pages)), pages);
    let device = Device::parse("nvme").unwrap();
    let memory = advise_of(&trace, role(settings("16K", "zstd-3")), &device, true, &not_stopped()).unwrap();
    assert_eq!(memory.unknown, None);
    assert_eq!(memory.recordsizes, BTreeMap::from([(Role::Data, "16K".to_string())]));
    // 80 µs, plus 8K at 3.2 GB/s.
    assert_eq!(memory.miss_latency_ns, Some(80_000 + 2_560));
    let Explained { curve, advice } = memory.curve.unwrap();
    assert_eq!((curve.recordsize, curve.requests), (Some(PAGE), 6 * pages));
    let at = |mib: u64| curve.points.iter().find(|p| p.cache_bytes == mib << 20).unwrap().miss_ratio;
    // 64 MiB contain a quarter of the data. 384 MiB contain all of it with its overhead, so that only first
    // accesses miss.
    assert!((at(64) - 0.78).abs() < 0.03, "{curve:?}");
    assert!((at(384) - curve.records as f64 / curve.requests as f64).abs() < 0.003, "{curve:?}");
    assert_eq!(advice.enough.unwrap().cache_bytes, 384 << 20);
    assert_eq!(advice.steps[0].verdict, StepVerdict::Saves);
    assert!(advice.steps[0].wait_ms_s.unwrap().value > 0.0);
    // At 128K and without an estimate, a record contains eight pages and is not compressed.
    let today = advise_of(&trace, role(Settings::new()), &device, true, &not_stopped()).unwrap();
    let today = today.curve.unwrap().curve;
    assert_eq!((today.recordsize, today.points.last().unwrap().cache_bytes), (Some(128 << 10), 768 << 20));
}

#[test]
fn a_recording_that_says_nothing_is_told_so() {
    let why = |trace: &Trace, role: RolePlan| {
        let memory = advise_of(trace, role, &Device::none(), true, &not_stopped()).unwrap();
        assert_eq!(memory.curve, None);
        memory.unknown.unwrap()
    };
    let at_16k = || role(settings("16K", "zstd-3"));
    assert!(why(&recording(0..20, 20), at_16k()).contains("20 reads"));
    assert!(why(&recording(0..50_000, 50_000), at_16k()).contains("only 0.0 %"));
    assert!(why(&recording((0..50_000).map(|i| i % 100), 100), at_16k()).contains("smallest ARC"));
    // primarycache excludes the data from the ARC.
    let metadata = settings("16K", "zstd-3").into_iter().chain([("primarycache".into(), "metadata".into())]);
    let mut draw = random(3);
    let busy = recording((0..50_000).map(|_| draw(20_000)), 20_000);
    let message = why(&busy, role(metadata.collect()));
    assert!(message.contains("primarycache") && message.contains("50,000 recorded reads"), "{message}");
    // O_DIRECT bypasses the ARC, unless the dataset says otherwise.
    let mut direct = recording((0..50_000).map(|i| i % 20_000), 20_000);
    direct.events.iter_mut().for_each(|event| event.flags = Flags::DIRECT);
    let message = why(&direct, at_16k());
    assert!(
        message.contains("50,000 of the 50,000 recorded reads bypass the ARC with O_DIRECT"),
        "{message}"
    );
    let disabled = settings("16K", "zstd-3").into_iter().chain([("direct".into(), "disabled".into())]);
    let memory = advise_of(&direct, role(disabled.collect()), &Device::none(), true, &not_stopped()).unwrap();
    assert!(memory.curve.is_some(), "{:?}", memory.unknown);
    let memory = advise_of(&direct, at_16k(), &Device::none(), false, &not_stopped()).unwrap();
    assert!(memory.curve.is_some(), "{:?}", memory.unknown);
    assert!(!message.contains("contains 0 reads") && !message.contains("record for longer"), "{message}");
}

#[test]
fn today_and_a_gigabyte_more_are_among_the_sizes() {
    let host = Host { arc_max_bytes: Some(5_000_000_000), ..Host::default() };
    let found = sizes(64 << 30, &host);
    assert!(found.contains(&5_000_000_000) && found.contains(&(5_000_000_000 + GIB)));
    assert!(found.is_sorted() && found.first() >= Some(&MIN_ARC));
    assert_eq!(sizes(1 << 30, &host).last(), Some(&(1 << 30)));
}

#[test]
fn it_can_be_stopped() {
    let trace = recording((0..5000).map(|i| i % 50), 50);
    let stopped = advise_of(&trace, role(Settings::new()), &Device::none(), true, &AtomicBool::new(true));
    assert!(stopped.unwrap_err().is_interruption());
}
