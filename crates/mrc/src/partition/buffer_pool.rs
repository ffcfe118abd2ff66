//! The database's own cache: an LRU of pages, in bytes.

const NONE: u32 = u32::MAX;

/// An LRU over dense numbers: a doubly linked list in plain arrays, 14 bytes a page.
pub(super) struct BufferPool {
    limit: u64,
    used: u64,
    dirty: u64,
    /// Towards the most and towards the least recently used.
    newer: Vec<u32>,
    older: Vec<u32>,
    bytes: Vec<u32>,
    state: Vec<State>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Out,
    Clean,
    Dirty,
}

impl BufferPool {
    pub fn new(limit: u64) -> BufferPool {
        BufferPool {
            limit,
            used: 0,
            dirty: 0,
            newer: Vec::new(),
            older: Vec::new(),
            bytes: Vec::new(),
            state: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Dirty pages held.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    pub fn memory(&self) -> usize {
        self.newer.capacity() * 4
            + self.older.capacity() * 4
            + self.bytes.capacity() * 4
            + self.state.capacity()
    }

    /// Whether the page is there; then it is the most recently used.
    pub fn touch(&mut self, page: u32, writes: bool) -> bool {
        if !self.has(page) {
            return false;
        }
        if self.newest != page {
            self.unlink(page);
            self.link(page);
        }
        if writes {
            self.set(page, State::Dirty);
        }
        true
    }

    /// Takes a page that is not there; not one that is larger than the whole cache.
    pub fn insert(&mut self, page: u32, bytes: u32, dirty: bool) -> bool {
        if u64::from(bytes) > self.limit {
            return false;
        }
        self.reach(page);
        self.bytes[page as usize] = bytes;
        self.used += u64::from(bytes);
        self.link(page);
        self.set(page, if dirty { State::Dirty } else { State::Clean });
        true
    }

    /// Drops the least recently used page if there is too much: number, bytes, whether it was dirty.
    pub fn overflow(&mut self) -> Option<(u32, u32, bool)> {
        if self.used <= self.limit {
            return None;
        }
        let page = self.oldest;
        let dirty = self.state[page as usize] == State::Dirty;
        self.remove(page);
        Some((page, self.bytes[page as usize], dirty))
    }

    /// Drops a page, if it is there.
    pub fn remove(&mut self, page: u32) {
        if self.has(page) {
            self.unlink(page);
            self.used -= u64::from(self.bytes[page as usize]);
            self.set(page, State::Out);
        }
    }

    fn has(&self, page: u32) -> bool {
        self.state.get(page as usize).is_some_and(|s| *s != State::Out)
    }

    fn reach(&mut self, page: u32) {
        let len = page as usize + 1;
        if self.state.len() < len {
            self.newer.resize(len, NONE);
            self.older.resize(len, NONE);
            self.bytes.resize(len, 0);
            self.state.resize(len, State::Out);
        }
    }

    fn set(&mut self, page: u32, state: State) {
        let was = std::mem::replace(&mut self.state[page as usize], state);
        self.dirty += u64::from(state == State::Dirty);
        self.dirty -= u64::from(was == State::Dirty);
    }

    fn link(&mut self, page: u32) {
        self.newer[page as usize] = NONE;
        self.older[page as usize] = self.newest;
        match self.newest {
            NONE => self.oldest = page,
            newest => self.newer[newest as usize] = page,
        }
        self.newest = page;
    }

    fn unlink(&mut self, page: u32) {
        let (newer, older) = (self.newer[page as usize], self.older[page as usize]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
    }
}
