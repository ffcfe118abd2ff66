//! The options of an estimate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use poolwright_base::recordsize::{invalid_recordsize, is_recordsize};
use poolwright_openzfs::{Compression, Geometry, property};

use crate::{Error, Result};

/// The default recordsizes in bytes: 4K to 1M.
pub const RECORDSIZES: &[u64] =
    &[4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// The default codecs: those between which users usually choose.
pub const COMPRESSIONS: &[&str] = &["off", "lz4", "zstd-1", "zstd-3", "gzip-6"];

/// The members of each codec family for `compression=all`, with a nominal speed in MiB/s on one core.
///
/// The nominal speed only determines how often a codec runs relative to others in a sample; reported speeds are
/// measured.
pub(crate) const CODECS: &[(&str, f64)] = &[
    ("off", 1e6),
    ("zle", 800.0),
    ("lzjb", 200.0),
    ("lz4", 450.0),
    ("gzip-1", 70.0),
    ("gzip-2", 65.0),
    ("gzip-3", 55.0),
    ("gzip-4", 50.0),
    ("gzip-5", 40.0),
    ("gzip-6", 30.0),
    ("gzip-7", 25.0),
    ("gzip-8", 18.0),
    ("gzip-9", 15.0),
    ("zstd-fast-10", 450.0),
    ("zstd-fast-1", 300.0),
    ("zstd-1", 250.0),
    ("zstd-2", 200.0),
    ("zstd-3", 150.0),
    ("zstd-4", 130.0),
    ("zstd-5", 80.0),
    ("zstd-6", 60.0),
    ("zstd-7", 50.0),
    ("zstd-8", 40.0),
    ("zstd-9", 30.0),
    ("zstd-10", 25.0),
    ("zstd-11", 20.0),
    ("zstd-12", 15.0),
    ("zstd-13", 10.0),
    ("zstd-14", 8.0),
    ("zstd-15", 6.0),
    ("zstd-16", 5.0),
    ("zstd-17", 4.0),
    ("zstd-18", 3.0),
    ("zstd-19", 2.0),
];

/// Returns the nominal speed of a codec in MiB/s on one core.
pub fn nominal_speed(name: &str) -> f64 {
    let name = property::canonical("compression", name);
    let known = CODECS.iter().find(|(n, _)| *n == name).map(|(_, speed)| *speed);
    known.unwrap_or(if name.starts_with("zstd-fast") { 400.0 } else { 100.0 })
}

/// The layout of the pool's data vdevs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Single disks or a stripe.
    Plain,
    /// Mirrors. `asize` counts one copy, so all space figures equal those of [`Layout::Plain`].
    Mirror,
    /// raidz with `parity` of `disks` in each vdev; `asize` includes parity and padding.
    Raidz {
        /// The number of parity disks, 1 to 3.
        parity: u32,
        /// The number of disks, including parity.
        disks: u32,
    },
}

impl Layout {
    /// Parses `plain`, `mirror`, `raidz:5`, `raidz2:6`, `raidz3:9`.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout is invalid.
    pub fn parse(text: &str) -> Result<Layout> {
        let (kind, disks) = text.split_once(':').unwrap_or((text, ""));
        let parity = match kind {
            "plain" | "stripe" if disks.is_empty() => return Ok(Layout::Plain),
            "mirror" if disks.parse::<u32>().map_or(disks.is_empty(), |n| n >= 2) => {
                return Ok(Layout::Mirror);
            }
            "raidz" | "raidz1" => 1,
            "raidz2" => 2,
            "raidz3" => 3,
            _ => 0,
        };
        let disks: u32 = disks.parse().unwrap_or(0);
        // OpenZFS permits up to 255 children in a raidz vdev (`VDEV_RAIDZ_MAXCOLS`).
        if parity == 0 || !(parity + 1..=255).contains(&disks) {
            return Err(Error::Invalid(format!(
                "unknown layout {text:?}: expected plain, mirror, or raidz1:N, raidz2:N, raidz3:N with N disks in a vdev, \
                 parity included"
            )));
        }
        Ok(Layout::Raidz { parity, disks })
    }

