//! Data-driven tests of the command line: each file of `tests/cmd` is a terminal session that runs in an empty directory, with a
//! registry of pools of its own. `TRYCMD=overwrite cargo test -p poolwright --test cmd` accepts the new output.

use std::time::Duration;

/// The longest time that one command may take. Commands here take less than a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn sessions() {
    // Relative directories: each session has the registry and the sockets in its own working directory.
    trycmd::TestCases::new()
        .env("POOLWRIGHT_STATE_DIR", "state")
        .env("POOLWRIGHT_RUNTIME_DIR", "run")
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .timeout(LIMIT)
        .register_bin("poolwright", std::path::Path::new(assert_cmd::cargo::cargo_bin!("poolwright")))
        .case("tests/cmd/*.trycmd");
}
