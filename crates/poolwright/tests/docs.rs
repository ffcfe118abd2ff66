//! Compares the generated parts of the documentation with the program's output. `REWRITE=1` rewrites them.

use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A directory with the output of `poolwright generate`.
fn generated() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
        .arg("generate")
        .arg(dir.path())
        .assert()
        .success();
    dir
}

/// Compares a page with the expected text, or rewrites it.
fn check(path: &Path, expected: &str) {
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let actual = std::fs::read_to_string(path).unwrap_or_default();
    assert!(actual == expected, "{} is out of date; run this test with REWRITE=1", path.display());
}

#[test]
fn the_page_of_commands_is_the_generated_one() {
    let dir = generated();
    let expected = std::fs::read_to_string(dir.path().join("docs/commands.md")).unwrap();
    check(&docs().join("commands.md"), &expected);
}

#[test]
fn tables_of_the_reference_are_the_generated_ones() {
    let dir = generated();
    let path = docs().join("reference.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    for name in ["verbs", "exit-codes", "devices", "goals"] {
        let table = std::fs::read_to_string(dir.path().join(format!("docs/{name}.md"))).unwrap();
        let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end of generated -->\n");
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no marker of {name}"));
        let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("no end of {name}"));
        page = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    check(&path, &page);
}
