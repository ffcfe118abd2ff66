//! `poolwright trace`: shows a trace, imports traces of other tools, and exports to their formats.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};
use poolwright_base::quoted;
use poolwright_base::units::counted;
use poolwright_trace::export::{self, ExportSummary, Format};
use poolwright_trace::import;
use poolwright_trace::stats;

use super::options::check_trace;
use crate::failure::{Usage, hint};
use crate::output::{Force, Kind, Output};
use crate::stdout::Stdout;

/// Show, import and export traces
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show the sizes, order, syncs, latencies and working set of a trace
    Show {
        /// The trace
        trace: PathBuf,
        /// Number of the busiest files to show
        #[arg(long, value_name = "N", default_value_t = 10)]
        files: usize,
    },
    /// Convert another tool's trace
    Import {
        /// The other tool's trace
        source: PathBuf,
        /// The trace to write
        #[arg(short, long, value_name = "TRACE")]
        output: PathBuf,
        /// Format of the source [default: recognised by its first bytes]
        #[arg(long, value_parser = PossibleValuesParser::new([import::FORMAT]))]
        format: Option<String>,
    },
    /// Write a trace in another tool's format
    Export {
        /// The trace
        trace: PathBuf,
        /// The file to write, or `-` for standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// The format to write
        #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
        format: ExportFormat,
        #[command(flatten)]
        force: Force,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormat {
    /// One line per event, with the columns of the trace
    Csv,
    /// I/O log version 3, for fio --read_iolog
    FioIolog,
}

/// Runs the verb and returns the exit code.
pub fn run(args: Args) -> Result<u8> {
    match args.verb {
        Verb::Show { trace, files } => show(&trace, files, args.json),
        Verb::Import { source, output, format } => import(&source, &output, format.as_deref(), args.json),
        Verb::Export { trace, output, format, force } => {
            let format = match format {
                ExportFormat::Csv => Format::Csv,
                ExportFormat::FioIolog => Format::FioIolog,
            };
            export(&trace, &output, format, force, args.json)
        }
    }
}

fn show(trace: &Path, files: usize, json: bool) -> Result<u8> {
    let reader = check_trace(trace)?;
    let stats = stats::collect(&reader)?;
    let text = if json { serde_json::to_string(&stats)? + "\n" } else { stats::render(&stats, files) };
    print!("{text}");
    Ok(0)
}

fn import(source: &Path, output: &Path, format: Option<&str>, json: bool) -> Result<u8> {
    let imported = import::import(source, format, output)?;
    for note in &imported.notes {
        eprintln!("poolwright: note: {note}");
    }
    let text = match json {
        true => serde_json::to_string(&imported)? + "\n",
        false => imported.text(),
    };
    print!("{text}");
    Ok(0)
}

fn export(trace: &Path, output: &Path, format: Format, force: Force, json: bool) -> Result<u8> {
    let to_stdout = output.as_os_str() == "-";
    if to_stdout && json {
        return Err(anyhow!("--json and the exported events cannot both go to standard output"))
            .context(hint("name a file with --output"))
            .context(Usage);
    }
    let reader = check_trace(trace)?;
    let done = if to_stdout {
        export::export(&reader, format, &mut BufWriter::new(Stdout), output)?
    } else {
        if same_file(trace, output) {
            return Err(anyhow!("cannot export {} onto itself", quoted(&trace))).context(Usage);
        }
        let mut file = BufWriter::new(Output::open(output, Kind::Export, force)?);
        let done = export::export(&reader, format, &mut file, output)?;
        let file = file.into_inner().map_err(|why| why.into_error());
        file.with_context(|| format!("cannot write {}", quoted(&output)))?.commit()?;
        done
    };
    report(&done, to_stdout, json)?;
    Ok(0)
}

fn report(done: &ExportSummary, to_stdout: bool, json: bool) -> Result<()> {
    for (op, count) in &done.skipped {
        eprintln!(
            "poolwright: note: left out {}: {} has no such operation",
            counted(*count, &format!("{op} event")),
            done.format
        );
    }
    if json {
        println!("{}", serde_json::to_string(done)?);
        return Ok(());
    }
    if !to_stdout {
        println!("{}: {} ({})", done.output.display(), counted(done.events, "event"), done.format);
    }
    Ok(())
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
