//! Parses one study: its factors, phases, claims and recommendations.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;
use serde_json::Value as Json;

use super::entry::{dataset, known_scale};
use super::text::{Fields, Node};
use super::values::{self, unknown_role};
use super::{
    Campaign, Case, Change, Claim, Factor, Level, ParameterPath, Parameters, Phase, Recommend, Stop, Study,
    Times,
};
use crate::Result;

const MOST_BLOCKS: u32 = 1000;
/// Limit of cases in a study, including excluded ones: each one takes memory and runs once in each block.
const MOST_CASES: usize = 10_000;

/// Parses a study. `shared` is the file's top level, whose measures, factors and phases apply to studies without
/// their own.
pub(super) fn study<'a>(node: &Node<'a>, campaign: &Campaign, shared: &Fields<'a>) -> Result<Study> {
    let fields = node.fields("a study")?;
    let name = fields.need("name")?.word()?;
    let repeats = fields.get("repeats").map_or(Ok(3), |n| n.whole(1..=MOST_BLOCKS))?;
    let mut study = Study {
        title: fields.need("title")?.line()?,
        driver: fields.need("driver")?.word()?,
        stop: fields.get("stop").map(|n| stop(&n, repeats)).transpose()?,
        repeats,
        parameters: fields.get("parameters").map_or(Ok(Parameters::new()), |n| n.object())?,
        scale: BTreeMap::new(),
        scales: Vec::new(),
        datasets: campaign.datasets.clone(),
        pool: campaign.pool.clone(),
        measures: Vec::new(),
        factors: Vec::new(),
        exclude: Vec::new(),
        phases: Vec::new(),
        claims: Vec::new(),
        recommend: Vec::new(),
        name,
    };
    if let Some(node) = fields.get("scale") {
        for entry in node.entries()? {
            known_scale(&entry, entry.key(), &campaign.scale)?;
            study.scale.insert(entry.key().to_owned(), entry.object()?);
        }
    }
    if let Some(node) = fields.get("scales") {
        for scale in node.list()? {
            known_scale(&scale, &scale.text()?, &campaign.scale)?;
            study.scales.push(scale.text()?);
        }
    }
    if let Some(node) = fields.get("datasets") {
        datasets(&node, &mut study, campaign)?;
    }
    if study.datasets.is_empty() {
        return Err(node.error(format!(
            "study {:?} has no dataset; add [datasets.data] or datasets of the study",
            study.name
        )));
    }
    if let Some(node) = fields.get("pool") {
        study.pool = values::pool(node.fields("the pool")?, &study.pool)?;
    }
    study.phases = phases(&fields.need_or_shared(shared, "phase")?, &study.datasets)?;
    study.measures = measures(&fields.need_or_shared(shared, "measures")?, &study)?;
    let factors = fields.get_or_shared(shared, "factor").map_or(Ok(Vec::new()), |node| node.list())?;
    for node in factors {
        let factor = factor(&node, &study, campaign)?;
        study.factors.push(factor);
    }
    check_cases(node, &study)?;
    for node in fields.tables("exclude")? {
        let case = case(&node, &study)?;
        study.exclude.push(case);
    }
    if super::cases(&study).is_empty() {
        return Err(node.error(format!("study {:?}: every case is excluded", study.name)));
    }
    for node in fields.tables("claim")? {
        let claim = claim(&node, &study)?;
        study.claims.push(claim);
    }
    for node in fields.tables("recommend")? {
        let line = recommend(&node, &study)?;
        study.recommend.push(line);
    }
    fields.end()?;
    Ok(study)
}

/// Cases are the product of all factors' levels, so a short file could otherwise describe more than fits into
/// memory.
fn check_cases(node: &Node<'_>, study: &Study) -> Result<()> {
    let cases = study.factors.iter().fold(1usize, |cases, factor| cases.saturating_mul(factor.levels.len()));
    if cases <= MOST_CASES {
        return Ok(());
    }
    let why =
        format!("study {:?}: its factors have {cases} combinations; the limit is {MOST_CASES}", study.name);
    Err(node.error(why))
}

fn stop(node: &Node<'_>, repeats: u32) -> Result<Stop> {
    let fields = node.fields("stop")?;
    let stop = Stop {
        interval: fields.need("interval")?.number_in(0.001, 1.0)?,
        most: fields.need("most")?.whole(repeats..=MOST_BLOCKS)?,
    };
    fields.end()?;
    Ok(stop)
}

/// Parses a study's datasets: only those of the campaign, if it names any; otherwise any.
fn datasets(node: &Node<'_>, study: &mut Study, campaign: &Campaign) -> Result<()> {
    for entry in node.entries()? {
        if !campaign.datasets.is_empty() && !campaign.datasets.contains_key(entry.key()) {
            return Err(unknown_role(&entry, entry.key(), &campaign.datasets));
        }
        dataset(&entry, &mut study.datasets)?;
    }
    Ok(())
}

