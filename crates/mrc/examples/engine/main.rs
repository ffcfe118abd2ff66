//! Holds the `openzfs` model against the engine: the same accesses on both, at several ARC sizes.
//!
//! `engine table …` prints the comparison; `fill` and `replay` are its children. `scripts/mrc/engine.sh` runs it.

mod child;
mod ops;
mod table;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let job = |path: &String| -> Result<child::Job> { Ok(serde_json::from_slice(&std::fs::read(path)?)?) };
    match (args.first().map(String::as_str), args.get(1)) {
        (Some("fill"), Some(path)) => println!("{}", serde_json::to_string(&child::fill(&job(path)?)?)?),
        (Some("replay"), Some(path)) => println!("{}", serde_json::to_string(&child::replay(&job(path)?)?)?),
        (Some("table"), _) => return table::run(&args[1..]),
        _ => bail!(
            "engine table [TRACE… | all] [--recordsize N,…] [--compression off,lz4] [--sizes N,…] [--requests N]"
        ),
    }
    Ok(())
}
