//! The cases of a study: the combinations of its factors' levels.

use super::{Case, Study};

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
