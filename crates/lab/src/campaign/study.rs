//! Checks one study: its factors, phases and claims.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value as Json;
use toml::{Spanned, Value};

use super::column::Columns;
use super::fault::{Result, fault};
use super::file::{
    CampaignFile, ChangeEntry, ClaimEntry, DecideEntry, FactorEntry, NamedLevel, PhaseEntries, StudyEntry,
};
use super::level::case;
use super::recommend::recommend;
use super::setting::{self, Roles, datasets, known_scale};
use super::value::{self, Checked, Figure, MAX_BLOCKS, OneOrMany, unknown};
use super::{Campaign, Case, Change, Claim, Decide, Factor, Level, ParameterPath, Phase, Study, Times};

/// Limit of cases in a study, including excluded ones: each one takes memory and runs once in each block. A short
/// file could otherwise describe more than fits into memory.
const MAX_CASES: usize = 10_000;

/// Checks a study. The measures, factors and phases of `file` apply to studies without their own. `stored`: undeclared
/// measures are permitted.
pub(super) fn study(
    at: &Spanned<StudyEntry>,
    file: &CampaignFile,
    campaign: &Campaign,
    stored: bool,
) -> Result<Study> {
    let mut study = outline(at, file, campaign)?;
    let columns = Columns { driver: &campaign.driver, stored };
    columns.add(at, file.measures.as_ref(), &mut study)?;
    let entry = at.get_ref();
    for factor in entry.factor.as_ref().or(file.factor.as_ref()).into_iter().flatten() {
        let factor = self::factor(factor, &study, campaign)?;
        study.factors.push(factor);
    }
    let cases = study.factors.iter().fold(1usize, |cases, factor| cases.saturating_mul(factor.levels.len()));
    if cases > MAX_CASES {
        return Err(fault(
            at,
            format!("the study's factors have {cases} combinations; the limit is {MAX_CASES}"),
        ));
    }
    study.exclude = entry.exclude.iter().map(|at| case(at, &study)).collect::<Result<_>>()?;
    if super::cases(&study).is_empty() {
        return Err(fault(at, "every case is excluded"));
    }
    for at in &entry.claim {
        let claim = claim(at, file.decide.as_ref(), &mut study, &columns)?;
        study.claims.push(claim);
    }
    for at in &entry.recommend {
        let recommend = recommend(at, &mut study, &columns)?;
        study.recommend.push(recommend);
    }
    Ok(study)
}

/// Returns a study without its measures and what refers to them.
fn outline(at: &Spanned<StudyEntry>, file: &CampaignFile, campaign: &Campaign) -> Result<Study> {
    let entry = at.get_ref();
    let lacks = |key: &str| fault(at, format!("missing field `{key}`, in the study or the campaign"));
    let roles = roles(at, campaign)?;
    let pool = entry.pool.over(&campaign.pool);
    let pools = setting::pools(file, &entry.pools, &pool)?;
    let mut pool_of = BTreeMap::new();
    for datasets in [&file.datasets, &entry.datasets] {
        setting::dataset_pools(datasets, &pools, &mut pool_of)?;
    }
    let phases = phases(entry.phase.as_ref().or(file.phase.as_ref()).ok_or_else(|| lacks("phase"))?, &roles)?;
    let scale = |(name, parameters): (&Spanned<String>, &value::DriverParameters)| {
        Ok((known_scale(name, &campaign.scale)?, parameters.0.clone()))
    };
    let mut space = campaign.space.clone();
    space.extend(setting::space(&entry.space, &campaign.scale)?);
    Ok(Study {
        name: entry.name.0.clone(),
        title: entry.title.0.clone(),
        driver: entry.driver.0.clone(),
        repeats: entry.repeats.0,
        parameters: entry.parameters.clone().map(|parameters| parameters.0).unwrap_or_default(),
        scale: entry.scale.iter().map(scale).collect::<Result<_>>()?,
        space,
        on_request: entry.on_request,
        scales: entry.scales.iter().map(|name| known_scale(name, &campaign.scale)).collect::<Result<_>>()?,
        pool,
        pools,
        pool_of,
        measures: Vec::new(),
        tables: Vec::new(),
        infos: Vec::new(),
        datasets: roles,
        factors: Vec::new(),
        exclude: Vec::new(),
        phases,
        claims: Vec::new(),
        recommend: Vec::new(),
    })
}

