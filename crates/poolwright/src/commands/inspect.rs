//! `poolwright inspect`: known problems, without a recording.

use std::io;
use std::path::Path;

use poolwright_base::Exit;
use poolwright_inspect::{FindingSeverity, Request, Subject};
use poolwright_render::inspection_text::{InspectionDetail, text};

use super::pool_connection::print_json;
use crate::{interrupt, stdout};

/// Report known problems of databases, datasets, volumes and pools on this machine, in seconds
///
/// Finds the databases of this machine, their datasets and settings, and applies a table of rules (docs/inspect.md). Each finding has its
/// evidence, the source of the rule, what to do, and what that changes. Only reads; needs neither a recording nor eBPF. Root sees the files
/// and settings of all databases; other users see their own. The exit code is 1 if something critical or a warning was found, otherwise 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories with databases, or pools and datasets [default: all of this machine]. A name with a slash at its beginning, or of an
    /// existing directory, is a directory
    #[arg(value_name = "DIR|POOL")]
    subjects: Vec<String>,

    /// Show all findings, with reasons, evidence, effects and sources
    #[arg(short, long)]
    verbose: bool,

    /// Do not read the databases' data: rules on compressibility then find nothing
    #[arg(long)]
    no_sample: bool,

    /// Print one JSON object: {openzfs, pools, volumes, databases, findings, rules, unknown}
    #[arg(long)]
    json: bool,
}

/// Inspects; the value is the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let request = Request {
        subjects: args.subjects.iter().map(|name| subject(name)).collect(),
        samples_data: !args.no_sample,
        cancel: interrupt::watch()?,
        ..Request::default()
    };
    let inspection = poolwright_inspect::inspect(&request)?;
    if args.json {
        print_json(&inspection)?;
    } else {
        print!("{}", text(&inspection, detail(args), stdout::terminal()));
    }
    let is_bad = inspection.findings.iter().any(|finding| finding.severity != FindingSeverity::Advice);
    Ok(if is_bad { Exit::Failed.code() } else { 0 })
}

fn subject(name: &str) -> Subject {
    let path = Path::new(name);
    if path.is_absolute() || path.exists() {
        Subject::Directory(path.to_owned())
    } else {
        Subject::Dataset(name.to_owned())
    }
}

/// At most a screen, if standard output is a terminal.
fn detail(args: &Args) -> InspectionDetail {
    if args.verbose {
        return InspectionDetail::Long;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0);
    size.map_or(InspectionDetail::All, |size| InspectionDetail::Screen(size.ws_row.into()))
}
