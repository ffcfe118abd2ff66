//! The costs of codecs on the recorded machine: measured on the database's own data at the end of the recording, and converted to costs on
//! the virtual clock. With them, a trial depends on the recording alone, not on how fast or busy the machine is on which it runs.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use poolwright_openzfs::clock::CodecCost;
use poolwright_openzfs::codec::{Codec, Stored};
use poolwright_openzfs::{Compression, Config, Engine, Geometry};
use poolwright_trace::layout::Role;
use poolwright_trace::processor::thread_ns;
use poolwright_trace::{CodecTime, File, Meta, Trace};

use crate::SourceFiles;

/// The measured codecs, those that `tune` tries for the data of a database; with OpenZFS's number (`enum zio_compress`) and level. Others are
/// measured in the trials.
const CODECS: [(&str, u32, u32); 3] = [("lz4", 15, 0), ("zstd-1", 16, 1), ("zstd-3", 16, 3)];
/// Sizes of the measured records in bytes, ascending.
const SIZES: [usize; 4] = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// The data: this many pieces of the files, evenly spaced in them, of this many bytes. They are more than a processor's own caches hold.
const PIECES: u64 = 16;
const PIECE: usize = 1 << 20;
/// The largest number of records of a size that a codec compresses.
const RECORDS: usize = 64;
/// The sixteenths of a record that keep their data, for ratios that whole records do not have. The rest are zeros, as in metadata.
const KEPT: [usize; 5] = [16, 8, 4, 2, 1];
/// Records of a ratio for which a mean is known.
const MIN_SAMPLES: usize = 4;
/// The measurement ends after this time.
const LONGEST: Duration = Duration::from_secs(10);
/// Bits of the record sizes of OpenZFS, 512 bytes to 16M, and the number of ratios, as in [`CodecCost`].
const SIZE_BITS: std::ops::RangeInclusive<u32> = 10..=25;
const RATIOS: u32 = 8;

/// The times of the records of one size and ratio, in nanoseconds.
#[derive(Debug, Default)]
struct Samples {
    compress: Vec<u64>,
    decompress: Vec<u64>,
}

impl Samples {
    /// Whether there are enough, of compression and of decompression.
    fn enough(&self) -> [bool; 2] {
        [&self.compress, &self.decompress].map(|times| times.len() >= MIN_SAMPLES)
    }
}

/// Measures the codecs on the data of these files of a recording, which takes about two seconds of CPU time, and at most [`LONGEST`].
/// Returns nothing if the files have too little data, or if the engine does not start.
pub fn measure(files: &[File], meta: &Meta) -> Vec<CodecTime> {
    let until = Instant::now() + LONGEST;
    let pieces = pieces(files, meta);
    if pieces.is_empty() {
        return Vec::new();
    }
    let Ok(engine) = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }) else {
        return Vec::new();
    };
    let measured = CODECS.iter().map(|(name, ..)| of_codec(engine, name, &pieces, until).unwrap_or_default());
    measured.flatten().collect()
}

/// Returns pieces of the files with the database's data, or of the volume, without pieces of zeros. If the roles of the files are not known,
/// those are all files but logs, temporary files and backups.
fn pieces(files: &[File], meta: &Meta) -> Vec<Vec<u8>> {
    let recorded = Trace { files: files.to_vec(), meta: meta.clone(), ..Trace::default() };
    let source = SourceFiles::new(&recorded, None);
    let of_roles = |roles: &[Role]| -> Vec<&File> {
        files.iter().filter(|file| roles.contains(&file.known_role())).collect()
    };
    let mut files = of_roles(&[Role::Data, Role::Volume]);
    if files.is_empty() {
        files = of_roles(&[Role::Index, Role::Other]);
    }
    let all: u64 = files.iter().map(|file| file.size).sum();
    let piece = |n: u64| -> Option<Vec<u8>> {
        let mut at = all / PIECES * n;
        let file = files.iter().find(|file| {
            let is_here = at < file.size;
            at -= if is_here { 0 } else { file.size };
            is_here
        })?;
        let mut data = vec![0; PIECE];
        let read = source.open(file)?.read_at(&mut data, at / SIZES[0] as u64 * SIZES[0] as u64).ok()?;
        data.truncate(read);
        data.iter().any(|byte| *byte != 0).then_some(data)
    };
    (0..PIECES).filter_map(piece).collect()
}

