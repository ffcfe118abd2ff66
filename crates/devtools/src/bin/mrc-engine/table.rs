//! The table of results: traces, recordsizes, compressions, ARC sizes, and the hit ratios of the engine and the model.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::compare::{EngineCase, SizeResult, compare, scratch};
use crate::ops::{self, Ops};
use crate::trace;

/// The maximum error of the model, in percentage points of the hit ratio.
const BAR: f64 = 1.0;

struct Plan {
    traces: Vec<String>,
    recordsizes: Vec<u64>,
    compressions: Vec<String>,
    requests: usize,
    case: EngineCase,
}

/// Whether no error of the model exceeds the maximum.
pub fn run(args: &[String]) -> Result<bool> {
    let plan = parse(args)?;
    let (mut worst, mut missed, mut all) = (0f64, 0, 0);
    for name in &plan.traces {
        let ops = operations(name, plan.requests)?;
        let dir = scratch(&ops, plan.case.l2arc)?;
        let short = name.rsplit('/').next().unwrap_or(name).split('.').next().unwrap_or(name);
        for &recordsize in &plan.recordsizes {
            for compression in &plan.compressions {
                let case = EngineCase { recordsize, compression: compression.clone(), ..plan.case.clone() };
                let rows = compare(dir.path(), &ops, &case, |row| show(short, &case, row))?;
                all += rows.len();
                missed += rows.iter().filter(|row| row.off().abs() > BAR).count();
                worst = rows.iter().fold(worst, |worst, row| worst.max(row.off().abs()));
            }
        }
    }
    println!("largest difference {worst:.2} percentage points; {missed} of {all} over the bar of {BAR}");
    Ok(missed == 0 && all > 0)
}

fn show(name: &str, case: &EngineCase, row: &SizeResult) {
    println!(
        "{name:12} {:4}K {:4} {:4}M  {row}{}",
        case.recordsize >> 10,
        case.compression,
        row.arc_bytes >> 20,
        if row.off().abs() > BAR { "  !" } else { "" },
    );
    if case.l2arc > 0 {
        println!("{:24} of the cache vdev {:6.2}  model {:6.2}", "", row.engine_l2, row.model_l2);
    }
}

fn parse(args: &[String]) -> Result<Plan> {
    let mut plan = Plan {
        traces: Vec::new(),
        recordsizes: vec![8 << 10, 16 << 10, 128 << 10],
        compressions: vec!["off".into(), "lz4".into()],
        requests: 200_000,
        case: EngineCase {
            recordsize: 0,
            compression: String::new(),
            prefetch: "none".into(),
            primarycache: "all".into(),
            l2arc: 0,
            pace: 0,
            repeats: 1,
            sizes: [64, 96, 128, 192, 256, 384].map(|mib: u64| mib << 20).to_vec(),
            verbose: false,
        },
    };
    let mut args = args.iter();
    let numbers = |text: &str| text.split(',').map(|n| Ok(n.parse::<u64>()?)).collect::<Result<Vec<u64>>>();
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--recordsize" => plan.recordsizes = numbers(value()?)?.iter().map(|kib| kib << 10).collect(),
            "--compression" => plan.compressions = value()?.split(',').map(str::to_owned).collect(),
            "--sizes" => plan.case.sizes = numbers(value()?)?.iter().map(|mib| mib << 20).collect(),
            "--requests" => plan.requests = value()?.parse()?,
            "--pace" => plan.case.pace = value()?.parse()?,
            "--repeat" => plan.case.repeats = value()?.parse()?,
            "--prefetch" => plan.case.prefetch = value()?.clone(),
            "--primarycache" => plan.case.primarycache = value()?.clone(),
            "--l2arc" => plan.case.l2arc = value()?.parse::<u64>()? << 20,
            "--verbose" => plan.case.verbose = true,
            name if !name.starts_with('-') => plan.traces.push(name.to_owned()),
            _ => bail!("unknown option {arg}"),
        }
    }
    Ok(plan)
}

/// The accesses of `TRACE` or `TRACE@REQUESTS`.
fn operations(name: &str, requests: usize) -> Result<Ops> {
    if let Some((name, Ok(own))) = name.rsplit_once('@').map(|(name, own)| (name, own.parse())) {
        return operations(name, own);
    }
    match name {
        "scans" => Ok(ops::scans(requests, 60_000, false)),
        "updates" => Ok(ops::scans(requests, 60_000, true)),
        path => trace::of_trace(Path::new(path), requests),
    }
}
