//! Campaigns: the checked content of `campaigns/NAME.toml`, whose format `docs/lab.md` describes.

mod cases;
mod check;
mod column;
mod fault;
mod file;
mod level;
mod measure;
mod recommend;
mod setting;
mod study;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_base::cannot;
use poolwright_openzfs::property::Settings;
use poolwright_plan::MetricName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use cases::{base_value, property_value, settings, value_text};
pub use cases::{cases, matches};
pub(crate) use measure::is_of_the_lab;
pub use measure::{DriverFigure, DriverMeasures, Improvement, MEASURES, MeasureInfo};
pub use value::SnapshotRule;

use crate::{Assets, Error, Result};

/// Parameters of a workload by name; the driver interprets them.
pub type Parameters = serde_json::Map<String, serde_json::Value>;

/// A case: factor → level, by name. Claims and exclusions name only the factors that matter.
pub type Case = BTreeMap<String, String>;

/// The name of a campaign's `[pool]`, which holds every dataset that names no other one.
pub const MAIN_POOL: &str = "pool";

/// The default scale of a run.
pub const SMALL: &str = "small";

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Campaign {
    /// Name of the campaign and of its file.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// The question of the campaign.
    pub about: String,
    /// Where and when the original was published.
    pub source: String,
    /// Required Debian packages.
    pub needs: Vec<String>,
    /// Parameters by scale; [`SMALL`] always exists.
    pub scale: BTreeMap<String, Parameters>,
    /// Bytes that a trial needs in the scratch directory, by scale, unless its study states others.
    pub space: BTreeMap<String, u64>,
    /// The default pool of the studies.
    pub pool: PoolSpec,
    /// Role → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// The figures and kinds of calls that the drivers report.
    #[serde(flatten)]
    pub driver: DriverMeasures,
    /// The studies, in the file's order.
    pub studies: Vec<Study>,
}

/// The name of the campaign in a file.
pub fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Campaign {
    /// Reads and checks a file, whose name must be that of the campaign. Also returns its text.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or as [`Campaign::parse`].
    pub fn load(path: &Path) -> Result<(Campaign, String)> {
        let text = std::fs::read_to_string(path).map_err(cannot("read", path))?;
        let campaign = Campaign::parse(path, &text)?;
        Ok((campaign, text))
    }

    /// Reads and checks a campaign, which is named by its file (with a `/` or the suffix `.toml`) or is a shipped one. Also
    /// returns its text.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such shipped campaign; otherwise as [`Campaign::load`].
    pub fn find(assets: &Assets, named: &str) -> Result<(Campaign, String)> {
        if named.contains('/') || named.ends_with(".toml") {
            return Campaign::load(Path::new(named));
        }
        let path = assets.campaigns().join(format!("{named}.toml"));
        if path.exists() {
            return Campaign::load(&path);
        }
        let known: Vec<String> = assets.campaign_files().iter().map(|path| name_of(path)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Error::Usage(format!(
            "no campaign {named:?} in {}: the campaigns are {known}\nhint: to run another one, name its .toml file",
            poolwright_base::quoted(&assets.campaigns())
        )))
    }

    /// Parses and checks a text; `path` is used in messages.
    ///
    /// # Errors
    /// Returns [`Error::Campaign`] with the line and the column of the first invalid entry.
    pub fn parse(path: &Path, text: &str) -> Result<Campaign> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        check::campaign(&stem, text, false).map_err(|fault| fault.in_file(path, text))
    }

    /// Parses the text of an earlier run, which may be older than the table of measures: a measure that it does not declare
    /// keeps its name as its title, and `by` decides alone.
    ///
    /// # Errors
    /// As [`Campaign::parse`].
    pub fn parse_stored(path: &Path, text: &str) -> Result<Campaign> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        check::campaign(&stem, text, true).map_err(|fault| fault.in_file(path, text))
    }

    /// Returns the study of this name.
    pub fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|s| s.name == name)
    }
}

/// A pool of the engine in user space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSpec {
    /// Arguments of `pool create` after the pool's name (`mirror`, `cache`, `d0:64G`); the files are created in
    /// the trial's scratch directory.
    pub vdevs: Vec<String>,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// ARC limit in the spelling of `mount --arc`.
    pub arc: String,
    /// The emulated device in the spelling of `mount --device`.
    pub device: String,
    /// What the kernel may cache: `through`, `pages`, `writeback`.
    pub caching: String,
    /// Limit for the memory of the database, of the engine and of the page cache that they fill together: a size, or `none`.
    pub memory: String,
    /// The snapshots that are taken in measured phases, as [`SnapshotRule`] parses them: `none`, `2s`, `2s,keep=5`.
    pub snapshots: String,
    /// Module parameters of the engine: name → value, as in `zfs_prefetch_disable` → `1`.
    pub tunables: BTreeMap<String, String>,
}

