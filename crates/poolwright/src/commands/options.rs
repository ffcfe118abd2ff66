//! Options that several verbs share.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use poolwright_base::{quoted, room};
use poolwright_monitor::Poller;
use poolwright_monitor::source::{self, SourceOptions};
use poolwright_openzfs::clock::Costs;
use poolwright_openzfs::{Device, limits, property};
use poolwright_replay::settings::{self, PerRole};
use poolwright_replay::spec::add_codec_costs;
use poolwright_replay::{capture, child, codec_times};
use poolwright_trace::{KernelTimes, Meta, Processor, Reader};

use super::costs::parse_costs;
pub use crate::failure::Usage;
use crate::failure::hint;
use crate::scratch::{self, Scratch};

/// Options of the verbs that read the state of pools.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The host's /proc, if it is mounted elsewhere, as in a container
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    proc: PathBuf,

    /// Compare this plan of `tune` with the current state; may be repeated
    #[arg(long, value_name = "FILE")]
    plan: Vec<PathBuf>,
}

impl SourceArgs {
    /// A poller of all sources.
    pub fn poller(&self) -> Poller {
        let options = SourceOptions {
            proc: self.proc.clone(),
            plans: self.plan.clone(),
            backups: poolwright_zfs::user::readable_backups_dirs(),
        };
        Poller::new(source::all(&options))
    }
}

/// The smallest sample of a larger database, in bytes.
const MIN_SAMPLE: u64 = 64 << 20;

/// Options of `replay` and `tune` that describe the machine of a trial.
#[derive(Debug, clap::Args)]
pub struct TrialOptions {
    /// ARC limit of the trials, at least 64M. Default: half of the available memory
    #[arg(long, value_name = "SIZE", value_parser = parse_arc)]
    pub arc: Option<u64>,

    /// Device to emulate: none, measured (writes 256M to TMPDIR), measured:DIR, nvme, sata-ssd (or ssd), hdd, sas-15k, san,
    /// ebs-gp3, 4xssd (a RAID 0 of four), or figures such as
    /// read=80us,write=20us,flush=1ms,read_bw=3G,write_bw=2G,iops=0,depth=32
    #[arg(long, value_name = "PROFILE", default_value = "measured", value_parser = parse_device)]
    pub device: String,

    /// Directory for scratch files. Default: /dev/shm if it has enough room, otherwise TMPDIR
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,

    /// Limit on the data in a trial's pool; larger databases are sampled by region. Default: all data that the recording touches, if the
    /// scratch directory has room for it; for replay --on, at most 1G; for tune, at most 8M for each second of --budget
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub sample_bytes: Option<u64>,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub seed: u64,

    /// Costs of operations on the virtual clock: a JSON file with call_ns, switch_ns, copy_ps, checksum_ps and, optionally,
    /// codec_permille and codecs. Default: the costs that the recorder measured on the recorded machine
    #[arg(long, value_name = "FILE", value_parser = parse_costs)]
    pub costs: Option<Costs>,
}

impl TrialOptions {
    /// The ARC limit in bytes; the default if the option is absent.
    pub fn arc_bytes(&self) -> u64 {
        self.arc.unwrap_or_else(limits::default_arc_bytes)
    }

    /// What work costs on the virtual clock: by default, on the recorded machine, if the recorder measured its processor.
    pub fn costs(&self, recorded: &Meta) -> Costs {
        let mut costs = self.costs.clone().unwrap_or_else(|| Self::recorded_costs(recorded));
        add_codec_costs(&mut costs.codecs, &codec_times::costs(&recorded.codecs));
        costs
    }

    fn recorded_costs(recorded: &Meta) -> Costs {
        let Some(processor) = &recorded.processor else { return Costs::reference() };
        let codecs = if processor.is_this_machines() {
            1.0
        } else {
            Processor::measure().map_or(1.0, |here| processor.times_of(&here))
        };
        Costs::scaled(processor.kernel.as_ref().map_or([1.0; 3], KernelTimes::times_of_reference), codecs)
    }

