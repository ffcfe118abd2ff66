//! Invalid labels that the fuzzer found.

use std::fs::File;
use std::os::unix::fs::FileExt;

use poolwright_openzfs::{Config, Engine, Pool, Spec};

/// Encodes a pair in XDR: the padded name, its type and number of elements, then the value.
const NAME: &[u8] = b"vdev_children\0\0\0\0\0\0\x08\0\0\0\x01";
const VDEV_BYTES: u64 = 64 << 20;
const LABEL: u64 = 256 << 10;

/// The library allocates an entry for each top-level vdev that a label counts.
#[test]
fn a_label_that_counts_too_many_vdevs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vdev");
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap();
    let mut spec = Spec::single("counted", &path, 12);
    spec.groups[0].files[0].1 = VDEV_BYTES;
    Pool::create(engine, &spec).unwrap().export().unwrap();

    let file = File::options().read(true).write(true).open(&path).unwrap();
    for label in [0, LABEL, VDEV_BYTES - 2 * LABEL, VDEV_BYTES - LABEL] {
        let mut bytes = vec![0; LABEL as usize];
        file.read_exact_at(&mut bytes, label).unwrap();
        let at =
            bytes.windows(NAME.len()).position(|window| window == NAME).expect("the label counts its vdevs");
        file.write_all_at(&(1u64 << 40).to_be_bytes(), label + (at + NAME.len()) as u64).unwrap();
    }
    let why = Pool::import(engine, &[path], true).unwrap_err().to_string();
    assert!(why.contains("counts 1099511627776 top-level vdevs; 4096 is the limit"), "{why}");
}
