//! Synthetic traces, generated while they are read, to model a cache without a file of a billion lines.
//!
//! A request is a function of its number and the seed, so all cores generate requests, and the trace is the same on
//! every machine.

use std::path::Path;

use poolwright_host::recordsize::{RECORDSIZES, is_recordsize};
use rayon::prelude::*;

use super::source::malformed;
use super::{CHUNK, Input, Skipped, Unit};
use crate::hash::mix;
use crate::{Extent, Kind, Result};

/// The prefix of a path that describes a synthetic trace.
pub const PREFIX: &str = "synthetic:";

/// Weyl sequence of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Requests that a core generates at a time.
const SHARE: usize = CHUNK / 16;

/// The parameters of a synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// The pattern of requests that are not part of a scan.
    pub pattern: Pattern,
    /// Number of different records, 1 to 2^32 - 1.
    pub records: u64,
    /// Number of requests.
    pub requests: u64,
    /// Share of the requests that belong to scans, 0 to 1; they are evenly distributed.
    pub scan: f64,
    /// Number of records of a scan, which begins at a random record.
    pub scan_records: u64,
    /// Share of the requests that write a whole record.
    pub write: f64,
    /// Bytes of a record.
    pub record: u64,
    /// Requests per second; 0 for a trace without times.
    pub rate: u64,
    /// Another seed generates other requests with the same parameters.
    pub seed: u64,
}

/// How requests select records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Zipf's law: a request is for the k-th most popular record with a probability proportional to 1/k^skew. Popular
    /// records are spread over the file.
    Zipf {
        /// 0 or more; with 0 all records are equally popular.
        skew: f64,
    },
    /// All records in turn, again and again.
    Loop,
}

impl Spec {
    /// Parses `zipf,records=100M,requests=1G,skew=0.9`, with or without [`PREFIX`].
    ///
    /// # Errors
    /// A message if the pattern or a parameter is unknown, or a value is invalid.
    pub fn parse(text: &str) -> std::result::Result<Spec, String> {
        let mut words = text.strip_prefix(PREFIX).unwrap_or(text).split(',');
        let pattern = words.next().unwrap_or_default();
        let mut skew = match pattern {
            "zipf" => Some(0.9),
            "uniform" | "loop" => None,
            _ => return Err(format!("unknown pattern \"{pattern}\": expected zipf, uniform or loop")),
        };
        let mut spec = Spec {
            pattern: Pattern::Loop,
            records: 1_000_000,
            requests: 10_000_000,
            scan: 0.0,
            scan_records: 10_000,
            write: 0.0,
            record: 8192,
            rate: 0,
            seed: 1,
        };
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("\"{word}\" is not name=value"))?;
            match (name, &mut skew) {
                ("records", _) => spec.records = count(value, 1000)?,
                ("requests", _) => spec.requests = count(value, 1000)?,
                ("skew", Some(skew)) => *skew = number(value, 10.0)?,
                ("scan", _) => spec.scan = number(value, 1.0)?,
                ("scan-records", _) => spec.scan_records = count(value, 1000)?,
                ("write", _) => spec.write = number(value, 1.0)?,
                ("record", _) => spec.record = count(value, 1024)?,
                ("rate", _) => spec.rate = count(value, 1000)?,
                ("seed", _) => spec.seed = count(value, 1000)?,
                _ => return Err(format!("{pattern} has no parameter {name}")),
            }
        }
        match pattern {
            "loop" => {}
            _ => spec.pattern = Pattern::Zipf { skew: skew.unwrap_or(0.0) },
        }
        spec.checked()
    }

    fn checked(self) -> std::result::Result<Spec, String> {
        if self.records == 0 || self.records > u64::from(u32::MAX) {
            return Err(format!("records must be from 1 to {}", u32::MAX));
        }
        if self.scan_records == 0 {
            return Err("scan-records must be at least 1".to_owned());
        }
        if self.requests > 1 << 40 {
            return Err("requests must be at most 2^40".to_owned());
        }
        if !is_recordsize(self.record) {
            return Err(format!("record must be {RECORDSIZES}"));
        }
        Ok(self)
    }
}