impl Default for PoolSpec {
    fn default() -> PoolSpec {
        PoolSpec {
            vdevs: vec!["d0:200G".into()],
            ashift: 12,
            arc: "512M".into(),
            device: "none".into(),
            caching: "through".into(),
            memory: "none".into(),
            snapshots: "none".into(),
            tunables: BTreeMap::new(),
        }
    }
}

/// A study: one question, whose results are one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// Name, unique in the campaign.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Name of the driver's program in `workloads/lab`.
    pub driver: String,
    /// Number of blocks: how often every case is run.
    pub repeats: u32,
    /// Scales at which the study runs; an empty list means all.
    pub scales: Vec<String>,
    /// Bytes that a trial needs in the scratch directory, by scale; see [`Study::space`].
    pub space: BTreeMap<String, u64>,
    /// Whether it runs only if it is named: it needs what not every machine has.
    pub on_request: bool,
    /// Parameters that override those of the campaign's scale.
    pub parameters: Parameters,
    /// Parameters by scale, which override `parameters`.
    pub scale: BTreeMap<String, Parameters>,
    /// Role → properties, merged with the campaign's.
    pub datasets: BTreeMap<String, Settings>,
    /// The pool, merged with the campaign's.
    pub pool: PoolSpec,
    /// Further pools by name, merged with the campaign's.
    pub pools: BTreeMap<String, PoolSpec>,
    /// Role → name of its pool, for datasets that are not on `pool`.
    pub pool_of: BTreeMap<String, String>,
    /// Columns of the tables; the first one is the leading measure.
    pub measures: Vec<String>,
    /// The questions by which the columns are divided into tables; each column is in one of them.
    pub tables: Vec<StudyTable>,
    /// The words for every measure that the study names.
    pub infos: Vec<MeasureInfo>,
    /// The factors that are varied.
    pub factors: Vec<Factor>,
    /// Cases that are not run.
    pub exclude: Vec<Case>,
    /// Phases in the order in which they run.
    pub phases: Vec<Phase>,
    /// Statements of the original.
    pub claims: Vec<Claim>,
    /// Rows of the closing table.
    pub recommend: Vec<Recommend>,
}

impl Study {
    /// Returns the factor of this name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|f| f.name == name)
    }

    /// Returns the words for a measure. One that the campaign does not declare keeps its name.
    pub fn info(&self, measure: &str) -> MeasureInfo {
        let found = self.infos.iter().find(|info| info.name == measure).cloned();
        found.unwrap_or_else(|| DriverMeasures::undeclared(measure))
    }

    /// Returns the phases that appear in the tables.
    pub fn measured_phases(&self) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(|phase| phase.measure)
    }

    /// Returns the title of a phase; without one, its name.
    pub fn phase_title(&self, name: &str) -> String {
        let title = self.phases.iter().find(|phase| phase.name == name).and_then(|phase| phase.title.clone());
        title.unwrap_or_else(|| poolwright_report::text::capitalised(&name.replace(['_', '-'], " ")))
    }

    /// Returns the bytes that a trial needs in the scratch directory: 4 GiB unless the study or the campaign states a size.
    pub fn space(&self, scale: &str) -> u64 {
        self.space.get(scale).copied().unwrap_or(4 << 30)
    }

    /// Whether the study runs at a scale.
    pub fn is_of(&self, scale: &str) -> bool {
        self.scales.is_empty() || self.scales.iter().any(|s| s == scale)
    }

    /// Whether a level sets a field of the pool or a module parameter.
    pub fn varies_pool(&self) -> bool {
        let of_pool = |(path, _): &(ParameterPath, _)| {
            matches!(path, ParameterPath::Pool(_) | ParameterPath::Tunable(_) | ParameterPath::DatasetPool(_))
        };
        self.factors.iter().flat_map(|f| &f.levels).flat_map(|l| &l.set).any(of_pool)
    }

    /// Whether its datasets are on several pools.
    pub fn has_several_pools(&self) -> bool {
        self.pool_of.values().any(|pool| pool != MAIN_POOL)
    }

    /// Whether a level or a live change sets a property or a field of the pool.
    pub fn needs_pool(&self) -> bool {
        let places = self.factors.iter().flat_map(|f| &f.levels).flat_map(|l| &l.set);
        places.into_iter().any(|(location, _)| !matches!(location, ParameterPath::Workload(_)))
            || self.phases.iter().any(|p| !p.at.is_empty())
    }
}