fn phases(list: &Node<'_>, datasets: &BTreeMap<String, Settings>) -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = Vec::new();
    for node in list.list()? {
        let phase = phase(&node, datasets)?;
        if phases.iter().any(|p| p.name == phase.name) {
            return Err(node.error(format!("duplicate phase {:?}", phase.name)));
        }
        phases.push(phase);
    }
    if !phases.iter().any(|p| p.measure) {
        return Err(list.error("no phase is measured"));
    }
    Ok(phases)
}

fn phase(node: &Node<'_>, datasets: &BTreeMap<String, Settings>) -> Result<Phase> {
    let fields = node.fields("a phase")?;
    let flag = |key, default| fields.get(key).map_or(Ok(default), |n| n.flag());
    let phase = Phase {
        name: fields.need("name")?.word()?,
        measure: flag("measure", true)?,
        cold: flag("cold", false)?,
        record: flag("record", false)?,
        limit_ns: fields.get("limit").map_or(Ok(super::an_hour()), |n| values::time_ns(&n))?,
        at: fields.tables("at")?.iter().map(|n| change(n, datasets)).collect::<Result<_>>()?,
    };
    fields.end()?;
    Ok(phase)
}

fn change(node: &Node<'_>, datasets: &BTreeMap<String, Settings>) -> Result<Change> {
    let fields = node.fields("a change")?;
    let progress = fields.get("progress").map(|n| n.number_in(0.0, 1.0)).transpose()?;
    let seconds = fields.get("seconds").map(|n| n.number_in(0.0, 1e6)).transpose()?;
    if progress.is_some() == seconds.is_some() {
        return Err(node.error("a change has either progress (0 to 1) or seconds"));
    }
    let set = fields.need("set")?;
    let mut changes = BTreeMap::new();
    for (place, value) in places(&set, datasets)? {
        let ParameterPath::Dataset(role, name) = &place else {
            return Err(
                value.error("only a property of a dataset (ROLE.property) can be changed during a phase")
            );
        };
        let (_, value) = values::property(&value, name)?;
        changes.insert(format!("{role}.{name}"), value);
    }
    if changes.is_empty() {
        return Err(set.error("the change sets no property"));
    }
    fields.end()?;
    Ok(Change { progress, seconds, set: changes })
}

fn measures(node: &Node<'_>, study: &Study) -> Result<Vec<String>> {
    let names = node.list()?;
    let mut measures: Vec<String> = Vec::new();
    for name in &names {
        let measure = values::measure(name, &study.phases, &study.datasets)?;
        if measures.contains(&measure) {
            return Err(name.error(format!("duplicate measure {measure:?}")));
        }
        measures.push(measure);
    }
    if measures.is_empty() {
        Err(node.error("no measure is named; at least the leading measure is required"))
    } else {
        Ok(measures)
    }
}

fn factor(node: &Node<'_>, study: &Study, campaign: &Campaign) -> Result<Factor> {
    let fields = node.fields("a factor")?;
    let name = fields.need("name")?;
    let mut factor = Factor { name: name.line()?, levels: Vec::new() };
    if study.factor(&factor.name).is_some() {
        return Err(name.error(format!("duplicate factor {:?}", factor.name)));
    }
    let paths = match fields.get("path") {
        None => Vec::new(),
        Some(node) if node.text().is_ok() => vec![place(&node, &node.text()?, &study.datasets)?],
        Some(node) => {
            node.list()?.iter().map(|n| place(n, &n.text()?, &study.datasets)).collect::<Result<_>>()?
        }
    };
    let levels = fields.need("levels")?;
    for node in levels.list()? {
        let level = if node.is_table() { named(&node, &study.datasets)? } else { plain(&node, &paths)? };
        for (place, value) in &level.set {
            same_type(&node, place, value, study, campaign)?;
        }
        if factor.levels.iter().any(|l| l.name == level.name) {
            return Err(node.error(format!("duplicate level {:?}", level.name)));
        }
        factor.levels.push(level);
    }
    if factor.levels.is_empty() {
        return Err(levels.error(format!("the factor {:?} has no level", factor.name)));
    }
    fields.end()?;
    Ok(factor)
}

/// Parses a level that is a value for the factor's path.
fn plain(node: &Node<'_>, paths: &[ParameterPath]) -> Result<Level> {
    if paths.is_empty() {
        return Err(node
            .error("a level that is a plain value requires the factor's path; without a path, write { name = …, set = { … } }"));
    }
    let set =
        paths.iter().map(|p| Ok((p.clone(), values::setting_value(p, node)?))).collect::<Result<_>>()?;
    let name = match node.list() {
        Ok(list) => list.iter().map(Node::spelled).collect::<Result<Vec<_>>>()?.join(" "),
        Err(_) => node.spelled()?,
    };
    Ok(Level { name, set })
}