/// Measures a codec until that time.
fn of_codec(
    engine: Engine,
    name: &str,
    pieces: &[Vec<u8>],
    until: Instant,
) -> poolwright_openzfs::Result<Vec<CodecTime>> {
    let mut codec = Codec::new(engine, &Compression::parse(name)?, PIECE);
    let geometry = Geometry::plain(9);
    let mut back = vec![0; PIECE];
    let mut times = Vec::new();
    for size in SIZES {
        let mut of_ratio: BTreeMap<u32, Samples> = BTreeMap::new();
        for kept in KEPT {
            let enough: BTreeMap<u32, [bool; 2]> =
                of_ratio.iter().map(|(ratio, samples)| (*ratio, samples.enough())).collect();
            for mut record in records(pieces, size) {
                if Instant::now() >= until {
                    return Ok(times);
                }
                record[size / 16 * kept..].fill(0);
                let began = thread_ns();
                let stored = codec.store(&record, &geometry)?;
                let compressed = thread_ns();
                let bytes = codec.compressed().len();
                let ratio = size.checked_div(bytes).map_or(0, |ratio| ratio.ilog2().min(RATIOS - 1));
                let [compress, decompress] = enough.get(&ratio).copied().unwrap_or_default();
                if stored != Stored::Hole && !compress {
                    of_ratio.entry(ratio).or_default().compress.push(compressed - began);
                }
                if bytes > 0 && !decompress {
                    let began = thread_ns();
                    codec.load(codec.compressed(), &mut back[..size])?;
                    of_ratio.entry(ratio).or_default().decompress.push(thread_ns() - began);
                }
            }
        }
        of_ratio.retain(|_, samples| samples.enough() == [true; 2]);
        times.extend(of_ratio.into_iter().map(|(ratio_bits, samples)| CodecTime {
            codec: name.to_owned(),
            record_bytes: size as u64,
            ratio_bits,
            compress_ns: mean(samples.compress),
            decompress_ns: mean(samples.decompress),
        }));
    }
    Ok(times)
}

/// Returns at most [`RECORDS`] records of this size, from all pieces alike.
fn records(pieces: &[Vec<u8>], size: usize) -> impl Iterator<Item = Vec<u8>> {
    let of_each = RECORDS.div_ceil(pieces.len().max(1));
    pieces.iter().flat_map(move |piece| {
        let step = (piece.len() / size / of_each).max(1);
        piece.chunks_exact(size).step_by(step).take(of_each).map(<[u8]>::to_vec)
    })
}

/// Returns the mean without the slowest tenth, which other programs on the machine delay.
fn mean(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.truncate(times.len() - times.len() / 10);
    (times.iter().sum::<u64>() / times.len().max(1) as u64).max(1)
}

/// Converts the times of a recording to costs of all record sizes and ratios. A ratio that was not measured costs as much as the nearest
/// one, a byte of a record of another size as much as in the nearest measured sizes, and decompression from zstd the mean of its levels.
/// Returns nothing if a codec was not measured.
pub fn costs(times: &[CodecTime]) -> Vec<CodecCost> {
    let all = CODECS.iter().flat_map(|codec| {
        SIZE_BITS.flat_map(move |size_bits| {
            (0..RATIOS).flat_map(move |ratio_bits| {
                [false, true].map(|decompress| cost(times, codec, size_bits, ratio_bits, decompress))
            })
        })
    });
    let mut all: Vec<CodecCost> = all.collect::<Option<_>>().unwrap_or_default();
    // The second level of zstd repeats its decompression.
    let key = |c: &CodecCost| (c.codec, c.level, c.size_bits, c.ratio_bits, c.decompress);
    all.sort_by_key(key);
    all.dedup_by_key(|c| key(c));
    all
}

