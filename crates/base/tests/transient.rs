//! [`transient::remove_all`] kills and removes registered items. No item can be registered afterwards, so this test has
//! its own program.

use std::process::Command;

use poolwright_base::{Transient, transient};

#[test]
fn what_is_registered_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["file", "kept"] {
        std::fs::write(at(name), "x").unwrap();
    }
    std::fs::create_dir_all(at("dir/below")).unwrap();
    std::fs::create_dir_all(at("scratch-1/below")).unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let live = [
        Transient::new(&at("file")),
        Transient::new(&at("dir")),
        Transient::new(&at("gone")),
        Transient::scratch(dir.path(), "scratch-"),
        Transient::child(child.id()).unwrap(),
    ];
    drop(Transient::new(&at("kept")));
    transient::remove_all();
    assert_eq!(child.wait().unwrap().code(), None, "killed");
    assert!(!at("file").exists() && !at("dir").exists() && !at("scratch-1").exists() && at("kept").exists());
    std::mem::forget(live);
}
