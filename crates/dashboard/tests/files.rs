//! Compares `packaging/grafana` with the definition. `REWRITE=1` rewrites the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana")
}

#[test]
fn the_files_are_the_generated_ones() {
    let rewrites = std::env::var_os("REWRITE").is_some();
    let directory = directory();
    let files = poolwright_dashboard::files();
    if rewrites {
        std::fs::create_dir_all(&directory).unwrap();
    }
    for (name, text) in &files {
        let path = directory.join(name);
        if rewrites {
            std::fs::write(&path, text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == *text, "{} is out of date; run this test with REWRITE=1", path.display());
    }
    let entries = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
    let kept: BTreeSet<String> = entries.map(|name| name.into_string().unwrap()).collect();
    let expected: BTreeSet<String> = files.into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, expected, "remove the files that are not generated");
}
