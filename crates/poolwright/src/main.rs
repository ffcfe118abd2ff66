//! Poolwright: fits storage to a database, with evidence.

/// Writes a line to standard error and ignores failures. `eprintln!` panics if the reader is gone, which would end a
/// process that serves a mount.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        // In one piece: another process that reads the pipe, such as that of a log, must not find a part of a line.
        let line = format!($($words)*) + "\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }};
}

#[macro_use]
mod stdout;

mod commands;
mod failure;
mod help;
mod interrupt;
mod manual;
mod output;
mod progress_line;
mod scratch;

use std::process::ExitCode;

use crate::manual::examples::with_examples;
use crate::manual::exit_code;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use poolwright_openzfs::event::Event;

/// Fit OpenZFS to a database: record its I/O, try settings on the real OpenZFS engine in user space, and recommend the best
/// of them, with the measurements. No kernel module is needed.
#[derive(Debug, Parser)]
#[command(name = "poolwright", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// The allocator of Rust and, through its unprefixed symbols, of libzpool. glibc's allocator keeps several hundred megabytes
/// that the ARC has freed.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Debug, Subcommand)]
enum Verb {
    Inspect(commands::inspect::Args),
    Estimate(commands::estimate::Args),
    Record(commands::record::Args),
    Trace(commands::trace::Args),
    Mrc(commands::mrc::Args),
    Replay(commands::replay::Args),
    Tune(commands::tune::Args),
    Confirm(commands::confirm::Args),
    Apply(commands::apply::Args),
    Undo(commands::undo::Args),
    Verify(commands::verify::Args),
    Backup(commands::backup::Args),
    Pool(commands::pool::Args),
    Dataset(commands::dataset::Args),
    Mount(commands::mount::Args),
    Serve(commands::serve::Args),
    Monitor(commands::monitor::Args),
    Check(commands::check::Args),
    Lab(commands::lab::Args),
    #[command(hide = true)]
    Trial(commands::trial::Args),
    #[command(hide = true)]
    Drive(commands::confirm::drive::Args),
    #[command(hide = true)]
    MountLog(commands::mount_log::Args),
    #[command(hide = true)]
    Generate(commands::generate::Args),
}

fn main() -> ExitCode {
    quiet_panics();
    poolwright_openzfs::event::set_handler(report_event);
    ExitCode::from(match parse() {
        Ok(cli) => stdout::guard(|| run(cli.verb)),
        Err(error) => help_or_usage(&error),
    })
}

/// The definition of the command line, with examples in its help texts.
fn command() -> clap::Command {
    with_examples(Cli::command()).version(help::VERSION.as_str()).after_help(exit_code::summary())
}

fn parse() -> clap::error::Result<Cli> {
    Cli::from_arg_matches(&command().try_get_matches()?)
}

/// Prints the help, the version or the usage error; returns the exit code.
fn help_or_usage(error: &clap::Error) -> u8 {
    match error.print() {
        Err(why) if !error.use_stderr() => stdout::report(&why),
        _ => u8::try_from(error.exit_code()).unwrap_or(2),
    }
}

/// Runs the verb; returns the exit code.
fn run(verb: Verb) -> u8 {
    let result = match verb {
        Verb::Inspect(args) => commands::inspect::run(&args),
        Verb::Estimate(args) => commands::estimate::run(args),
        Verb::Record(args) => commands::record::run(args),
        Verb::Trace(args) => commands::trace::run(args),
        Verb::Mrc(args) => commands::mrc::run(args),
        Verb::Replay(args) => commands::replay::run(args),
        Verb::Tune(args) => commands::tune::run(args),
        Verb::Confirm(args) => commands::confirm::run(args),
        Verb::Apply(args) => commands::apply::run(&args),
        Verb::Undo(args) => commands::undo::run(&args),
        Verb::Verify(args) => commands::verify::run(&args),
        Verb::Backup(args) => commands::backup::run(&args),
        Verb::Pool(args) => commands::pool::run(args),
        Verb::Dataset(args) => commands::dataset::run(args),
        Verb::Mount(args) => commands::mount::run(args),
        Verb::Serve(args) => commands::serve::run(args),
        Verb::Monitor(args) => commands::monitor::run(args),
        Verb::Check(args) => commands::check::run(&args),
        Verb::Lab(args) => commands::lab::run(args),
        Verb::Trial(args) => commands::trial::run(args),
        Verb::Drive(args) => commands::confirm::drive::run(args),
        Verb::MountLog(args) => commands::mount_log::run(args),
        Verb::Generate(args) => commands::generate::run(args, &command()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            tell!("{}", failure::message(&error));
            failure::exit_code(&error)
        }
    }
}

/// Reports an event of the engine that no call returned.
fn report_event(event: &Event) {
    tell!("poolwright: {event}");
    if let Event::HostRefused { needed, .. } = event {
        tell!(
            "hint: {}",
            if *needed {
                "free space there, or move the file to another file system"
            } else {
                "`poolwright pool status` shows the file's state"
            }
        );
    }
}

/// Reports a panic in one sentence instead of a backtrace.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        if poolwright_trace::is_decoding() {
            return; // the trace is damaged, and an error says so
        }
        let payload = info.payload();
        let text =
            payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no reason given");
        let location = info.location().map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        eprintln!(
            "poolwright: internal error: {text}{location}\nhint: please report this message with the command that you ran"
        );
    }));
}