fn cost(
    times: &[CodecTime],
    &(name, codec, level): &(&str, u32, u32),
    size_bits: u32,
    ratio_bits: u32,
    decompress: bool,
) -> Option<CodecCost> {
    let bytes = f64::from(1u32 << (size_bits - 1));
    let of_byte = |name: &str| -> Option<f64> {
        let at =
            |size: usize| Some((size as f64, time(times, name, size, ratio_bits, decompress)? / size as f64));
        let known: Vec<(f64, f64)> = SIZES.into_iter().filter_map(at).collect();
        (!known.is_empty()).then(|| interpolated(&known, bytes))
    };
    let names: Vec<&str> = match decompress {
        true => CODECS.iter().filter(|(_, number, _)| *number == codec).map(|(name, ..)| *name).collect(),
        false => vec![name],
    };
    let all: Vec<f64> = names.iter().map(|name| of_byte(name)).collect::<Option<_>>()?;
    let ns = all.iter().sum::<f64>() / all.len() as f64 * bytes;
    let level = if decompress { 0 } else { level };
    Some(CodecCost { codec, level, size_bits, ratio_bits, decompress, ns: ns.round().max(1.0) as u64 })
}

/// Returns the time of the nearest measured ratio in nanoseconds.
fn time(times: &[CodecTime], name: &str, size: usize, ratio_bits: u32, decompress: bool) -> Option<f64> {
    let of_size = times.iter().filter(|time| time.codec == name && time.record_bytes == size as u64);
    let nearest = of_size.min_by_key(|time| time.ratio_bits.abs_diff(ratio_bits))?;
    Some(if decompress { nearest.decompress_ns } else { nearest.compress_ns } as f64)
}

