//! Computes the measures and series of `docs/lab.md` from snapshots.

use std::collections::BTreeMap;
use std::time::Instant;

use poolwright_base::stats::mean;

use super::sampler::{Delta, SeriesByName, Snapshot, Sums};
use super::target::Size;
use crate::{Measure, Series};

/// Measures by name.
pub type Measures = BTreeMap<String, Measure>;

/// Sets a measure.
pub fn put(measures: &mut Measures, name: impl Into<String>, value: f64, unit: &str) {
    if value.is_finite() {
        measures.insert(name.into(), Measure { value, unit: unit.to_owned() });
    }
}

/// Adds a point to a series.
pub fn add_point(series: &mut SeriesByName, name: impl Into<String>, unit: &str, at: f64, value: f64) {
    if value.is_finite() {
        let series =
            series.entry(name.into()).or_insert_with(|| Series { unit: unit.into(), points: Vec::new() });
        series.points.push((at, value));
    }
}

/// Returns the seconds from `began` to `at`, negative if `at` is earlier.
pub fn since(began: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(began).as_secs_f64() - began.saturating_duration_since(at).as_secs_f64()
}

/// Returns the measures of the window, which is `wall` seconds long. `snapshots` are those of the whole phase.
pub fn of_window(wall: f64, first: &Snapshot, last: &Snapshot, snapshots: &[Snapshot]) -> Measures {
    let mut all = Measures::new();
    let window = Delta(first, last);
    let (user, system) = window.driver();
    put(&mut all, "wall_s", wall, "s");
    put(&mut all, "user_s", user, "s");
    put(&mut all, "system_s", system, "s");
    if let Some(engine) = window.engine() {
        put(&mut all, "engine_s", engine, "s");
    }
    if let Some(percent) = window.host_cpu() {
        put(&mut all, "host_cpu", percent, "percent");
    }
    if let Some(modes) = window.host_modes() {
        for (name, percent) in
            ["host_user", "host_system", "host_iowait", "host_steal"].into_iter().zip(modes)
        {
            put(&mut all, name, percent, "percent");
        }
    }
    if let Some((busy, queue)) = window.disk() {
        put(&mut all, "disk_busy", busy, "percent");
        put(&mut all, "disk_queue", queue, "count");
    }
    if let Some((waited, busy)) = window.disk_requests() {
        put(&mut all, "disk_wait", waited, "ns");
        put(&mut all, "disk_service", busy, "ns");
    }
    let used = snapshots.iter().filter(|snapshot| (first.at..=last.at).contains(&snapshot.at));
    if let Some(used) = used.chain([first, last]).filter_map(|snapshot| snapshot.used).max() {
        put(&mut all, "memory_used", used as f64, "bytes");
    }
    let inside = snapshots.iter().filter(|snapshot| snapshot.at > first.at && snapshot.at < last.at);
    // A window of less than a second has only the snapshots at its edges.
    let mut queue: Vec<f64> = inside.filter_map(|snapshot| snapshot.runnable).collect();
    if queue.is_empty() {
        queue = [first, last].iter().filter_map(|snapshot| snapshot.runnable).collect();
    }
    put(&mut all, "run_queue", mean(&queue), "count");
    if let Some(moved) = window.counters() {
        let sums = Sums::of(&moved);
        for (name, value, unit) in [
            ("vdev_read_bytes", sums.vdevs.read_bytes, "bytes"),
            ("vdev_write_bytes", sums.vdevs.write_bytes, "bytes"),
            ("vdev_reads", sums.vdevs.read_ops, "count"),
            ("vdev_writes", sums.vdevs.write_ops, "count"),
            ("flushes", sums.vdevs.flushes, "count"),
            ("zil_commits", sums.zil_commits, "count"),
            ("zil_bytes", sums.zil_bytes, "bytes"),
            ("arc_size", moved.arc.size, "bytes"),
            ("arc_target", moved.arc.target, "bytes"),
        ] {
            put(&mut all, name, value as f64, unit);
        }
        let requests = sums.vdevs.read_ops + sums.vdevs.write_ops;
        if requests > 0 {
            let waited = sums.vdevs.read_ns + sums.vdevs.write_ns;
            put(&mut all, "vdev_wait", waited as f64 / requests as f64, "ns");
        }
        if let Some(ratio) = sums.hit_ratio {
            put(&mut all, "arc_hit_ratio", ratio, "ratio");
        }
    }
    all
}

/// Adds the bytes that the vdevs wrote until everything was on disk, which may be after the end of the window.
pub fn of_sync(measures: &mut Measures, first: &Snapshot, synced: &Snapshot) {
    if let Some(moved) = Delta(first, synced).counters() {
        put(measures, "synced_write_bytes", Sums::of(&moved).vdevs.write_bytes as f64, "bytes");
    }
}

