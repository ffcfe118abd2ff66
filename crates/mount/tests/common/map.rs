//! A shared mapping of a file.

#![allow(unsafe_code)]

use std::fs::File;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// Maps the file's first `len` bytes, shared and writable, and makes the changes durable.
pub fn shared(file: &File, len: usize, change: impl FnOnce(&mut [u8])) {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address that the kernel chooses; the file is long enough, and no test shortens it
    // while it is mapped.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, 0) }.unwrap();
    // SAFETY: mapped above, readable and writable for `len` bytes; no other reference to it exists in this process.
    change(unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), len) });
    // SAFETY: mapped above and not used afterwards.
    unsafe {
        rustix::mm::msync(at, len, MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(at, len).unwrap();
    }
}