/// A count with K, M or G, which are powers of `kilo`.
fn count(text: &str, kilo: u64) -> std::result::Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches(['K', 'M', 'G']) {
        digits if digits.len() + 1 >= text.len() => (digits, &text[digits.len()..]),
        _ => (text, ""),
    };
    let power = ["", "K", "M", "G"].iter().position(|name| *name == unit).unwrap_or_default();
    let whole = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(kilo.pow(power as u32)));
    whole.ok_or(format!("\"{text}\" is not a whole number, optionally with K, M or G"))
}

fn number(text: &str, most: f64) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|n| (0.0..=most).contains(n));
    number.ok_or(format!("\"{text}\" is not a number from 0 to {most}"))
}

/// A synthetic trace.
#[derive(Clone, Debug)]
pub struct Synthetic {
    spec: Spec,
    zipf: Zipf,
    /// Distance between records of neighbouring popularity; coprime to the number of records.
    stride: u64,
    /// Scans per request, times 2^32.
    scan: u64,
    next: u64,
}

impl Synthetic {
    /// A trace with the parameters of `text`: `synthetic:zipf,records=100M,requests=1G,skew=0.9,scan=0.1,seed=1`.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) if [`Spec::parse`] rejects the text.
    pub fn open(text: &str) -> Result<Synthetic> {
        let spec = Spec::parse(text).map_err(|why| malformed(Path::new(text), "description", why))?;
        Ok(Synthetic::new(spec))
    }

    /// A trace with these parameters.
    pub fn new(spec: Spec) -> Synthetic {
        let skew = match spec.pattern {
            Pattern::Zipf { skew } => skew,
            Pattern::Loop => 0.0,
        };
        let golden = (spec.records as f64 * 0.618_033_988_749_895) as u64;
        let stride =
            (golden..).find(|n| common(*n, spec.records) == 1).expect("some number has none in common");
        let scan = (spec.scan * (1u64 << 32) as f64).round() as u64;
        Synthetic { spec, zipf: Zipf::new(spec.records, skew), stride, scan, next: 0 }
    }

    /// The request with this number.
    fn request(&self, number: u64) -> Extent {
        let Spec { pattern, records, scan_records, write, record, rate, seed, .. } = self.spec;
        let scans = |number: u64| ((u128::from(number) * u128::from(self.scan)) >> 32) as u64;
        let mut random = Random(mix(seed).wrapping_add(number.wrapping_mul(GOLDEN)));
        let scan = scans(number);
        let index = if scans(number + 1) > scan {
            let start = mix(mix(!seed).wrapping_add((scan / scan_records).wrapping_mul(GOLDEN)));
            (start % records + scan % scan_records) % records
        } else {
            match pattern {
                Pattern::Zipf { .. } => {
                    (self.zipf.rank(&mut random) * self.stride + seed % records) % records
                }
                Pattern::Loop => number % records,
            }
        };
        let kind = if write > 0.0 && random.next() < write { Kind::Write } else { Kind::Read };
        let t_ns = match rate {
            0 => 0,
            _ => (u128::from(number) * 1_000_000_000 / u128::from(rate)) as u64,
        };
        Extent { t_ns, file: 0, offset: index * record, len: record, kind }
    }
}

impl Input for Synthetic {
    fn format(&self) -> &'static str {
        "synthetic"
    }

    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: self.spec.record }
    }

    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        let (first, left) = (self.next, self.spec.requests - self.next);
        (0..left.min(CHUNK as u64) as usize)
            .into_par_iter()
            .with_min_len(SHARE)
            .map(|number| self.request(first + number as u64))
            .collect_into_vec(extents);
        self.next += extents.len() as u64;
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        Skipped::default()
    }

    fn duration_ns(&self) -> u64 {
        self.next.checked_sub(1).map_or(0, |last| self.request(last).t_ns)
    }

    fn progress(&self) -> Option<f64> {
        Some(self.next as f64 / self.spec.requests.max(1) as f64)
    }
}

/// SplitMix64, seeded for one request.
struct Random(u64);

