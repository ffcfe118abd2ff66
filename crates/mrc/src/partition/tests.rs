use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// A simple, slow LRU of bytes.
#[derive(Default)]
struct Slow {
    limit: u64,
    /// Least recently used first.
    held: Vec<(u32, u32)>,
    counts: Counts,
}

impl Slow {
    fn new(limit: u64) -> Slow {
        Slow { limit, counts: Counts { cache_bytes: limit, ..Counts::default() }, ..Slow::default() }
    }

    /// Whether the page was in the cache, and the evicted pages.
    fn touch(&mut self, record: u32, bytes: u32) -> (bool, Vec<u32>) {
        let hit = self.remove(record);
        let mut gone = Vec::new();
        if u64::from(bytes) > self.limit {
            return (hit, vec![record]);
        }
        self.held.push((record, bytes));
        while self.held.iter().map(|h| u64::from(h.1)).sum::<u64>() > self.limit {
            gone.push(self.held.remove(0).0);
        }
        (hit, gone)
    }

    fn remove(&mut self, record: u32) -> bool {
        let at = self.held.iter().position(|h| h.0 == record);
        at.map(|at| self.held.remove(at)).is_some()
    }
}

impl Model for Slow {
    fn feed(&mut self, chunk: &[Access], _: &[Key]) {
        for a in chunk {
            if a.kind == Kind::Free {
                self.remove(a.record);
                continue;
            }
            self.counts.requests += 1;
            if !self.touch(a.record, a.bytes).0 {
                self.counts.misses += 1;
                self.counts.update_misses += u64::from(a.kind == Kind::Update);
                self.counts.write_misses += u64::from(a.kind == Kind::Write);
            }
        }
    }

    fn counts(&self) -> Vec<Counts> {
        vec![self.counts]
    }

    fn memory(&self) -> usize {
        0
    }
}

const PAGE: u64 = 4096;

fn shape(pages: u64, pages_a_record: u64) -> Shape {
    let recordsize = pages_a_record * PAGE;
    Shape {
        total_bytes: pages * PAGE,
        divisions: 5,
        least_arc_bytes: 0,
        page_bytes: Some(PAGE),
        recordsize,
        record_bytes: recordsize as u32,
    }
}

/// Accesses with their keys, from page numbers and kinds: two files, so that the file of a record matters.
fn accesses(requests: &[(u64, Kind)]) -> (Vec<Access>, Vec<Key>) {
    let mut intern = Intern::default();
    let accesses = requests.iter().map(|(page, kind)| {
        let record = intern.number((page % 2) << 40 | (page / 2)).unwrap();
        Access { record, bytes: PAGE as u32, t_ms: 0, kind: *kind }
    });
    (accesses.collect(), intern.keys().to_vec())
}

fn run(shape: &Shape, requests: &[(u64, Kind)]) -> Vec<Share> {
    let (accesses, keys) = accesses(requests);
    let mut partition = Partition::new(shape, |bytes| Box::new(Slow::new(bytes))).unwrap();
    for chunk in accesses.chunks(7) {
        partition.feed(chunk, &keys);
    }
    partition.shares()
}

/// Device reads of one division, computed with two slow caches and sets of dirty pages.
fn by_hand(shape: &Shape, database_bytes: u64, requests: &[(u64, Kind)]) -> (u64, u64) {
    let pages = shape.recordsize / PAGE;
    let (mut buffer_pool, mut back) =
        (Slow::new(database_bytes), Slow::new(shape.total_bytes - database_bytes));
    let (mut dirty, mut reads, mut write_backs): (HashSet<u64>, u64, u64) = Default::default();
    let mut names: HashMap<u32, u64> = HashMap::new();
    let record = |page: u64| ((page % 2) * 1000 + page / 2 / pages) as u32;
    for (page, kind) in requests {
        names.insert(*page as u32, *page);
        if *kind == Kind::Free {
            buffer_pool.remove(*page as u32);
            dirty.remove(page);
            if pages == 1 {
                back.remove(record(*page));
            }
            continue;
        }
        let (hit, gone) = buffer_pool.touch(*page as u32, PAGE as u32);
        if !hit && kind.needs_content() {
            reads += u64::from(!back.touch(record(*page), shape.record_bytes).0);
        }
        if *kind != Kind::Read {
            dirty.insert(*page);
        }
        for page in gone {
            if dirty.remove(&names[&page]) {
                write_backs += 1;
                let hit = back.touch(record(u64::from(page)), shape.record_bytes).0;
                reads += u64::from(!hit && pages > 1);
            }
        }
    }
    (reads, write_backs)
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![6 => Just(Kind::Read), 2 => Just(Kind::Write), 1 => Just(Kind::Update), 1 => Just(Kind::Free)]
}

proptest! {
    #[test]
    fn divisions_equal_two_naive_caches(
        requests in prop::collection::vec((0u64..40, kinds()), 0..400),
        total in 1u64..60,
        pages in prop_oneof![Just(1u64), Just(4)],
    ) {
        let shape = shape(total, pages);
        for share in run(&shape, &requests) {
            let (reads, write_backs) = by_hand(&shape, share.database_bytes, &requests);
            prop_assert_eq!((share.device_reads, share.write_backs), (reads, write_backs), "{:?}", share);
            prop_assert_eq!(share.database_bytes + share.arc_bytes, shape.total_bytes);
        }
    }
}

#[test]
fn two_halves_hold_less_than_one_whole() {
    // A loop of 10 pages: one cache of 12 holds it, two of 6 hold the same pages twice and miss them all.
    let requests: Vec<(u64, Kind)> = (0..1000).map(|i| (i % 10, Kind::Read)).collect();
    let shares = run(&shape(12, 1), &requests);
    let reads: Vec<u64> = shares.iter().map(|s| s.device_reads).collect();
    assert_eq!((reads[0], reads[4]), (10, 10));
    assert!(reads[2] > 900, "{reads:?}");
    // Of equal divisions, the one with the larger database cache.
    assert_eq!(best(&shares).unwrap().arc_bytes, 0);
}

#[test]
fn dirty_pages_are_written_back_once_and_the_rest_is_counted() {
    let writes: Vec<(u64, Kind)> = (0..20).map(|i| (i, Kind::Write)).collect();
    let shares = run(&shape(8, 1), &writes);
    let all = shares.last().unwrap();
    assert_eq!((all.write_backs, all.dirty_at_end, all.database_reads, all.device_reads), (12, 8, 0, 0));
    // In records of four pages, each write back of one page reads the rest.
    let parts = run(&shape(8, 4), &writes);
    assert!(parts.last().unwrap().device_reads > 0);
}

#[test]
fn impossible_arcs_are_left_out() {
    let shape = Shape { least_arc_bytes: 5 * PAGE, ..shape(16, 1) };
    let arcs: Vec<u64> = run(&shape, &[(0, Kind::Read)]).iter().map(|s| s.arc_bytes / PAGE).collect();
    assert_eq!(arcs, [16, 12, 8, 0]);
}

#[test]
fn a_record_smaller_than_a_page_is_refused() {
    let small = Shape { page_bytes: Some(16384), recordsize: 8192, ..shape(8, 1) };
    let refused = Partition::new(&small, |bytes| Box::new(Slow::new(bytes))).err().unwrap();
    assert!(refused.to_string().contains("16K"), "{refused}");
}