/// Returns a study's datasets. Those that it names are the campaign's, if the campaign has any.
fn roles(at: &Spanned<StudyEntry>, campaign: &Campaign) -> Result<Roles> {
    let entry = at.get_ref();
    let new = entry.datasets.keys().find(|role| !campaign.datasets.contains_key(role.get_ref()));
    if let Some(role) = new.filter(|_| !campaign.datasets.is_empty()) {
        return Err(fault(role, unknown("dataset", role.get_ref(), campaign.datasets.keys())));
    }
    let mut roles = campaign.datasets.clone();
    datasets(&entry.datasets, &mut roles)?;
    if roles.is_empty() {
        return Err(fault(at, "the study has no dataset: neither it nor the campaign has a table datasets"));
    }
    Ok(roles)
}

fn phases(entries: &PhaseEntries, roles: &Roles) -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = Vec::new();
    for at in entries.get_ref() {
        let entry = at.get_ref();
        if phases.iter().any(|phase| phase.name == entry.name.0) {
            return Err(fault(at, format!("duplicate phase {:?}", entry.name.0)));
        }
        phases.push(Phase {
            name: entry.name.0.clone(),
            title: entry.title.as_ref().map(|title| title.0.clone()),
            measure: entry.measure,
            cold: entry.cold,
            record: entry.record,
            limit_ns: entry.limit.as_ref().map_or_else(super::an_hour, |limit| limit.0),
            at: entry.at.iter().map(|at| change(at, roles)).collect::<Result<_>>()?,
        });
    }
    if !phases.iter().any(|phase| phase.measure) {
        return Err(fault(entries, "no phase is measured"));
    }
    Ok(phases)
}

fn change(at: &Spanned<ChangeEntry>, roles: &Roles) -> Result<Change> {
    let ChangeEntry { progress, seconds, set } = at.get_ref();
    if progress.is_some() == seconds.is_some() {
        return Err(fault(at, "a change has either progress (0 to 1) or seconds"));
    }
    let mut changes = BTreeMap::new();
    for (path, value) in setting::settings(set.get_ref(), roles).map_err(|why| fault(set, why))? {
        let (ParameterPath::Dataset(role, name), Json::String(value)) = (path, value) else {
            return Err(fault(
                set,
                "only a property of a dataset (ROLE.property) can be changed during a phase",
            ));
        };
        changes.insert(format!("{role}.{name}"), value);
    }
    if changes.is_empty() {
        return Err(fault(set, "the change sets no property"));
    }
    let (progress, seconds) = (progress.as_ref().map(|p| p.0), seconds.as_ref().map(|s| s.0));
    Ok(Change { progress, seconds, set: changes })
}

fn factor(entry: &FactorEntry, study: &Study, campaign: &Campaign) -> Result<Factor> {
    let mut factor = Factor { name: entry.name.get_ref().0.clone(), levels: Vec::new() };
    if study.factor(&factor.name).is_some() {
        return Err(fault(&entry.name, format!("duplicate factor {:?}", factor.name)));
    }
    let parse = |at: &Spanned<OneOrMany<String>>| {
        let paths = at.get_ref().as_slice().iter().map(|path| setting::parameter_path(path, &study.datasets));
        paths.collect::<Checked<Vec<_>>>().map_err(|why| fault(at, why))
    };
    let paths = entry.path.as_ref().map(parse).transpose()?.unwrap_or_default();
    for at in entry.levels.get_ref() {
        let level = level(at.get_ref(), &paths, study).map_err(|why| fault(at, why))?;
        for (path, value) in &level.set {
            fits(path, value, study, campaign).map_err(|why| fault(at, why))?;
        }
        if factor.levels.iter().any(|l| l.name == level.name) {
            return Err(fault(at, format!("duplicate level {:?}", level.name)));
        }
        factor.levels.push(level);
    }
    if factor.levels.is_empty() {
        return Err(fault(&entry.levels, format!("the factor {:?} has no level", factor.name)));
    }
    Ok(factor)
}

/// Checks a level: a table with a name and the values that it sets, or a value for the factor's paths.
fn level(value: &Value, paths: &[ParameterPath], study: &Study) -> Checked<Level> {
    if value.is_table() {
        let named = NamedLevel::deserialize(value.clone()).map_err(|error| error.message().to_owned())?;
        return Ok(Level { name: named.name.0, set: setting::settings(&named.set, &study.datasets)? });
    }
    if paths.is_empty() {
        return Err("a level that is a plain value requires the factor's path; without a path, write { name = …, set = { … } }".to_owned());
    }
    let set = |path: &ParameterPath| Ok((path.clone(), setting::setting_value(path, value)?));
    let set = paths.iter().map(set).collect::<Checked<_>>()?;
    let name = match value {
        Value::Array(list) => list.iter().map(value::spelled).collect::<Checked<Vec<_>>>()?.join(" "),
        _ => value::spelled(value)?,
    };
    Ok(Level { name, set })
}