    pub(crate) fn geometry(self, ashift: u32) -> Geometry {
        match self {
            Layout::Plain | Layout::Mirror => Geometry::plain(ashift),
            Layout::Raidz { parity, disks } => Geometry::raidz(ashift, disks, parity),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Plain => f.write_str("plain"),
            Layout::Mirror => f.write_str("mirror"),
            Layout::Raidz { parity, disks } => write!(f, "raidz{parity}:{disks}"),
        }
    }
}

/// The options of an estimate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Recordsizes in bytes: powers of two from 512 to 16M.
    pub recordsizes: Vec<u64>,
    /// Values of the `compression` property; `all` selects every codec and level, but of zstd-fast only 1 and 10.
    pub compressions: Vec<String>,
    /// Sector sizes as powers of two, 9 to 16.
    pub ashifts: Vec<u32>,
    /// Vdev layouts; each is combined with each of `ashifts`.
    pub layouts: Vec<Layout>,
    /// Whether to read and compress everything, which is exact.
    pub full: bool,
    /// A sample ends when the 95 % interval of every cell is within this fraction of the estimate on both sides.
    pub within: f64,
    /// The maximum duration of a sample. Without one, the result depends on the data, the other options and the seed alone.
    pub time_limit: Option<Duration>,
    /// The maximum number of bytes that a sample reads.
    pub byte_limit: Option<u64>,
    /// The maximum read rate in bytes per second, sampled or full.
    pub rate: Option<u64>,
    /// The seed that selects the sampled offsets.
    pub seed: u64,
    /// The number of compressing threads; `None` for all cores.
    pub threads: Option<usize>,
    /// Inputs up to this size in bytes are estimated in full. With a limit of time, so are larger ones if that turns out
    /// cheaper than a sample of the required precision. 0 samples every input.
    pub exact_below: u64,
    /// Stops the estimate at the next opportunity when set (by a signal handler, for example).
    pub cancel: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            recordsizes: RECORDSIZES.to_vec(),
            compressions: COMPRESSIONS.iter().map(|s| (*s).to_owned()).collect(),
            ashifts: vec![9, 12, 13],
            layouts: vec![Layout::Plain],
            full: false,
            within: 0.01,
            time_limit: Some(Duration::from_secs(60)),
            byte_limit: None,
            rate: None,
            seed: 0,
            threads: None,
            exact_below: 32 << 20,
            cancel: Arc::default(),
        }
    }
}