/// Parses a level with a name and the values that it sets.
fn named(node: &Node<'_>, datasets: &BTreeMap<String, Settings>) -> Result<Level> {
    let fields = node.fields("a level")?;
    let name = fields.need("name")?.line()?;
    let mut set = Vec::new();
    for (place, value) in places(&fields.need("set")?, datasets)? {
        let value = values::setting_value(&place, &value)?;
        set.push((place, value));
    }
    fields.end()?;
    Ok(Level { name, set })
}

/// Parses the values that a table sets: `"ldif.recordsize" = …`, or `ldif.recordsize = …`, which TOML parses as a
/// nested table.
fn places<'a>(
    node: &Node<'a>,
    datasets: &BTreeMap<String, Settings>,
) -> Result<Vec<(ParameterPath, Node<'a>)>> {
    let mut found = Vec::new();
    for entry in node.entries()? {
        if entry.key().contains('.') || !entry.is_table() {
            found.push((place(&entry, entry.key(), datasets)?, entry));
            continue;
        }
        for inner in entry.entries()? {
            let path = format!("{}.{}", entry.key(), inner.key());
            if path == "pool.tunables" {
                for tunable in inner.entries()? {
                    found.push((ParameterPath::Tunable(tunable.key().to_owned()), tunable));
                }
            } else {
                found.push((place(&inner, &path, datasets)?, inner));
            }
        }
    }
    Ok(found)
}

fn place(node: &Node<'_>, path: &str, datasets: &BTreeMap<String, Settings>) -> Result<ParameterPath> {
    let keys = values::POOL_KEYS.join(", ");
    match path.split_once('.') {
        Some(("workload", parameter)) if !parameter.is_empty() => {
            Ok(ParameterPath::Workload(parameter.to_owned()))
        }
        Some(("pool", key)) => match key.strip_prefix("tunables.") {
            Some(name) if !name.is_empty() => Ok(ParameterPath::Tunable(name.to_owned())),
            _ if values::POOL_KEYS.contains(&key) => Ok(ParameterPath::Pool(key.to_owned())),
            _ => Err(node.error(format!("unknown key {key:?} of the pool; expected one of {keys}, tunables.NAME"))),
        },
        Some((role, name)) if datasets.contains_key(role) => {
            let known = poolwright_openzfs::property::find(name).map_err(|e| node.error(e.to_string()))?;
            Ok(ParameterPath::Dataset(role.to_owned(), known.name.to_owned()))
        }
        Some((role, _)) => Err(unknown_role(node, role, datasets)),
        None => Err(node.error(format!(
            "invalid path {path:?}; expected ROLE.property, pool.KEY, pool.tunables.NAME or workload.PARAMETER"
        ))),
    }
}

/// Checks that a driver's parameter has the same type as elsewhere in the file, so that a mistake is found before
/// the run.
fn same_type(
    node: &Node<'_>,
    place: &ParameterPath,
    value: &Json,
    study: &Study,
    campaign: &Campaign,
) -> Result<()> {
    let ParameterPath::Workload(name) = place else { return Ok(()) };
    let all = study.scale.values().chain([&study.parameters]).chain(campaign.scale.values());
    let Some(before) = all.filter_map(|p| p.get(name)).next() else { return Ok(()) };
    if std::mem::discriminant(before) == std::mem::discriminant(value) {
        return Ok(());
    }
    Err(node.error(format!("the parameter {name:?} is {before} elsewhere; {value} has another type")))
}

/// Parses a case: factor → level, by name.
fn case(node: &Node<'_>, study: &Study) -> Result<Case> {
    let entries = node.entries()?;
    let level = |entry: &Node<'_>| Ok((entry.key().to_owned(), level(entry, entry, study)?));
    some(node, entries.iter().map(level).collect::<Result<_>>()?)
}

/// Parses factor → one level or a list of levels.
fn cases(node: &Node<'_>, study: &Study) -> Result<BTreeMap<String, Vec<String>>> {
    let levels = |entry: &Node<'_>| {
        let levels: Result<_> = match entry.list() {
            Ok(list) => list.iter().map(|one| level(entry, one, study)).collect(),
            Err(_) => level(entry, entry, study).map(|one| vec![one]),
        };
        Ok((entry.key().to_owned(), levels?))
    };
    some(node, node.entries()?.iter().map(levels).collect::<Result<_>>()?)
}

