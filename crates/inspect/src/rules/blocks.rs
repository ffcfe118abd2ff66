//! The sizes of blocks and pages.

use poolwright_base::units::format_size;
use poolwright_estimate::Layout;
use poolwright_openzfs::Geometry;
use poolwright_trace::layout::PageSource;

use super::{on_datasets, on_volumes_and_datasets, sources};
use crate::facts::{DatabaseFacts, DatasetFacts, DatasetKind, MachineFacts, SystemFacts};
use crate::rule::FindingSeverity::{Advice, Warning};
use crate::rule::{InspectionRule, RuleMatch};

pub const RULES: &[InspectionRule] = &[
    InspectionRule {
        name: "direct-past-arc",
        severity: Warning,
        title: "O_DIRECT past the ARC, with records larger than pages",
        reason: "Since OpenZFS 2.3, a direct read of a page reads, checks and decompresses its whole record from disk, every time: the ARC \
                 keeps nothing of it.",
        source: &sources::DIRECT,
        find: direct_past_arc,
    },
    InspectionRule {
        name: "stale-block-size",
        severity: Warning,
        title: "files with another block size than the recordsize of their dataset",
        reason: "A change of recordsize affects only files that are created later. These files keep the size with which they were written.",
        source: &sources::RECORDSIZE,
        find: stale_block_size,
    },
    InspectionRule {
        name: "records-below-pages",
        severity: Warning,
        title: "blocks smaller than the pages of the database",
        reason: "Each page takes several blocks: more metadata, less compression, more I/O for each page.",
        source: &sources::RECORDSIZE_GUIDE,
        find: below_pages,
    },
    InspectionRule {
        name: "records-above-pages",
        severity: Advice,
        title: "blocks much larger than the pages of the database",
        reason: "A change of one page rewrites its whole block, after reading it if the ARC does not have it. Larger blocks compress better, \
                 so the best size depends on the workload.",
        source: &sources::RECORDSIZE_GUIDE,
        find: above_pages,
    },
    InspectionRule {
        name: "raidz-padding",
        severity: Warning,
        title: "blocks so small that raidz pads them",
        reason: "On raidz, each block has its own parity sectors, and is padded to a multiple of parity + 1 sectors. Small blocks take far \
                 more space than the nominal capacity of the vdev suggests.",
        source: &sources::RAIDZ,
        find: raidz_padding,
    },
];

/// Larger "pages" are blocks of a column store, which OpenZFS's records need not hold as a whole.
const MAX_PAGE: u64 = 64 << 10;
/// Blocks of more pages than this are reported: OpenZFS's default of 128K for pages of 8K, 16K.
const MANY_PAGES: u64 = 4;
/// The share of the bytes of tables and indexes from which files with another block size are reported.
const STALE_SHARE: f64 = 0.1;
/// The space of a small block on raidz, relative to that of the same bytes in large blocks, from which it is reported.
const PADDED: f64 = 1.25;
/// The size of the large blocks with which small ones are compared.
const LARGE: u64 = 1 << 20;

/// Bytes of the page, its evidence; `None` without pages.
fn page(of: &DatabaseFacts) -> Option<(u64, String)> {
    let page = of.page.as_ref()?;
    let source = match &page.source {
        PageSource::Header(file) => format!("in {}", poolwright_base::quoted(file)),
        PageSource::Default => "the default of the system".to_owned(),
    };
    let bytes = u64::from(page.bytes);
    Some((bytes, format!("page size {} ({source})", format_size(bytes))))
}

/// The block size that most of a database's tables and indexes on a dataset have: that of the files, or else the property.
fn block_size(of: &DatabaseFacts, dataset: &DatasetFacts) -> Option<u64> {
    let groups = of.pages_on(dataset).flat_map(|group| &group.bytes_by_block);
    groups.max_by_key(|(_, bytes)| **bytes).map(|(block, _)| *block).or_else(|| dataset.block_size())
}

fn direct_past_arc(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| direct_past_arc_on(&facts.host, dataset, databases))
}