/// Adds the sizes by role, and their sums.
pub fn of_sizes(measures: &mut Measures, sizes: &BTreeMap<String, Size>) {
    let sum = sizes.values().fold(Size::default(), |sum, size| Size {
        logical: sum.logical + size.logical,
        allocated: sum.allocated + size.allocated,
        held: size.held.map(|held| held + sum.held.unwrap_or(0)),
    });
    let named = sizes.iter().map(|(role, size)| (format!(".{role}"), *size));
    for (suffix, size) in named.chain([(String::new(), sum)]) {
        put(measures, format!("logical{suffix}"), size.logical as f64, "bytes");
        put(measures, format!("allocated{suffix}"), size.allocated as f64, "bytes");
        if let Some(held) = size.held {
            put(measures, format!("held{suffix}"), held as f64, "bytes");
        }
        if size.allocated > 0 {
            put(measures, format!("ratio{suffix}"), size.logical as f64 / size.allocated as f64, "ratio");
        }
    }
}

/// Returns the samples as time series; time 0 is `began`.
pub fn of_snapshots(snapshots: &[Snapshot], began: Instant) -> SeriesByName {
    let mut all = SeriesByName::new();
    for pair in snapshots.windows(2) {
        let between = Delta(&pair[0], &pair[1]);
        let (at, seconds) = (since(began, pair[1].at), between.seconds());
        if seconds > 0.0 {
            levels(&mut all, &pair[1], at);
            rates(&mut all, between, at, seconds);
        }
    }
    all
}

fn levels(all: &mut SeriesByName, snapshot: &Snapshot, at: f64) {
    if let Some(runnable) = snapshot.runnable {
        add_point(all, "run_queue", "count", at, runnable);
    }
    if let Some(bytes) = snapshot.memory {
        add_point(all, "memory_available", "bytes", at, bytes as f64);
    }
    if let Some(counters) = &snapshot.counters {
        add_point(all, "arc_size", "bytes", at, counters.arc.size as f64);
        add_point(all, "arc_target", "bytes", at, counters.arc.target as f64);
    }
}

