//! Compression: off, without effect, without room, or slow. All rules but one need a sample of the data.

use poolwright_base::units::format_size;
use poolwright_estimate::{Cell, Method};

use super::{on_datasets, on_volumes_and_datasets, sources};
use crate::facts::{DatasetFacts, DatasetKind, MachineFacts};
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "no-room-to-compress",
        severity: Warning,
        title: "compression of blocks of one sector",
        reason: "A compressed block takes whole sectors, so that a block of one sector never gets smaller.",
        source: &sources::COMPRESSION,
        find: no_room,
    },
    InspectionRule {
        name: "small-records",
        severity: Advice,
        title: "blocks so small that compression saves much less than in larger ones",
        reason: "A compressed block takes whole sectors, so that small blocks lose a part of what compression saves. Larger blocks cost speed \
                 where single pages change, so the best size depends on the workload.",
        source: &sources::COMPRESSION,
        find: small_records,
    },
    InspectionRule {
        name: "compression-off",
        severity: Warning,
        title: "compression=off for data that lz4 makes smaller",
        reason: "lz4 is faster than most disks, and gives up early on data that does not compress.",
        source: &sources::COMPRESSION,
        find: compression_off,
    },
    InspectionRule {
        name: "compression-slow",
        severity: Warning,
        title: "a slow codec, where a fast one saves as much",
        reason: "Each write of a block waits for a processor.",
        source: &sources::COMPRESSION,
        find: compression_slow,
    },
    InspectionRule {
        name: "compression-without-effect",
        severity: Advice,
        title: "a codec other than lz4 for data that does not compress",
        reason: "The codec runs for each block that is written, and saves nothing.",
        source: &sources::COMPRESSION,
        find: without_effect,
    },
];

/// The saving of lz4 from which `compression=off` is reported.
const NOTABLE: f64 = 0.10;
/// The saving below which a codec has no effect.
const NO_EFFECT: f64 = 0.05;
/// How much smaller larger blocks must make the data for small ones to be reported.
const SMALLER: f64 = 0.4;
/// A codec is slow if another one is so many times as fast, and needs at most [`AS_SMALL`] times the space.
const FASTER: f64 = 4.0;
const AS_SMALL: f64 = 1.05;

/// Today's setting in the sample, and the others.
struct Sample<'a> {
    today: &'a Cell,
    cells: &'a [Cell],
    evidence: String,
}

impl<'a> Sample<'a> {
    fn of(dataset: &'a DatasetFacts) -> Option<Sample<'a>> {
        let (estimate, today) = (dataset.sample.as_ref()?, dataset.sampled_today()?);
        let (all, entropy) = (format_size(estimate.data_bytes), estimate.entropy_bits);
        let sample = match estimate.method {
            Method::Full => format!("all of the largest tables, {all}"),
            Method::Sampled => format!("{} places in the largest tables, {all}", estimate.places),
        };
        let sector = format_size(1 << today.ashift);
        let evidence = format!("{sample}: {entropy:.1} bits of entropy for each byte; sectors of {sector}");
        Some(Sample { today, cells: &estimate.cells, evidence })
    }

    /// The cell of a codec with today's block size.
    fn codec(&self, name: &str) -> Option<&'a Cell> {
        self.cells.iter().find(|cell| cell.recordsize == self.today.recordsize && cell.compression == name)
    }

    fn evidence(&self, cells: &[&Cell]) -> Vec<String> {
        let cell = |cell: &&Cell| {
            let speed = cell
                .compress_mib_s
                .map_or_else(String::new, |speed| format!(", {speed:.0} MiB/s on one core"));
            let (size, codec) = (format_size(cell.recordsize), &cell.compression);
            format!(
                "{size} {codec}: ratio {:.2} ({:.2} to {:.2}){speed}",
                cell.ratio, cell.ratio_ci95[0], cell.ratio_ci95[1]
            )
        };
        std::iter::once(self.evidence.clone()).chain(cells.iter().map(cell)).collect()
    }
}

/// The part of the space that the second cell saves, at least and at most: by the 95 % intervals of both ratios.
fn saving(from: &Cell, to: &Cell) -> (f64, f64) {
    let saved = |from: f64, to: f64| if to.is_finite() && to > 0.0 { 1.0 - from / to } else { 0.0 };
    let ([from_low, from_high], [to_low, to_high]) = (from.ratio_ci95, to.ratio_ci95);
    (saved(from_high, to_low), saved(from_low, to_high))
}

/// The saving at least.
fn least_saving(from: &Cell, to: &Cell) -> f64 {
    saving(from, to).0
}

fn is_compressed(dataset: &DatasetFacts) -> bool {
    dataset.value("compression").is_some_and(|value| value != "off")
}

