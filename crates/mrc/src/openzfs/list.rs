//! The blocks of a modelled ARC, and lists of them.

/// No block.
pub const NIL: u32 = u32::MAX;
/// Set in the number of an indirect block; a record's number is its own.
pub const META: u32 = 1 << 31;

/// Set in the number of what a rewritten record was: it stays in the cache until the transaction group is on disk. Its
/// [`Block::parent`] is the record.
pub const OLD: u32 = 1 << 30;

/// Where a block is. The first [`LISTED`] have lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Used once of late.
    Mru,
    /// Used again.
    Mfu,
    /// Evicted from `Mru`, and remembered.
    MruGhost,
    /// Evicted from `Mfu`, and remembered.
    MfuGhost,
    /// In memory because it is in use or was read ahead, and not to be kept.
    Uncached,
    /// Written, and not yet on disk.
    Anon,
    /// On the cache vdev only.
    Second,
    /// Not known to the ARC.
    Out,
}

/// States that have lists, and states that have a size.
pub const LISTED: usize = 5;
pub const SIZED: usize = 6;

impl State {
    /// Whether only its name is kept.
    pub fn is_ghost(self) -> bool {
        matches!(self, State::MruGhost | State::MfuGhost)
    }

    /// Whether its content is in memory.
    pub fn is_cached(self) -> bool {
        matches!(self, State::Mru | State::Mfu | State::Uncached | State::Anon)
    }
}

/// A dbuf stands for the block: it is held, and on no list of the ARC.
pub const HELD: u8 = 1;
/// That dbuf is in the dbuf cache, as nobody uses it.
pub const IDLE: u8 = 2;
/// Written and not yet on disk.
pub const DIRTY: u8 = 4;

/// Read ahead, and not asked for since.
pub const AHEAD: u8 = 8;

/// On the cache vdev.
pub const SECOND: u8 = 16;

/// Written anew: there is no compressed buffer before it is on disk.
pub const FRESH: u8 = 32;

/// 24 bytes a block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub prev: u32,
    pub next: u32,
    /// The indirect block that points to it.
    pub parent: u32,
    /// Bytes as cached: compressed.
    pub psize: u32,
    /// When it was used, as far as promotion goes.
    pub access_ms: u32,
    /// Dbufs below it.
    pub children: u16,
    pub state: State,
    pub flags: u8,
}

impl Block {
    pub fn new(parent: u32, psize: u32) -> Block {
        Block { prev: NIL, next: NIL, parent, psize, access_ms: 0, children: 0, state: State::Out, flags: 0 }
    }
}

/// All blocks: records by their number, indirect blocks by theirs.
#[derive(Debug, Default)]
pub struct Blocks {
    pub records: Vec<Block>,
    pub indirect: Vec<Block>,
    /// By their number without [`OLD`].
    pub old: Vec<Block>,
}

impl Blocks {
    pub fn at(&self, id: u32) -> &Block {
        match id & (META | OLD) {
            0 => &self.records[id as usize],
            META => &self.indirect[(id & !META) as usize],
            _ => &self.old[(id & !OLD) as usize],
        }
    }

    pub fn at_mut(&mut self, id: u32) -> &mut Block {
        match id & (META | OLD) {
            0 => &mut self.records[id as usize],
            META => &mut self.indirect[(id & !META) as usize],
            _ => &mut self.old[(id & !OLD) as usize],
        }
    }
}

/// A list through [`Block::prev`] and [`Block::next`]; a block is on one at most.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub head: u32,
    pub tail: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL }
    }
}

impl List {
    pub fn push(&mut self, blocks: &mut Blocks, id: u32) {
        let head = self.head;
        let block = blocks.at_mut(id);
        (block.prev, block.next) = (NIL, head);
        match head {
            NIL => self.tail = id,
            _ => blocks.at_mut(head).prev = id,
        }
        self.head = id;
    }

    /// Puts `other` where `id` is.
    pub fn replace(&mut self, blocks: &mut Blocks, id: u32, other: u32) {
        let (prev, next) = (blocks.at(id).prev, blocks.at(id).next);
        let block = blocks.at_mut(other);
        (block.prev, block.next) = (prev, next);
        match prev {
            NIL => self.head = other,
            _ => blocks.at_mut(prev).next = other,
        }
        match next {
            NIL => self.tail = other,
            _ => blocks.at_mut(next).prev = other,
        }
    }

    pub fn remove(&mut self, blocks: &mut Blocks, id: u32) {
        let (prev, next) = (blocks.at(id).prev, blocks.at(id).next);
        match prev {
            NIL => self.head = next,
            _ => blocks.at_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => blocks.at_mut(next).prev = prev,
        }
    }
}
