//! The objects of a recorded dataset: their names, their lengths, and their IDs in the trace.

use std::collections::HashMap;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DirEntry {
    pub directory: u64,
    pub name: Vec<u8>,
}

/// An object whose name the recorder has seen, or that has events.
#[derive(Debug, Default)]
pub(super) struct TrackedObject {
    entry: Option<DirEntry>,
    /// Its ID in the trace's table of files, once it has an event.
    pub file: Option<u32>,
    /// Its length in bytes, as far as the recorded operations show it.
    pub size: u64,
}

/// All tracked objects by number and by name.
#[derive(Debug, Default)]
pub(super) struct ObjectTable {
    objects: HashMap<u64, TrackedObject>,
    by_entry: HashMap<DirEntry, u64>,
}

impl ObjectTable {
    pub(super) fn get(&self, object: u64) -> Option<&TrackedObject> {
        self.objects.get(&object)
    }

    pub(super) fn get_mut(&mut self, object: u64) -> Option<&mut TrackedObject> {
        self.objects.get_mut(&object)
    }

    pub(super) fn get_or_insert(&mut self, object: u64) -> &mut TrackedObject {
        self.objects.entry(object).or_default()
    }

    /// The object's ID in the trace.
    pub(super) fn file(&self, object: u64) -> Option<u32> {
        self.objects.get(&object)?.file
    }

    /// The object's last known name.
    pub(super) fn entry(&self, object: u64) -> Option<&DirEntry> {
        self.objects.get(&object)?.entry.as_ref()
    }

    /// The object with this name, if the recorder has seen it.
    pub(super) fn named(&self, directory: u64, name: &[u8]) -> Option<u64> {
        self.by_entry.get(&DirEntry { directory, name: name.to_vec() }).copied()
    }

    /// Replaces the object's name.
    pub(super) fn set_entry(&mut self, object: u64, entry: DirEntry) {
        self.clear_entry(object);
        self.by_entry.insert(entry.clone(), object);
        self.get_or_insert(object).entry = Some(entry);
    }

    /// Sets the object's name if none is known. A file with hard links keeps the first name that the recorder saw.
    pub(super) fn add_entry(&mut self, object: u64, entry: DirEntry) {
        if self.entry(object).is_none() {
            self.set_entry(object, entry);
        }
    }

    /// Forgets the object's name.
    pub(super) fn clear_entry(&mut self, object: u64) {
        let Some(entry) = self.objects.get_mut(&object).and_then(|tracked| tracked.entry.take()) else {
            return;
        };
        if self.by_entry.get(&entry) == Some(&object) {
            self.by_entry.remove(&entry);
        }
    }

    /// Forgets the object, whose number the file system may give to another file.
    pub(super) fn remove(&mut self, object: u64) -> Option<TrackedObject> {
        self.clear_entry(object);
        self.objects.remove(&object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TrackedObject> {
        self.objects.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(directory: u64, name: &str) -> DirEntry {
        DirEntry { directory, name: name.into() }
    }

    #[test]
    fn names_follow_renames_and_removals() {
        let mut table = ObjectTable::default();
        table.add_entry(7, entry(1, "a"));
        table.add_entry(7, entry(1, "hard link"));
        assert_eq!((table.named(1, b"a"), table.named(1, b"hard link")), (Some(7), None));
        table.set_entry(7, entry(2, "b"));
        assert_eq!((table.named(1, b"a"), table.named(2, b"b")), (None, Some(7)));
        // A second object takes the name over before the first one is forgotten.
        table.set_entry(8, entry(2, "b"));
        table.remove(7);
        assert_eq!((table.named(2, b"b"), table.entry(8)), (Some(8), Some(&entry(2, "b"))));
        table.clear_entry(8);
        assert_eq!((table.named(2, b"b"), table.get(8).is_some()), (None, true));
    }
}
