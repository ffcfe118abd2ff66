//! What several of the tests do.

#![allow(dead_code)] // not every test file uses all of it

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_openzfs::{Engine, Error, Pool};

/// The test `victim` of this binary in a process of its own, told by its environment what to do.
pub fn victim(env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim", "--exact", "--ignored", "--nocapture"]).envs(env.iter().copied());
    command
}

/// Kills the victim with -9 when it has acknowledged `after` or more, and in the middle of what comes then; the last number
/// that it acknowledged. By number and not by time: a slow disk may sync a few times a second only.
pub fn run_and_kill(env: &[(&str, &str)], after: u64) -> u64 {
    let mut child = victim(env).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut numbers = out
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
    let began = Instant::now();
    let reached = numbers.find(|n| *n >= after).expect("it goes on until it is killed");
    // A part of the time that one takes, another part in each run.
    let each = began.elapsed().div_f64(reached as f64);
    std::thread::sleep(each.mul_f64((after * 7 % 10) as f64 / 10.0).min(Duration::from_secs(1)));
    child.kill().unwrap();
    child.wait().unwrap();
    numbers.last().unwrap_or(reached)
}

/// Imports a pool that this process has exported. What another test starts as a process has a copy of every descriptor
/// until it is another program, and with it of the lock of the pool's file.
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
