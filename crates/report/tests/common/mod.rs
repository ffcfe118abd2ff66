//! Golden files of the crate whose test includes this module, in `tests/golden`. `INSTA_UPDATE=always cargo test` accepts the new
//! output: read the difference, and look at pages in a browser, before committing it.

use std::path::Path;

/// Compares `got` with the golden file NAME: pages as files that a browser opens (`NAME.snap.EXTENSION`), other text
/// as `NAME.snap`, with a difference in the message.
pub fn golden(name: &str, got: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        if name.ends_with(".html") {
            insta::assert_binary_snapshot!(name, got.as_bytes().to_vec());
        } else {
            insta::assert_snapshot!(name, got);
        }
    });
}
