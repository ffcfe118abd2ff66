//! The database's own cache: an LRU of pages with a limit in bytes.

use crate::list::{Linked, Links, List};

/// An LRU of pages with dense numbers; 16 bytes for each page of the trace.
pub(super) struct BufferPool {
    limit: u64,
    used: u64,
    dirty: u64,
    pages: Vec<Page>,
    list: List,
}

#[derive(Clone, Copy)]
struct Page {
    links: Links,
    bytes: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Out,
    Clean,
    Dirty,
}

impl Linked for Vec<Page> {
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self[id as usize].links
    }
}

impl BufferPool {
    pub fn new(limit: u64) -> BufferPool {
        BufferPool { limit, used: 0, dirty: 0, pages: Vec::new(), list: List::default() }
    }

    /// Number of dirty pages in the cache.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Uses a page, and returns whether it was in the cache.
    pub fn touch(&mut self, page: u32, writes: bool) -> bool {
        if !self.has(page) {
            return false;
        }
        if self.list.newest != page {
            self.list.remove(&mut self.pages, page);
            self.list.push(&mut self.pages, page);
        }
        if writes {
            self.set(page, State::Dirty);
        }
        true
    }

    /// Adds a page that is not in the cache. Returns false for one larger than the whole cache.
    pub fn insert(&mut self, page: u32, bytes: u32, dirty: bool) -> bool {
        if u64::from(bytes) > self.limit {
            return false;
        }
        if self.pages.len() <= page as usize {
            let absent = Page { links: Links::UNLINKED, bytes: 0, state: State::Out };
            self.pages.resize(page as usize + 1, absent);
        }
        self.pages[page as usize].bytes = bytes;
        self.used += u64::from(bytes);
        self.list.push(&mut self.pages, page);
        self.set(page, if dirty { State::Dirty } else { State::Clean });
        true
    }

    /// Evicts the least recently used page if the limit is exceeded: number, bytes, whether it was dirty.
    pub fn overflow(&mut self) -> Option<(u32, u32, bool)> {
        if self.used <= self.limit {
            return None;
        }
        let page = self.list.oldest;
        let Page { bytes, state, .. } = self.pages[page as usize];
        self.remove(page);
        Some((page, bytes, state == State::Dirty))
    }

    /// Removes a page, if it is in the cache.
    pub fn remove(&mut self, page: u32) {
        if self.has(page) {
            self.list.remove(&mut self.pages, page);
            self.used -= u64::from(self.pages[page as usize].bytes);
            self.set(page, State::Out);
        }
    }

    fn has(&self, page: u32) -> bool {
        self.pages.get(page as usize).is_some_and(|page| page.state != State::Out)
    }

    fn set(&mut self, page: u32, state: State) {
        let was = std::mem::replace(&mut self.pages[page as usize].state, state);
        self.dirty += u64::from(state == State::Dirty);
        self.dirty -= u64::from(was == State::Dirty);
    }
}
