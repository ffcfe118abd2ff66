//! Emulated devices of vdev files.
//!
//! A device serves up to `queue_depth` requests at the same time. Each takes its latency, plus a seek if it neither continues the
//! previous request nor reads data in the disk's cache, and its transfer time. All share one channel with the given bandwidth and
//! operations per second. Each vdev file has its own device. A device may be several disks that a RAID controller stripes and presents as
//! one.
//! `tests/device.rs` compares measured figures with the requested ones.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::property::parse_size;
use crate::{Error, Result, ffi};

/// The figures of a device. Latencies are those of a request at queue depth 1 without its transfer, in nanoseconds. Rates are in
/// bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The name of a profile, `custom` or `measured`.
    pub name: String,
    /// Read latency in nanoseconds.
    pub read_latency_ns: u64,
    /// Write latency in nanoseconds.
    pub write_latency_ns: u64,
    /// Cache flush latency in nanoseconds.
    pub flush_latency_ns: u64,
    /// Nanoseconds added to a request that does not start where the previous one ended.
    pub seek_ns: u64,
    /// Bytes of the disk's read cache, in 16 segments; 0: none. A read of what a segment has needs no seek. A segment has what was
    /// read last there, and what the disk read ahead until its heads were needed.
    #[serde(default)]
    pub cache_bytes: u64,
    /// Read bandwidth in bytes per second; 0: no limit.
    pub read_bytes_s: u64,
    /// Write bandwidth in bytes per second; 0: no limit.
    pub write_bytes_s: u64,
    /// Operations per second; 0: no limit.
    pub iops: u64,
    /// Number of requests served at the same time.
    pub queue_depth: u32,
    /// The number of disks with these figures, striped in chunks of 64K by a controller that takes no time (RAID 0).
    #[serde(default = "one")]
    pub disks: u32,
}

