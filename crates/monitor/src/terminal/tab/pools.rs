//! The tab of the pools and their vdevs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::MetricFamily;
use crate::family::{
    POOL, POOL_ALLOCATED, POOL_DATA_ERRORS, POOL_FILE_FAULTS, POOL_FRAGMENTATION, POOL_OPEN, POOL_SIZE,
    POOL_STATE, POOL_STATE_NOW, RESILVER_RUNNING, SCAN_ERRORS, SCAN_EXAMINED, SCAN_PAUSED, SCAN_TO_EXAMINE,
    SCRUB_CANCELED, SCRUB_END, SCRUB_RUNNING, VDEV, VDEV_ALLOCATED, VDEV_CHECKSUM_ERRORS, VDEV_PLACE,
    VDEV_READ_BYTES, VDEV_READ_ERRORS, VDEV_READ_TIME, VDEV_READS, VDEV_SIZE, VDEV_STATE, VDEV_STATE_NOW,
    VDEV_WRITE_BYTES, VDEV_WRITE_ERRORS, VDEV_WRITE_TIME, VDEV_WRITES,
};
use poolwright_report::{Tone, Unit, text};

use crate::terminal::rows::{self, RowColumn, RowField, Rows};
use crate::terminal::sample::{MonitorSample, SampledResource};

static COLUMNS: [RowColumn; 14] = [
    RowColumn::text("pool", 0),
    RowColumn::word("state", 9, 0),
    RowColumn::figure("size", 6, 6),
    RowColumn::figure("alloc", 6, 5),
    RowColumn::figure("cap", 7, 3),
    RowColumn::figure("frag", 6, 9),
    RowColumn::figure("reads/s", 7, 8),
    RowColumn::figure("writes/s", 8, 8),
    RowColumn::figure("read/s", 6, 2),
    RowColumn::figure("write/s", 7, 2),
    RowColumn::figure("wait r/w", 15, 10),
    RowColumn::figure("errors", 6, 1),
    RowColumn::figure("age", 7, 4),
    RowColumn::text("remark", 7),
];

/// A row for each pool at the time `now`, followed by its vdevs.
pub fn rows(sample: &MonitorSample, now: Instant) -> Rows<'_> {
    let trees: Vec<PoolTree> = sample.of(&POOL).iter().map(|pool| PoolTree::new(sample, pool)).collect();
    let mut lines: Vec<(usize, Option<usize>)> = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        lines.push((at, None));
        lines.extend((0..tree.vdevs.len()).map(|vdev| (at, Some(vdev))));
    }
    Rows {
        title: "Pools",
        columns: &COLUMNS,
        count: lines.len(),
        nothing: "no pools found, neither imported ones nor pools of the user-space engine",
        row: Box::new(move |index| match lines[index] {
            (tree, None) => trees[tree].pool_row(sample, now),
            (tree, Some(vdev)) => trees[tree].vdev_row(vdev),
        }),
    }
}

/// A pool and its vdevs in the order of `zpool status`, without the root.
struct PoolTree<'a> {
    pool: &'a SampledResource,
    state: Option<&'a str>,
    vdevs: Vec<VdevLine<'a>>,
}

struct VdevLine<'a> {
    vdev: &'a SampledResource,
    state: Option<&'a str>,
    /// 1 below the pool.
    depth: usize,
    io: Io,
}

/// The counters of a vdev's I/O: requests, bytes, and seconds in requests.
static IO_COUNTERS: [&MetricFamily; 6] =
    [&VDEV_READS, &VDEV_WRITES, &VDEV_READ_BYTES, &VDEV_WRITE_BYTES, &VDEV_READ_TIME, &VDEV_WRITE_TIME];

/// The rates of [`IO_COUNTERS`].
#[derive(Clone, Copy, Debug, Default)]
struct Io([Option<f64>; 6]);

impl Io {
    fn of(vdev: &SampledResource) -> Io {
        Io(IO_COUNTERS.map(|counter| vdev.rate(counter)))
    }

    fn is_known(&self) -> bool {
        self.0[0].is_some()
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Io>) -> Io {
        all.fold(Io::default(), |a, b| Io(std::array::from_fn(|at| rows::sum([a.0[at], b.0[at]]))))
    }