/// Returns the value at `x` on the line through the neighbours in `known`, by the logarithm of x; beyond the ends, that of the end.
fn interpolated(known: &[(f64, f64)], x: f64) -> f64 {
    let next = known.iter().position(|(at, _)| *at >= x);
    match next {
        None => known[known.len() - 1].1,
        Some(0) => known[0].1,
        Some(next) => {
            let ((x0, y0), (x1, y1)) = (known[next - 1], known[next]);
            y0 + (y1 - y0) * (x / x0).ln() / (x1 / x0).ln()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;
    use std::process::Command;

    use poolwright_base::device::Device;

    use super::*;

    /// Text that repeats in part, as records of a table do.
    fn table() -> Vec<u8> {
        let row = |n: u64| {
            format!("{n:08} name-{} city-{} {:x}\n", n % 97, n % 13, n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        (0..200_000).flat_map(|n| row(n).into_bytes()).collect()
    }

    fn file(dir: &Path, name: &str, size: u64) -> File {
        File { path: dir.join(name).display().to_string(), size, role: Some(Role::Data), ..File::default() }
    }

    #[test]
    fn every_size_and_ratio_has_a_cost_that_grows_with_the_record() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("table"), table()).unwrap();
        let bytes = table().len() as u64;
        let files = ["missing", "table"].map(|name| file(dir.path(), name, bytes));
        let times = measure(&files, &Meta::default());
        for (name, ..) in CODECS {
            for size in SIZES {
                let of_size = times.iter().filter(|t| t.codec == name && t.record_bytes == size as u64);
                assert!(of_size.count() > 1, "{name} {size}: {times:?}");
            }
        }
        let costs = costs(&times);
        assert_eq!(costs.len(), 5 * 16 * 8);
        let smallest = |c: &CodecCost| {
            costs
                .iter()
                .find(|d| {
                    (d.codec, d.level, d.ratio_bits, d.decompress)
                        == (c.codec, c.level, c.ratio_bits, c.decompress)
                })
                .unwrap()
                .ns
        };
        // 32,768 times the bytes; the time of a call, which depends on the machine, is most of the smallest cost.
        for cost in costs.iter().filter(|c| c.size_bits == 25) {
            assert!(cost.ns > 30 * smallest(cost), "{cost:?}");
        }
    }

    /// A loop device, detached when it is dropped.
    struct Loop(String);

    impl Loop {
        fn on(path: &Path) -> Option<Loop> {
            let output = Command::new("losetup").args(["--find", "--show"]).arg(path).output().ok()?;
            output.status.success().then(|| Loop(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").args(["--detach", &self.0]).status();
        }
    }

    #[test]
    fn a_volume_is_read_from_its_device() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = table();
        content.resize(8 << 20, 0);
        std::fs::write(dir.path().join("disk"), content).unwrap();
        let Some(device) = Loop::on(&dir.path().join("disk")) else {
            return eprintln!("SKIPPED a_volume_is_read_from_its_device: no loop device");
        };
        let rdev = std::fs::metadata(&device.0).unwrap().rdev();
        let Device { major, minor } = Device::from_raw(rdev);
        let volume = File {
            path: device.0.clone(),
            size: 8 << 20,
            role: Some(Role::Volume),
            device: format!("{major}:{minor}"),
            ino: 0,
        };
        let times = measure(std::slice::from_ref(&volume), &Meta::default());
        assert!(CODECS.iter().all(|(name, ..)| times.iter().any(|time| time.codec == *name)), "{times:?}");
        let other = File { device: format!("{major}:{}", minor + 1), ..volume };
        assert!(measure(&[other], &Meta::default()).is_empty(), "the path leads to another device now");
    }

    #[test]
    fn without_data_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("zeros"), vec![0; 4 << 20]).unwrap();
        std::fs::write(dir.path().join("log"), table()).unwrap();
        let zeros = file(dir.path(), "zeros", 4 << 20);
        let log = File { role: Some(Role::Wal), ..file(dir.path(), "log", 1 << 20) };
        for files in [&[][..], &[zeros][..], &[log][..]] {
            assert!(measure(files, &Meta::default()).is_empty(), "{files:?}");
        }
        assert!(costs(&[]).is_empty());
    }

    #[test]
    fn other_sizes_and_ratios_are_interpolated() {
        let one = |codec: &str, record_bytes: usize, ratio_bits, ns_of_byte: u64| CodecTime {
            codec: codec.to_owned(),
            record_bytes: record_bytes as u64,
            ratio_bits,
            compress_ns: ns_of_byte * record_bytes as u64,
            decompress_ns: ns_of_byte * record_bytes as u64 / 2,
        };
        let mut times: Vec<CodecTime> = Vec::new();
        for (name, factor) in [("lz4", 1), ("zstd-1", 2), ("zstd-3", 4)] {
            times
                .extend(SIZES.map(|size| one(name, size, 1, factor * if size == 4 << 10 { 30 } else { 10 })));
            times.push(one(name, 16 << 10, 5, factor));
        }
        let costs = costs(&times);
        let of = |codec, level, bytes: u64, ratio_bits, decompress| {
            let size_bits = bytes.ilog2() + 1;
            let is_it = |c: &&CodecCost| {
                (c.codec, c.level, c.size_bits, c.ratio_bits, c.decompress)
                    == (codec, level, size_bits, ratio_bits, decompress)
            };
            costs.iter().find(is_it).unwrap().ns / bytes
        };
        assert_eq!(
            [of(15, 0, 4096, 1, false), of(15, 0, 8192, 1, false), of(15, 0, 32768, 0, false)],
            [30, 20, 10]
        );
        assert_eq!([of(15, 0, 512, 1, false), of(15, 0, 1 << 24, 1, false)], [30, 10]);
        assert_eq!(
            [of(16, 1, 1 << 17, 1, false), of(16, 3, 1 << 17, 1, false), of(16, 0, 1 << 17, 1, true)],
            [20, 40, 15]
        );
        assert_eq!([of(15, 0, 16384, 3, false), of(15, 0, 16384, 7, false)], [10, 1], "the nearest ratio");
        // A small database has no records of 1M.
        times.retain(|time| time.record_bytes != 1 << 20);
        assert_eq!(super::costs(&times), costs);
        times.retain(|time| time.codec != "zstd-1");
        assert!(super::costs(&times).is_empty());
    }
}
