//! Checks the questions that the report answers first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use poolwright_plan::MetricName;
use poolwright_plan::metric::METRICS;
use poolwright_report::Better;
use poolwright_tune::{Goal, objective};
use toml::Spanned;

use super::column::Columns;
use super::fault::{Result, fault};
use super::file::RecommendEntry;
use super::level::{case, known_level, some};
use super::setting::property_name;
use super::value::{OneOrMany, Spelled, unknown};
use super::{Case, Criterion, Improvement, Recommend, Study, property_value};

/// Checks a question: what is chosen, by which goal, from which measures.
pub(super) fn recommend(
    at: &Spanned<RecommendEntry>,
    study: &mut Study,
    columns: &Columns<'_>,
) -> Result<Recommend> {
    let entry = at.get_ref();
    let (dataset, choices) = choices(at, study)?;
    let (goal, criteria) = match (&entry.goal, &entry.by) {
        (Some(_), _) => by_goal(at, study, columns)?,
        (None, Some(by)) if columns.stored => {
            let measure = columns.measure(by, study)?;
            // The work rate is better when higher.
            let criterion = Criterion { metric: MetricName::WorkRate, measure, inverse: !entry.higher };
            (Goal::Throughput.name().to_owned(), vec![criterion])
        }
        (None, by) => {
            let why = "a recommendation has a goal and metrics";
            return Err(by.as_ref().map_or_else(|| fault(at, why), |by| fault(by, why)));
        }
    };
    let levels = |(factor, at): (&Spanned<String>, &Spanned<OneOrMany<Spelled>>)| {
        let levels = at.get_ref().as_slice().iter();
        let levels =
            levels.map(|level| known_level(factor, at, level.0.clone(), study)).collect::<Result<_>>()?;
        Ok((factor.get_ref().clone(), levels))
    };
    let only = match &entry.only {
        Some(at) => some(at, at.get_ref().iter().map(levels).collect::<Result<_>>()?)?,
        None => Default::default(),
    };
    let default = || match &dataset {
        Some(dataset) => format!("{} of {dataset}", choices.join(" and ")),
        None => choices.join(" and "),
    };
    let recommend = Recommend {
        question: entry.question.as_ref().map_or_else(default, |question| question.0.clone()),
        dataset,
        choices,
        goal,
        criteria,
        only,
        original: entry.original.as_ref().map_or(Ok(Case::new()), |at| case(at, study))?,
    };
    // The report of an older run shows what that release showed.
    match same_choice(&recommend, study).filter(|_| !columns.stored) {
        Some((first, second)) => {
            let why = ambiguous(&recommend, &first, &second);
            Err(entry.only.as_ref().map_or_else(|| fault(at, why.clone()), |only| fault(only, why.clone())))
        }
        None => Ok(recommend),
    }
}

impl Recommend {
    /// Whether the question chooses among cases of which this is one.
    pub fn considers(&self, case: &Case) -> bool {
        self.only.iter().all(|(factor, levels)| case.get(factor).is_some_and(|level| levels.contains(level)))
    }

    /// Returns what the question chooses, in a case: property or factor → value.
    pub fn values(&self, study: &Study, case: &Case) -> Vec<(String, String)> {
        let value = |name: &String| match &self.dataset {
            Some(role) => property_value(study, case, role, name),
            None => case.get(name).cloned().unwrap_or_default(),
        };
        self.choices.iter().map(|name| (name.clone(), value(name))).collect()
    }
}

/// Returns two cases that a question cannot distinguish, because they differ only in factors that it does not choose.
fn same_choice(recommend: &Recommend, study: &Study) -> Option<(Case, Case)> {
    let mut seen: BTreeMap<Vec<(String, String)>, Case> = BTreeMap::new();
    for case in super::cases(study).into_iter().filter(|case| recommend.considers(case)) {
        match seen.entry(recommend.values(study, &case)) {
            Entry::Vacant(new) => _ = new.insert(case),
            Entry::Occupied(other) => return Some((other.get().clone(), case)),
        }
    }
    None
}

