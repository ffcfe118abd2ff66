//! Traces as operations on files.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use poolwright_mrc::input::{self, Select};
use poolwright_mrc::{Error, Extent, Kind};
use poolwright_trace::layout::Role;

use crate::ops::{Op, Ops};

/// Maximum bytes of one operation.
const LONGEST: usize = 1 << 20;

/// The first `limit` accesses of a trace. Pages of a page trace keep their order, without the gaps of pages that are
/// never accessed, because a database file has no such gaps. Of a recording, only the data files are used.
pub fn of_trace(path: &Path, limit: usize) -> Result<Ops> {
    let select = Select { roles: vec![Role::Data], ..Select::default() };
    let mut input = match input::open(path, None, &select) {
        Err(Error::NothingSelected { .. }) => input::open(path, None, &Select::default())?,
        opened => opened?,
    };
    let (mut extents, mut kept) = (Vec::new(), Vec::<Extent>::with_capacity(limit));
    while kept.len() < limit {
        input.read(&mut extents)?;
        if extents.is_empty() {
            break;
        }
        kept.extend(extents.iter().filter(|extent| extent.kind != Kind::Free));
    }
    kept.truncate(limit);
    if input.format() != "trace" {
        let pages = kept.iter().flat_map(|extent| {
            let first = extent.offset / input::BLOCK;
            first..first + extent.len / input::BLOCK
        });
        let pages: Vec<u64> = pages.take(limit).collect();
        return Ok(Ops::of_pages(&ranked(&pages)));
    }
    Ok(of_extents(&kept))
}

/// The files of a recording with new numbers.
fn of_extents(extents: &[Extent]) -> Ops {
    let mut numbers = HashMap::new();
    let mut all = Ops::default();
    for extent in extents {
        let file = *numbers.entry(extent.file).or_insert_with(|| {
            all.files.push(0);
            all.files.len() - 1
        });
        all.files[file] = all.files[file].max(extent.offset + extent.len);
        for from in (0..extent.len).step_by(LONGEST) {
            let len = (extent.len - from).min(LONGEST as u64) as u32;
            let (offset, write) = (extent.offset + from, extent.kind != Kind::Read);
            all.ops.push(Op { file: file as u32, offset, len, write });
        }
    }
    all
}

fn ranked(pages: &[u64]) -> Vec<u64> {
    let mut known = pages.to_vec();
    known.sort_unstable();
    known.dedup();
    pages.iter().map(|page| known.binary_search(page).unwrap_or_default() as u64).collect()
}
