//! Functions that the tests share: a directory in which a test runs the program.

pub mod backups;
pub mod mounted;
pub mod planned_database;
pub mod postgres;
pub mod pty;
pub mod second_pool;
pub mod systemctl;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// A write event; tests override the fields that matter.
pub fn event() -> poolwright_trace::Event {
    poolwright_trace::Event {
        t_ns: 1,
        dur_ns: 5,
        op: poolwright_trace::Op::Write,
        file: 0,
        offset: 0,
        len: 8192,
        pid: 1,
        tid: 1,
        flags: poolwright_trace::Flags::default(),
        gap: None,
    }
}

/// A directory for pool files, with a separate registry and sockets.
pub struct TestDir {
    pub dir: tempfile::TempDir,
}

impl TestDir {
    pub fn new() -> TestDir {
        TestDir { dir: tempfile::tempdir().unwrap() }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command that runs the program in this directory, without arguments.
    pub fn plain(&self) -> std::process::Command {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
        command
            .current_dir(self.dir.path())
            .env("POOLWRIGHT_STATE_DIR", self.at("state"))
            .env("POOLWRIGHT_RUNTIME_DIR", self.at("run"));
        command
    }

    /// A command that runs its arguments in this directory, on a host with this name. Requires root.
    pub fn on_host(&self, host: &str) -> std::process::Command {
        let mut command = std::process::Command::new("unshare");
        command.args(["--uts", "sh", "-c", &format!("hostname {host} && exec \"$@\""), "sh"]);
        let plain = self.plain();
        command.current_dir(self.dir.path());
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::from_std(self.plain());
        command.args(line.split_whitespace());
        command
    }

    /// Runs the program and returns its standard output.
    pub fn run(&self, line: &str) -> String {
        let done = self.command(line).assert().success();
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    }

    /// Runs it with `--json`; its output, which follows the command's schema.
    pub fn json(&self, line: &str) -> Value {
        let value = serde_json::from_str(&self.run(&format!("{line} --json"))).unwrap();
        follows_schema(&schema_of(line), value)
    }

    /// Runs the program, and expects this exit code and all fragments in standard error.
    pub fn fails(&self, line: &str, code: i32, fragments: &[&str]) {
        let done = self.command(line).assert().code(code);
        let messages = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        for fragment in fragments {
            assert!(messages.contains(fragment), "{line}: does not contain {fragment:?}: {messages}");
        }
        assert!(!messages.contains("panicked") && !messages.contains("internal error"), "{line}: {messages}");
    }
}

/// The name of the schema of a command's output.
fn schema_of(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[0] {
        group @ ("backup" | "dataset" | "lab" | "pool" | "trace") => format!("{group}-{}", words[1]),
        command => command.to_owned(),
    }
}

/// Returns the value, which follows the schema docs/schema/NAME.json.
pub fn follows_schema(name: &str, value: Value) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let schema = serde_json::from_slice(&text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(&value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "not as {name}.json describes it:\n{}", faults.join("\n"));
    value
}

/// The JSON on a program's standard output, which follows a schema.
pub fn json_output(name: &str, stdout: &[u8]) -> Value {
    follows_schema(name, serde_json::from_slice(stdout).unwrap())
}

/// Ends a test with a message if /dev/fuse cannot be opened.
#[allow(unused_macros)]
macro_rules! skip_without_fuse {
    () => {
        if let Err(why) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: cannot open /dev/fuse: {why}");
            return;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use skip_without_fuse;
