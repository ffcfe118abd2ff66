//! `poolwright trial SPEC`: runs one trial in this process and prints its result as one JSON object. Other verbs start it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use poolwright_base::quoted;
use poolwright_lab::TrialSpec;
use poolwright_lab::trial::Setting;
use poolwright_replay::{Spec, child, trial};

use crate::interrupt;

/// Run one trial in this process and print its result as JSON
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Specification of the trial
    #[arg(value_name = "SPEC.json")]
    spec: PathBuf,
}

/// The field that distinguishes the kinds of specifications; that of a replay has none.
#[derive(serde::Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Runs the trial; returns the exit code.
///
/// # Errors
/// If the specification is invalid or the trial fails.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let text = std::fs::read(&args.spec).with_context(|| format!("cannot read {}", quoted(&args.spec)))?;
    let kind: Result<Kind, _> = serde_json::from_slice(&text);
    if kind.is_ok_and(|kind| kind.kind.as_deref() == Some(TrialSpec::KIND)) {
        return lab(&args.spec, &text);
    }
    child::die_with_parent();
    interrupt::watch()?;
    let spec = Spec::load(&args.spec)?;
    let replay = trial::run(&spec, &interrupt::requested)?;
    print(&replay)
}

fn lab(path: &Path, text: &[u8]) -> anyhow::Result<u8> {
    child::end_with_parent();
    interrupt::watch_patiently()?;
    let spec: TrialSpec = serde_json::from_slice(text)
        .with_context(|| format!("invalid trial specification {}", quoted(&path)))?;
    let program = poolwright_base::process::own_executable_for_others();
    let setting = Setting { program, interrupted: interrupt::requested, say };
    print(&poolwright_lab::trial::run(&spec, &setting)?)
}

/// Writes progress to standard error for the parent process.
fn say(what: &serde_json::Value) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn print(result: &impl serde::Serialize) -> anyhow::Result<u8> {
    println!("{}", serde_json::to_string(result)?);
    Ok(0)
}