fn some<T>(node: &Node<'_>, case: BTreeMap<String, T>) -> Result<BTreeMap<String, T>> {
    if case.is_empty() { Err(node.error("no factor is named")) } else { Ok(case) }
}

/// Parses a level's name; the key of `entry` names the factor.
fn level(entry: &Node<'_>, value: &Node<'_>, study: &Study) -> Result<String> {
    let Some(factor) = study.factor(entry.key()) else {
        let known: Vec<_> = study.factors.iter().map(|f| f.name.as_str()).collect();
        let known = known.join(", ");
        return Err(entry.error(format!("unknown factor {:?}; expected one of {known}", entry.key())));
    };
    let level = value.spelled()?;
    if !factor.levels.iter().any(|l| l.name == level) {
        let known: Vec<_> = factor.levels.iter().map(|l| l.name.as_str()).collect();
        let (factor, known) = (&factor.name, known.join(", "));
        return Err(value.error(format!("{factor:?} has no level {level:?}; expected one of {known}")));
    }
    Ok(level)
}

fn claim(node: &Node<'_>, study: &Study) -> Result<Claim> {
    let fields = node.fields("a claim")?;
    let least = fields.get("least").map(|n| n.number_in(f64::MIN_POSITIVE, 1e18)).transpose()?;
    let than = match least {
        None => case(&fields.need("than")?, study)?,
        Some(_) if fields.get("than").is_some() => return Err(node.error("a claim has either than or least")),
        Some(_) => Case::new(),
    };
    let report = |node: Node<'_>| match (node.list()?.as_slice(), least) {
        ([better, than], None) => Ok([better.number()?, than.number()?]),
        ([better], Some(least)) => Ok([better.number()?, least]),
        (_, None) => Err(node.wrong("two numbers: for the better case and for the other one")),
        (_, Some(_)) => Err(node.wrong("one number")),
    };
    let claim = Claim {
        text: fields.need("text")?.line()?,
        measure: values::measure(&fields.need("measure")?, &study.phases, &study.datasets)?,
        better: case(&fields.need("better")?, study)?,
        than,
        least,
        lower: fields.get("lower").map_or(Ok(false), |n| n.flag())?,
        times: fields.get("times").map(|n| times(&n)).transpose()?,
        limit: fields.get("limit").map(|n| n.number_in(f64::MIN_POSITIVE, 1e18)).transpose()?,
        than_first: fields.get("than_first").map_or(Ok(false), |n| n.flag())?,
        report: fields.get("report").map(report).transpose()?,
    };
    if least.is_some() && (claim.times.is_some() || claim.limit.is_some() || claim.than_first) {
        return Err(node.error("times, limit and than_first require than, not least"));
    }
    if claim.times.is_some() && claim.limit.is_some() {
        return Err(node.error("a claim has either times or limit"));
    }
    if least.is_none() && !claim.better.keys().eq(claim.than.keys()) {
        return Err(node.error("better and than must name the same factors"));
    }
    if claim.better == claim.than {
        return Err(node.error("better and than are the same case"));
    }
    fields.end()?;
    Ok(claim)
}

/// Parses `2`, or `[0.9, 1.1]`.
fn times(node: &Node<'_>) -> Result<Times> {
    let Ok(both) = node.list() else {
        return Ok(Times { least: node.number_in(1e-6, 1e6)?, most: None });
    };
    match both.as_slice() {
        [least, most] => {
            let least = least.number_in(1e-6, 1e6)?;
            Ok(Times { least, most: Some(most.number_in(least, 1e6)?) })
        }
        _ => Err(node.wrong("a number, or two: the smallest and the largest")),
    }
}

fn recommend(node: &Node<'_>, study: &Study) -> Result<Recommend> {
    let fields = node.fields("a recommendation")?;
    let dataset = fields.need("dataset")?;
    let role = dataset.text()?;
    if !study.datasets.contains_key(&role) {
        return Err(unknown_role(&dataset, &role, &study.datasets));
    }
    let properties = fields.need("properties")?;
    let name = |n: &Node<'_>| {
        let known = poolwright_openzfs::property::find(&n.text()?).map_err(|e| n.error(e.to_string()))?;
        Ok(known.name.to_owned())
    };
    let recommend = Recommend {
        dataset: role,
        by: values::measure(&fields.need("by")?, &study.phases, &study.datasets)?,
        higher: fields.get("higher").map_or(Ok(false), |n| n.flag())?,
        properties: properties.list()?.iter().map(name).collect::<Result<_>>()?,
        only: fields.get("only").map_or(Ok(BTreeMap::new()), |n| cases(&n, study))?,
    };
    if recommend.properties.is_empty() {
        return Err(properties.error("no property is named"));
    }
    fields.end()?;
    Ok(recommend)
}