fn one() -> u32 {
    1
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// The largest number of disks that the C side emulates behind one controller.
const MAX_DISKS: u32 = ffi::PW_MOST_DISKS;

/// Name, description, and figures in the order read latency, write latency, flush latency, seek, read cache, read rate, write rate,
/// IOPS, queue depth. The figures are typical of the data sheets of each class; gp3 is Amazon's stated baseline (3,000 IOPS,
/// 125 MiB/s) with the sub-millisecond latency measured on such volumes.
type Row = (&'static str, &'static str, [u64; 8], u32);
const PROFILES: &[Row] = &[
    (
        "nvme",
        "datacentre NVMe with power-loss protection",
        [80 * US, 15 * US, 10 * US, 0, 0, 3200 * MB, 2000 * MB, 400_000],
        64,
    ),
    ("sata-ssd", "SATA SSD", [100 * US, 50 * US, 800 * US, 0, 0, 530 * MB, 480 * MB, 90_000], 32),
    (
        "hdd",
        "7200 rpm disk: 8.5 ms seek and half a turn, 64M read cache",
        [100 * US, 100 * US, 8 * MS, 12_600 * US, 64 * MIB, 180 * MB, 170 * MB, 0],
        1,
    ),
    (
        "sas-15k",
        "15,000 rpm SAS disk: 3.4 ms seek and half a turn, 16M read cache, as a Cheetah 15K.6",
        [100 * US, 100 * US, 4 * MS, 5_400 * US, 16 * MIB, 140 * MB, 140 * MB, 0],
        1,
    ),
    (
        "san",
        "LUN of an array whose battery-backed cache contains all data, behind one 2 Gbit/s Fibre Channel link",
        [200 * US, 200 * US, 200 * US, 0, 0, 200 * MB, 200 * MB, 0],
        32,
    ),
    (
        "ebs-gp3",
        "cloud block volume, gp3 baseline",
        [600 * US, 600 * US, 300 * US, 0, 0, 125 * MIB, 125 * MIB, 3000],
        64,
    ),
];

impl Device {
    /// Returns the device without emulation: requests go to the host's file unchanged, and flushes are real.
    pub fn none() -> Device {
        Device {
            name: "none".into(),
            read_latency_ns: 0,
            write_latency_ns: 0,
            flush_latency_ns: 0,
            seek_ns: 0,
            cache_bytes: 0,
            read_bytes_s: 0,
            write_bytes_s: 0,
            iops: 0,
            queue_depth: 1,
            disks: 1,
        }
    }

    /// Returns the names and descriptions of the profiles.
    pub fn profiles() -> impl Iterator<Item = (&'static str, &'static str)> {
        PROFILES.iter().map(|row| (row.0, row.1))
    }

    /// Parses `none` (or its older name `host`), the name of a profile (`ssd` is `sata-ssd`), a profile with a number of disks
    /// (`4xhdd`: RAID 0 of four), or `read=80us,write=20us,flush=1ms,seek=0,cache=0,read_bw=3G,write_bw=2G,iops=0,depth=32`, where omitted
    /// figures are those of nvme. `measured` needs a directory: see [`Device::measure`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if the text is none of these.
    pub fn parse(text: &str) -> Result<Device> {
        if text == "host" || text == "none" {
            return Ok(Device::none());
        }
        if let Some(device) = Device::profile(text) {
            return Ok(device);
        }
        if !text.contains('=') {
            let names: Vec<_> = Device::profiles().map(|(name, _)| name).collect();
            return Err(Error::Invalid(format!(
                "unknown device {text:?}: expected none, measured, {}, ssd, Nx one of these (RAID 0 of N disks, {MAX_DISKS} \
                 at most), or numbers like read=80us,write=20us,flush=1ms,read_bw=3G,write_bw=2G,iops=0,depth=32",
                names.join(", ")
            )));
        }
        let mut device = Device { name: "custom".into(), ..Device::from_row(&PROFILES[0]) };
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| Error::Invalid(format!("{part:?}: expected key=value")))?;
            match key {
                "read" => device.read_latency_ns = parse_time(value)?,
                "write" => device.write_latency_ns = parse_time(value)?,
                "flush" => device.flush_latency_ns = parse_time(value)?,
                "seek" => device.seek_ns = parse_time(value)?,
                "cache" => device.cache_bytes = parse_size(value)?,
                "read_bw" => device.read_bytes_s = parse_size(value)?,
                "write_bw" => device.write_bytes_s = parse_size(value)?,
                "iops" => device.iops = parse_size(value)?,
                "depth" => device.queue_depth = parse_size(value)?.clamp(1, 256) as u32,
                _ => return Err(Error::Invalid(format!("unknown key {key:?} of a device"))),
            }
        }
        Ok(device)
    }

    fn profile(text: &str) -> Option<Device> {
        let counted = text.split_once('x').and_then(|(n, rest)| Some((n.parse::<u32>().ok()?, rest)));
        let (disks, name) = counted.unwrap_or((1, text));
        let name = if name == "ssd" { "sata-ssd" } else { name };
        let row = PROFILES.iter().find(|row| row.0 == name)?;
        let device = Device { disks, ..Device::from_row(row) };
        match disks {
            1 => Some(device),
            2..=MAX_DISKS => Some(Device { name: format!("{disks}x{name}"), ..device }),
            _ => None,
        }
    }

    fn from_row(row: &Row) -> Device {
        let [read, write, flush, seek, cache, read_bw, write_bw, iops] = row.2;
        Device {
            name: row.0.into(),
            read_latency_ns: read,
            write_latency_ns: write,
            flush_latency_ns: flush,
            seek_ns: seek,
            cache_bytes: cache,
            read_bytes_s: read_bw,
            write_bytes_s: write_bw,
            iops,
            queue_depth: row.3,
            disks: 1,
        }
    }

    /// Measures the device of the directory `dir` with a scratch file of 256 MiB: medians of direct 4K reads, of direct 4K
    /// writes and of `fdatasync`, and the rate of direct 1 MiB requests. Takes about three seconds.
    ///
    /// # Errors
    /// [`Error::Host`] if the file cannot be created, written or read with direct I/O.
    pub fn measure(dir: &Path) -> Result<Device> {
        measure_in(dir).map_err(|why| Error::Host {
            what: "cannot measure the device of",
            path: dir.to_owned(),
            why,
        })
    }

    pub(crate) fn to_raw(&self) -> ffi::pw_device {
        ffi::pw_device {
            read_latency_ns: self.read_latency_ns,
            write_latency_ns: self.write_latency_ns,
            flush_latency_ns: self.flush_latency_ns,
            seek_ns: self.seek_ns,
            cache_bytes: self.cache_bytes,
            read_bytes_s: self.read_bytes_s,
            write_bytes_s: self.write_bytes_s,
            iops: self.iops,
            queue_depth: self.queue_depth,
            disks: self.disks,
            emulate: u32::from(self.name != "none"),
        }
    }
}

