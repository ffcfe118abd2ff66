//! Standard output that cannot be written, with all kinds of verbs. If it is full, the exit code is 1, with a message; if it is closed, the
//! program ends quietly with 0. An open pool is exported in both cases.

use std::fs::File;
use std::process::{Output, Stdio};

use crate::common::TestDir;

const LOG: &str = "fio version 3 iolog\n0 /db/t.ibd add\n1 /db/t.ibd open\n10 /db/t.ibd read 0 16384\n\
                   20 /db/t.ibd write 16384 16384\n30 /db/t.ibd sync 0 0\n40 /db/t.ibd close\n";

/// Command lines in order: each one needs the result of the previous one, which was complete although its output failed.
const PRINTING: &[&str] = &[
    "--help",
    "--version",
    "estimate --help",
    "estimate data",
    "estimate data --long",
    "estimate data --json",
    "trace import log -o t.parquet",
    "trace import log -o u.parquet --json",
    "trace show t.parquet",
    "trace show t.parquet --json",
    "trace export t.parquet",
    "trace export t.parquet --format fio-iolog",
    "mrc t.parquet",
    "mrc t.parquet --json",
    "lab list",
    "lab list --json",
    "pool status",
    "pool create tank d0:1G",
    "pool list",
    "pool list --json",
    "pool status tank",
    "pool iostat tank",
    "dataset list",
    "dataset get all tank",
    "dataset get compression tank --json",
    "pool scrub tank",
    "pool export tank",
    "pool import -d .",
    "pool import tank d0",
];

fn test_dir() -> TestDir {
    let test_dir = TestDir::new();
    std::fs::write(test_dir.at("data"), b"transaction group ".repeat(20_000)).unwrap();
    std::fs::write(test_dir.at("log"), LOG).unwrap();
    test_dir
}

fn run(test_dir: &TestDir, line: &str, stdout: Stdio) -> (Output, String) {
    let mut command = test_dir.plain();
    command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, messages)
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn a_full_standard_output_is_a_failure_with_a_plain_message() {
    let test_dir = test_dir();
    for line in PRINTING {
        let (output, messages) = run(&test_dir, line, full());
        assert_eq!(output.status.code(), Some(1), "{line}: {messages}");
        assert!(messages.contains("cannot write to standard output: No space left"), "{line}: {messages}");
        assert!(!messages.contains("internal error") && !messages.contains("panicked"), "{line}: {messages}");
    }
    assert_eq!(test_dir.json("pool list")["pools"][0]["health"], "ONLINE");
}

#[test]
fn a_closed_standard_output_ends_quietly() {
    let test_dir = test_dir();
    for line in PRINTING {
        let (output, messages) = run(&test_dir, line, closed());
        assert_eq!(output.status.code(), Some(0), "{line}: {messages}");
        assert!(
            !messages.contains("standard output") && !messages.contains("internal error"),
            "{line}: {messages}"
        );
    }
    assert_eq!(test_dir.json("pool list")["pools"][0]["health"], "ONLINE");
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    let test_dir = test_dir();
    let mut command = test_dir.plain();
    let code = command.args(["estimate", "none"]).stderr(full()).status().unwrap().code();
    assert_eq!(code, Some(1));
}
