//! Golden files of the crate whose test includes this module.

use std::path::PathBuf;

/// Compares `got` with `tests/golden/NAME`; with `REWRITE=1`, writes it there instead.
pub fn golden(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("REWRITE").is_some_and(|v| v == "1") {
        std::fs::write(&path, got).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; run with REWRITE=1", path.display()));
    let differs = want.lines().zip(got.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| want.lines().count().min(got.lines().count()));
    assert!(
        want == got,
        "{name} differs from line {}:\n- {}\n+ {}",
        line + 1,
        want.lines().nth(line).unwrap_or("(end)"),
        got.lines().nth(line).unwrap_or("(end)")
    );
}