    /// Creates the scratch directory, and returns it with the limit of the data in a trial's pool. Without the option, that is
    /// `wanted` bytes, or less if the directory has too little room.
    ///
    /// # Errors
    /// If the directory cannot be created or examined.
    pub fn scratch(&self, wanted: u64, side_by_side: usize) -> anyhow::Result<(Scratch, u64)> {
        let most = self.sample_bytes.unwrap_or(wanted);
        let scratch = scratch::create(self.scratch.as_deref(), capture::room_for(most, most, side_by_side))?;
        let of = |path| anyhow!("cannot examine the free space of {}", quoted(path));
        let room = room::available(scratch.path()).with_context(|| of(scratch.path()))?;
        let fits = wanted.min(capture::most_for(room, side_by_side));
        // The capture reports a directory that is too small for a sample.
        let limit = if fits < wanted.min(MIN_SAMPLE) { wanted } else { fits };
        Ok((scratch, self.sample_bytes.unwrap_or(limit)))
    }

    /// How many trials on the virtual clock, with `wanted` bytes of data unless the user limits it, may run at the same time.
    pub fn side_by_side(&self, wanted: u64) -> usize {
        child::side_by_side(self.arc_bytes(), self.sample_bytes.unwrap_or(wanted))
    }

    /// The device. `measured` measures the device of TMPDIR; Poolwright writes beside a database only if the user names its
    /// directory.
    ///
    /// # Errors
    /// If the device is invalid or cannot be measured.
    pub fn device(&self) -> anyhow::Result<Device> {
        let dir = match self.device.strip_prefix("measured") {
            Some("") => std::env::temp_dir(),
            Some(named) if named.starts_with(':') => PathBuf::from(&named[1..]),
            _ => return Ok(Device::parse(&self.device)?),
        };
        Device::measure(&dir)
            .context(hint("name another directory with --device measured:DIR, or a profile such as nvme"))
    }
}

/// The path by which a child process executes this program: the running file, even if it has been replaced since.
pub fn this_program() -> PathBuf {
    poolwright_base::process::own_executable()
}

/// Opens a trace, and warns if its end is torn by a killed recorder or an incomplete copy.
///
/// # Errors
/// If the trace cannot be read, or no event is left.
pub fn check_trace(path: &Path) -> anyhow::Result<Reader> {
    let trace = Reader::open(path)?;
    if let Some(torn) = trace.torn_end()? {
        eprintln!("poolwright: warning: {torn}");
    }
    Ok(trace)
}

/// Checks the argument of `--device`, for clap.
fn parse_device(text: &str) -> Result<String, String> {
    let measured = text == "measured" || text.starts_with("measured:");
    if !measured {
        Device::parse(text).map_err(|why| why.to_string())?;
    }
    Ok(text.to_owned())
}

/// Parses an ARC limit that the engine accepts and this machine has, for clap.
///
/// # Errors
/// A sentence for the user.
pub fn parse_arc(text: &str) -> Result<u64, String> {
    limits::check_arc(parse_size(text)?, crate::scratch::total_memory()).map_err(|why| why.to_string())
}

/// Parses a size such as `16K` to bytes, for clap.
///
/// # Errors
/// A sentence for the user.
pub fn parse_size(text: &str) -> Result<u64, String> {
    property::parse_size(text).map_err(|e| e.to_string())
}

/// Parses a time such as `30s`, `5m`, `1h` or `500ms`, for clap.
pub use poolwright_base::units::parse_duration as parse_time;

/// Refuses an output that would replace the plan from which it is made.
///
/// # Errors
/// With [`Usage`] if one of the outputs is the plan's file.
pub fn check_not_the_plan(plan: &Path, outputs: [Option<&Path>; 2]) -> anyhow::Result<()> {
    let place = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    match outputs.into_iter().flatten().find(|output| place(output) == place(plan)) {
        Some(output) => {
            Err(anyhow!("cannot write {}: {} is the plan itself", quoted(&output), quoted(&output))
                .context(Usage))
        }
        None => Ok(()),
    }
}

/// Every combination of the values of `[role:]property=value[,value…]` options.
///
/// # Errors
/// With [`Usage`] if an option is malformed, or its role, property or value is unknown.
pub fn combinations(options: &[String]) -> anyhow::Result<Vec<PerRole>> {
    options.iter().try_fold(vec![PerRole::new()], |all, option| {
        settings::combine(&all, option).with_context(|| format!("-o {option}")).context(Usage)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back_within_its_digits() {
        for bytes in (0..60u64).flat_map(|shift| [3, 5, 7, 1023, 1025].map(|n| (n << shift) / 4)) {
            let back = parse_size(&poolwright_base::units::format_size(bytes)).unwrap();
            assert!(back.abs_diff(bytes) as f64 <= bytes as f64 * 0.006, "{bytes} {back}");
        }
    }
}
