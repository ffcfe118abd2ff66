//! Compares the page of metrics with the table. `REWRITE=1` rewrites the page.

use std::path::Path;

#[test]
fn the_page_of_metrics_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let expected = poolwright_monitor::reference::metrics_page();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let actual = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(actual == expected, "{} is out of date; run this test with REWRITE=1", path.display());
}