fn ambiguous(recommend: &Recommend, first: &Case, second: &Case) -> String {
    let differs = first.iter().filter(|(factor, level)| second.get(*factor) != Some(level));
    let levels: Vec<String> =
        differs.map(|(factor, level)| format!("{factor} {level:?} and {:?}", second[factor])).collect();
    format!(
        "the cases with {} have the same {}, so that the answer would mix them; select one with `only`",
        levels.join(", "),
        recommend.choices.join(" and ")
    )
}

/// Returns the dataset and its properties, or factors alone.
fn choices(at: &Spanned<RecommendEntry>, study: &Study) -> Result<(Option<String>, Vec<String>)> {
    let entry = at.get_ref();
    let (named, names) = match (&entry.dataset, &entry.properties, &entry.factors) {
        (Some(dataset), Some(properties), None) => {
            let role = dataset.get_ref();
            if !study.datasets.contains_key(role) {
                return Err(fault(dataset, unknown("dataset", role, study.datasets.keys())));
            }
            let property = |at: &Spanned<String>| property_name(at.get_ref()).map_err(|why| fault(at, why));
            let names = properties.get_ref().iter().map(property).collect::<Result<Vec<_>>>()?;
            ((Some(role.clone()), properties), names)
        }
        (None, None, Some(factors)) => {
            let factor = |at: &Spanned<String>| match study.factor(at.get_ref()) {
                Some(factor) => Ok(factor.name.clone()),
                None => {
                    Err(fault(at, unknown("factor", at.get_ref(), study.factors.iter().map(|f| &f.name))))
                }
            };
            ((None, factors), factors.get_ref().iter().map(factor).collect::<Result<Vec<_>>>()?)
        }
        _ => {
            return Err(fault(at, "a recommendation has either a dataset with properties, or factors"));
        }
    };
    if names.is_empty() {
        return Err(fault(named.1, "nothing to choose is named"));
    }
    Ok((named.0, names))
}

/// Returns the goal, and the measures that stand for its metrics.
fn by_goal(
    at: &Spanned<RecommendEntry>,
    study: &mut Study,
    columns: &Columns<'_>,
) -> Result<(String, Vec<Criterion>)> {
    let entry = at.get_ref();
    let (Some(named), Some(metrics), None) = (&entry.goal, &entry.metrics, &entry.by) else {
        return Err(fault(at, "a recommendation has a goal and metrics, and not by"));
    };
    let Some(goal) = Goal::parse(named.get_ref()) else {
        let known = objective::GOALS.iter().map(|row| row.name);
        return Err(fault(named, unknown("goal", named.get_ref(), known)));
    };
    let mut criteria = Vec::new();
    for (name, measure) in metrics.get_ref() {
        let Some(metric) = MetricName::from(name.get_ref().as_str()).row() else {
            let known = METRICS.iter().map(|metric| metric.name.name());
            return Err(fault(name, unknown("metric", name.get_ref(), known)));
        };
        let whole = columns.measure(measure, study)?;
        let Some(direction) = study.info(&whole).better else {
            let why = format!("{whole:?} has no direction: neither a lower nor a higher value is better");
            return Err(fault(measure, why));
        };
        let higher = (metric.better == Better::Higher, direction == Improvement::Higher);
        criteria.push(Criterion {
            metric: metric.name.clone(),
            measure: whole,
            inverse: higher.0 != higher.1,
        });
    }
    // As the table of metrics is ordered: space, work rate … CPU.
    let rank = |c: &Criterion| METRICS.iter().position(|metric| metric.name == c.metric);
    criteria.sort_by_key(rank);
    let weighed = |c: &Criterion| goal.weights().iter().any(|(name, _)| *name == c.metric);
    if !criteria.iter().any(weighed) {
        let wanted: Vec<&str> = goal.weights().iter().map(|(name, _)| name.name()).collect();
        let why = format!("no metric of the goal {:?} is named: {}", goal.name(), wanted.join(", "));
        return Err(fault(metrics, why));
    }
    Ok((goal.name().to_owned(), criteria))
}
