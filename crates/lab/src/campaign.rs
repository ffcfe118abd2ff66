//! A campaign as declared: what `campaigns/NAME.toml` says, checked. The file itself is described in `docs/lab.md`.

mod cases;
mod entry;
mod parse;
mod study;
#[cfg(test)]
mod tests;
mod text;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_openzfs::property::Settings;
use serde::{Deserialize, Serialize};

pub use cases::{cases, matches};

use crate::{Error, Result};

/// Parameters of a workload by name; the driver knows what they mean.
pub type Parameters = serde_json::Map<String, serde_json::Value>;

/// A case: factor → level, by their names. In claims and exclusions only the factors that matter.
pub type Case = BTreeMap<String, String>;

/// The scale of a run that names none.
pub const SMALL: &str = "small";

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Campaign {
    /// Its name, which is that of its file.
    pub name: String,
    /// One line.
    pub title: String,
    /// What is asked.
    pub about: String,
    /// Where the original was published, and when.
    pub source: String,
    /// Debian packages.
    pub needs: Vec<String>,
    /// Parameters by scale; there is always [`SMALL`].
    pub scale: BTreeMap<String, Parameters>,
    /// Bytes that a trial needs in the scratch folder, by scale; see [`Campaign::space`].
    pub space: BTreeMap<String, u64>,
    /// The pool of every study that says nothing else.
    pub pool: PoolSpec,
    /// Role → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// The questions.
    pub studies: Vec<Study>,
}

impl Campaign {
    /// Reads and checks a file, which has to be called as the campaign is; also its text.
    pub fn load(path: &Path) -> Result<(Campaign, String)> {
        let text = std::fs::read_to_string(path).map_err(Error::host("reading", path))?;
        let campaign = Campaign::parse(path, &text)?;
        Ok((campaign, text))
    }

    /// Checks a text; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Campaign> {
        parse::campaign(&text::Source { path, text })
    }

    /// The study of this name.
    pub fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|s| s.name == name)
    }

    /// Bytes that a trial needs in the scratch folder.
    pub fn space(&self, scale: &str) -> u64 {
        self.space.get(scale).copied().unwrap_or(4 << 30)
    }
}

/// A pool of the engine in user space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSpec {
    /// Words of `pool create` after the pool's name (`mirror`, `cache`, `d0:64G`); file names are below the trial's scratch.
    pub vdevs: Vec<String>,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// Memory of the ARC, as `mount --arc` takes it.
    pub arc: String,
    /// The device that the seam plays, as `mount --device` takes it.
    pub device: String,
    /// What the kernel may keep: `through`, `pages`, `writeback`.
    pub caching: String,
    /// Module parameters of the engine, by name: `zfs_prefetch_disable` → `1`.
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
            tunables: BTreeMap::new(),
        }
    }
}

/// A question with a table of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// Its name within the campaign.
    pub name: String,
    /// One line.
    pub title: String,
    /// Program in `workloads/lab`.
    pub driver: String,
    /// Blocks: how often every case is run.
    pub repeats: u32,
    /// When to add blocks, and how many at most.
    pub stop: Option<Stop>,
    /// Scales that it belongs to; none: all.
    pub scales: Vec<String>,
    /// Over those of the campaign's scale.
    pub parameters: Parameters,
    /// By scale, over `parameters`.
    pub scale: BTreeMap<String, Parameters>,
    /// With the campaign's merged in.
    pub datasets: BTreeMap<String, Settings>,
    /// With the campaign's merged in.
    pub pool: PoolSpec,
    /// Columns of the table, the first one leads.
    pub measures: Vec<String>,
    /// What is varied.
    pub factors: Vec<Factor>,
    /// Cases left out.
    pub exclude: Vec<Case>,
    /// In order.
    pub phases: Vec<Phase>,
    /// What the original says.
    pub claims: Vec<Claim>,
    /// Lines of the closing table.
    pub recommend: Vec<Recommend>,
}

impl Study {
    /// The factor of this name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|f| f.name == name)
    }

    /// Whether it is run at a scale.
    pub fn is_of(&self, scale: &str) -> bool {
        self.scales.is_empty() || self.scales.iter().any(|s| s == scale)
    }

    /// Whether a level or a live change sets a property or something of the pool.
    pub fn needs_pool(&self) -> bool {
        let places = self.factors.iter().flat_map(|f| &f.levels).flat_map(|l| &l.set);
        places.into_iter().any(|(place, _)| !matches!(place, ParameterPath::Workload(_)))
            || self.phases.iter().any(|p| !p.at.is_empty())
    }
}

/// Blocks are added until every cell's interval of the leading measure is narrow, or there are this many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Half-width of the 95 % interval over the median.
    pub interval: f64,
    /// Blocks at most.
    pub most: u32,
}

/// Something that is varied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels, at least one.
    pub levels: Vec<Level>,
}

/// A level of a factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// As tables show it.
    pub name: String,
    /// What it sets.
    pub set: Vec<(ParameterPath, serde_json::Value)>,
}

/// What can be set: `ROLE.property`, `pool.KEY`, `pool.tunables.NAME`, `workload.PARAMETER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterPath {
    /// A property of a dataset: role and property.
    Dataset(String, String),
    /// A field of [`PoolSpec`].
    Pool(String),
    /// A module parameter of the engine.
    Tunable(String),
    /// A parameter of the driver.
    Workload(String),
}

/// A step of every trial of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The driver's word for it.
    pub name: String,
    /// Whether it is in the tables.
    #[serde(default = "yes")]
    pub measure: bool,
    /// Export and import the pool first, so that nothing is cached.
    #[serde(default)]
    pub cold: bool,
    /// Record its I/O for the size histograms.
    #[serde(default)]
    pub record: bool,
    /// Nanoseconds after which the trial has failed.
    #[serde(default = "an_hour")]
    pub limit_ns: u64,
    /// Changes while it runs.
    #[serde(default)]
    pub at: Vec<Change>,
}

fn yes() -> bool {
    true
}

fn an_hour() -> u64 {
    3600 * 1_000_000_000
}

/// A change of properties in the middle of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When this share of the work is done, 0 to 1 …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// … or this many seconds after the measured window began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// `ROLE.property` → value.
    pub set: BTreeMap<String, String>,
}

/// A direction that the original reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In our words.
    pub text: String,
    /// Measure that shows it.
    pub measure: String,
    /// Factor → level of the case that is better …
    pub better: Case,
    /// … than this one, which names the same factors. Empty where `least` is set.
    #[serde(default)]
    pub than: Case,
    /// In place of another case: what `better` reaches at least (at most, with `lower`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Better is less (time, space) and not more.
    #[serde(default)]
    pub lower: bool,
    /// How many times better `better` is, where the sentence says more than a direction: `far`, `hardly`, `as well as`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// A figure that `better` keeps to and `than` does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The sentence speaks of `than` first, and so do the figures behind it.
    #[serde(default)]
    pub than_first: bool,
    /// The original's figures for `better` and `than`; with `least`, the second one is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<[f64; 2]>,
}

/// How many times better one case has to be: at least so much, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The least factor that the sentence means.
    pub least: f64,
    /// The largest one, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

/// A line of the closing table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommend {
    /// Role.
    pub dataset: String,
    /// Measure that decides.
    pub by: String,
    /// More of it is better.
    #[serde(default)]
    pub higher: bool,
    /// Properties that are advised from the best case.
    pub properties: Vec<String>,
    /// Factor → levels: the cases that are asked, all if it is empty. The rest shows something else, as another engine does.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Vec<String>>,
}