    /// Requests, bytes and mean times.
    fn fields(&self) -> Vec<RowField> {
        let [reads, writes, read_bytes, written_bytes, read_time, write_time] = self.0;
        let waits = [(read_time, reads), (write_time, writes)];
        let waits = waits.map(|(time, requests)| rows::ratio(time, requests));
        let [read, write] = waits.map(|seconds| rows::wait(seconds).text);
        let has_waits = waits.iter().any(Option::is_some);
        vec![
            rows::per_second(reads),
            rows::per_second(writes),
            rows::size(read_bytes),
            rows::size(written_bytes),
            RowField::figure(has_waits.then(|| format!("{read}/{write}"))),
        ]
    }
}

impl<'a> PoolTree<'a> {
    fn new(sample: &'a MonitorSample, pool: &'a SampledResource) -> PoolTree<'a> {
        let same_pool = |one: &&SampledResource| one.labels()[..2] == pool.labels()[..2];
        let states = sample.of(&VDEV_STATE).iter().filter(same_pool).filter(|one| one.has(&VDEV_STATE_NOW));
        let states: HashMap<_, _> = states.map(|one| (&one.labels()[..4], one.label("state"))).collect();
        let places = sample.of(&VDEV_PLACE).iter().filter(same_pool);
        let parents: HashMap<&str, &str> =
            places.map(|place| (place.label("vdev"), place.label("parent"))).collect();
        let vdevs = sample.of(&VDEV).iter().filter(same_pool).filter(|vdev| vdev.label("class") != "root");
        let line = |vdev: &'a SampledResource| VdevLine {
            vdev,
            state: states.get(vdev.labels()).copied(),
            depth: depth(vdev.label("vdev"), pool.label("pool"), &parents),
            io: Io::of(vdev),
        };
        let mut vdevs: Vec<VdevLine> = vdevs.map(line).collect();
        add_sums(&mut vdevs);
        let mut pool_states = sample.of(&POOL_STATE).iter().filter(same_pool);
        let state = pool_states.find(|one| one.has(&POOL_STATE_NOW)).map(|one| one.label("state"));
        PoolTree { pool, state, vdevs }
    }

    fn pool_row(&self, sample: &MonitorSample, now: Instant) -> Vec<RowField> {
        let pool = self.pool;
        let is_known_only = pool.value(&POOL_OPEN) == Some(0.0);
        let state = if is_known_only { Some("exported") } else { self.state };
        let io = Io::sum(self.vdevs.iter().filter(|line| line.is_top_level_of_data()).map(|line| &line.io));
        let is_down = sources_down(sample, pool, now);
        let mut row = vec![
            RowField::text(pool.label("pool")).tone(Tone::Strong),
            state_field(state),
            rows::size(pool.value(&POOL_SIZE)),
            rows::size(pool.value(&POOL_ALLOCATED)),
            rows::share(rows::ratio(pool.value(&POOL_ALLOCATED), pool.value(&POOL_SIZE))),
            rows::share(pool.value(&POOL_FRAGMENTATION)),
        ];
        row.extend(io.fields());
        let errors = pool.value(&POOL_DATA_ERRORS);
        row.push(rows::count(errors).bad_if(errors.is_some_and(|errors| errors > 0.0)));
        let age = rows::age(Some(now.saturating_duration_since(pool.read_at)));
        row.push(if is_down { RowField::text(&format!("{} !", age.text)).bad_if(true) } else { age });
        row.push(RowField::text(&remark(pool, sample.unix_s)));
        row
    }

    fn vdev_row(&self, index: usize) -> Vec<RowField> {
        let line = &self.vdevs[index];
        let vdev = line.vdev;
        let class = match vdev.label("class") {
            "normal" => String::new(),
            class => format!(" ({class})"),
        };
        let name = format!("{}{}{class}", "  ".repeat(line.depth), vdev.label("vdev"));
        let (size, allocated) = (vdev.value(&VDEV_SIZE), vdev.value(&VDEV_ALLOCATED));
        let mut row = vec![
            RowField::text(&name),
            state_field(line.state),
            rows::size(size),
            rows::size(allocated),
            rows::share(rows::ratio(allocated, size)),
            RowField::figure(None),
        ];
        row.extend(line.io.fields());
        let errors = [&VDEV_READ_ERRORS, &VDEV_WRITE_ERRORS, &VDEV_CHECKSUM_ERRORS];
        let errors = rows::sum(errors.map(|family| vdev.value(family)));
        row.push(rows::count(errors).bad_if(errors.is_some_and(|errors| errors > 0.0)));
        row.extend([RowField::text(""), RowField::text("")]);
        row
    }
}