fn direct_past_arc_on(
    host: &SystemFacts,
    dataset: &DatasetFacts,
    databases: &[&DatabaseFacts],
) -> Option<RuleMatch> {
    // Since 2.4, O_DIRECT is uncached where it is not direct: the ARC does not keep it.
    let is_uncached = host.is_at_least(2, 4);
    let is_off = host.parameter("zfs_dio_enabled") == Some(0)
        || dataset.value("direct").is_none_or(|value| value == "disabled");
    let is_file_system = dataset.is_of_kernel && dataset.kind == DatasetKind::FileSystem;
    if !is_file_system || !host.is_at_least(2, 3) || (is_off && !is_uncached) {
        return None;
    }
    let reads_past = |of: &&&DatabaseFacts| {
        let sizes = page(of).zip(block_size(of, dataset));
        let is_larger = sizes.is_some_and(|((page, _), block)| block >= 2 * page);
        of.uses_direct_io() && of.page_bytes_on(dataset) > 0 && is_larger
    };
    let of = databases.iter().find(reads_past)?;
    let ((page, page_evidence), block, server) = (page(of)?, block_size(of, dataset)?, of.server.as_ref()?);
    let by_database = of.is("mariadb").then(|| match of.setting("innodb_data_file_buffering") {
        Some(_) => "set innodb_data_file_buffering=ON and restart the server",
        None => "set innodb_flush_method=fsync and restart the server",
    });
    let by_property = (!is_uncached).then(|| dataset.set("direct", "disabled"));
    let by_size = format!("{}, and rewrite the files", dataset.set("recordsize", &format_size(page)));
    let remedies: Vec<String> =
        by_property.into_iter().chain(by_database.map(str::to_owned)).chain([by_size]).collect();
    Some(RuleMatch {
        subject: dataset.name.clone(),
        problem: format!(
            "each read of a {} page of {} reads {} from disk, whatever the size of the ARC",
            format_size(page),
            of.describe(),
            format_size(block)
        ),
        evidence: vec![
            format!(
                "{} (process {}) has {} files open with O_DIRECT",
                server.name, server.pid, server.direct_files
            ),
            dataset.evidence("direct"),
            format!("{page_evidence}; blocks of {}", format_size(block)),
        ],
        remedy: remedies.join("\nor "),
        effect: "reads are answered by the ARC, or read no more than a page; `poolwright tune` measures each"
            .to_owned(),
        ..RuleMatch::default()
    })
}

fn stale_block_size(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let recordsize = dataset.block_size().filter(|_| dataset.kind == DatasetKind::FileSystem)?;
        let of_all = || databases.iter().flat_map(|of| of.pages_on(dataset));
        let by_block = || of_all().flat_map(|group| &group.bytes_by_block);
        let all: u64 = by_block().map(|(_, bytes)| bytes).sum();
        let stale: u64 = by_block().filter(|(block, _)| **block != recordsize).map(|(_, bytes)| bytes).sum();
        if all == 0 || (stale as f64) < STALE_SHARE * all as f64 {
            return None;
        }
        let (common, _) =
            by_block().filter(|(block, _)| **block != recordsize).max_by_key(|(_, bytes)| **bytes)?;
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "{} of {} of tables and indexes still have blocks of another size than recordsize={}, most of {}",
                format_size(stale),
                format_size(all),
                format_size(recordsize),
                format_size(*common)
            ),
            evidence: vec![
                dataset.evidence("recordsize"),
                format!(
                    "stat of the files: {} in blocks of {}",
                    format_size(stale),
                    sizes(by_block(), recordsize)
                ),
            ],
            remedy: "rewrite the files: `poolwright tune` makes a plan, and `poolwright apply` rewrites them"
                .to_owned(),
            effect: format!("all blocks have {}; snapshots keep the old ones", format_size(recordsize)),
            ..RuleMatch::default()
        })
    })
}

/// The block sizes other than `recordsize`: `16K, 128K`.
fn sizes<'a>(by_block: impl Iterator<Item = (&'a u64, &'a u64)>, recordsize: u64) -> String {
    let mut sizes: Vec<u64> =
        by_block.map(|(block, _)| *block).filter(|block| *block != recordsize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(format_size).collect::<Vec<_>>().join(", ")
}

