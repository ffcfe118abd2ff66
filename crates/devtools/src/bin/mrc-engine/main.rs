//! Compares the `openzfs` model with the engine: the same accesses at several ARC sizes. `scripts/mrc/engine.sh` runs
//! it.

mod child;
mod compare;
mod ops;
mod table;
mod trace;

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    if child::serve()? {
        return Ok(ExitCode::SUCCESS);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|arg| arg == "--help") {
        println!(
            "usage: mrc-engine TRACE[@REQUESTS]|scans|updates… [--recordsize KIB,…] [--compression off,lz4] [--sizes MIB,…] \
             [--requests N] [--pace N] [--repeat N] [--prefetch all|none] [--primarycache all|metadata|none] [--l2arc MIB] [--verbose]"
        );
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if table::run(&args)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