impl VdevLine<'_> {
    /// Whether its I/O is a part of the pool's.
    fn is_top_level_of_data(&self) -> bool {
        self.depth == 1 && !matches!(self.vdev.label("class"), "cache" | "spare")
    }
}

/// The number of vdevs above a vdev, including the root; 1 if the source does not report its place.
fn depth(vdev: &str, pool: &str, parents: &HashMap<&str, &str>) -> usize {
    let mut depth = 1;
    let mut at = vdev;
    while let Some(parent) = parents.get(at).filter(|parent| **parent != pool && !parent.is_empty()) {
        if depth > parents.len() {
            break; // two vdevs have the same name
        }
        (at, depth) = (parent, depth + 1);
    }
    depth
}

/// Sets the I/O of a group without counters of its own to the sum of the vdevs below it.
fn add_sums(vdevs: &mut [VdevLine]) {
    for at in (0..vdevs.len()).rev() {
        let depth = vdevs[at].depth;
        if vdevs[at].io.is_known() {
            continue;
        }
        let below = vdevs[at + 1..].iter().take_while(|line| line.depth > depth);
        vdevs[at].io = Io::sum(below.filter(|line| line.depth == depth + 1).map(|line| &line.io));
    }
}

fn state_field(state: Option<&str>) -> RowField {
    let is_bad = state.is_some_and(|state| !matches!(state, "ONLINE" | "AVAIL" | "INUSE" | "exported"));
    state.map_or_else(|| RowField::figure(None), RowField::text).bad_if(is_bad)
}

/// Whether a source of this pool fails or does not answer.
fn sources_down(sample: &MonitorSample, pool: &SampledResource, now: Instant) -> bool {
    let is_kernel = pool.label("engine") == "kernel";
    let mut sources = sample.sources.iter().filter(|source| source.last.name.pool == pool.label("pool"));
    sources.any(|source| source.last.name.source.starts_with("kernel") == is_kernel && source.is_down(now))
}

/// Facts about a pool besides its figures: damage, and the scrub or resilver.
fn remark(pool: &SampledResource, unix_s: f64) -> String {
    let mut parts = Vec::new();
    if pool.has(&POOL_DATA_ERRORS) {
        parts.push("damaged data".to_owned());
    }
    if pool.has(&POOL_FILE_FAULTS) {
        parts.push("a file was changed by another program".to_owned());
    }
    let share = rows::ratio(pool.value(&SCAN_EXAMINED), pool.value(&SCAN_TO_EXAMINE));
    let share = share.map_or(String::new(), |share| format!(" {}", Unit::Fraction.format(share.min(1.0))));
    let errors = match pool.value(&SCAN_ERRORS) {
        Some(errors) if errors > 0.0 => format!(", {} errors", Unit::Count.format(errors)),
        _ => String::new(),
    };
    if pool.has(&RESILVER_RUNNING) {
        parts.push(format!("resilver{share}{errors}"));
    } else if pool.has(&SCRUB_RUNNING) {
        let paused = if pool.has(&SCAN_PAUSED) { " (paused)" } else { "" };
        parts.push(format!("scrub{share}{paused}{errors}"));
    } else if pool.has(&SCRUB_CANCELED) {
        parts.push("scrub canceled".to_owned());
    } else if let Some(end) = pool.value(&SCRUB_END) {
        let ago = Duration::from_secs_f64((unix_s - end).max(0.0));
        parts.push(format!("scrubbed {} ago{errors}", text::age(ago.as_secs())));
    }
    parts.join("; ")
}
