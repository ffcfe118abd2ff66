//! The blocks of a modelled ARC.

use crate::list::{Linked, Links};

/// Set in the number of an indirect block. A record's number is used unchanged.
pub const META: u32 = 1 << 31;

/// Set in the number of the old content of a rewritten record, which stays in the cache until the transaction group is
/// on disk. Its [`Block::parent`] is the record.
pub const OLD: u32 = 1 << 30;

/// The state of a block. The first [`LISTED`] states have lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Used once recently.
    Mru,
    /// Used at least twice.
    Mfu,
    /// Evicted from `Mru`: a ghost.
    MruGhost,
    /// Evicted from `Mfu`: a ghost.
    MfuGhost,
    /// In memory because it is in use or was prefetched, and not to be kept.
    Uncached,
    /// Written, and not on disk yet.
    Anon,
    /// Only on the cache vdev.
    Second,
    /// Unknown to the ARC.
    Out,
}

/// The number of states with lists, and of states with a size.
pub const LISTED: usize = 5;
pub const SIZED: usize = 6;

impl State {
    /// Whether the block is a ghost, without content.
    pub fn is_ghost(self) -> bool {
        matches!(self, State::MruGhost | State::MfuGhost)
    }

    /// Whether its content is in memory.
    pub fn is_cached(self) -> bool {
        matches!(self, State::Mru | State::Mfu | State::Uncached | State::Anon)
    }
}

/// The block has a dbuf: it is held, and on no list of the ARC.
pub const HELD: u8 = 1;
/// The dbuf is in the dbuf cache, because it is unused.
pub const IDLE: u8 = 2;
/// Written, and not on disk yet.
pub const DIRTY: u8 = 4;

/// Prefetched, and not accessed since.
pub const AHEAD: u8 = 8;

/// On the cache vdev.
pub const SECOND: u8 = 16;

/// Newly written: it has no compressed buffer until it is on disk.
pub const FRESH: u8 = 32;

/// 24 bytes a block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub links: Links,
    /// The indirect block that points to it.
    pub parent: u32,
    /// Bytes as cached: compressed.
    pub psize: u32,
    /// Time of the last use that counts for promotion.
    pub access_ms: u32,
    /// Dbufs below it.
    pub children: u16,
    pub state: State,
    pub flags: u8,
}

impl Block {
    pub fn new(parent: u32, psize: u32) -> Block {
        Block {
            links: Links::UNLINKED,
            parent,
            psize,
            access_ms: 0,
            children: 0,
            state: State::Out,
            flags: 0,
        }
    }
}

/// All blocks: records and indirect blocks, by number.
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

impl Linked for Blocks {
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self.at_mut(id).links
    }
}
