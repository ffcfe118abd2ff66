//! The load of a thread, which the victim runs and the checker predicts.

use std::collections::BTreeMap;

use poolwright_openzfs::{Dataset, File};

pub const OPS_PER_FILE: u64 = 48;

/// splitmix64 over all arguments.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0u64, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// One step of a thread's load, which is acknowledged after its sync.
enum Step {
    Write {
        offset: u64,
        bytes: Vec<u8>,
        sync_with_it: bool,
    },
    Truncate(u64),
    /// Removes the thread's previous file.
    RemovePrevious,
}

pub fn file_name(thread: u64, n: u64) -> String {
    format!("thread{thread}-{}", n / OPS_PER_FILE)
}

fn step(seed: u64, thread: u64, n: u64) -> Step {
    let random = |what| mix(&[seed, thread, n, what]);
    if n >= OPS_PER_FILE && n % OPS_PER_FILE == 1 && (n / OPS_PER_FILE).is_multiple_of(2) {
        return Step::RemovePrevious;
    }
    if random(0).is_multiple_of(16) {
        return Step::Truncate(random(1) % 300_000);
    }
    // Not multiples of records or sectors, so that writes cross their boundaries; the largest are logged as pointers.
    let len = [100, 3000, 5000, 5000, 40_000, 200_000][(random(1) % 6) as usize];
    Step::Write {
        offset: random(2) % 60 * 5000,
        bytes: content(seed, thread, n, len),
        sync_with_it: random(3) % 2 == 0,
    }
}

/// Bytes that identify the step that wrote them; those of every second step are incompressible.
pub fn content(seed: u64, thread: u64, n: u64, len: usize) -> Vec<u8> {
    if n.is_multiple_of(2) {
        return (0..len as u64).map(|i| (mix(&[seed, thread, n, i / 8]) >> (i % 8 * 8)) as u8).collect();
    }
    let mut bytes = format!("step {n} of thread {thread}; ").into_bytes().repeat(len / 20 + 1);
    bytes.truncate(len);
    bytes
}

type Files = BTreeMap<String, Vec<u8>>;

/// The contents of the thread's files after its first `steps` steps.
pub fn model(seed: u64, thread: u64, steps: u64) -> Files {
    let mut files = Files::new();
    for n in 0..steps {
        let file = files.entry(file_name(thread, n)).or_default();
        match step(seed, thread, n) {
            Step::Write { offset, bytes, .. } => {
                let (from, to) = (offset as usize, offset as usize + bytes.len());
                if file.len() < to {
                    file.resize(to, 0);
                }
                file[from..to].copy_from_slice(&bytes);
            }
            Step::Truncate(size) => file.resize(size as usize, 0),
            Step::RemovePrevious => {
                files.remove(&file_name(thread, n - OPS_PER_FILE));
            }
        }
    }
    files
}

pub fn run_step(ds: &Dataset, file: &File, seed: u64, thread: u64, n: u64) {
    match step(seed, thread, n) {
        Step::Write { offset, bytes, sync_with_it: true } => {
            return file.write_sync_at(offset, &bytes).unwrap();
        }
        Step::Write { offset, bytes, .. } => file.write_at(offset, &bytes).unwrap(),
        Step::Truncate(size) => file.truncate(size).unwrap(),
        Step::RemovePrevious => ds.remove_file(&file_name(thread, n - OPS_PER_FILE)).unwrap(),
    }
    file.sync().unwrap();
}
