//! Prefetch: streams of sequential accesses to a file, and the distance that the engine reads ahead of each
//! (`dmu_zfetch.c`).

/// Streams of a file (`zfetch_max_streams`).
const STREAMS: u64 = 8;
/// Seconds after its last use until a stream may be replaced, and until it is removed. The engine counts whole seconds
/// of the clock, so a stream that was never used twice stays until the next second begins. Until then, random reads can
/// prevent the prefetch for a sequential reader.
const REUSE_S: u32 = 1;
const OLD_S: u32 = 2;
/// The clock at the start of a trace, so that earlier times are positive.
const START_S: u32 = 10;
/// Bytes: the distance that a stream reaches quickly, the maximum, and the maximum for indirect blocks
/// (`zfetch_min_distance` and so on).
const QUICK: u64 = 4 << 20;
const FAR: u64 = 64 << 20;
const FAR_INDIRECT: u64 = 128 << 20;
/// How far ahead of a stream an access that comes early still belongs to it (`zfetch_max_reorder`).
const REORDER: u64 = 16 << 20;
/// Number of early runs that a stream remembers.
const RANGES: usize = 9;
/// The part of a run up to the last early access that may be missing for the stream to continue there: a quarter.
const HOLES: u64 = 4;

#[derive(Clone, Debug)]
struct Stream {
    /// The next expected record.
    next: u64,
    used_s: u32,
    /// Early accesses as ranges relative to `next`, the end excluded.
    early: Vec<(u64, u64)>,
    distance: u64,
    indirect_distance: u64,
    /// The end of the prefetched data, which starts at `next`, and of the indirect blocks after it.
    end: u64,
    indirect_end: u64,
    issued: u64,
    indirect_issued: u64,
    missed: bool,
}

/// What to prefetch: records, and records whose indirect blocks are needed, as ranges without their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    pub records: (u64, u64),
    pub indirect: (u64, u64),
}

/// The streams of one file, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    streams: Vec<Stream>,
}

impl Streams {
    /// Processes an access to a record; `last` is the last record of the file. Returns the stream that the access
    /// continues, for [`Streams::run`]. A write creates and advances streams as a read does, but only prefetches
    /// indirect blocks.
    pub fn access(
        &mut self,
        record: u64,
        last: u64,
        record_bytes: u64,
        write: bool,
        now_ms: u32,
    ) -> Option<usize> {
        if last < 2 {
            return None;
        }
        let now = START_S + now_ms / 1000;
        let (at, read) = match self.find(record, record_bytes, write, now)? {
            Match::Stream(at, read) => (at, read),
            Match::Nothing => {
                if record + 1 < last {
                    self.create(record + 1, last * record_bytes, now);
                }
                return None;
            }
        };
        let stream = &mut self.streams[at];
        stream.used_s = now;
        if read == 0 {
            return None;
        }
        if stream.next >= last {
            self.streams.remove(at);
            return None;
        }
        stream.reach(read, record_bytes, write);
        Some(at)
    }

    fn find(&mut self, record: u64, record_bytes: u64, write: bool, now: u32) -> Option<Match> {
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if record == stream.next {
                return Some(Match::Stream(at, stream.go_on(1)));
            }
            if record + 1 == stream.next {
                return Some(Match::Stream(at, stream.go_on(0)));
            }
        }
        let reorder = REORDER / record_bytes + 1;
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if record > stream.next && record < stream.next + reorder {
                let by = match write {
                    true => stream.go_on(record + 1 - stream.next),
                    false => stream.early(record),
                };
                return Some(Match::Stream(at, by));
            }
            let behind = record < stream.next && record + 1 + reorder > stream.next;
            if behind && stream.used_s + OLD_S >= now {
                stream.used_s = now;
                return None;
            }
        }
        Some(Match::Nothing)
    }

    fn create(&mut self, next: u64, file_bytes: u64, now: u32) {
        self.streams.retain(|stream| stream.used_s + OLD_S >= now);
        let most = (file_bytes / FAR).clamp(1, STREAMS);
        if self.streams.len() as u64 >= most {
            let oldest = self.streams.iter().enumerate().rev().min_by_key(|(_, stream)| stream.used_s);
            match oldest {
                Some((at, stream)) if stream.used_s + REUSE_S < now => self.streams.remove(at),
                _ => return,
            };
        }
        let stream = Stream {
            next,
            // May be replaced after the current second, until it is used again.
            used_s: now - REUSE_S,
            early: Vec::new(),
            distance: 0,
            indirect_distance: 0,
            end: next,
            indirect_end: next,
            issued: next,
            indirect_issued: next,
            missed: false,
        };
        self.streams.insert(0, stream);
    }

    /// The records that a stream prefetches, once it is known whether the access missed. A stream that never missed prefetches no
    /// data.
    pub fn run(&mut self, at: usize, missed: bool) -> Ahead {
        let stream = &mut self.streams[at];
        stream.missed |= missed;
        let mut ahead = Ahead { indirect: (stream.indirect_issued, stream.indirect_end), ..Ahead::default() };
        stream.indirect_issued = stream.indirect_end;
        if stream.missed {
            ahead.records = (stream.issued, stream.end);
            stream.issued = stream.end;
        }
        ahead
    }
}

