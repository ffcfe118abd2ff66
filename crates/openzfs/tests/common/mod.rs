//! What several of the tests do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The test `victim` of this binary in a process of its own, told by its environment what to do.
pub fn victim(env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim", "--exact", "--ignored", "--nocapture"]).envs(env.iter().copied());
    command
}

/// Kills the victim with -9 after a while; the last number that it acknowledged.
pub fn run_and_kill(env: &[(&str, &str)], after: Duration) -> u64 {
    let mut child = victim(env).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).filter_map(|l| l.strip_prefix("acknowledged ")?.parse().ok()).last()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap().unwrap_or(0)
}
