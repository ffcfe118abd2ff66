//! The datasets of a confirmation's pools: one for the database's directory, and one for each role whose files lie in a
//! directory below it that they do not share.

use std::path::{Path, PathBuf};

use crate::candidates::assignments;
use crate::plan::{EvidenceKind, Plan, Role};

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its name in the pool.
    pub name: String,
    /// Where it is mounted, below the database's directory; empty for the directory itself.
    pub place: PathBuf,
    /// Indices into the plan's roles; never empty, but for the directory's own dataset.
    pub roles: Vec<usize>,
    /// The role whose settings it gets, likewise.
    pub lead: Option<usize>,
}

/// All of them, that of the directory first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Parents before what is mounted in them.
    pub datasets: Vec<Dataset>,
    /// What of the plan cannot be tried in this layout, in words.
    pub warnings: Vec<String>,
}

/// Finds the datasets for a plan.
pub fn places(plan: &Plan) -> Places {
    let mut datasets =
        vec![Dataset { name: "db".into(), place: PathBuf::new(), roles: Vec::new(), lead: None }];
    for (index, role) in plan.roles.iter().enumerate() {
        let place = own_place(plan, role).unwrap_or_default();
        match datasets.iter_mut().find(|d| d.place == place) {
            Some(dataset) => dataset.roles.push(index),
            None => datasets.push(Dataset {
                name: format!("db{}", datasets.len()),
                place,
                roles: vec![index],
                lead: None,
            }),
        }
    }
    datasets.sort_by_key(|dataset| dataset.place.components().count());
    for dataset in &mut datasets {
        dataset.lead = lead(plan, dataset);
    }
    let warnings = datasets.iter().flat_map(|d| displaced(plan, d)).collect();
    Places { datasets, warnings }
}

/// Where below the database's directory a role can have a dataset of its own: where the plan mounts it, or the directory
/// that holds its files and no others.
fn own_place(plan: &Plan, role: &Role) -> Option<PathBuf> {
    let top = Path::new(&plan.subject.directory);
    let below = |path: &Path| path.strip_prefix(top).ok().map(Path::to_owned);
    if let Some(place) = below(Path::new(&role.place.mountpoint)) {
        return Some(place);
    }
    let path = Path::new(&role.path);
    let is_file = role.paths.as_slice() == [role.path.clone()] && role.files == 1;
    let dir = if is_file { path.parent()? } else { path };
    let alone = !plan
        .roles
        .iter()
        .any(|other| other.role != role.role && other.paths.iter().any(|p| Path::new(p).starts_with(dir)));
    below(dir).filter(|place| alone && role.place.separable && !place.as_os_str().is_empty())
}

/// The role that speaks for a dataset: one that the plan would mount there, and that was raced, goes before others.
fn lead(plan: &Plan, dataset: &Dataset) -> Option<usize> {
    let at = Path::new(&plan.subject.directory).join(&dataset.place);
    let raced = |role: &Role| role.evidence.iter().any(|e| e.kind == EvidenceKind::Trial);
    let rank = |index: &&usize| {
        let role = &plan.roles[**index];
        // `join` with an empty path ends with a separator, which comparing by components ignores.
        (Path::new(&role.place.mountpoint) != at, !raced(role))
    };
    dataset.roles.iter().min_by_key(rank).copied()
}

/// Recommendations that a dataset's lead does not share.
fn displaced(plan: &Plan, dataset: &Dataset) -> Vec<String> {
    let Some(lead) = dataset.lead.map(|i| &plan.roles[i]) else { return Vec::new() };
    let others = dataset.roles.iter().map(|i| &plan.roles[*i]);
    let differs = |role: &&Role| role.recommended != lead.recommended && !role.recommended.is_empty();
    let warning = |role: &Role| {
        format!(
            "{} for {} was not tried: its files lie beside those of {}, and get the settings of that dataset",
            assignments(&role.recommended),
            role.role,
            lead.role
        )
    };
    others.filter(differs).map(warning).collect()
}
