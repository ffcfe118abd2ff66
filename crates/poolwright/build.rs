//! Sets the commit and its date, which `--version` prints. Both come from git, so that builds are reproducible. Without git,
//! `SOURCE_DATE_EPOCH` gives the date.

use std::path::Path;
use std::process::Command;

/// The output of a command, or `None` if it fails or prints nothing.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let date = output("git", &["log", "-1", "--format=%cs"]).or_else(|| {
        let seconds = std::env::var("SOURCE_DATE_EPOCH").ok()?;
        output("date", &["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%d"])
    });
    println!("cargo::rustc-env=POOLWRIGHT_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=POOLWRIGHT_DATE={}", date.as_deref().unwrap_or("of unknown date"));
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // This file changes with each commit and checkout.
    if let Some(log) = output("git", &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
}
