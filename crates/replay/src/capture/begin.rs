//! The files at the start of a replay: as they were when the recording began, or at the later time at which a slice begins.

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Op, Trace};

use super::holes::Holes;
use super::{Capture, CapturedFile};

/// Returns for each file whether it existed when the recording began, and its length then in bytes. If the file was opened
/// before it was changed, that is the length seen by the recorder. Otherwise, if the file ends where a chain of appending
/// writes ends, its initial length is the start of that chain.
pub(super) fn initial_sizes(trace: &Trace) -> Vec<(bool, u64)> {
    let mut sizes: Vec<(bool, u64)> = trace.files.iter().map(|f| (true, f.size)).collect();
    let mut reach = vec![0u64; sizes.len()];
    for event in trace.events.iter().filter(|e| e.moves_bytes()) {
        let end: &mut u64 = &mut reach[event.file as usize];
        *end = (*end).max(event.offset.saturating_add(event.len));
    }
    for (size, reach) in sizes.iter_mut().zip(reach) {
        size.1 = size.1.max(reach);
    }
    let mut opened: Vec<Option<u64>> = vec![None; sizes.len()];
    for event in trace.events.iter().rev() {
        if trace.files[event.file as usize].known_role() == Role::Volume {
            continue; // its length does not change
        }
        let (initial, size) = &mut sizes[event.file as usize];
        match event.op {
            Op::Write if event.offset + event.len == *size && event.len > 0 => *size = event.offset,
            Op::Create => *initial = false,
            _ => {}
        }
        match event.op {
            // A length of 0 can also mean that it is unknown.
            Op::Open if event.len > 0 => opened[event.file as usize] = Some(event.len),
            Op::Write | Op::Truncate | Op::Allocate | Op::Create => opened[event.file as usize] = None,
            _ => {}
        }
    }
    for (size, opened) in sizes.iter_mut().zip(opened) {
        size.1 = opened.unwrap_or(size.1);
    }
    sizes
}

/// A file at a time of the recording.
#[derive(Clone, Debug, Default, PartialEq)]
struct FileState {
    exists: bool,
    /// Whether its name was removed. A process can still have it open.
    unlinked: bool,
    size: u64,
    holes: Holes,
}

impl FileState {
    fn create(&mut self) {
        if !self.exists || self.unlinked {
            *self = FileState { exists: true, ..FileState::default() };
        }
    }

    /// Sets the length in bytes. Bytes that this adds are a hole.
    fn set_size(&mut self, size: u64) {
        self.holes.add(self.size, size);
        self.holes.remove(size, u64::MAX);
        self.size = size;
    }

    fn apply(&mut self, event: &Event) {
        if uses(event.op) && !self.exists {
            self.create();
        }
        let end = event.offset.saturating_add(event.len);
        match event.op {
            Op::Create => self.create(),
            Op::Write if event.len > 0 => {
                self.holes.add(self.size, event.offset);
                self.holes.remove(event.offset, end);
                self.size = self.size.max(end);
            }
            Op::Truncate => self.set_size(event.offset),
            Op::Punch => self.holes.add(event.offset, end.min(self.size)),
            Op::Unlink => self.unlinked = true,
            _ => {}
        }
    }
}

impl Capture {
    /// Sets the start of the replay to `t_ns`, in nanoseconds since the start of the recording: [`Capture::fill`] then
    /// writes the files as they were at that time. Operations that began before it are regarded as done. A file whose
    /// name had been removed is filled if it is used later, because a process has it open. `trace` is the whole
    /// recording from which the capture was taken. Call this once.
    pub fn begin_at(&mut self, trace: &Trace, t_ns: u64) {
        let (before, after) = trace.events.split_at(trace.events.partition_point(|e| e.t_ns < t_ns));
        let initial = |file: &CapturedFile| FileState {
            exists: file.initial,
            size: file.initial_size,
            holes: file.holes.clone(),
            ..FileState::default()
        };
        let mut states: Vec<FileState> = self.files.iter().map(initial).collect();
        for event in before {
            states[event.file as usize].apply(event);
            // A rename removes the file that had the new name.
            let replaced = usize::try_from(event.offset).ok().filter(|_| event.op == Op::Rename);
            if let Some(replaced) = replaced.filter(|file| *file != event.file as usize) {
                states.get_mut(replaced).into_iter().for_each(|state| state.unlinked = true);
            }
        }
        let used = used_before_created(after, states.len());
        for ((file, state), used) in self.files.iter_mut().zip(states).zip(used) {
            file.initial = state.exists && (!state.unlinked || used);
            file.initial_size = state.size;
            file.holes = state.holes;
        }
    }
}

/// Whether the operation requires that the file exists, by name or open.
fn uses(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::Fsync | Op::Fdatasync | Op::Truncate | Op::Punch | Op::Map)
}

/// Returns for each file whether the first operation on it that creates or uses it is a use.
fn used_before_created(events: &[Event], files: usize) -> Vec<bool> {
    let mut used: Vec<Option<bool>> = vec![None; files];
    for event in events.iter().filter(|e| uses(e.op) || e.op == Op::Create) {
        used[event.file as usize].get_or_insert(uses(event.op));
    }
    used.into_iter().map(|used| used == Some(true)).collect()
}

#[cfg(test)]
mod tests;
