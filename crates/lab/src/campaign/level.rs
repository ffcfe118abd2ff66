//! Checks cases: levels of factors by name.

use std::collections::BTreeMap;

use toml::{Spanned, Value};

use super::fault::{Result, fault};
use super::file::CaseEntries;
use super::value::{self, unknown};
use super::{Case, Study};

/// Checks a case: factor → level, by name.
pub(super) fn case(at: &Spanned<CaseEntries>, study: &Study) -> Result<Case> {
    let level = |(factor, value): (&Spanned<String>, &Spanned<Value>)| {
        let level = value::spelled(value.get_ref()).map_err(|why| fault(value, why))?;
        Ok((factor.get_ref().clone(), known_level(factor, value, level, study)?))
    };
    some(at, at.get_ref().iter().map(level).collect::<Result<_>>()?)
}

pub(super) fn some<T, C>(at: &Spanned<T>, cases: BTreeMap<String, C>) -> Result<BTreeMap<String, C>> {
    if cases.is_empty() { Err(fault(at, "no factor is named")) } else { Ok(cases) }
}

/// Returns a level if its factor has it.
pub(super) fn known_level<T>(
    name: &Spanned<String>,
    at: &Spanned<T>,
    level: String,
    study: &Study,
) -> Result<String> {
    let Some(factor) = study.factor(name.get_ref()) else {
        let known = study.factors.iter().map(|f| &f.name);
        return Err(fault(name, unknown("factor", name.get_ref(), known)));
    };
    if factor.levels.iter().any(|l| l.name == level) {
        return Ok(level);
    }
    let why = unknown("level", &level, factor.levels.iter().map(|l| &l.name));
    Err(fault(at, format!("{:?}: {why}", factor.name)))
}
