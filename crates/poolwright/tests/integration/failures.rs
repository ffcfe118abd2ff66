//! Messages and exit codes of failures: each cause appears once, the hint has its own line, the exit code is the documented one.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_poolwright");
const NO_FILE: &str = "No such file or directory (os error 2)";

/// A fio log of one read and one write, and a trace of it.
fn trace(dir: &Path) -> String {
    let log = dir.join("job.log");
    let lines = "fio version 2 iolog\n/db/t.ibd add\n/db/t.ibd open\n/db/t.ibd read 0 16384\n\
                 /db/t.ibd write 16384 16384\n/db/t.ibd close\n";
    std::fs::write(&log, lines).unwrap();
    let made = run(dir, "trace import job.log -o t.parquet");
    assert!(made.status.success(), "{}", messages(&made));
    std::fs::read_to_string(&log).unwrap()
}

fn run(dir: &Path, line: &str) -> Output {
    let args = line.split_whitespace();
    Command::new(BIN).args(args).current_dir(dir).stdin(Stdio::null()).output().expect("poolwright starts")
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit code, command, and a fragment of the message.
const FAILURES: &[(i32, &str, &str)] = &[
    (1, "estimate /no/such/file", NO_FILE),
    (1, "trace show /no/such/trace", NO_FILE),
    (1, "replay /no/such/trace", NO_FILE),
    (1, "mrc /no/such/trace", NO_FILE),
    (1, "trace import /no/such/log -o new.parquet", NO_FILE),
    (1, "trace export t.parquet -o /no/such/dir/t.csv", NO_FILE),
    (1, "tune /no/such/database", NO_FILE),
    (1, "mrc t.parquet --report /no/such/dir/r.html", NO_FILE),
    (2, "replay t.parquet --device bogus", "bogus"),
    (2, "replay t.parquet --paced=0", "above 0"),
    (2, "replay t.parquet -o recordsize=5K", "-o recordsize=5K"),
    (2, "replay t.parquet --arc 1000000T", "memory"),
    (2, "tune . --arc 1000000T", "memory"),
    (2, "mount nopool . --arc 1000000T", "memory"),
    (2, "tune . --trace t.parquet --report /usr", "/usr: it is a directory"),
    (2, "tune . --trace t.parquet --report one --plan one", "two outputs"),
    (2, "mrc t.parquet --report .", "it is a directory"),
    (2, "trace export t.parquet -o t.parquet", "onto itself"),
    // A user's file is never replaced.
    (3, "tune . --trace t.parquet --plan mine", "mine: it exists, and Poolwright did not write it"),
    (3, "tune . --trace t.parquet --report mine", "mine: it exists, and Poolwright did not write it"),
    (3, "mrc t.parquet --report mine", "mine: it exists, and Poolwright did not write it"),
    (3, "trace export t.parquet -o mine", "mine: it exists"),
    (3, "trace import job.log -o mine", "mine"),
];

#[test]
fn failures_have_their_message_and_code() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let log = trace(dir);
    std::fs::write(dir.join("mine"), "notes of a user").unwrap();
    for (code, line, fragments) in FAILURES {
        let output = run(dir, line);
        let text = messages(&output);
        assert_eq!(output.status.code(), Some(*code), "{line}: {text}");
        assert!(text.contains(fragments), "{line} does not contain {fragments:?}: {text}");
        assert!(text.matches("os error 2").count() <= 1, "{line} says a cause twice: {text}");
        assert!(text.matches("recordsize=5K").count() <= 1, "{line} says its subject twice: {text}");
        assert!(!text.contains("who may read"), "{line} gives advice for another error: {text}");
        assert!(!text.contains("internal error"), "{line}: {text}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("mine")).unwrap(), "notes of a user");
    assert_eq!(std::fs::read_to_string(dir.join("job.log")).unwrap(), log);
    let names = std::fs::read_dir(dir).unwrap().count();
    assert_eq!(names, 3, "job.log, t.parquet and mine are there, and nothing else");
}

#[test]
fn a_page_is_replaced_and_the_previous_one_is_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    trace(dir);
    for _ in 0..2 {
        let output = run(dir, "mrc t.parquet --sizes 64M,128M --report r.html");
        assert!(output.status.success(), "{}", messages(&output));
    }
    assert!(dir.join("r.html.1").exists());
    std::fs::write(dir.join("r.html"), "mine").unwrap();
    assert_eq!(run(dir, "mrc t.parquet --sizes 64M --report r.html").status.code(), Some(3));
    assert!(run(dir, "mrc t.parquet --sizes 64M --report r.html --force").status.success());
}
