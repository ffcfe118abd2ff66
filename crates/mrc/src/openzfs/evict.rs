//! Eviction: how many bytes of which state to evict, and which of its blocks.

use super::arc::{Arc, DATA, METADATA, SUBLISTS, kind};
use super::block::{AHEAD, META, State};
use crate::list::NONE;

/// An indirect block or a prefetched block is not evicted within this time in milliseconds after its use
/// (`zfs_arc_min_prefetch_ms`).
const INDIRECT_MS: u32 = 1000;

/// Percent: the balance moves from metadata to data five times slower than back (`zfs_arc_meta_balance`).
const META_BALANCE: u64 = 500;

impl Arc {
    /// Evicts down to the size limit if the ARC exceeds it by too much. Approximates the eviction thread: a faster
    /// reader blocks until eviction has caught up.
    pub fn make_room(&mut self, now: u32) {
        let limit = self.options.cache_bytes as i64;
        if self.used.lower < limit + self.options.slack_bytes as i64 {
            return;
        }
        self.largest = self.largest.max(self.used.value());
        while self.evict(now) > 0 && self.used.value() > limit {}
    }

    /// Evicts prefetched blocks that are not to be kept and were not used in time.
    pub fn flush_uncached(&mut self, now: u32) {
        for kind in [DATA, METADATA] {
            self.evict_from(State::Uncached, kind, i64::MAX, now);
        }
    }

    /// Runs one round of eviction, and returns the bytes of buffers that it freed.
    fn evict(&mut self, now: u32) -> i64 {
        self.evictions += 1;
        self.adjust();
        let (mru, mfu) = (State::Mru as usize, State::Mfu as usize);
        let anon = self.size[State::Anon as usize];
        let mut mru_data = self.size[mru][DATA] + anon[DATA];
        let mut mru_meta = self.size[mru][METADATA] + anon[METADATA];
        let mut mfu_data = self.size[mfu][DATA];
        let mut mfu_meta = self.size[mfu][METADATA];
        let meta = mru_meta + mfu_meta;
        let mut over = self.used.settle() - self.options.cache_bytes as i64;
        // The bytes that buffers may take: all, less the excess.
        let mut wanted = mru_data + mfu_data + meta - over;
        let mut total = 0;

        let share = (self.balance.meta * self.balance.meta_mru) >> 48;
        let goal = (wanted * share as i64) >> 16;
        let freed = self.evict_from(State::Mru, METADATA, over.min(mru_meta - goal), now);
        (total, over, mru_meta) = (total + freed, over - freed, mru_meta - freed);

        let goal = (wanted * (self.balance.meta >> 16) as i64) >> 16;
        let freed = self.evict_from(State::Mfu, METADATA, over.min(meta - freed - goal), now);
        (total, over, mfu_meta) = (total + freed, over - freed, mfu_meta - freed);

        wanted -= meta - total;
        let goal = (wanted * (self.balance.data_mru >> 16) as i64) >> 16;
        let freed = self.evict_from(State::Mru, DATA, over.min(mru_data - goal), now);
        (total, over, mru_data) = (total + freed, over - freed, mru_data - freed);

        let freed = self.evict_from(State::Mfu, DATA, over, now);
        (total, mfu_data) = (total + freed, mfu_data - freed);

        // The ghosts of a state may be half as large as the other three lists together: by so much the state could
        // grow.
        let all = mru_data + mru_meta + mfu_data + mfu_meta;
        self.trim(State::MruGhost, DATA, (all - mru_data) / 2, now);
        self.trim(State::MruGhost, METADATA, (all - mru_meta) / 2, now);
        self.trim(State::MfuGhost, DATA, (all - mfu_data) / 2, now);
        self.trim(State::MfuGhost, METADATA, (all - mfu_meta) / 2, now);
        total
    }

    fn trim(&mut self, ghost: State, kind: usize, limit: i64, now: u32) {
        self.ghost_limit[usize::from(ghost == State::MfuGhost)][kind] = limit.max(0) as u64;
        self.evict_from(ghost, kind, self.size[ghost as usize][kind] - limit, now);
    }