/// Some columns of a study, and the question that they answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyTable {
    /// The question; empty if the study has one table only.
    pub question: String,
    /// Its columns, in order.
    pub measures: Vec<String>,
}

/// A factor that is varied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factor {
    /// Name of the factor.
    pub name: String,
    /// Its levels, at least one.
    pub levels: Vec<Level>,
}

/// A level of a factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Name in tables.
    pub name: String,
    /// The values that the level sets.
    pub set: Vec<(ParameterPath, serde_json::Value)>,
}

/// The target of a value: `ROLE.property`, `ROLE.pool`, `pool.KEY`, `pool.tunables.NAME`, `workload.PARAMETER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterPath {
    /// A property of a dataset: role and property.
    Dataset(String, String),
    /// The pool of a dataset, by its role; [`MAIN_POOL`] or the name of a further one.
    DatasetPool(String),
    /// A field of [`PoolSpec`].
    Pool(String),
    /// A module parameter of the engine.
    Tunable(String),
    /// A parameter of the driver.
    Workload(String),
}

/// A step of every trial of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the phase in the driver.
    pub name: String,
    /// The words for the phase in headings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the phase appears in the tables.
    #[serde(default = "yes")]
    pub measure: bool,
    /// Whether the pool is exported and imported first, so that nothing is cached.
    #[serde(default)]
    pub cold: bool,
    /// Whether to record its I/O for the size histograms.
    #[serde(default)]
    pub record: bool,
    /// Nanoseconds after which the trial fails.
    #[serde(default = "an_hour")]
    pub limit_ns: u64,
    /// Changes during the phase.
    #[serde(default)]
    pub at: Vec<Change>,
}

fn yes() -> bool {
    true
}

fn an_hour() -> u64 {
    3600 * 1_000_000_000
}

/// A change of properties during a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The share of the work, 0 to 1, after which the change is made …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// … or the seconds since the measured window began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// `ROLE.property` → value.
    pub set: BTreeMap<String, String>,
}

/// A statement of the original.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The statement in our words.
    pub text: String,
    /// The measure that tests it.
    pub measure: String,
    /// Factor → level of the case that is better …
    pub better: Case,
    /// … than this case, which names the same factors. Empty if `least` is set.
    pub than: Case,
    /// Instead of another case: the value that `better` reaches at least (at most, with `lower`), or about, with `times`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Whether a lower value is better (time, space).
    pub lower: bool,
    /// How many times better `better` is, if the statement is more specific than a direction: `far`, `hardly`, `as
    /// well as`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// A figure within which `better` stays and which `than` exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Whether the statement names `than` first; the figures then follow this order.
    pub than_first: bool,
    /// The original's figures for `better` and `than`; with `least`, the second one is that bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<[f64; 2]>,
    /// Where the original makes the statement, in our words; empty if the campaign's own question is tested.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Whether and how far undecided trials are repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<Decide>,
}

impl Claim {
    /// Whether the claim needs the trials of a case.
    pub fn is_of(&self, case: &Case) -> bool {
        matches(case, &self.better) || (self.least.is_none() && matches(case, &self.than))
    }
}

/// The rule by which a claim that its study's blocks leave undecided gets more of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decide {
    /// Largest number of blocks, those of the study included.
    pub most: u32,
    /// The relative difference that is too small to matter. If the ratio lies within it, beyond noise, the cases are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal: Option<f64>,
}

/// The range of factors by which one case has to be better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Times {
    /// The smallest factor that agrees with the statement.
    pub least: f64,
    /// The largest one, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

/// A question that the report answers first: which values to choose, by a goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommend {
    /// The question in a few words: `Compression of table 1`.
    pub question: String,
    /// Role of the dataset whose properties are chosen; `None` if levels of factors are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Properties or factors that are chosen.
    pub choices: Vec<String>,
    /// Name of the goal, as for `tune`.
    pub goal: String,
    /// The measures that count.
    pub criteria: Vec<Criterion>,
    /// Factor → levels: the cases that are considered; an empty map means all. The others answer a different
    /// question, for example about another engine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Vec<String>>,
    /// The original's choice, if it made one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub original: Case,
}

/// A measure that stands for one of the tuner's metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Criterion {
    /// The metric, from the table of `tune`.
    pub metric: MetricName,
    /// The measure.
    pub measure: String,
    /// Whether the reciprocal of the measure counts, because the two improve in opposite directions.
    pub inverse: bool,
}
