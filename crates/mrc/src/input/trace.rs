//! A Poolwright trace as an input.

use std::collections::BTreeSet;
use std::path::Path;

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, Reader, stats};

use super::{CHUNK, Follow, Input, Select, Skipped, Unit};
use crate::{Error, Extent, Result};

/// The default recordsize of a dataset (`zfsprops(7)`).
pub(super) const RECORDSIZE: u64 = 128 << 10;

/// A trace being read. Holds two row groups in memory: events are sorted within a group, and a long operation may be in
/// the group after the one where it began.
pub struct Trace {
    reader: Reader,
    follow: Follow,
    /// The next row group to be read.
    group: usize,
    /// Sorted events. No earlier event can follow for those before `ready`.
    events: Vec<Event>,
    ready: usize,
    taken: usize,
}

impl Trace {
    /// Opens a trace. If roles are selected, and the recorder did not know the roles of all files, reads the trace once
    /// to derive the roles from the use of the files, as `trace show` does.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace) if the trace cannot be read;
    /// [`Error::NothingSelected`](crate::Error::NothingSelected) if no file is selected.
    pub fn open(path: &Path, select: &Select) -> Result<Trace> {
        let reader = Reader::open(path)?;
        let mut follow = Follow::new(select.clone(), reader.meta().subject.starts_with("import:"));
        let unknown = reader.files().iter().any(|file| file.role.is_none());
        let by_use = if !select.roles.is_empty() && unknown { Some(stats::collect(&reader)?) } else { None };
        let mut wanted = 0;
        for (id, file) in reader.files().iter().enumerate() {
            let role = file.role.or_else(|| by_use.as_ref()?.role_of(id as u32)).unwrap_or_default();
            wanted += usize::from(follow.file(file, role));
        }
        if wanted == 0 && !reader.files().is_empty() {
            return Err(nothing(path, &reader));
        }
        Ok(Trace { reader, follow, group: 0, events: Vec::new(), ready: 0, taken: 0 })
    }

    /// Reads the next row group, and merges it with the remaining events. Returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.events.drain(..self.taken);
        self.taken = 0;
        if self.group >= self.reader.row_groups() {
            self.ready = self.events.len();
            return Ok(self.ready > 0);
        }
        let next = self.reader.row_group(self.group)?;
        self.group += 1;
        self.ready = if self.group == self.reader.row_groups() {
            self.events.len() + next.len()
        } else {
            self.events.len()
        };
        self.events.extend(next);
        // Two sorted runs, so this is one merge.
        self.events.sort_by_key(|event| event.t_ns);
        Ok(true)
    }
}

fn nothing(path: &Path, reader: &Reader) -> Error {
    let roles: BTreeSet<Role> = reader.files().iter().filter_map(|file| file.role).collect();
    let roles: Vec<Role> = roles.into_iter().collect();
    let why = format!(
        "none of its {} files has a selected role and path (roles: {})",
        reader.files().len(),
        if roles.is_empty() { "unknown".to_owned() } else { Role::list(&roles) }
    );
    Error::NothingSelected { path: path.to_owned(), why }
}

impl Input for Trace {
    fn format(&self) -> &'static str {
        "trace"
    }

    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: RECORDSIZE }
    }

    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        extents.clear();
        while extents.len() < CHUNK {
            if self.taken == self.ready {
                if !self.advance()? {
                    break;
                }
                continue;
            }
            let event = self.events[self.taken];
            self.taken += 1;
            self.follow.event(&event, extents);
        }
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        self.follow.skipped()
    }

    fn duration_ns(&self) -> u64 {
        self.reader.meta().duration_ns.max(self.follow.now_ns())
    }

    fn has_fine_times(&self) -> bool {
        true
    }

    fn progress(&self) -> Option<f64> {
        Some(self.group as f64 / self.reader.row_groups().max(1) as f64)
    }
}
