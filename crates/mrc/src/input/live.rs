//! A recording that is under way, as an input: one thread feeds it with events, another reads the extents.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File};

use super::trace::RECORDSIZE;
use super::{CHUNK, Follow, Input, Select, Skipped, Unit};
use crate::{Extent, Result};

/// Chunks that may wait for the models: 32 MiB. Beyond that the recorder waits, and its buffer fills.
const WAITING: usize = 16;

/// Events come in the order of their ends; they are held back so long to be put into that of their starts.
const HELD_NS: u64 = 1_000_000_000;

/// The end that a recorder feeds. Dropped, the trace has ended.
#[derive(Debug)]
pub struct Feed {
    follow: Follow,
    events: Vec<Event>,
    newest_ns: u64,
    to: SyncSender<Message>,
}

/// The end that is read.
#[derive(Debug)]
pub struct Live {
    from: Receiver<Message>,
    skipped: Skipped,
    now_ns: u64,
}

#[derive(Debug)]
struct Message {
    extents: Vec<Extent>,
    skipped: Skipped,
    now_ns: u64,
}

/// The reader has gone: nothing more is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Both ends, for the files that `select` takes.
pub fn live(select: Select) -> (Feed, Live) {
    let (to, from) = sync_channel(WAITING);
    let follow = Follow::new(select, false);
    let feed = Feed { follow, events: Vec::new(), newest_ns: 0, to };
    (feed, Live { from, skipped: Skipped::default(), now_ns: 0 })
}

impl Feed {
    /// Files so far; [`Feed::file`] takes the next.
    pub fn files(&self) -> usize {
        self.follow.files()
    }

    /// Adds the next file of the recorder's table, with its length now.
    pub fn file(&mut self, file: &File) {
        self.follow.file(file, Role::from_name(&file.role).unwrap_or_default());
    }

    /// Adds an event of a file of the table.
    pub fn event(&mut self, event: Event) -> std::result::Result<(), Gone> {
        self.newest_ns = self.newest_ns.max(event.t_ns);
        self.events.push(event);
        if self.events.len() >= 2 * CHUNK { self.flush(CHUNK) } else { Ok(()) }
    }

    /// Hands over what has been held back long enough. To be called about twice a second.
    pub fn tick(&mut self) -> std::result::Result<(), Gone> {
        self.events.sort_by_key(|event| event.t_ns);
        let before = self.newest_ns.saturating_sub(HELD_NS);
        let old = self.events.partition_point(|event| event.t_ns < before);
        if old > 0 { self.flush(old) } else { Ok(()) }
    }

    /// Hands over the rest.
    pub fn end(mut self) -> std::result::Result<(), Gone> {
        self.flush(self.events.len())
    }

    fn flush(&mut self, count: usize) -> std::result::Result<(), Gone> {
        self.events.sort_by_key(|event| event.t_ns);
        let mut extents = Vec::with_capacity(count);
        for event in self.events.drain(..count) {
            self.follow.event(&event, &mut extents);
        }
        if extents.is_empty() {
            return Ok(());
        }
        let message = Message { extents, skipped: self.follow.skipped(), now_ns: self.follow.now_ns() };
        self.to.send(message).map_err(|_| Gone)
    }
}

impl Input for Live {
    fn format(&self) -> &'static str {
        "live"
    }

    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: RECORDSIZE }
    }

    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        extents.clear();
        if let Ok(message) = self.from.recv() {
            *extents = message.extents;
            (self.skipped, self.now_ns) = (message.skipped, message.now_ns);
        }
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn duration_ns(&self) -> u64 {
        self.now_ns
    }

    fn has_fine_times(&self) -> bool {
        true
    }

    fn progress(&self) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use poolwright_trace::{Flags, Op};

    fn event(t_ns: u64, offset: u64) -> Event {
        let (op, flags) = (Op::Read, Flags::default());
        Event { t_ns, dur_ns: 9, op, file: 0, offset, len: 512, pid: 1, tid: 1, flags, gap: None }
    }

    fn reads(live: &mut Live) -> Vec<u64> {
        let mut extents = Vec::new();
        live.read(&mut extents).unwrap();
        extents.iter().filter(|extent| extent.kind == Kind::Read).map(|extent| extent.t_ns).collect()
    }

    #[test]
    fn events_are_held_back_and_come_in_order() {
        let (mut feed, mut live) = live(Select::default());
        feed.file(&File { path: "/db/t".into(), size: 1 << 20, ..File::default() });
        let second = 1_000_000_000;
        for t in [5, 3 * second, 2, second, 2 * second + 1] {
            feed.event(event(t, 0)).unwrap();
        }
        feed.tick().unwrap();
        assert_eq!(reads(&mut live), [2, 5, second]);
        feed.event(event(4, 0)).unwrap(); // took longer than is waited for
        feed.end().unwrap();
        assert_eq!(reads(&mut live), [second, 2 * second + 1, 3 * second]);
        assert_eq!((live.skipped().unsorted, live.duration_ns()), (1, 3 * second));
        assert!(reads(&mut live).is_empty());
    }

    #[test]
    fn a_burst_is_handed_over_at_once_and_a_gone_reader_is_told() {
        let (mut feed, mut live) = live(Select::default());
        feed.file(&File::default());
        (0..2 * CHUNK as u64).for_each(|t| feed.event(event(t, 0)).unwrap());
        assert_eq!(reads(&mut live).len(), CHUNK);
        drop(live);
        assert_eq!(feed.end(), Err(Gone));
    }
}
