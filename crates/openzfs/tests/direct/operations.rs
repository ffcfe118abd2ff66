//! Random operations on a file, direct and not, and a model of its contents.

use poolwright_openzfs::{Dataset, Engine, Error, File, Pool, Result};

pub const PAGE: u64 = 4096;

/// Whether direct requests that are not aligned to pages fail, as in OpenZFS 2.3.
pub fn is_strict() -> bool {
    Engine::version().starts_with("2.3")
}

/// splitmix64.
pub fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes of which half compress, and which vary with the offset.
pub fn bytes(at: u64, len: u64, what: u8) -> Vec<u8> {
    (at..at + len)
        .map(|i| {
            if i & 64 == 0 {
                what
            } else {
                what ^ (i / 509) as u8 ^ (i.wrapping_mul(0x9e37_79b9) >> 16) as u8
            }
        })
        .collect()
}

pub fn errno<T: std::fmt::Debug>(result: Result<T>) -> i32 {
    match result.unwrap_err() {
        Error::Engine { errno, .. } => errno,
        other => panic!("{other}"),
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Offset, length, fill byte; whether direct, whether durable.
    Write(u64, u64, u8, bool, bool),
    /// Offset, length, whether direct.
    Read(u64, u64, bool),
    Truncate(u64),
    Punch(u64, u64),
    Sync,
    /// Ends the transaction group.
    Settle,
}

/// Random operations of about `records` records.
pub fn drawn(seed: u64, record: u64, records: u64, settles: bool) -> Vec<Op> {
    let chosen: u64 = std::env::var("POOLWRIGHT_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut state = chosen << 32 | seed;
    let mut below = |most: u64| mix(&mut state) % most;
    (0..20 + below(30))
        .map(|i| {
            let unit = [1, PAGE, record, record][below(4) as usize];
            let at = below(records * record) / unit * unit;
            let len = [100, PAGE, record, record, 2 * record, 3 * record + PAGE][below(6) as usize];
            let (what, direct, durable) = (i as u8 + 1, below(3) != 0, below(4) == 0);
            match below(16) {
                0 => Op::Truncate(at),
                1 => Op::Truncate(0),
                2 => Op::Punch(at, len),
                3 => Op::Sync,
                4 if settles => Op::Settle,
                5..=8 if settles => Op::Read(at, len, direct),
                _ => Op::Write(at, len, what, direct, durable),
            }
        })
        .collect()
}

pub fn refuses(at: u64, len: u64, direct: bool) -> bool {
    direct && is_strict() && !(at | len).is_multiple_of(PAGE)
}

pub fn on_model(content: &mut Vec<u8>, op: Op) {
    match op {
        Op::Write(at, len, what, direct, _) if !refuses(at, len, direct) => {
            let end = (at + len) as usize;
            content.resize(content.len().max(end), 0);
            content[at as usize..end].copy_from_slice(&bytes(at, len, what));
        }
        Op::Truncate(size) => content.resize(size as usize, 0),
        Op::Punch(at, len) => {
            let (at, end) = (content.len().min(at as usize), content.len().min((at + len) as usize));
            content[at..end].fill(0);
        }
        _ => {}
    }
}

pub fn on_engine(file: &File, op: Op, content: &[u8], pool: &Pool) {
    let by = |direct| if direct { file.clone().into_direct() } else { file.clone() };
    match op {
        Op::Write(at, len, what, direct, durable) => {
            let (file, bytes) = (by(direct), bytes(at, len, what));
            let done = if durable { file.write_sync_at(at, &bytes) } else { file.write_at(at, &bytes) };
            match refuses(at, len, direct) {
                true => assert_eq!(errno(done), libc::EINVAL),
                false => done.unwrap(),
            }
        }
        Op::Read(at, len, direct) => {
            let mut buf = vec![9; len as usize];
            let there = (content.len() as u64).saturating_sub(at).min(len) as usize;
            let read = by(direct).read_at(at, &mut buf);
            if there > 0 && refuses(at, len, direct) {
                assert_eq!(errno(read), libc::EINVAL);
            } else {
                assert_eq!(read.unwrap(), there);
                let should = content.get(at as usize..).map_or(&[][..], |rest| &rest[..there]);
                assert!(buf[..there] == *should, "{op:?}");
            }
        }
        Op::Truncate(size) => file.truncate(size).unwrap(),
        Op::Punch(at, len) => file.punch(at, len).unwrap(),
        Op::Sync => file.sync().unwrap(),
        Op::Settle => pool.sync().unwrap(),
    }
}

/// How the file differs from what it should be.
pub fn differs(ds: &Dataset, name: &str, should: &[u8]) -> Option<String> {
    let file = match ds.open_file(name) {
        Ok(file) => file.into_direct(),
        Err(why) => return Some(why.to_string()),
    };
    let mut is = vec![0; file.size().next_multiple_of(PAGE) as usize];
    let read = file.read_at(0, &mut is).unwrap();
    if read != should.len() {
        return Some(format!("{name} has {read} bytes, should have {}", should.len()));
    }
    let at = is.iter().zip(should).position(|(a, b)| a != b)?;
    Some(format!("{name} differs from {at} on, of {} bytes", should.len()))
}