/// Checks that the study has a dataset's pool, and that a driver's parameter has the same type as elsewhere in the file,
/// so that a mistake is found before the run.
fn fits(path: &ParameterPath, value: &Json, study: &Study, campaign: &Campaign) -> Checked<()> {
    let name = match path {
        ParameterPath::Workload(name) => name,
        ParameterPath::DatasetPool(_) => {
            return setting::check_pool(value.as_str().unwrap_or_default(), &study.pools);
        }
        _ => return Ok(()),
    };
    let mut all = study.scale.values().chain([&study.parameters]).chain(campaign.scale.values());
    match all.find_map(|parameters| parameters.get(name)) {
        Some(other) if std::mem::discriminant(other) != std::mem::discriminant(value) => {
            Err(format!("the parameter {name:?} is {other} elsewhere; {value} has another type"))
        }
        _ => Ok(()),
    }
}

/// The range of `about`: within a tenth.
const ABOUT: Times = Times { least: 0.9, most: Some(1.1) };

/// Checks a claim. `decide` applies if it has no rule of its own.
fn claim(
    at: &Spanned<ClaimEntry>,
    decide: Option<&DecideEntry>,
    study: &mut Study,
    columns: &Columns<'_>,
) -> Result<Claim> {
    let entry = at.get_ref();
    let [least, about] = [&entry.least, &entry.about].map(|bound| bound.as_ref().map(|bound| bound.0));
    if least.is_some() && (about.is_some() || entry.times.is_some()) {
        return Err(fault(at, "a claim with least has neither about nor times"));
    }
    let least = least.or(about);
    let than = match (&entry.than, least) {
        (Some(than), None) => case(than, study)?,
        (None, Some(_)) => Case::new(),
        _ => return Err(fault(at, "a claim has one of than, least and about")),
    };
    let report = |at: &Spanned<Vec<Figure>>| match (&at.get_ref()[..], least) {
        ([better, than], None) => Ok([better.0, than.0]),
        ([better], Some(least)) => Ok([better.0, least]),
        (_, None) => Err(fault(at, "expected two numbers: for the better case and for the other one")),
        (_, Some(_)) => Err(fault(at, "expected one number")),
    };
    let claim = Claim {
        text: entry.text.0.clone(),
        measure: columns.measure(&entry.measure, study)?,
        better: case(&entry.better, study)?,
        than,
        least,
        lower: entry.lower,
        times: entry.times.as_ref().map(|range| range.0).or(about.map(|_| ABOUT)),
        limit: entry.limit.as_ref().map(|bound| bound.0),
        than_first: entry.than_first,
        report: entry.report.as_ref().map(report).transpose()?,
        source: entry.source.as_ref().map_or_else(String::new, |source| source.0.clone()),
        decide: match &entry.decide {
            Some(own) => Some(decision(own, study)?),
            None => decide.map(|rule| Decide { most: rule.most.0.max(study.repeats), ..rule.into() }),
        },
    };
    let why = if least.is_some() && (claim.limit.is_some() || claim.than_first) {
        "limit and than_first require than"
    } else if about.is_some() && claim.times.is_some_and(|times| times.most.is_none()) {
        "about requires times with two numbers"
    } else if claim.times.is_some() && claim.limit.is_some() {
        "a claim has either times or limit"
    } else if least.is_none() && !claim.better.keys().eq(claim.than.keys()) {
        "better and than must name the same factors"
    } else if claim.better == claim.than {
        "better and than are the same case"
    } else {
        return Ok(claim);
    };
    Err(fault(at, why))
}

fn decision(at: &Spanned<DecideEntry>, study: &Study) -> Result<Decide> {
    let decide = Decide::from(at.get_ref());
    if decide.most < study.repeats {
        let (repeats, most) = (study.repeats, decide.most);
        let why = format!("most: expected a whole number from {repeats} to {MAX_BLOCKS}, not {most}");
        return Err(fault(at, why));
    }
    Ok(decide)
}

impl From<&DecideEntry> for Decide {
    fn from(entry: &DecideEntry) -> Decide {
        Decide { most: entry.most.0, equal: entry.equal.as_ref().map(|equal| equal.0) }
    }
}
