//! `poolwright monitor`: the readings of the monitor in the terminal.

use std::time::Duration;

use anyhow::Context as _;
use poolwright_base::Exit;
use poolwright_monitor::server::ApiReadings;
use poolwright_monitor::terminal::once::READ_LIMIT;
use poolwright_monitor::terminal::{Ended, Once, ScreenOptions};

use super::options::{SourceArgs, parse_time};
use super::pool_connection::print_json;
use crate::{interrupt, stdout};

/// Watch pools, datasets and the ARC in the terminal
///
/// Reads the pools of the kernel and of the user-space engine as `poolwright serve` does, and changes nothing. Tabs: pools and
/// vdevs, datasets, ARC, plan, sources; ? shows the keys. If a source does not answer, its last values are shown with their age.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between readings
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    every: Duration,

    /// Print all tabs as tables, and exit. Reads twice; rates cover the time between the readings
    #[arg(long)]
    once: bool,

    /// Print one JSON object, with the metrics and labels of `poolwright serve`: sources, resources. Reads once
    #[arg(long, requires = "once")]
    json: bool,

    #[command(flatten)]
    sources: SourceArgs,
}

/// Shows the readings and returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch().context("cannot watch for Ctrl-C")?;
    let poller = args.sources.poller();
    if args.json {
        return print_json(&ApiReadings::of(&poller.refresh(READ_LIMIT)?)).map(|()| 0);
    }
    if args.once {
        return Ok(match poolwright_monitor::terminal::once(&poller, args.every, &stop)? {
            Once::Text(text) => {
                print!("{text}");
                0
            }
            Once::Interrupted => Exit::Interrupted.code(),
        });
    }
    let options = ScreenOptions { every: args.every, has_colours: stdout::terminal().ansi };
    Ok(match poolwright_monitor::terminal::run(poller, &options, &stop)? {
        Ended::Quit => 0,
        Ended::Interrupted => Exit::Interrupted.code(),
    })
}
