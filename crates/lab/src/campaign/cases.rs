//! The cases of a study: the combinations of its factors' levels, and the values that they set.

use poolwright_openzfs::property;

use super::{Case, ParameterPath, Study};

/// Returns every combination of levels that is not excluded; the last factor changes fastest.
pub fn cases(study: &Study) -> Vec<Case> {
    let mut all = vec![Case::new()];
    for factor in &study.factors {
        let with = |case: &Case| {
            let mut several = Vec::new();
            for level in &factor.levels {
                let mut case = case.clone();
                case.insert(factor.name.clone(), level.name.clone());
                several.push(case);
            }
            several
        };
        all = all.iter().flat_map(with).collect();
    }
    all.retain(|case| !study.exclude.iter().any(|excluded| matches(case, excluded)));
    all
}

/// Whether a case has all levels that `named` names.
pub fn matches(case: &Case, named: &Case) -> bool {
    named.iter().all(|(factor, level)| case.get(factor) == Some(level))
}

/// Returns all values that a case's levels set, in the factors' order.
pub fn settings<'a>(study: &'a Study, case: &Case) -> Vec<(&'a ParameterPath, String)> {
    let levels = study.factors.iter().filter_map(|f| {
        let level = case.get(&f.name)?;
        f.levels.iter().find(|l| l.name == *level)
    });
    levels.flat_map(|l| &l.set).map(|(location, value)| (location, value_text(value))).collect()
}

/// Returns a dataset's property in a case: set by a level, by the study, or OpenZFS's default.
pub fn property_value(study: &Study, case: &Case, role: &str, name: &str) -> String {
    let chosen = settings(study, case).into_iter().rev();
    let mut set = chosen.filter_map(|(location, value)| match location {
        ParameterPath::Dataset(r, p) if r == role && p == name => Some(value),
        _ => None,
    });
    set.next().unwrap_or_else(|| base_value(study, role, name))
}

/// Returns a dataset's property without the factors: set by the study, or OpenZFS's default.
pub fn base_value(study: &Study, role: &str, name: &str) -> String {
    let set = study.datasets.get(role).and_then(|settings| settings.get(name)).cloned();
    set.unwrap_or_else(|| property::find(name).map_or("default", |p| p.default).to_owned())
}

/// Formats a value of a campaign; text without its quotes.
pub fn value_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
