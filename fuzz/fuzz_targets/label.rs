//! Reads vdev labels with `poolwright_zfs::user` and with libzpool.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use poolwright_fuzz::with_file_at;
use poolwright_openzfs::Pool;
use poolwright_zfs::user::label::{self, Label};

/// Size of a label. The name/value list is at offset 16 KiB.
const LABEL: u64 = 256 << 10;
const LIST: u64 = 16 << 10;
const LIST_BYTES: usize = 112 << 10;

fuzz_target!(|bytes: &[u8]| {
    let list = &bytes[..bytes.len().min(LIST_BYTES)];
    with_file_at(list, LIST, 4 * LABEL, read);
});

fn read(path: &Path) {
    if let Some(label) = Label::read(path).expect("the file can be read") {
        let top = label.top.clone();
        let _ = top.map(|top| (top.title(), top.leaves().count()));
        let found = label::group(&[(path.to_owned(), label)]);
        serde_json::to_string(&found).expect("serialize the pools");
    }
    let _ = Pool::name_in(path);
}