enum Match {
    /// A stream, and the number of records by which it advanced.
    Stream(usize, u64),
    Nothing,
}

impl Stream {
    /// Advances by some records, and by the early accesses that follow them.
    fn go_on(&mut self, mut by: u64) -> u64 {
        while let Some(&(start, end)) = self.early.first() {
            if start > by {
                break;
            }
            by = by.max(end);
            self.early.remove(0);
        }
        for range in &mut self.early {
            *range = (range.0 - by, range.1 - by);
        }
        self.next += by;
        by
    }

    /// Records an early access. Advances the stream to it if few records are missing before it.
    fn early(&mut self, record: u64) -> u64 {
        let at = record - self.next;
        let touches = |range: &(u64, u64)| range.0 <= at + 1 && at <= range.1;
        match self.early.iter().position(touches) {
            Some(first) => {
                // The access may close the gap between two runs.
                let last = self.early.iter().rposition(touches).unwrap_or(first);
                let (start, end) = (self.early[first].0.min(at), self.early[last].1.max(at + 1));
                self.early.splice(first..=last, [(start, end)]);
            }
            None => {
                // If there are too many runs, the farthest one is dropped.
                let index = self.early.partition_point(|range| range.0 < at);
                self.early.insert(index, (at, at + 1));
                self.early.truncate(RANGES);
                if index == RANGES {
                    return 0;
                }
            }
        }
        let (mut holes, mut from, mut reached) = (0, 0, 0);
        for &(start, end) in &self.early {
            holes += start.saturating_sub(from);
            from = end;
            if holes <= end / HOLES {
                reached = end;
            }
        }
        if reached > 0 { self.go_on(reached) } else { 0 }
    }

    /// Updates the prefetch distance after the stream advanced by `read` records.
    fn reach(&mut self, read: u64, record_bytes: u64, write: bool) {
        let bytes = read * record_bytes;
        if !write {
            if self.distance < bytes {
                self.distance = bytes;
            } else if self.distance < QUICK {
                self.distance *= 2;
            }
            self.distance = self.distance.min(FAR);
        }
        let ahead = if write { 0 } else { self.distance };
        self.issued = self.issued.max(self.next);
        self.end = self.end.max(self.next + ahead / record_bytes);
        self.indirect_distance =
            if self.indirect_distance < bytes { bytes } else { self.indirect_distance * 2 };
        self.indirect_distance = self.indirect_distance.min(FAR_INDIRECT);
        self.indirect_issued = self.indirect_issued.max(self.end);
        self.indirect_end = self.indirect_end.max(self.end + self.indirect_distance / record_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sequential_readers_are_prefetched_for() {
        let mut streams = Streams::default();
        let mut asked = 0;
        for record in 1..100 {
            if let Some(at) = streams.access(record, 10_000, 8 << 10, false, 10) {
                let ahead = streams.run(at, true).records;
                assert!(ahead.0 >= asked && ahead.0 > record, "{ahead:?} at {record} after {asked}");
                asked = asked.max(ahead.1);
            }
        }
        assert_eq!(asked, 100 + (QUICK >> 13));

        let mut streams = Streams::default();
        let random = (0..1000u64).map(|n| n * 48_271 % 10_007 * 3000);
        assert!(
            random.filter_map(|record| streams.access(record, 1 << 40, 8 << 10, false, 10)).next().is_none()
        );
    }
    /// A stream that expects record 100, and its early accesses.
    fn early(records: &[u64]) -> (u64, Vec<(u64, u64)>) {
        let mut streams = Streams::default();
        assert_eq!(streams.access(99, 1 << 20, 8 << 10, false, 10), None);
        for &record in records {
            streams.access(record, 1 << 20, 8 << 10, false, 10);
        }
        (streams.streams[0].next, streams.streams[0].early.clone())
    }

    #[test]
    fn early_accesses_are_kept_as_the_nearest_runs() {
        assert_eq!(early(&[110, 112, 111]), (100, vec![(10, 13)]));
        let far: Vec<u64> = (0..9).map(|n| 200 + 100 * n).collect();
        assert_eq!(early(&far).1.len(), RANGES);
        let beyond = early(&[far.clone(), vec![1200]].concat()).1;
        assert_eq!(beyond.last(), Some(&(900, 901)));
        let nearer = early(&[far, vec![150]].concat()).1;
        assert_eq!((nearer[0], nearer.last()), ((50, 51), Some(&(800, 801))));
        // Three of four are there, so the stream continues after them.
        assert_eq!(early(&[101, 102, 103]), (104, vec![]));
    }

    #[test]
    fn a_write_advances_a_stream_without_prefetching_data() {
        let mut streams = Streams::default();
        let mut indirect = 0;
        for record in 1..200 {
            if let Some(at) = streams.access(record, 1 << 20, 8 << 10, true, 10) {
                let ahead = streams.run(at, true);
                assert_eq!(ahead.records.0, ahead.records.1, "at {record}");
                indirect = indirect.max(ahead.indirect.1);
            }
        }
        assert!(indirect > 1024 && streams.streams.len() == 1, "{indirect}, {streams:?}");
    }
}
