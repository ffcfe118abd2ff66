//! Poolwright: fits storage to a database, with evidence.

/// To stderr, for as long as somebody reads it: who has a pool open goes on without a reader, where `eprintln!` would end
/// the process and leave the mount dead.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod commands;
mod interrupt;
mod mrc_page;
mod output;
mod plan_page;
mod plan_text;
mod scratch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Fits storage to a database: records its I/O, tries settings on the real OpenZFS engine in user space, and says which
/// to use, with evidence. No kernel module is needed.
#[derive(Debug, Parser)]
#[command(name = "poolwright", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 the work failed; 2 wrong usage; 3 refused for safety; 4 done, but no \
                          setting is better than today's beyond noise; 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Verb {
    Estimate(commands::estimate::Args),
    Record(commands::record::Args),
    Trace(commands::trace::Args),
    Mrc(commands::mrc::Args),
    Replay(commands::replay::Args),
    Tune(commands::tune::Args),
    Pool(commands::pool::Args),
    Dataset(commands::dataset::Args),
    Mount(commands::mount::Args),
    Lab(commands::lab::Args),
    #[command(hide = true)]
    Trial(commands::trial::Args),
}

fn main() -> ExitCode {
    quiet_panics();
    let result = match Cli::parse().verb {
        Verb::Estimate(args) => commands::estimate::run(args),
        Verb::Record(args) => commands::record::run(args),
        Verb::Trace(args) => commands::trace::run(args),
        Verb::Mrc(args) => commands::mrc::run(args),
        Verb::Replay(args) => commands::replay::run(args),
        Verb::Tune(args) => commands::tune::run(args),
        Verb::Pool(args) => commands::pool::run(args),
        Verb::Dataset(args) => commands::dataset::run(args),
        Verb::Mount(args) => commands::mount::run(args),
        Verb::Lab(args) => commands::lab::run(args),
        Verb::Trial(args) => commands::trial::run(args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("poolwright: {error:#}");
            let usage = error.downcast_ref::<commands::options::Usage>().is_some();
            let refused = error.downcast_ref::<commands::pool::reach::Refused>().is_some();
            ExitCode::from(if interrupt::requested() {
                130
            } else if usage {
                2
            } else if refused {
                3
            } else {
                1
            })
        }
    }
}

/// A user sees a sentence, never a backtrace; `poolwright … | head` ends quietly.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text =
            payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no reason given");
        if text.contains("Broken pipe") {
            std::process::exit(0);
        }
        let place = info.location().map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        eprintln!(
            "poolwright: a defect of this program: {text}{place}; please report it with the command you ran"
        );
    }));
}