fn no_room(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_volumes_and_datasets(facts, |dataset| no_room_on(facts, dataset))
}

fn no_room_on(facts: &MachineFacts, dataset: &DatasetFacts) -> Option<RuleMatch> {
    let (pool, block) = (facts.pool_of(dataset)?, dataset.block_size()?);
    let sector = 1 << pool.ashift()?;
    let is_volume = dataset.kind == DatasetKind::Volume;
    (is_compressed(dataset) && block <= sector).then(|| RuleMatch {
        subject: dataset.name.clone(),
        problem: format!(
            "blocks of {} cannot be compressed on sectors of {}",
            format_size(block),
            format_size(sector)
        ),
        evidence: vec![
            dataset.evidence(dataset.block_property()),
            dataset.evidence("compression"),
            format!("ashift {} of the pool's data vdevs", sector.ilog2()),
        ],
        remedy: match is_volume {
            true => "copy the data to a new volume with volblocksize=16K: it cannot be changed afterwards"
                .to_owned(),
            false => format!("{}, and rewrite the files", dataset.set("recordsize", "16K")),
        },
        effect: "compression can save sectors".to_owned(),
        ..RuleMatch::default()
    })
}

fn small_records(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let sample = Sample::of(dataset).filter(|_| is_compressed(dataset))?;
        // Larger blocks make each direct read larger.
        if databases.iter().any(|of| of.uses_direct_io()) {
            return None;
        }
        if no_room_on(facts, dataset).is_some() {
            return None; // that rule says more
        }
        let today = sample.today;
        let is_better = |cell: &&Cell| {
            cell.compression == today.compression
                && cell.recordsize > today.recordsize
                && least_saving(today, cell) >= SMALLER
        };
        let better = sample.cells.iter().filter(is_better).min_by_key(|cell| cell.recordsize)?;
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "the tables would take at least {:.0} % less space in blocks of {}",
                100.0 * least_saving(today, better),
                format_size(better.recordsize)
            ),
            evidence: sample.evidence(&[today, better]),
            remedy: format!(
                "{}, and rewrite the files; `poolwright tune` measures the price in speed",
                dataset.set("recordsize", &format_size(better.recordsize))
            ),
            effect: format!("a compression ratio of {:.2} instead of {:.2}", better.ratio, today.ratio),
            ..RuleMatch::default()
        })
    })
}

fn compression_off(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let sample = Sample::of(dataset).filter(|_| !is_compressed(dataset))?;
        let lz4 = sample.codec("lz4").filter(|cell| least_saving(sample.today, cell) >= NOTABLE)?;
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "compression=off: lz4 would save at least {:.0} % of the space",
                100.0 * least_saving(sample.today, lz4)
            ),
            evidence: sample.evidence(&[lz4]),
            remedy: format!("{}, and rewrite the files", dataset.set("compression", "lz4")),
            effect: format!("a compression ratio of {:.2}, and as much less I/O", lz4.ratio),
            ..RuleMatch::default()
        })
    })
}

fn compression_slow(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let sample = Sample::of(dataset).filter(|_| is_compressed(dataset))?;
        let today = sample.today;
        let speed = today.compress_mib_s?;
        if saving(sample.codec("off")?, today).1 < NO_EFFECT {
            return None; // another rule
        }
        let same = sample.cells.iter().filter(|cell| {
            cell.recordsize == today.recordsize
                && cell.compress_mib_s.is_some_and(|other| other >= FASTER * speed)
                && cell.allocated_bytes as f64 <= AS_SMALL * today.allocated_bytes as f64
        });
        let better = same.min_by_key(|cell| cell.allocated_bytes)?;
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "{} is {:.0} times slower than {}, which needs nearly the same space",
                today.compression,
                better.compress_mib_s? / speed,
                better.compression
            ),
            evidence: sample.evidence(&[today, better]),
            remedy: dataset.set("compression", &better.compression),
            effect: "blocks that are written from now on take less time of a processor".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn without_effect(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, _| {
        let sample = Sample::of(dataset).filter(|_| is_compressed(dataset))?;
        let today = sample.today;
        if today.compression == "lz4" || saving(sample.codec("off")?, today).1 >= NO_EFFECT {
            return None;
        }
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "compression={} saves at most {:.0} % of the space",
                today.compression,
                100.0 * saving(sample.codec("off")?, today).1.max(0.0)
            ),
            evidence: sample.evidence(&[today]),
            remedy: dataset.set("compression", "lz4"),
            effect: "lz4 gives up early on such data, and still compresses the rest".to_owned(),
            ..RuleMatch::default()
        })
    })
}
