//! Code that the fuzz targets share.

pub mod cache_input;
pub mod changes;
pub mod image;
pub mod sealed;
pub mod zil;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// Calls `read` with the path of a regular file that holds `bytes`.
pub fn with_file<T>(bytes: &[u8], read: impl FnOnce(&std::path::Path) -> T) -> T {
    with_file_at(bytes, 0, bytes.len() as u64, read)
}

/// The file for inputs: the path in `POOLWRIGHT_FUZZ_FILE`, or an unnamed temporary file. A named file remains after a crash that
/// libFuzzer cannot report itself.
fn file() -> File {
    let open = |path| File::options().read(true).write(true).create(true).truncate(true).open(path);
    std::env::var_os("POOLWRIGHT_FUZZ_FILE").map_or_else(tempfile::tempfile, open).expect("a temporary file")
}

/// Like [`with_file`], with `bytes` at `offset` of a file of `len` bytes that is otherwise zero.
pub fn with_file_at<T>(bytes: &[u8], offset: u64, len: u64, read: impl FnOnce(&std::path::Path) -> T) -> T {
    static FILE: OnceLock<Mutex<File>> = OnceLock::new();
    let file = FILE.get_or_init(|| Mutex::new(file()));
    let file = file.lock().expect("one input at a time");
    file.set_len(0).expect("empty the temporary file");
    file.set_len(len).expect("size the temporary file");
    file.write_all_at(bytes, offset).expect("fill the temporary file");
    read(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}
