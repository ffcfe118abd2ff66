//! Free space for scratch files.

use std::io;
use std::path::Path;

use rustix::fs::{FsWord, statfs};

use crate::memory;

/// `f_type` of tmpfs and ramfs (`statfs(2)`).
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];

/// Bytes that an unprivileged process can still write below `dir`; on a file system in memory, at most the available
/// memory.
///
/// # Errors
/// The errors of `statfs(2)`.
pub fn available(dir: &Path) -> io::Result<u64> {
    let found = statfs(dir)?;
    let free = (found.f_bavail as u64).saturating_mul(found.f_frsize.max(1) as u64);
    if IN_MEMORY.contains(&found.f_type) {
        return Ok(free.min(memory::available().unwrap_or(free)));
    }
    Ok(free)
}

/// Bytes that the file system of a directory has in use; of a dataset, those that it refers to.
///
/// # Errors
/// The errors of `statfs(2)`.
pub fn used(dir: &Path) -> io::Result<u64> {
    let found = statfs(dir)?;
    let blocks = (found.f_blocks as u64).saturating_sub(found.f_bfree as u64);
    Ok(blocks.saturating_mul(found.f_frsize.max(1) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_has_no_more_room_than_memory() {
        let memory_fs = Path::new("/dev/shm");
        if memory_fs.is_dir() {
            assert!(available(memory_fs).unwrap() <= memory::total().unwrap());
        }
        assert!(used(&std::env::temp_dir()).unwrap() < u64::MAX / 2);
        assert!(available(&std::env::temp_dir()).unwrap() < u64::MAX);
        assert_eq!(available(Path::new("/missing/directory")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
