//! The datasets of a confirmation's pools: one for the database's directory, and one for each role whose files have a directory
//! below it to themselves.

use std::path::{Path, PathBuf};

use poolwright_plan::{EvidenceKind, Plan, RolePlan};
use poolwright_tune::candidates::assignments;

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its name in the pool.
    pub name: String,
    /// Its mount point relative to the database's directory; empty for the directory itself.
    pub path: PathBuf,
    /// Indices of its roles in the plan. Only the dataset of the database's directory can have none.
    pub roles: Vec<usize>,
    /// The index of the role whose settings it gets; `None` if it has no roles.
    pub lead: Option<usize>,
}

/// The datasets of each pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLayout {
    /// The datasets, that of the database's directory first. A dataset comes after the one in which it is mounted.
    pub datasets: Vec<Dataset>,
    /// The parts of the plan that cannot be tried with these datasets, as sentences.
    pub warnings: Vec<String>,
}

/// Determines the datasets for a plan.
pub fn dataset_layout(plan: &Plan) -> DatasetLayout {
    let mut datasets =
        vec![Dataset { name: "db".into(), path: PathBuf::new(), roles: Vec::new(), lead: None }];
    for (index, role) in plan.roles.iter().enumerate() {
        let path = own_path(plan, role).unwrap_or_default();
        match datasets.iter_mut().find(|d| d.path == path) {
            Some(dataset) => dataset.roles.push(index),
            None => datasets.push(Dataset {
                name: format!("db{}", datasets.len()),
                path,
                roles: vec![index],
                lead: None,
            }),
        }
    }
    datasets.sort_by_key(|dataset| dataset.path.components().count());
    for dataset in &mut datasets {
        dataset.lead = lead(plan, dataset);
    }
    let warnings = datasets.iter().flat_map(|d| not_tried(plan, d)).collect();
    DatasetLayout { datasets, warnings }
}

/// The path, relative to the database's directory, of a role's own dataset: the plan's mount point, or the directory that
/// contains its files and no others. Returns `None` if the role cannot have its own dataset.
fn own_path(plan: &Plan, role: &RolePlan) -> Option<PathBuf> {
    let top = Path::new(&plan.subject.directory);
    let below = |path: &Path| path.strip_prefix(top).ok().map(Path::to_owned);
    if let Some(path) = below(Path::new(&role.location.mountpoint)) {
        return Some(path);
    }
    let path = Path::new(&role.path);
    let is_file = role.paths.as_slice() == [role.path.clone()] && role.files == 1;
    let dir = if is_file { path.parent()? } else { path };
    let alone = !plan
        .roles
        .iter()
        .any(|other| other.role != role.role && other.paths.iter().any(|p| Path::new(p).starts_with(dir)));
    below(dir).filter(|path| alone && role.location.separable && !path.as_os_str().is_empty())
}

/// The role whose settings a dataset gets. Prefers a role that the plan mounts at the dataset's path, then a role that was
/// raced.
fn lead(plan: &Plan, dataset: &Dataset) -> Option<usize> {
    let at = Path::new(&plan.subject.directory).join(&dataset.path);
    let raced = |role: &RolePlan| role.evidence.iter().any(|e| e.kind == EvidenceKind::Trial);
    let rank = |index: &&usize| {
        let role = &plan.roles[**index];
        // `join` with an empty path appends a separator, which the comparison of paths ignores.
        (Path::new(&role.location.mountpoint) != at, !raced(role))
    };
    dataset.roles.iter().min_by_key(rank).copied()
}

/// Warnings about recommendations that the dataset's lead role does not share.
fn not_tried(plan: &Plan, dataset: &Dataset) -> Vec<String> {
    let Some(lead) = dataset.lead.map(|i| &plan.roles[i]) else { return Vec::new() };
    let others = dataset.roles.iter().map(|i| &plan.roles[*i]);
    let differs = |role: &&RolePlan| role.recommended != lead.recommended && !role.recommended.is_empty();
    let warning = |role: &RolePlan| {
        format!(
            "{} for {} was not tried: its files share a directory with those of {}, and get the settings of that dataset",
            assignments(&role.recommended),
            role.role,
            lead.role
        )
    };
    others.filter(differs).map(warning).collect()
}
