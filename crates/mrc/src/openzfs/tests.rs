//! Checks the model's accounting: for any accesses, its sums equal those of its blocks.

use proptest::prelude::*;

use super::block::{FRESH, IDLE, LISTED, OLD, SIZED, State};
use super::*;
use crate::Intern;

const RECORD: u32 = 8 << 10;

/// Recomputes all running sums.
fn check(model: &OpenZfs) {
    let arc = &model.arc;
    let options = &arc.options;
    let numbers = |blocks: &[Block], mark: u32| (0..blocks.len() as u32).map(move |id| mark | id);
    let ids = numbers(&arc.blocks.records, 0)
        .chain(numbers(&arc.blocks.indirect, META))
        .chain(numbers(&arc.blocks.old, OLD));
    let (mut size, mut evictable, mut dbuf_bytes) = ([[0i64; 2]; SIZED], [[0i64; 2]; LISTED], 0);
    let mut used = options.pool_bytes as i64;
    size[State::Mru as usize][1] = used;
    let mut children = vec![0u16; arc.blocks.indirect.len()];
    for id in ids {
        let block = arc.blocks.at(id);
        let (kind, held) = (usize::from(id & META != 0), block.flags & HELD != 0);
        let (psize, lsize) = (i64::from(block.psize), i64::from(arc.lsize(id)));
        if id & (META | OLD) != OLD && block.parent != NONE && held {
            children[(block.parent & !META) as usize] += 1;
        }
        let copy = if held { arc.copy(id) } else { 0 };
        let (counted, structures) = match block.state {
            State::Out => continue,
            State::Second => {
                used += 96;
                continue;
            }
            State::MruGhost | State::MfuGhost => (lsize, 0),
            _ if block.flags & FRESH != 0 => (copy, copy),
            _ => (psize + copy, psize + copy),
        };
        size[block.state as usize][kind] += counted;
        used += structures + i64::from(options.structures.header);
        if held {
            used += i64::from(options.structures.buffer) + i64::from(options.structures.dbuf);
        } else {
            evictable[block.state as usize][kind] += counted;
        }
        if block.flags & IDLE != 0 {
            assert!(held && block.flags & DIRTY == 0 && block.children == 0);
            dbuf_bytes += lsize as u64;
        }
    }
    assert_eq!(size, arc.size);
    assert_eq!(evictable, arc.evictable);
    assert_eq!(used, arc.used.value());
    assert_eq!(dbuf_bytes, model.dbufs.bytes());
    assert!(children.iter().zip(&arc.blocks.indirect).all(|(count, block)| *count == block.children));
}

fn options(choice: u8) -> Options {
    let mut options = Options::new(2 << 20, RECORD);
    options.slack_bytes = 256 << 10;
    options.indirect_bytes = 8 << 10;
    options.indirect_lsize = 16 << 10;
    options.pool_bytes = 64 << 10;
    options.txg_bytes = 512 << 10;
    options.primarycache =
        [PrimaryCache::All, PrimaryCache::Metadata, PrimaryCache::None][choice as usize % 3];
    options.prefetch = choice & 4 != 0;
    options.partial_reads = choice & 8 != 0;
    options.l2arc_bytes = u64::from(choice >> 4 & 1) << 20;
    options
}

proptest! {
    #[test]
    fn the_sums_are_those_of_the_blocks(
        choice: u8,
        steps in prop::collection::vec((0u8..8, 0u64..3, 0u64..3000, 1u64..60, 1u32..=16), 1..120),
    ) {
        let mut model = OpenZfs::new(options(choice));
        let mut intern = Intern::default();
        let mut now = 0;
        for (what, file, first, run, sectors) in steps {
            now += u32::from(what) * 40;
            let kind = match what {
                0..=3 => Kind::Read,
                4 | 5 => Kind::Write,
                6 => Kind::Update,
                _ => Kind::Free,
            };
            for record in first..first + run {
                let record = intern.number(access::key(file, record)).unwrap();
                let bytes = if kind == Kind::Free { 0 } else { sectors * 512 };
                model.feed(&[Access { record, bytes, t_ms: now, kind }], intern.keys());
            }
            check(&model);
        }
    }
}

#[test]
fn records_that_fit_are_read_once() {
    let mut model = OpenZfs::new(Options::new(64 << 20, RECORD));
    let mut intern = Intern::default();
    for round in 0..3 {
        for index in 0..4000 {
            let record = intern.number(index).unwrap();
            let access = Access { record, bytes: RECORD, t_ms: round * 1000, kind: Kind::Read };
            model.feed(&[access], intern.keys());
        }
    }
    let counts = model.counts()[0];
    assert_eq!((counts.requests, counts.misses), (12_000, 4000));
    // Four indirect blocks of 1024 records, and the one above them.
    assert_eq!(model.metadata_misses(), 5);
}

#[test]
fn a_record_evicted_from_the_dbuf_cache_is_loaded_again() {
    // The dbuf cache holds 2 MiB, which is 256 records.
    let mut model = OpenZfs::new(Options::new(64 << 20, RECORD));
    let mut intern = Intern::default();
    let mut read = |places: std::ops::Range<u64>, times: usize| {
        for index in places {
            let record = intern.number(index).unwrap();
            let access = Access { record, bytes: RECORD, t_ms: 0, kind: Kind::Read };
            model.feed(&vec![access; times], intern.keys());
        }
        model.record_loads()
    };
    assert_eq!(read(0..100, 16), 100, "the parts of a record are read one after another");
    assert_eq!(read(0..100, 1), 100, "all are still there");
    assert_eq!(read(1000..2000, 1), 1100);
    assert_eq!(read(0..100, 1), 1200, "they are in the ARC, but in no dbuf any more");
}