    /// Moves the balance towards the states whose ghosts were accessed.
    fn adjust(&mut self) {
        let [[mru_data, mru_meta], [mfu_data, mfu_meta]] = std::mem::take(&mut self.ghost_hits);
        let limit = self.ghost_limit;
        let (data, meta) = (limit[0][DATA] + limit[1][DATA], limit[0][METADATA] + limit[1][METADATA]);
        let balance = &mut self.balance;
        balance.meta =
            moved(balance.meta, data + meta, mru_meta + mfu_meta, mru_data + mfu_data, META_BALANCE);
        balance.data_mru = moved(balance.data_mru, data, mru_data, mfu_data, 100);
        balance.meta_mru = moved(balance.meta_mru, meta, mru_meta, mfu_meta, 100);
    }

    /// Evicts up to `bytes` from the oldest blocks of a state's lists. Returns the bytes freed (of ghosts,
    /// uncompressed).
    fn evict_from(&mut self, state: State, kind: usize, bytes: i64, now: u32) -> i64 {
        let bytes = bytes.min(self.evictable[state as usize][kind]);
        if bytes <= 0 {
            return 0;
        }
        let mut next = self.lists[state as usize][kind].map(|list| list.oldest);
        let mut freed = 0;
        loop {
            let before = freed;
            let first = self.random(SUBLISTS);
            for at in 0..SUBLISTS {
                if freed < bytes {
                    let cursor = &mut next[(first + at) % SUBLISTS];
                    freed += self.evict_batch(cursor, state, bytes - freed, now);
                }
            }
            if freed >= bytes || freed == before {
                return freed;
            }
        }
    }

    fn evict_batch(&mut self, cursor: &mut u32, state: State, bytes: i64, now: u32) -> i64 {
        let (mut freed, mut count) = (0, 0);
        while *cursor != NONE && count < self.options.batch && freed < bytes {
            let id = *cursor;
            *cursor = self.blocks.at(id).links.newer;
            let block = self.blocks.at(id);
            let young = now.saturating_sub(block.access_ms) < INDIRECT_MS;
            if young && !state.is_ghost() && (id & META != 0 || block.flags & AHEAD != 0) {
                continue;
            }
            freed += self.evict_block(id, state);
            count += 1;
        }
        freed
    }

    fn evict_block(&mut self, id: u32, state: State) -> i64 {
        let (psize, lsize) = (i64::from(self.blocks.at(id).psize), i64::from(self.lsize(id)));
        if state.is_ghost() {
            self.drop_ghost(id);
            return lsize;
        }
        if state == State::Uncached {
            self.forget(id);
            return psize;
        }
        self.unlist(id);
        self.size[state as usize][kind(id)] -= psize;
        self.used.add(-psize);
        let ghost = if state == State::Mru { State::MruGhost } else { State::MfuGhost };
        self.blocks.at_mut(id).state = ghost;
        self.size[ghost as usize][kind(id)] += lsize;
        self.insert(id);
        psize
    }
}

/// A share (in units of 2^-32) after accesses to `up` bytes of ghosts in its favour and `down` against it, of at most
/// `total`.
fn moved(share: u64, total: u64, mut up: u64, mut down: u64, balance: u64) -> u64 {
    if total < 8 || up + down == 0 {
        return share;
    }
    if up + down >= total / 4 {
        let scale = (up + down) / (total / 8);
        (up, down) = (up / scale, down / scale);
    }
    let other = (1u64 << 32) - share;
    if share >= 4 * other {
        up /= share / (2 * other + 1);
    }
    if other >= 4 * share {
        down /= other / (2 * share + 1);
    }
    let part = |bytes: u64| ((u128::from(bytes) << 32) / u128::from(total)) as u64;
    (share + part(up)).saturating_sub(part(down) * 100 / balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_a_share_and_follows_the_ghosts() {
        let mut share = 1u64 << 30;
        let mut extremes = (share, share);
        for step in 0..14_000u64 {
            let (up, down) = if step % 7000 < 3500 { (1 << 20, 0) } else { (0, 1 << 20) };
            share = moved(share, 64 << 20, up, down, 100);
            extremes = (extremes.0.min(share), extremes.1.max(share));
        }
        assert!(extremes.1 <= 1 << 32, "{extremes:?}");
        assert!(extremes.0 < 1 << 28 && extremes.1 > 15 << 28, "{extremes:?}");
    }
}
