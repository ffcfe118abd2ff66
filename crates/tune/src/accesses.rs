//! Converts the events of a trace to record accesses; each file has the recordsize and compression ratio of its
//! role.

use std::collections::HashMap;
use std::sync::Arc;

use poolwright_mrc::input::{CHUNK, Follow, Select, Unit};
use poolwright_mrc::{Access, Extent, Intern, Key, RecordStream};
use poolwright_trace::{Event, File, Op, Trace};

use crate::Result;

/// The size of a file's records, on disk and in the ARC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Records {
    /// Record size in bytes.
    pub recordsize: u64,
    /// Logical bytes per byte in the ARC, greater than 0.
    pub ratio: f64,
}

/// Converts events to accesses, in chunks. A key identifies a file and one of its records, so records of all
/// recordsizes are distinct and share one cache.
pub(crate) struct Accesses {
    follow: Follow,
    streams: Vec<RecordStream>,
    /// Index into `streams` for each file.
    stream: Vec<usize>,
    numbers: Intern,
    extents: Vec<Extent>,
    chunk: Vec<Access>,
}

impl Accesses {
    /// Creates the converter for the files of a trace; `of` returns the record size and ratio of a file.
    pub fn new(trace: &Trace, of: impl Fn(&File) -> Records) -> Result<Accesses> {
        let mut follow = Follow::new(Select::default(), trace.meta.subject.starts_with("import:"));
        let records: Vec<Records> = trace.files.iter().map(of).collect();
        for file in &trace.files {
            follow.file(file, file.known_role());
        }
        let ratios: Arc<[f64]> = records.iter().map(|r| r.ratio.max(1e-3)).collect();
        let mut sizes: Vec<u64> = records.iter().map(|r| r.recordsize).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let new = |recordsize: &u64| -> Result<RecordStream> {
            let ratios = Arc::clone(&ratios);
            let stored = move |file: u32, _: u64, bytes: u32| {
                (f64::from(bytes) / ratios.get(file as usize).unwrap_or(&1.0)).ceil().max(1.0) as u32
            };
            let unit = Unit::Bytes { recordsize: *recordsize };
            Ok(RecordStream::new(unit, None)?.with_sizes(Some(Box::new(stored))))
        };
        let streams: Vec<RecordStream> = sizes.iter().map(new).collect::<Result<_>>()?;
        let stream = records.iter().filter_map(|r| sizes.binary_search(&r.recordsize).ok()).collect();
        Ok(Accesses {
            follow,
            streams,
            stream,
            numbers: Intern::default(),
            extents: Vec::new(),
            chunk: Vec::new(),
        })
    }

    /// Converts `events`, which are in order of time, and passes the accesses to `see` in chunks, together with
    /// the keys of all records so far.
    ///
    /// # Errors
    /// [`Error::Cache`](crate::Error::Cache) if an event cannot be converted; an error of `see`.
    pub fn each<'a>(
        &mut self,
        events: impl Iterator<Item = &'a Event>,
        mut see: impl FnMut(&[Access], &[Key]) -> Result<()>,
    ) -> Result<()> {
        for event in events {
            self.add(event)?;
            if self.chunk.len() >= CHUNK {
                see(&self.chunk, self.numbers.keys())?;
                self.chunk.clear();
            }
        }
        see(&self.chunk, self.numbers.keys())?;
        self.chunk.clear();
        Ok(())
    }

    fn add(&mut self, event: &Event) -> Result<()> {
        self.extents.clear();
        self.follow.event(event, &mut self.extents);
        // A rename affects two files.
        for extent in &self.extents {
            let stream = &mut self.streams[self.stream[extent.file as usize]];
            stream.each(std::slice::from_ref(extent), |accesses, keys| {
                for access in accesses {
                    let record = self.numbers.number(keys[access.record as usize])?;
                    self.chunk.push(Access { record, ..*access });
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The number of distinct records so far.
    pub fn records(&self) -> u64 {
        self.numbers.keys().len() as u64
    }
}

/// Returns the mean length in bytes of reads and writes; 0 without any.
pub(crate) fn request_bytes<'a>(events: impl Iterator<Item = &'a Event>) -> u64 {
    let (mut requests, mut bytes) = (0, 0);
    for event in events.filter(|e| matches!(e.op, Op::Read | Op::Write)) {
        (requests, bytes) = (requests + 1, bytes + event.len);
    }
    bytes / requests.max(1)
}

/// Returns the mean length in bytes of sequential runs of reads and of writes, weighted by length. A run continues
/// while each read (or write) of a thread starts where its previous one of the same file ended.
pub(crate) fn run_bytes<'a>(events: impl Iterator<Item = &'a Event>) -> u64 {
    let mut runs: HashMap<(u32, u32, bool), (u64, u64)> = HashMap::new();
    let (mut bytes, mut squares) = (0.0, 0.0);
    let mut end = |run: u64| {
        bytes += run as f64;
        squares += (run as f64).powi(2);
    };
    for event in events.filter(|e| matches!(e.op, Op::Read | Op::Write)) {
        let (next, run) = runs.entry((event.file, event.tid, event.op == Op::Write)).or_default();
        if *next != event.offset {
            end(std::mem::take(run));
        }
        *run += event.len;
        *next = event.offset + event.len;
    }
    runs.values().for_each(|(_, run)| end(*run));
    if bytes > 0.0 { (squares / bytes) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use poolwright_mrc::Kind;
    use poolwright_trace::{Flags, Op};

    use super::*;
    use poolwright_trace::layout::Role;

    fn event(op: Op, file: u32, offset: u64, len: u64) -> Event {
        let flags = Flags::default();
        Event { t_ns: 5_000_000, dur_ns: 1, op, file, offset, len, pid: 1, tid: 1, flags, gap: None }
    }

    #[test]
    fn each_file_has_its_own_records_in_one_cache() {
        let file = |role: Role| File {
            path: format!("/{role}"),
            size: 1 << 20,
            role: Some(role),
            ..File::default()
        };
        let trace = Trace { files: vec![file(Role::Data), file(Role::Wal)], ..Trace::default() };
        let of = |f: &File| match f.known_role() {
            Role::Data => Records { recordsize: 16384, ratio: 2.0 },
            _ => Records { recordsize: 131_072, ratio: 1.0 },
        };
        let events = [
            event(Op::Read, 0, 0, 32768),
            event(Op::Write, 1, 0, 131_072),
            event(Op::Write, 0, 100, 10),
            event(Op::Fsync, 0, 0, 0),
        ];
        let mut found = Vec::new();
        let mut accesses = Accesses::new(&trace, of).unwrap();
        accesses
            .each(events.iter(), |chunk, keys| {
                found.extend_from_slice(chunk);
                assert_eq!(keys.len(), 3);
                Ok(())
            })
            .unwrap();
        let seen: Vec<_> =
            found.iter().filter(|a| a.kind != Kind::Free).map(|a| (a.record, a.bytes, a.kind)).collect();
        assert_eq!(
            seen,
            [
                (0, 8192, Kind::Read),
                (1, 8192, Kind::Read),
                (2, 131_072, Kind::Write),
                (0, 8192, Kind::Update)
            ]
        );
        assert_eq!(accesses.records(), 3);
    }
}
