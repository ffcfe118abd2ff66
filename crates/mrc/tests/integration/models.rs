//! LRU and the textbook ARC compared with naive implementations, on random traces.

use poolwright_mrc::{Access, Counts, Intern, Key, Kind, Lru, Model, Run, arc::Arc};
use proptest::prelude::*;

/// Feeds a trace to a model in chunks of an odd length, so that state carries over between chunks.
fn feed(model: &mut dyn Model, trace: &[Access]) {
    let keys: Vec<Key> = (0..=trace.iter().map(|a| u64::from(a.record)).max().unwrap_or(0)).collect();
    for chunk in trace.chunks(37) {
        model.feed(chunk, &keys);
    }
}

/// One cache as a list of records, the newest first, that evicts from the end until a new record fits.
struct NaiveLru {
    stack: Vec<(u32, u64)>,
    counts: Counts,
}

impl NaiveLru {
    fn new(cache_bytes: u64) -> NaiveLru {
        NaiveLru { stack: Vec::new(), counts: Counts { cache_bytes, ..Counts::default() } }
    }

    fn access(&mut self, access: &Access) {
        let at = self.stack.iter().position(|(record, _)| *record == access.record);
        if let Some(at) = at {
            self.stack.remove(at);
        }
        if access.kind == Kind::Free {
            return;
        }
        self.counts.requests += 1;
        self.counts.misses += u64::from(at.is_none());
        self.counts.update_misses += u64::from(at.is_none() && access.kind == Kind::Update);
        self.counts.write_misses += u64::from(at.is_none() && access.kind == Kind::Write);
        self.stack.insert(0, (access.record, u64::from(access.bytes)));
        while self.stack.iter().map(|(_, bytes)| bytes).sum::<u64>() > self.counts.cache_bytes {
            self.stack.pop();
        }
    }
}

/// Figure 4 of the paper, literally, for pages of one size: lists with the newest page last.
struct NaiveArc {
    c: usize,
    p: f64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
    hits: u64,
}

fn remove(list: &mut Vec<u32>, x: u32) -> bool {
    let at = list.iter().position(|y| *y == x);
    at.map(|at| list.remove(at)).is_some()
}

impl NaiveArc {
    fn new(c: usize) -> NaiveArc {
        NaiveArc { c, p: 0.0, t1: vec![], t2: vec![], b1: vec![], b2: vec![], hits: 0 }
    }

    fn replace(&mut self, x_in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || (x_in_b2 && t1 == self.p)) {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }

    fn request(&mut self, x: u32) {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if remove(&mut self.t1, x) || remove(&mut self.t2, x) {
            self.hits += 1;
            self.t2.push(x);
        } else if self.b1.contains(&x) {
            let delta = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + delta).min(self.c as f64);
            self.replace(false);
            remove(&mut self.b1, x);
            self.t2.push(x);
        } else if self.b2.contains(&x) {
            let delta = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - delta).max(0.0);
            self.replace(true);
            remove(&mut self.b2, x);
            self.t2.push(x);
        } else {
            let (l1, l2) = (self.t1.len() + self.b1.len(), self.t2.len() + self.b2.len());
            if l1 == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    self.replace(false);
                } else {
                    self.t1.remove(0);
                }
            } else if l1 + l2 >= self.c {
                if l1 + l2 == 2 * self.c {
                    self.b2.remove(0);
                }
                self.replace(false);
            }
            self.t1.push(x);
        }
    }
}

/// A trace with all reuse distances: scans, a hot set, and accesses between these extremes.
fn trace(bytes: impl Strategy<Value = u32> + Clone, frees: bool) -> impl Strategy<Value = Vec<Access>> {
    let record = prop_oneof![0..8u32, 0..64u32, 0..512u32];
    let run = (record, 1..20u32, bytes, 0..10u8).prop_map(move |(record, len, bytes, kind)| {
        let kind = match kind {
            0 if frees => Kind::Free,
            1 => Kind::Write,
            2 | 3 => Kind::Update,
            _ => Kind::Read,
        };
        (0..len).map(move |n| Access { record: record + n, bytes, t_ms: 0, kind }).collect::<Vec<_>>()
    });
    proptest::collection::vec(run, 1..300).prop_map(|runs| runs.concat())
}

const SIZES: [u64; 8] = [1, 2, 3, 10, 64, 100, 400, 10_000];

fn check_lru(unit: u64, trace: &[Access]) {
    let sizes = SIZES.map(|size| size * unit);
    let mut lru = Lru::new(&sizes);
    feed(&mut lru, trace);
    let naive = |size: u64| {
        let mut naive = NaiveLru::new(size);
        trace.iter().for_each(|access| naive.access(access));
        naive.counts
    };
    assert_eq!(lru.counts(), sizes.map(naive));
}

