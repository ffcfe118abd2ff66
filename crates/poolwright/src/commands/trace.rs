//! `poolwright trace`: shows a trace, imports traces of other tools, and exports to their formats.

use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};
use poolwright_base::private::OwnDir;
use poolwright_base::quoted;
use poolwright_base::units::counted;
use poolwright_trace::export::{self, ExportSummary, Format};
use poolwright_trace::import;
use poolwright_trace::stats;
use poolwright_trace::{Pseudonyms, Writer};
use poolwright_zfs::user::state_dir;
use rustix::fs::{FlockOperation, flock};

use super::options::check_trace;
use super::record::with_recording_hint;
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
    /// Write a trace in another tool's format, or without the names of files
    Export {
        /// The trace
        trace: PathBuf,
        /// The file to write, or `-` for standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// The format to write
        #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
        format: ExportFormat,
        /// Replace the names of files and directories by pseudonyms, so that the trace can be shown to others
        #[arg(long)]
        anonymise: bool,
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
    /// A trace, with --anonymise
    Trace,
}

/// Runs the verb and returns the exit code.
pub fn run(args: Args) -> Result<u8> {
    match args.verb {
        Verb::Show { trace, files } => show(&trace, files, args.json),
        Verb::Import { source, output, format } => import(&source, &output, format.as_deref(), args.json),
        Verb::Export { trace, output, format, anonymise, force } => {
            let to = Export { trace, output, anonymise, force, json: args.json };
            match format {
                ExportFormat::Csv => to.text(Format::Csv),
                ExportFormat::FioIolog => to.text(Format::FioIolog),
                ExportFormat::Trace => to.trace(),
            }
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

/// An export, except for its format.
struct Export {
    trace: PathBuf,
    output: PathBuf,
    anonymise: bool,
    force: Force,
    json: bool,
}

impl Export {
    fn text(&self, format: Format) -> Result<u8> {
        if self.is_to_stdout() && self.json {
            return Err(anyhow!("--json and the exported events cannot both go to standard output"))
                .context(hint("name a file with --output"))
                .context(Usage);
        }
        let reader = check_trace(&self.trace)?;
        if !self.is_to_stdout() {
            self.refuse_same_file()?;
        }
        let pseudonyms = self.anonymise.then(pseudonyms).transpose()?;
        let export =
            |out: &mut dyn Write| export::export(&reader, format, pseudonyms.as_ref(), out, &self.output);
        let done = if self.is_to_stdout() {
            export(&mut BufWriter::new(Stdout))?
        } else {
            let mut file = BufWriter::new(Output::open(&self.output, Kind::Export, self.force)?);
            let done = export(&mut file)?;
            let file = file.into_inner().map_err(|why| why.into_error());
            file.with_context(|| format!("cannot write {}", quoted(&self.output)))?.commit()?;
            done
        };
        report(&done, self.is_to_stdout(), self.json)?;
        Ok(0)
    }

    fn trace(&self) -> Result<u8> {
        let wrong = |what: &'static str, todo| Err(anyhow!(what)).context(hint(todo)).context(Usage);
        if !self.anonymise {
            return wrong("--format trace would only copy the trace", "add --anonymise");
        }
        if self.is_to_stdout() {
            return wrong("a trace cannot be written to standard output", "name a file with --output");
        }
        let reader = check_trace(&self.trace)?;
        self.refuse_same_file()?;
        if !self.force.force {
            Writer::refuse_recording(&self.output)
                .map_err(|why| with_recording_hint(why, "choose another name, or replace it with --force"))?;
        }
        report(&export::export_trace(&reader, &pseudonyms()?, &self.output)?, false, self.json)?;
        Ok(0)
    }

    fn is_to_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    fn refuse_same_file(&self) -> Result<()> {
        match (self.trace.canonicalize(), self.output.canonicalize()) {
            (Ok(one), Ok(other)) if one == other => {
                Err(anyhow!("cannot export {} onto itself", quoted(&self.trace))).context(Usage)
            }
            _ => Ok(()),
        }
    }
}

/// Name of the file in the state directory with the key of all pseudonyms of this user.
const KEY: &str = "pseudonyms.key";

/// The user's pseudonyms. Creates their key when they are used first.
fn pseudonyms() -> Result<Pseudonyms> {
    let dir = state_dir();
    let at = dir.join(KEY);
    let cannot = |verb: &str| format!("cannot {verb} the key of the pseudonyms, {}", quoted(&at));
    let mut file = OwnDir::open(&dir).and_then(|dir| dir.file(KEY)).with_context(|| cannot("open"))?;
    flock(&file, FlockOperation::LockExclusive).with_context(|| cannot("lock"))?;
    let mut known = Vec::new();
    file.read_to_end(&mut known).with_context(|| cannot("read"))?;
    if known.is_empty() {
        known = vec![0; Pseudonyms::KEY_BYTES];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut known))
            .with_context(|| cannot("create"))?;
        file.write_all(&known).and_then(|()| file.sync_all()).with_context(|| cannot("write"))?;
    }
    let key = known.try_into().map_err(|found: Vec<u8>| {
        anyhow!("{}: it has {} bytes instead of {}", cannot("use"), found.len(), Pseudonyms::KEY_BYTES)
    });
    Ok(Pseudonyms::new(key.context(hint("remove it; later exports then have other pseudonyms"))?))
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