fn rates(all: &mut SeriesByName, between: Delta<'_>, at: f64, seconds: f64) {
    let (user, system) = between.driver();
    add_point(all, "driver_cpu", "percent", at, 100.0 * (user + system) / seconds);
    if let Some(engine) = between.engine() {
        add_point(all, "engine_cpu", "percent", at, 100.0 * engine / seconds);
    }
    if let Some(percent) = between.host_cpu() {
        add_point(all, "host_cpu", "percent", at, percent);
    }
    if let Some((busy, queue)) = between.disk() {
        add_point(all, "disk_busy", "percent", at, busy);
        add_point(all, "disk_queue", "count", at, queue);
    }
    let Some(moved) = between.counters() else { return };
    let sums = Sums::of(&moved);
    if let Some(ratio) = sums.hit_ratio {
        add_point(all, "arc_hit_ratio", "ratio", at, ratio);
    }
    add_point(all, "zil_commits", "1/s", at, sums.zil_commits as f64 / seconds);
    add_point(all, "zil_bytes", "bytes/s", at, sums.zil_bytes as f64 / seconds);
    let several = moved.vdevs.len() > 1;
    let named = moved.vdevs.iter().filter(|_| several).map(|(name, vdev)| (format!(".{name}"), vdev));
    for (suffix, vdev) in named.chain([(String::new(), &sums.vdevs)]) {
        add_point(all, format!("vdev_read_bytes{suffix}"), "bytes/s", at, vdev.read_bytes as f64 / seconds);
        add_point(all, format!("vdev_write_bytes{suffix}"), "bytes/s", at, vdev.write_bytes as f64 / seconds);
        add_point(all, format!("vdev_reads{suffix}"), "1/s", at, vdev.read_ops as f64 / seconds);
        add_point(all, format!("vdev_writes{suffix}"), "1/s", at, vdev.write_ops as f64 / seconds);
    }
    for (name, vdev) in &moved.vdevs {
        let waiting = (vdev.read_ns + vdev.write_ns + vdev.flush_ns) as f64 / 1e9;
        let suffix = if several { format!(".{name}") } else { String::new() };
        add_point(all, format!("vdev_queue{suffix}"), "count", at, waiting / seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};

    use super::*;
    use crate::trial::target::Counters;
    use poolwright_base::block::DiskStats;
    use poolwright_base::cpu::CpuTimes;
    use poolwright_base::process::CpuTicks;

    fn snapshot(start: Instant, second: u64) -> Snapshot {
        let n = second;
        let vdev = VdevStats {
            read_bytes: 1000 * n,
            write_bytes: 500 * n,
            read_ops: 3 * n,
            flushes: n,
            read_ns: n * 1_500_000_000,
            ..VdevStats::default()
        };
        Snapshot {
            at: start + Duration::from_secs(second),
            host: Some(CpuTimes {
                user: 30 * n,
                system: 15 * n,
                irq: 5 * n,
                steal: 10 * n,
                idle: 120 * n,
                iowait: 20 * n,
                ..CpuTimes::default()
            }),
            runnable: Some(n as f64),
            memory: Some(1 << 30),
            used: Some(n << 20),
            disk: Some(DiskStats { busy_ms: 250 * n, queued_ms: 3000 * n, requests: 100 * n }),
            driver: CpuTicks { user: 60 * n, system: 40 * n },
            engine: Some(20 * n as i64),
            counters: Some(Counters {
                arc: ArcStats { hits: 30 * n, misses: 10 * n, size: n << 20, ..ArcStats::default() },
                vdevs: BTreeMap::from([("a".to_owned(), vdev), ("b".to_owned(), vdev)]),
                zils: BTreeMap::from([(
                    "lab/db".to_owned(),
                    ZilStats { commits: n, normal_write: 4096 * n, ..ZilStats::default() },
                )]),
            }),
        }
    }

    #[test]
    fn a_window_of_ten_seconds() {
        let start = Instant::now();
        let snapshots: Vec<Snapshot> = (0..20).map(|second| snapshot(start, second)).collect();
        let all = of_window(10.0, &snapshots[5], &snapshots[15], &snapshots);
        let value = |name: &str| all[name].value;
        assert_eq!(value("wall_s"), 10.0);
        assert_eq!((value("user_s"), value("system_s"), value("engine_s")), (6.0, 4.0, 2.0));
        assert_eq!((value("host_cpu"), value("disk_busy"), value("disk_queue")), (30.0, 25.0, 3.0));
        assert_eq!((value("host_user"), value("host_system"), value("host_iowait")), (15.0, 10.0, 10.0));
        assert_eq!(value("host_steal"), 5.0);
        assert_eq!((value("disk_wait"), value("disk_service"), value("vdev_wait")), (30e6, 2.5e6, 0.5e9));
        assert_eq!(value("run_queue"), 10.0); // 6 to 14
        assert_eq!(value("memory_used"), f64::from(15 << 20));
        assert_eq!((value("vdev_read_bytes"), value("flushes")), (20_000.0, 20.0));
        assert_eq!((value("zil_commits"), value("zil_bytes")), (10.0, 40_960.0));
        assert_eq!((value("arc_hit_ratio"), value("arc_size")), (0.75, (15 << 20) as f64));
    }

    #[test]
    fn series_begin_before_the_window() {
        let start = Instant::now();
        let snapshots: Vec<Snapshot> = (0..4).map(|second| snapshot(start, second)).collect();
        let all = of_snapshots(&snapshots, snapshots[2].at);
        assert_eq!(all["driver_cpu"].points, [(-1.0, 100.0), (0.0, 100.0), (1.0, 100.0)]);
        assert_eq!(all["vdev_queue.a"].points[0], (-1.0, 1.5));
        assert_eq!(all["vdev_read_bytes"].points[1], (0.0, 2000.0));
        assert_eq!(all["vdev_read_bytes.b"].points[1], (0.0, 1000.0));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let start = Instant::now();
        let bare = |second| Snapshot { disk: None, engine: None, counters: None, ..snapshot(start, second) };
        let all = of_window(1.0, &bare(0), &bare(1), &[]);
        for name in ["disk_busy", "engine_s", "vdev_reads", "arc_hit_ratio"] {
            assert!(!all.contains_key(name), "{name}");
        }
        assert_eq!(all["run_queue"].value, 0.5);
        assert!(!of_snapshots(&[bare(0), bare(1)], start).contains_key("arc_size"));
    }

    #[test]
    fn sizes_and_their_sum() {
        let size = |logical, allocated| Size { logical, allocated, held: Some(7) };
        let mut all = Measures::new();
        of_sizes(&mut all, &BTreeMap::from([("db".into(), size(300, 100)), ("wal".into(), size(0, 0))]));
        assert_eq!((all["ratio.db"].value, all["ratio"].value, all["logical"].value), (3.0, 3.0, 300.0));
        assert_eq!((all["held.wal"].value, all["held"].value), (7.0, 14.0));
        assert!(!all.contains_key("ratio.wal"));
    }
}