proptest! {
    #[test]
    fn lru_is_the_naive_stack(trace in trace(Just(4096), true)) {
        check_lru(4096, &trace);
    }

    /// Each record has its own size, at most that of the smallest cache.
    #[test]
    fn lru_in_bytes_is_the_naive_stack(trace in trace(Just(1), true)) {
        let sized: Vec<Access> =
            trace.iter().map(|a| Access { bytes: 1 + a.record.wrapping_mul(0x9e37_79b9) % 512, ..*a }).collect();
        check_lru(512, &sized);
    }

    /// Sizes that differ only later: the stack is converted to bytes in the middle.
    #[test]
    fn lru_can_change_over_to_bytes(trace in trace(Just(512), false), new in 1..512u32) {
        let sized: Vec<Access> = trace
            .iter()
            .map(|a| Access { bytes: if a.record > 300 { new } else { 512 }, ..*a })
            .collect();
        check_lru(512, &sized);
    }

    #[test]
    fn arc_is_figure_4(trace in trace(Just(8192), false), c in 1..200usize) {
        let mut arc = Arc::new(c as u64 * 8192);
        feed(&mut arc, &trace);
        let mut naive = NaiveArc::new(c);
        trace.iter().for_each(|access| naive.request(access.record));
        let counts = arc.counts()[0];
        prop_assert_eq!(counts.requests, trace.len() as u64);
        prop_assert_eq!(counts.requests - counts.misses, naive.hits);
    }

    /// Invariants for all sizes and frees: the cached records fit, and only records that were accessed before can hit.
    #[test]
    fn arc_in_bytes_stays_within_its_bounds(trace in trace(1..5000u32, true), cache in 1..100_000u64) {
        let mut arc = Arc::new(cache);
        let mut seen = std::collections::HashSet::new();
        let mut first = 0;
        for access in &trace {
            feed(&mut arc, std::slice::from_ref(access));
            prop_assert!(arc.cached_bytes() <= cache);
            prop_assert!(arc.cached_bytes() + arc.ghost_bytes() <= 2 * cache);
            match access.kind {
                Kind::Free => _ = seen.remove(&access.record),
                _ => first += u64::from(seen.insert(access.record)),
            }
        }
        prop_assert!(arc.counts()[0].misses >= first);
    }

    /// A cache that holds everything misses only first requests, and the models of a run are independent.
    #[test]
    fn a_run_gathers_its_curves(trace in trace(Just(4096), true)) {
        let sizes = [4096, 65536, 1 << 30];
        let mut run = Run::default();
        run.add("lru", vec![Box::new(Lru::new(&sizes))]);
        run.add("arc", sizes.iter().map(|size| Box::new(Arc::new(*size)) as Box<dyn Model>).collect());
        let records = trace.iter().map(|a| a.record + 1).max().unwrap();
        let keys: Vec<Key> = (0..u64::from(records)).collect();
        for chunk in trace.chunks(50) {
            run.feed(chunk, &keys);
        }
        let curves = run.curves(Some(4096), u64::from(records));
        prop_assert_eq!(curves.iter().map(|c| c.model.as_str()).collect::<Vec<_>>(), ["lru", "arc"]);
        for curve in &curves {
            prop_assert_eq!(curve.points.iter().map(|p| p.cache_bytes).collect::<Vec<_>>(), sizes);
            prop_assert_eq!(curve.requests, trace.iter().filter(|a| a.kind != Kind::Free).count() as u64);
            prop_assert_eq!(curve.points[0].confidence, None);
        }
        prop_assert_eq!(curves[0].points[2], curves[1].points[2]);
    }
}

/// The memory of one cache per record, including the record's number and key, at every point of a growing trace: also
/// after a vector has grown.
#[test]
fn a_tracked_record_takes_at_most_64_bytes() {
    let models: [(&str, Box<dyn Model>, u32); 4] = [
        ("LRU, records of one size", Box::new(Lru::new(&[1 << 20, 1 << 30])), 1),
        ("LRU, records of two sizes", Box::new(Lru::new(&[1 << 20, 1 << 30])), 2),
        ("ARC that holds all", Box::new(Arc::new(1 << 40)), 2),
        ("ARC that holds little", Box::new(Arc::new(1 << 26)), 2),
    ];
    for (name, mut model, sizes) in models {
        let mut intern = Intern::default();
        let mut most = 0.0f64;
        for start in (0..1_000_000u64).step_by(5_000) {
            // Each record again, so that it ends up where records stay.
            let keys = (start..start + 5_000).chain(start.saturating_sub(2_500)..start + 2_500);
            let chunk: Vec<Access> = keys
                .map(|key| {
                    let record = intern.number(key * 8192).unwrap();
                    Access { record, bytes: 4096 * (1 + record % sizes), t_ms: 0, kind: Kind::Read }
                })
                .collect();
            model.feed(&chunk, intern.keys());
            if start > 200_000 {
                most = most.max((model.memory() + intern.memory()) as f64 / intern.keys().len() as f64);
            }
        }
        println!("{name}: at most {most:.1} bytes a record");
        assert!(most <= 64.0, "{name}: {most:.1} bytes a record");
    }
}
