//! Turns a recorder's events into extents: the operations on files that affect a cache.
//!
//! The first `open` of a file states its length. A file that was open before the recording has the length given to
//! [`Follow::file`]. In a trace that is the length at the end of the recording, so appends to such a file count as
//! updates of existing records, unless they have `O_APPEND`, which reveals where the file ended. A page fault reads its
//! page. A file that is unlinked while it is open keeps its records until it is closed. An exchange of two names
//! (`RENAME_EXCHANGE`) counts as a replacement.

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op};

use super::{LONGEST, Select, Skipped};
use crate::{END, Extent, Kind};

/// The state of a file.
#[derive(Clone, Copy, Debug)]
struct State {
    wanted: bool,
    /// The end of its data.
    end: u64,
    /// Whether that end was passed on. Otherwise it only comes from the file table.
    told: bool,
    open: bool,
    unlinked: bool,
}

/// Tracks the files of one recording.
#[derive(Debug)]
pub struct Follow {
    select: Select,
    files: Vec<State>,
    /// Whether an `open` of length 0 means an empty file. From an importer it means an unknown length.
    lengths_known: bool,
    skipped: Skipped,
    now_ns: u64,
}

impl Follow {
    /// For the files that `select` matches. `imported`: the events come from another tool, for which a length
    /// of 0 means that it is unknown.
    pub fn new(select: Select, imported: bool) -> Follow {
        let skipped = Skipped::default();
        Follow { select, files: Vec::new(), lengths_known: !imported, skipped, now_ns: 0 }
    }

    /// Adds the next file of the table, and returns whether it is selected.
    pub fn file(&mut self, file: &File, role: Role) -> bool {
        let wanted = self.select.takes(&file.host_path(), role);
        self.files.push(State { wanted, end: file.size, told: false, open: false, unlinked: false });
        wanted
    }

    /// Files so far.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The events skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Nanoseconds from the start to the latest event.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Appends the extents of an event. Events of files that are not selected have none.
    pub fn event(&mut self, event: &Event, extents: &mut Vec<Extent>) {
        // An event counts at the time of the one before it, if its own is earlier.
        self.skipped.unsorted += u64::from(event.t_ns < self.now_ns);
        self.now_ns = self.now_ns.max(event.t_ns);
        if event.op == Op::Rename {
            self.replaced(event, extents);
        }
        let Some(state) = self.files.get(event.file as usize).filter(|state| state.wanted) else { return };
        let state = *state;
        match event.op {
            Op::Read => self.transfer(event, Kind::Read, extents),
            Op::Write => self.transfer(event, Kind::Write, extents),
            Op::Map if event.is_page_fault() => self.transfer(event, Kind::Read, extents),
            Op::Open if event.len > 0 || self.lengths_known => self.ends(event, event.len, extents),
            Op::Create => self.ends(event, 0, extents),
            Op::Truncate => self.truncated(event, extents),
            Op::Punch if self.fits(event) => extents.push(self.extent(event, Kind::Free)),
            Op::Unlink if !state.open => self.gone(event.file, extents),
            Op::Unlink => self.files[event.file as usize].unlinked = true,
            Op::Close if state.unlinked => self.gone(event.file, extents),
            _ => {}
        }
        let state = &mut self.files[event.file as usize];
        match event.op {
            Op::Read | Op::Write | Op::Open | Op::Create => state.open = true,
            Op::Close => state.open = false,
            _ => {}
        }
    }

    fn transfer(&mut self, event: &Event, kind: Kind, extents: &mut Vec<Extent>) {
        if !self.fits(event) {
            return;
        }
        let state = self.files[event.file as usize];
        if !state.told {
            let appended = kind == Kind::Write && event.flags.contains(Flags::APPEND);
            self.ends(event, if appended { event.offset } else { state.end }, extents);
        }
        let end = &mut self.files[event.file as usize].end;
        *end = (*end).max(event.offset + event.len);
        // A page fault reads through the ARC, whatever `direct` is.
        if event.op == Op::Read && self.select.direct.bypasses(event) {
            self.skipped.direct += 1;
            return;
        }
        extents.push(self.extent(event, kind));
    }

    /// Passes on that the file's data ends at `end` from now on.
    fn ends(&mut self, event: &Event, end: u64, extents: &mut Vec<Extent>) {
        let end = end.min(END - 1);
        let state = &mut self.files[event.file as usize];
        (state.end, state.told) = (end, true);
        extents.push(Extent { offset: end, len: END - end, ..self.extent(event, Kind::Free) });
    }

    /// A truncation that extends a file creates a hole at its end, which contains no data. If the length is only known from
    /// the file table, the file had that length, or the one that it is cut to.
    fn truncated(&mut self, event: &Event, extents: &mut Vec<Extent>) {
        let state = self.files[event.file as usize];
        if !state.told || event.offset < state.end {
            self.ends(event, event.offset.min(state.end), extents);
        }
    }

    fn replaced(&mut self, event: &Event, extents: &mut Vec<Extent>) {
        let Ok(other) = u32::try_from(event.offset) else { return };
        let Some(state) = self.files.get_mut(other as usize) else { return };
        if !state.wanted || other == event.file {
            return;
        }
        if state.open {
            state.unlinked = true;
        } else {
            self.gone(other, extents);
        }
    }

    fn gone(&self, file: u32, extents: &mut Vec<Extent>) {
        extents.push(Extent { t_ns: self.now_ns, file, offset: 0, len: END, kind: Kind::Free });
    }

    /// Whether the event is valid. Counts it otherwise.
    fn fits(&mut self, event: &Event) -> bool {
        let skipped = &mut self.skipped;
        let counter = match event.op {
            _ if event.len == 0 => &mut skipped.zero_length,
            Op::Read | Op::Write | Op::Map if event.len > LONGEST => &mut skipped.too_long,
            _ if event.offset.saturating_add(event.len) > END => &mut skipped.too_far,
            _ => return true,
        };
        *counter += 1;
        false
    }

    fn extent(&self, event: &Event, kind: Kind) -> Extent {
        Extent { t_ns: self.now_ns, file: event.file, offset: event.offset, len: event.len, kind }
    }
}