impl Options {
    /// Sets the recordsizes or the codecs from `recordsize=8K,16K`, of volumes `volblocksize=8K,16K`, or `compression=off,lz4`.
    ///
    /// # Errors
    /// If the assignment is malformed, a recordsize is not a size, or the property does not change the space.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let (name, values) = property::parse_assignment(assignment)?;
        let values = values.split(',');
        match name.as_str() {
            "recordsize" | "volblocksize" => {
                let parse =
                    |value: &str| property::check(&name, value).and_then(|()| property::parse_size(value));
                self.recordsizes = values.map(parse).collect::<poolwright_openzfs::Result<_>>()?;
            }
            "compression" => self.compressions = values.map(str::to_owned).collect(),
            other => {
                return Err(Error::Invalid(format!(
                    "{other} does not change the space: expected recordsize, volblocksize or compression"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())).max(1)
    }
}

/// The checked settings: every recordsize × codec × geometry. A cell's index is `(r * codecs + c) * geometries + g`.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub recordsizes: Vec<u64>,
    pub codecs: Vec<Compression>,
    pub geometries: Vec<(Layout, Geometry)>,
    /// Whether records of zeros are holes under every codec. A volume reports no holes: what was never written reads as zeros.
    zeros_are_holes: bool,
}

impl Grid {
    /// Checks the options. The engine must be running, because the codec table is the library's.
    pub(crate) fn new(options: &Options, zeros_are_holes: bool) -> Result<Grid> {
        if !(options.within > 0.0 && options.within < 1.0) {
            return Err(Error::Invalid(format!(
                "invalid precision {}: expected a fraction above 0 and below 1, such as 0.01",
                options.within
            )));
        }
        let recordsizes = checked(&options.recordsizes, "recordsize", |r| is_recordsize(*r))?;
        let ashifts = checked(&options.ashifts, "ashift", |a| (9..=16).contains(a))?;
        let all = options.compressions.iter().any(|c| c == "all");
        let names: Vec<String> = if all {
            CODECS.iter().map(|(n, _)| (*n).to_owned()).collect()
        } else {
            options.compressions.clone()
        };
        let mut codecs = Vec::new();
        for name in &names {
            let codec = Compression::parse(name).map_err(|e| Error::Invalid(e.to_string()))?;
            if !codecs.contains(&codec) {
                codecs.push(codec);
            }
        }
        let mut geometries: Vec<(Layout, Geometry)> = Vec::new();
        for layout in &options.layouts {
            for ashift in &ashifts {
                let pair = (*layout, layout.geometry(*ashift));
                if !geometries.contains(&pair) {
                    geometries.push(pair);
                }
            }
        }
        if recordsizes.is_empty() || codecs.is_empty() || geometries.is_empty() {
            return Err(Error::Invalid(
                "at least one recordsize, compression, ashift and layout is required".into(),
            ));
        }
        Ok(Grid { recordsizes, codecs, geometries, zeros_are_holes })
    }

    pub(crate) fn cells(&self) -> usize {
        self.pairs() * self.geometries.len()
    }

    /// Returns the number of pairs recordsize × codec, each of which is compressed once for all geometries.
    pub(crate) fn pairs(&self) -> usize {
        self.recordsizes.len() * self.codecs.len()
    }

    pub(crate) fn pair(&self, r: usize, c: usize) -> usize {
        r * self.codecs.len() + c
    }

    /// Whether a codec needs no data: `off`, unless records of zeros must be found.
    pub(crate) fn is_off(&self, c: usize) -> bool {
        self.codecs[c].name() == "off" && !self.zeros_are_holes
    }

    pub(crate) fn max_recordsize(&self) -> u64 {
        self.recordsizes.iter().copied().max().unwrap_or(0)
    }
}

fn checked<T: Copy + PartialEq + fmt::Display>(
    values: &[T],
    what: &str,
    good: impl Fn(&T) -> bool,
) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for value in values {
        if !good(value) {
            return Err(Error::Invalid(match what {
                "ashift" => format!("ashift={value}: expected 9 to 16"),
                _ => invalid_recordsize(value),
            }));
        }
        if !out.contains(value) {
            out.push(*value);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values_replace_the_defaults() {
        let mut options = Options::default();
        options.set("recordsize=8K,16K").unwrap();
        options.set("compression=off,lz4").unwrap();
        assert_eq!(options.recordsizes, [8 << 10, 16 << 10]);
        assert_eq!(options.compressions, ["off", "lz4"]);
        for bad in ["recordsize", "recordsize=many", "logbias=latency", "colour=red"] {
            assert!(options.set(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn layouts_are_read_and_written_back() {
        for text in ["plain", "mirror", "raidz1:3", "raidz2:6", "raidz3:11"] {
            assert_eq!(Layout::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Layout::parse("mirror:2").unwrap(), Layout::Mirror);
        for bad in ["", "raidz", "raidz2:2", "raidz4:9", "mirror:1", "raidz2:x", "raidz1:999"] {
            assert!(Layout::parse(bad).unwrap_err().to_string().contains("raidz1:N"), "{bad}");
        }
    }
}