fn below_pages(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        let block = dataset.block_size()?;
        let of = databases.iter().find(|of| {
            page(of).is_some_and(|(page, _)| block < page && page <= MAX_PAGE)
                && of.page_bytes_on(dataset) > 0
        })?;
        let (page, page_evidence) = page(of)?;
        let remedy = match dataset.kind {
            DatasetKind::FileSystem => {
                format!("{}, and rewrite the files", dataset.set("recordsize", &format_size(page)))
            }
            DatasetKind::Volume => {
                format!("copy the data to a new volume with volblocksize={}", format_size(page))
            }
        };
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "each {} page of {} takes {} blocks",
                format_size(page),
                of.describe(),
                page.div_ceil(block)
            ),
            evidence: vec![dataset.evidence(dataset.block_property()), page_evidence],
            remedy,
            effect: "a page is one block; `poolwright tune` measures whether still larger blocks are better"
                .to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn above_pages(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_datasets(facts, |dataset, databases| {
        // The rule on direct I/O says more.
        if direct_past_arc_on(&facts.host, dataset, databases).is_some() {
            return None;
        }
        let is_above = |of: &&&DatabaseFacts| {
            let sizes = page(of).zip(block_size(of, dataset));
            sizes.is_some_and(|((page, _), block)| block > MANY_PAGES * page) && of.page_bytes_on(dataset) > 0
        };
        let of = databases.iter().find(is_above)?;
        let ((page, page_evidence), block) = (page(of)?, block_size(of, dataset)?);
        Some(RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "a change of one {} page of {} rewrites a block of {}",
                format_size(page),
                of.describe(),
                format_size(block)
            ),
            evidence: vec![page_evidence, format!("blocks of {}", format_size(block)), dataset.evidence(dataset.block_property())],
            remedy: format!("poolwright tune {}", poolwright_base::quoted(&of.root)),
            effect: "it replays the database's own I/O with smaller and larger blocks, and shows the work rate and the space of each".to_owned(),
            ..RuleMatch::default()
        })
    })
}

fn raidz_padding(facts: &MachineFacts) -> Vec<RuleMatch> {
    on_volumes_and_datasets(facts, |dataset| {
        let (pool, block) = (facts.pool_of(dataset)?, dataset.block_size()?);
        let (Layout::Raidz { parity, disks }, ashift) = (pool.layout()?, pool.ashift()?) else { return None };
        let geometry = Geometry::raidz(ashift, disks, parity);
        let per_byte = |block: u64| geometry.asize(block) as f64 / block as f64;
        let padded = per_byte(block) / per_byte(LARGE);
        let enough = (0..)
            .map(|n| block << n)
            .find(|size| *size >= LARGE || per_byte(*size) < PADDED * per_byte(LARGE))?;
        let is_volume = dataset.kind == DatasetKind::Volume;
        let remedy = match is_volume {
            true => format!(
                "copy the data to a new volume with volblocksize={}: it cannot be changed afterwards",
                format_size(enough)
            ),
            false => format!(
                "{}, and rewrite the files; measure the price in speed before with poolwright tune",
                dataset.set("recordsize", &format_size(enough))
            ),
        };
        (padded >= PADDED).then(|| RuleMatch {
            subject: dataset.name.clone(),
            problem: format!(
                "a block of {} takes {} on raidz{parity} of {disks} disks, {padded:.1} times as much as in large blocks",
                format_size(block),
                format_size(geometry.asize(block))
            ),
            evidence: vec![
                dataset.evidence(dataset.block_property()),
                format!("zpool status {}: raidz{parity} of {disks} disks; ashift {ashift}", pool.space.name),
            ],
            remedy,
            effect: format!(
                "uncompressed blocks take {:.2} bytes for each byte of data instead of {:.2}",
                per_byte(enough),
                per_byte(block)
            ),
            ..RuleMatch::default()
        })
    })
}