fn parse_time(text: &str) -> Result<u64> {
    let bad =
        || Error::Invalid(format!("invalid time {text:?}: expected a time such as 80us (or 80µs), 2ms or 0"));
    // The micro sign, and the similar Greek letter.
    let units = [("us", 1e3), ("µs", 1e3), ("\u{3bc}s", 1e3), ("ms", 1e6), ("ns", 1.0), ("s", 1e9)];
    let (digits, unit) = units
        .iter()
        .find_map(|(unit, ns)| Some((text.strip_suffix(unit)?.trim_end(), *ns)))
        .unwrap_or((text, 1.0));
    let value: f64 = digits.parse().map_err(|_| bad())?;
    if value.is_finite() && value >= 0.0 { Ok((value * unit) as u64) } else { Err(bad()) }
}

const SCRATCH_BYTES: u64 = 256 << 20;
const BIG: usize = 1 << 20;
const SMALL: usize = 4096;

/// A buffer that direct I/O accepts: aligned to a page.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(len: usize) -> Aligned {
        let raw = vec![0u8; len + SMALL];
        let skip = raw.as_ptr().align_offset(SMALL);
        let mut aligned = Aligned(raw, skip);
        // Data that a device cannot compress, from a fixed generator.
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        for byte in aligned.get(len) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (x >> 56) as u8;
        }
        aligned
    }

    fn get(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[self.1..self.1 + len]
    }
}

fn measure_in(dir: &Path) -> io::Result<Device> {
    let path = dir.join(format!(".poolwright-device-{}", std::process::id()));
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(poolwright_base::private::FILE)
        .custom_flags(libc::O_DIRECT)
        .open(&path)?;
    fs::remove_file(&path)?; // so that no file remains if the process is killed
    let mut buf = Aligned::new(BIG);

    let start = Instant::now();
    for offset in (0..SCRATCH_BYTES).step_by(BIG) {
        file.write_all_at(buf.get(BIG), offset)?;
    }
    sync(&file)?;
    let write_bytes_s = rate(SCRATCH_BYTES, start.elapsed());
    let start = Instant::now();
    for offset in (0..SCRATCH_BYTES).step_by(BIG) {
        file.read_exact_at(buf.get(BIG), offset)?;
    }
    let read_bytes_s = rate(SCRATCH_BYTES, start.elapsed());

    let mut spot = 0u64;
    let mut next = move || {
        spot = (spot + 7919 * SMALL as u64) % SCRATCH_BYTES;
        spot / SMALL as u64 * SMALL as u64
    };
    let read = median(200, || file.read_exact_at(buf.get(SMALL), next()))?;
    let write = median(200, || file.write_all_at(buf.get(SMALL), next()))?;
    let mut dirty = 0;
    let flush = median(50, || {
        file.write_all_at(buf.get(SMALL), dirty)?;
        dirty += SMALL as u64;
        sync(&file)
    })?;
    Ok(Device {
        name: "measured".into(),
        read_latency_ns: read,
        write_latency_ns: write,
        flush_latency_ns: flush.saturating_sub(write),
        seek_ns: 0,
        cache_bytes: 0,
        read_bytes_s,
        write_bytes_s,
        iops: 0,
        queue_depth: 32,
        disks: 1,
    })
}

fn sync(file: &fs::File) -> io::Result<()> {
    // SAFETY: a valid descriptor.
    if unsafe { libc::fdatasync(file.as_raw_fd()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn rate(bytes: u64, took: Duration) -> u64 {
    (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64
}

fn median(n: usize, mut once: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let mut times = Vec::with_capacity(n);
    for _ in 0..n {
        let start = Instant::now();
        once()?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    Ok(times[n / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_and_numbers() {
        assert_eq!(Device::parse("hdd").unwrap().queue_depth, 1);
        let d = Device::parse("read=1ms,depth=4,read_bw=100M").unwrap();
        assert_eq!((d.read_latency_ns, d.queue_depth, d.read_bytes_s), (1_000_000, 4, 100 << 20));
        let raid = Device::parse("4xssd").unwrap();
        assert_eq!((raid.name.as_str(), raid.disks, raid.queue_depth), ("4xsata-ssd", 4, 32));
        assert_eq!(Device::parse("none").unwrap(), Device::none());
        for time in ["80us", "80µs", "80\u{3bc}s", "0.08ms", "80000ns", "80000"] {
            assert_eq!(Device::parse(&format!("read={time}")).unwrap().read_latency_ns, 80_000, "{time}");
        }
        for bad in ["floppy", "0xssd", "99xssd", "4x", "xssd", "-1xssd", "read=fast", "colour=red", "read"] {
            assert!(Device::parse(bad).is_err(), "{bad}");
        }
    }
}
