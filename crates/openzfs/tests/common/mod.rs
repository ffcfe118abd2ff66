//! Functions that several tests share.

#![allow(dead_code)] // not every test file uses all of it

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_openzfs::{Engine, Error, Pool};

/// A command that runs the test `victim` of this binary in a child process, with parameters in its environment.
pub fn victim(env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim", "--exact", "--ignored", "--nocapture"]).envs(env.iter().copied());
    command
}

/// Kills the victim with SIGKILL during the operation after acknowledgement `after` or a later one; returns the last acknowledged number.
/// Counts acknowledgements instead of time, because a slow disk may sync only a few times per second.
pub fn run_and_kill(env: &[(&str, &str)], after: u64) -> u64 {
    let mut child = victim(env).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut numbers = out
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
    let began = Instant::now();
    let reached = numbers.find(|n| *n >= after).expect("the victim runs until it is killed");
    // Wait for a fraction of an operation's time, which differs in each run.
    let each = began.elapsed().div_f64(reached as f64);
    std::thread::sleep(each.mul_f64((after * 7 % 10) as f64 / 10.0).min(Duration::from_secs(1)));
    child.kill().unwrap();
    child.wait().unwrap();
    numbers.last().unwrap_or(reached)
}

/// Imports a pool that this process has exported. Retries, because a child process of another test inherits all descriptors, and with them
/// the lock of the pool's file, until it calls `exec`.
pub fn import_again(engine: Engine, files: &[PathBuf]) -> Pool {
    let began = Instant::now();
    loop {
        match Pool::import(engine, files, false) {
            Err(Error::Locked(_)) if began.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            imported => return imported.unwrap(),
        }
    }
}

/// Incompressible bytes that differ by seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut one = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 56) as u8
    };
    (0..len).map(|_| one()).collect()
}

/// The words of a vdev specification with the names as files of this directory, each of `bytes` unless it has a size.
pub fn vdev_words(dir: &Path, text: &str, bytes: u64) -> Vec<String> {
    let word = |word: &str| match word {
        "mirror" | "raidz" | "log" | "cache" | "spare" => word.to_owned(),
        name if name.contains(':') => dir.join(name).display().to_string(),
        name => format!("{}:{bytes}", dir.join(name).display()),
    };
    text.split_whitespace().map(word).collect()
}
