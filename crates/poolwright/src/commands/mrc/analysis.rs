//! What the curves mean: what is known beside them, the division of memory, the report.

use std::path::PathBuf;

use anyhow::Context as _;
use poolwright_mrc::advice::{Explained, Given, Host};
use poolwright_mrc::input::Unit;
use poolwright_mrc::partition::{Partition, Shape};
use poolwright_mrc::{Input, Model as _, RecordStream, arc};
use poolwright_openzfs::Device;

use super::model_name::ModelName;
use super::models::{self, ModelConfig};
use super::result::MrcResult;
use super::sizes::LEAST_ARC;
use super::{Bar, Progress, parse_cache};
use crate::commands::options::Usage;
use crate::interrupt;
use crate::mrc_page::Divided;
use crate::output::Force;

/// Divisions of the memory: every eighth.
const DIVISIONS: u32 = 9;

/// What the curves are to be held against.
#[derive(Debug, clap::Args)]
pub struct AnalysisArgs {
    /// What a read from the device takes: 8ms, 80us, or a profile's (nvme, sata-ssd, hdd, sas-15k, san, ebs-gp3); then
    /// the waiting that more memory saves is said too
    #[arg(long, value_name = "TIME", value_parser = parse_latency)]
    miss_latency: Option<u64>,

    /// Divide this much memory between the database's own cache and the ARC, for a trace of the requests to the
    /// former (.lis, oracleGeneral)
    #[arg(long, value_name = "SIZE", value_parser = parse_cache,
          conflicts_with_all = ["dir", "pid", "sample", "sample_memory"])]
    pub split: Option<u64>,

    /// Write a report here, one self-contained HTML file
    #[arg(short = 'o', long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub force: Force,
}

/// Curves with what they mean, and what else was asked for.
pub struct Explanation {
    pub curves: Vec<Explained>,
    pub given: Given,
    pub split: Option<Divided>,
}

impl AnalysisArgs {
    /// Explains what was found.
    pub fn explain(&self, found: &MrcResult, split: Option<Divided>) -> Explanation {
        let given = Given {
            seconds: Some(found.duration_ns as f64 / 1e9).filter(|s| *s > 0.0),
            miss_latency_ns: self.miss_latency,
            footprint_bytes: found.footprint,
            host: Host::here(),
        };
        let curves = found.curves.iter().map(|curve| Explained::new(curve.clone(), &given)).collect();
        Explanation { curves, given, split }
    }
}

/// Divides `total` over another reading of the trace; `None` if that was interrupted.
pub fn divide(total: u64, config: &ModelConfig, input: &mut dyn Input) -> anyhow::Result<Option<Divided>> {
    let model = config.models[0];
    let page_bytes = match config.unit {
        Unit::Bytes { recordsize } => Some(recordsize),
        Unit::Objects => None,
    };
    let recordsize = config.recordsizes.first().copied().or(page_bytes);
    let bytes = recordsize.unwrap_or(0);
    let shape = Shape {
        total_bytes: total,
        divisions: DIVISIONS,
        least_arc_bytes: if model == ModelName::Openzfs { LEAST_ARC } else { 0 },
        page_bytes,
        recordsize: bytes,
        record_bytes: (bytes as f64 / config.ratios.of(recordsize)) as u32,
    };
    let arc = |bytes: u64| match bytes {
        // No ARC of any kind.
        0 => Box::new(arc::Arc::new(0)),
        bytes => models::one(model, config, recordsize, bytes),
    };
    let mut partition = Partition::new(&shape, arc).context(Usage)?;
    let mut stream = RecordStream::new(config.unit, None)?;
    let mut extents = Vec::new();
    let mut bar = Bar::new("dividing");
    loop {
        input.read(&mut extents)?;
        if extents.is_empty() || interrupt::requested() {
            break;
        }
        let mut more = true;
        while more {
            more = stream.cut(&extents)?;
            partition.feed(stream.accesses(), stream.keys());
        }
        bar.show(&Progress { share: input.progress(), requests: stream.requests(), ..Progress::default() });
    }
    bar.clear();
    let divided = Divided {
        total_bytes: total,
        model: model.name().to_owned(),
        recordsize,
        shares: partition.shares(),
    };
    Ok((!interrupt::requested()).then_some(divided))
}

/// A trace that cannot be divided over.
pub fn check_split(format: &str) -> anyhow::Result<()> {
    if format != "trace" {
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "--split needs the requests to the database's own cache, and this trace was recorded below it: what that cache \
         answered is not in it, so nothing can be said of another size of it. Give a .lis or oracleGeneral trace of page \
         requests, or change the database's cache and record again"
    ))
    .context(Usage)
}

/// For clap: a time as the device takes it, or a device.
fn parse_latency(text: &str) -> Result<u64, String> {
    let spelled =
        if text.starts_with(|c: char| c.is_ascii_digit()) { format!("read={text}") } else { text.to_owned() };
    match Device::parse(&spelled).map(|device| device.read_latency_ns + device.seek_ns) {
        Ok(0) | Err(_) => {
            Err(format!("{text:?} is no time of a read; write 8ms, 80us, or a profile such as nvme"))
        }
        Ok(ns) => Ok(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_times_or_profiles() {
        assert_eq!(parse_latency("8ms"), Ok(8_000_000));
        assert_eq!(parse_latency("80us"), Ok(80_000));
        assert_eq!(parse_latency("nvme"), Ok(80_000));
        // A disk has to move its arm first.
        assert_eq!(parse_latency("hdd"), Ok(12_700_000));
        for bad in ["", "fast", "0ms", "host", "measured", "8 parsecs"] {
            assert!(parse_latency(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_lies_above_the_cache_can_be_divided() {
        assert!(check_split("trace").unwrap_err().downcast_ref::<Usage>().is_some());
        assert!(check_split("lis").is_ok() && check_split("oraclegeneral").is_ok());
    }
}