impl Random {
    /// Uniform in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        // Two rounds: neighbouring requests start from neighbouring states.
        (mix(mix(self.0)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks by Zipf's law, without a table: rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6, 1996). The names are those of the paper.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    records: u64,
    skew: f64,
    h_x1: f64,
    h_n: f64,
    s: f64,
}

impl Zipf {
    fn new(records: u64, skew: f64) -> Zipf {
        let zipf = Zipf { records, skew, h_x1: 0.0, h_n: 0.0, s: 0.0 };
        Zipf {
            h_x1: zipf.integral(1.5) - 1.0,
            h_n: zipf.integral(records as f64 + 0.5),
            s: 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0)),
            ..zipf
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// Of the weight, from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (x.ln(), 1.0 - self.skew);
        if power.abs() < 1e-9 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.skew;
        if power.abs() < 1e-9 { y.exp() } else { ((power * y).ln_1p() / power).exp() }
    }

    /// A rank from 0 on.
    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.h_n + random.next() * (self.h_x1 - self.h_n);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.records as f64);
            if k - x <= self.s || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }
}

/// The greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Extent> {
        let mut input = Synthetic::open(text).unwrap();
        let (mut all, mut extents) = (Vec::new(), Vec::new());
        loop {
            input.read(&mut extents).unwrap();
            if extents.is_empty() {
                return all;
            }
            all.append(&mut extents);
        }
    }

    #[test]
    fn ranks_follow_the_law_for_every_skew() {
        for skew in [0.0, 0.5, 0.9, 1.0, 1.3] {
            let zipf = Zipf::new(1000, skew);
            let mut random = Random(3);
            let mut counts = [0f64; 1000];
            (0..1_000_000).for_each(|_| counts[zipf.rank(&mut random) as usize] += 1.0);
            let total: f64 = (1..=1000).map(|k| f64::from(k).powf(-skew)).sum();
            for rank in [0, 1, 2, 9, 99, 999] {
                let expected = 1e6 * f64::from(rank + 1).powf(-skew) / total;
                let off = (counts[rank as usize] - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "skew {skew}, rank {rank}: {off} off {expected}");
            }
        }
    }

    #[test]
    fn scans_have_their_share_and_are_sequential() {
        let extents =
            all("synthetic:uniform,records=1M,requests=300K,scan=0.25,scan-records=100,write=0.5,rate=1K");
        assert_eq!(extents.len(), 300_000);
        let writes = extents.iter().filter(|extent| extent.kind == Kind::Write).count();
        assert!(writes.abs_diff(150_000) < 1_500, "{writes}");
        // Every fourth request belongs to a scan, and follows the one before it.
        let scan: Vec<u64> = extents.iter().skip(3).step_by(4).map(|extent| extent.offset / 8192).collect();
        let on = scan.windows(2).filter(|two| (two[0] + 1) % 1_000_000 == two[1]).count();
        assert_eq!(on, 75_000 - 750);
        assert_eq!(extents[299_999].t_ns, 299_999_000_000);
    }

    #[test]
    fn every_record_of_a_loop_comes_in_turn() {
        let extents = all("synthetic:loop,records=7,requests=20,record=512");
        assert!(
            extents
                .iter()
                .enumerate()
                .all(|(n, extent)| extent.offset == n as u64 % 7 * 512 && extent.len == 512)
        );
    }

    #[test]
    fn popular_records_lie_apart_and_a_seed_is_a_trace() {
        let text = "zipf,records=100K,requests=200K,skew=0.9";
        let extents = all(text);
        assert_eq!(extents, all(text));
        assert_ne!(extents, all(&format!("{text},seed=2")));
        let mut seen: Vec<u64> = extents.iter().map(|extent| extent.offset / 8192).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 30_000 && *seen.last().unwrap() < 100_000, "{}", seen.len());
        let synthetic = Synthetic::open(text).unwrap();
        let mut places: Vec<u64> = (0..100_000).map(|rank| rank * synthetic.stride % 100_000).collect();
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(n, location)| n as u64 == *location));
    }

    #[test]
    fn invalid_descriptions_are_refused() {
        for (text, why) in [
            ("ring", "unknown pattern \"ring\": expected zipf, uniform or loop"),
            ("zipf,records", "\"records\" is not name=value"),
            ("zipf,records=5x", "\"5x\" is not a whole number, optionally with K, M or G"),
            ("zipf,records=5MM", "\"5MM\" is not a whole number, optionally with K, M or G"),
            ("zipf,records=5G", "records must be from 1 to 4294967295"),
            ("zipf,scan=1.5", "\"1.5\" is not a number from 0 to 1"),
            ("loop,skew=1", "loop has no parameter skew"),
            ("loop,record=1000", "record must be a power of two from 512 to 16M"),
        ] {
            assert_eq!(Spec::parse(text).unwrap_err(), why, "{text}");
        }
    }
}
