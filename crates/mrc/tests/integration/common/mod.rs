//! Generated traces and models for the tests.

use std::path::Path;

use poolwright_mrc::arc::Arc;
use poolwright_mrc::openzfs::GRAIN;
use poolwright_mrc::sample::{Amount, Family};
use poolwright_mrc::{Extent, Input, Kind, Lru, Model, Pipeline, RecordMap, Result};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Meta, Op, Trace};

pub use poolwright_mrc::END;

/// A read.
pub fn extent(t_ns: u64, file: u32, offset: u64, len: u64) -> Extent {
    Extent { t_ns, file, offset, len, kind: Kind::Read }
}

/// A free that sets the end of the file.
pub fn free(t_ns: u64, file: u32, end: u64) -> Extent {
    Extent { t_ns, file, offset: end, len: END - end, kind: Kind::Free }
}

/// All extents of an input.
pub fn read(input: &mut dyn Input) -> Result<Vec<Extent>> {
    let (mut all, mut chunk) = (Vec::new(), Vec::new());
    loop {
        input.read(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&chunk);
    }
}

/// Seconds, object, size, next access.
pub fn oracle_bytes(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * 24);
    for (seconds, object, size, next) in records {
        bytes.extend_from_slice(&seconds.to_le_bytes());
        bytes.extend_from_slice(&object.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
    }
    bytes
}

pub fn event(t_ns: u64, op: Op, file: u32, offset: u64, len: u64) -> Event {
    Event { t_ns, dur_ns: 1000, op, file, offset, len, pid: 10, tid: 11, flags: Flags::default(), gap: None }
}

/// A page fault or a call of `mmap`.
pub struct Map {
    pub t: u64,
    pub fault: bool,
}

impl Map {
    pub fn event(self, file: u32, offset: u64, len: u64) -> Event {
        Event { dur_ns: u64::from(!self.fault), ..event(self.t, Op::Map, file, offset, len) }
    }
}

/// Writes a trace; files are path, role and size.
pub fn save_trace(path: &Path, files: &[(&str, &str, u64)], events: &[Event]) {
    let meta = Meta { probe_set: "syscall".into(), subject: "dir:/db".into(), ..Meta::default() };
    let file = |&(path, role, size): &(&str, &str, u64)| File {
        path: path.into(),
        role: Role::from_name(role),
        size,
        ..File::default()
    };
    let files = files.iter().map(file).collect();
    Trace { meta, files, events: events.to_vec() }.save(path).unwrap();
}

/// Makes models of these sizes for a sample at this rate.
pub type Make = fn(&[u64], f64) -> Vec<Box<dyn Model>>;
/// Families by name.
pub type Makers = &'static [(&'static str, Make)];

/// LRU and the textbook ARC.
pub const TEXTBOOK: Makers = &[
    ("lru", |sizes, _| vec![Box::new(Lru::new(sizes))]),
    ("arc", |sizes, _| sizes.iter().map(|&size| Box::new(Arc::new(size)) as _).collect()),
];

/// Families of models of these sizes.
pub fn families(makers: Makers, sizes: &[u64]) -> Vec<Family> {
    let family = |(name, models): &(&str, Make)| Family {
        name: (*name).to_owned(),
        sizes: sizes.to_vec(),
        least_bytes: 0,
        grain_bytes: if *name == "openzfs" { GRAIN } else { 0 },
        models: Box::new(*models),
    };
    makers.iter().map(family).collect()
}

/// An exact pipeline of the textbook's models.
pub fn textbook(record_map: RecordMap, sizes: &[u64]) -> Pipeline {
    Pipeline::new(record_map, Amount::ALL, 1, families(TEXTBOOK, sizes)).unwrap()
}
