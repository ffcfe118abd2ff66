//! A running recording as an input: one thread feeds events, another reads the extents.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use poolwright_trace::{Event, File};

use super::trace::RECORDSIZE;
use super::{CHUNK, Follow, Input, Select, Skipped, Unit};
use crate::{Extent, Result};

/// Chunks that may be queued for the models: 32 MiB. If the queue is full the recorder waits, and its buffer fills.
const WAITING: usize = 16;

/// Time in nanoseconds for which events are held back. They arrive in the order of their ends, and are sorted by their
/// starts.
const HELD_NS: u64 = 1_000_000_000;

/// The recorder's end of the queue. Dropping it ends the trace.
#[derive(Debug)]
pub struct Feed {
    follow: Follow,
    events: Vec<Event>,
    newest_ns: u64,
    to: SyncSender<Message>,
}

/// The models' end of the queue.
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

/// The reader was dropped: no more events are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Makes both ends of the queue, for the files that `select` matches.
pub fn live(select: Select) -> (Feed, Live) {
    let (to, from) = sync_channel(WAITING);
    let follow = Follow::new(select, false);
    let feed = Feed { follow, events: Vec::new(), newest_ns: 0, to };
    (feed, Live { from, skipped: Skipped::default(), now_ns: 0 })
}

impl Feed {
    /// Number of files so far; [`Feed::file`] adds the next.
    pub fn files(&self) -> usize {
        self.follow.files()
    }

    /// Adds the next file of the recorder's table, with its current length.
    pub fn file(&mut self, file: &File) {
        self.follow.file(file, file.known_role());
    }

    /// Adds an event of a file of the table.
    ///
    /// # Errors
    /// [`Gone`] if the reader has ended.
    pub fn event(&mut self, event: Event) -> std::result::Result<(), Gone> {
        self.newest_ns = self.newest_ns.max(event.t_ns);
        self.events.push(event);
        if self.events.len() >= 2 * CHUNK { self.flush(CHUNK) } else { Ok(()) }
    }

    /// Passes on the events that were held back long enough. Call it about twice a second.
    ///
    /// # Errors
    /// [`Gone`] if the reader has ended.
    pub fn tick(&mut self) -> std::result::Result<(), Gone> {
        self.events.sort_by_key(|event| event.t_ns);
        let before = self.newest_ns.saturating_sub(HELD_NS);
        let old = self.events.partition_point(|event| event.t_ns < before);
        if old > 0 { self.flush(old) } else { Ok(()) }
    }

    /// Passes on the remaining events.
    ///
    /// # Errors
    /// [`Gone`] if the reader has ended.
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

    fn event(t_ns: u64, offset: u64) -> Event {
        Event { t_ns, offset, len: 512, ..Event::default() }
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
        feed.event(event(4, 0)).unwrap(); // a longer operation than events are held back
        feed.end().unwrap();
        assert_eq!(reads(&mut live), [second, 2 * second + 1, 3 * second]);
        assert_eq!((live.skipped().unsorted, live.duration_ns()), (1, 3 * second));
        assert!(reads(&mut live).is_empty());
    }

    #[test]
    fn a_burst_is_passed_on_at_once_and_a_dropped_reader_is_reported() {
        let (mut feed, mut live) = live(Select::default());
        feed.file(&File::default());
        (0..2 * CHUNK as u64).for_each(|t| feed.event(event(t, 0)).unwrap());
        assert_eq!(reads(&mut live).len(), CHUNK);
        drop(live);
        assert_eq!(feed.end(), Err(Gone));
    }
}
