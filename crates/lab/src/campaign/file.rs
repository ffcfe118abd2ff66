//! A campaign's file as it is written: its tables, and positions where a later check has to name one.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::value::{
    ArcLimit, Ashift, Blocks, Bound, Caching, DeviceSpec, DriverParameters, Figure, Interval, Line,
    MeasureUnit, MemoryLimit, OneOrMany, Progress, Seconds, Size, Snapshots, Spelled, Time, TimesRange,
    Tunable, TunableName, Vdevs, Word,
};
use super::{Improvement, PoolSpec};

/// Factor → level.
pub(super) type CaseEntries = BTreeMap<Spanned<String>, Spanned<Value>>;
/// Factor → levels.
pub(super) type LevelsEntries = BTreeMap<Spanned<String>, Spanned<OneOrMany<Spelled>>>;
/// Role → property → value.
pub(super) type DatasetEntries = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<Spelled>>>;
/// Name of a further pool → its fields.
pub(super) type PoolEntries = BTreeMap<Spanned<String>, PoolEntry>;
pub(super) type MeasureEntries = Spanned<Vec<Spanned<Line>>>;
pub(super) type PhaseEntries = Spanned<Vec<Spanned<PhaseEntry>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a campaign")]
pub(super) struct CampaignFile {
    pub name: Spanned<Word>,
    pub title: Line,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub needs: Vec<Line>,
    /// Applies to claims without their own.
    pub decide: Option<DecideEntry>,
    pub scale: Option<Spanned<BTreeMap<String, DriverParameters>>>,
    #[serde(default)]
    pub space: BTreeMap<Spanned<String>, Size>,
    #[serde(default)]
    pub pool: PoolEntry,
    #[serde(default)]
    pub pools: PoolEntries,
    #[serde(default)]
    pub datasets: DatasetEntries,
    pub study: Spanned<Vec<Spanned<StudyEntry>>>,
    /// Applies to studies without their own, as do `factor` and `phase`.
    pub measures: Option<MeasureEntries>,
    pub factor: Option<Vec<FactorEntry>>,
    pub phase: Option<PhaseEntries>,
    /// Figure of the driver → its title, unit and direction.
    #[serde(default)]
    pub figures: BTreeMap<Spanned<Word>, FigureEntry>,
    /// Kind of calls → its title.
    #[serde(default)]
    pub operations: BTreeMap<Word, Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a figure")]
pub(super) struct FigureEntry {
    pub title: Line,
    pub unit: MeasureUnit,
    pub better: Option<Improvement>,
}

/// A table: some of the study's measures, and the question that they answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct TableEntry {
    pub question: Line,
    pub measures: MeasureEntries,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a study")]
pub(super) struct StudyEntry {
    pub name: Word,
    pub title: Line,
    pub driver: Word,
    #[serde(default = "three")]
    pub repeats: Blocks,
    pub parameters: Option<DriverParameters>,
    #[serde(default)]
    pub scale: BTreeMap<Spanned<String>, DriverParameters>,
    #[serde(default)]
    pub space: BTreeMap<Spanned<String>, Size>,
    #[serde(default)]
    pub scales: Vec<Spanned<String>>,
    #[serde(default)]
    pub on_request: bool,
    #[serde(default)]
    pub datasets: DatasetEntries,
    #[serde(default)]
    pub pool: PoolEntry,
    #[serde(default)]
    pub pools: PoolEntries,
    pub measures: Option<MeasureEntries>,
    #[serde(default)]
    pub table: Vec<Spanned<TableEntry>>,
    pub factor: Option<Vec<FactorEntry>>,
    pub phase: Option<PhaseEntries>,
    #[serde(default)]
    pub exclude: Vec<Spanned<CaseEntries>>,
    #[serde(default)]
    pub claim: Vec<Spanned<ClaimEntry>>,
    #[serde(default)]
    pub recommend: Vec<Spanned<RecommendEntry>>,
}

fn three() -> Blocks {
    Blocks(3)
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a pool")]
pub(super) struct PoolEntry {
    vdevs: Option<Vdevs>,
    ashift: Option<Ashift>,
    arc: Option<ArcLimit>,
    device: Option<DeviceSpec>,
    caching: Option<Caching>,
    memory: Option<MemoryLimit>,
    snapshots: Option<Snapshots>,
    tunables: BTreeMap<TunableName, Tunable>,
}

impl PoolEntry {
    /// Returns the pool with these fields; the others are those of `base`.
    pub fn over(&self, base: &PoolSpec) -> PoolSpec {
        let mut tunables = base.tunables.clone();
        tunables.extend(self.tunables.iter().map(|(name, value)| (name.0.clone(), value.0.clone())));
        PoolSpec {
            vdevs: self.vdevs.as_ref().unwrap_or(&Vdevs(base.vdevs.clone())).0.clone(),
            ashift: self.ashift.as_ref().map_or(base.ashift, |ashift| ashift.0),
            arc: self.arc.as_ref().map_or(&base.arc, |arc| &arc.0).clone(),
            device: self.device.as_ref().map_or(&base.device, |device| &device.0).clone(),
            caching: self.caching.as_ref().map_or(&base.caching, |caching| &caching.0).clone(),
            memory: self.memory.as_ref().map_or(&base.memory, |memory| &memory.0).clone(),
            snapshots: self.snapshots.as_ref().map_or(&base.snapshots, |snapshots| &snapshots.0).clone(),
            tunables,
        }
    }

    /// Returns a field that applies to the whole trial, if this entry has one.
    pub fn of_trial(&self) -> Option<&'static str> {
        let memory = self.memory.as_ref().map(|_| "memory");
        memory.or(self.snapshots.as_ref().map(|_| "snapshots"))
    }
}

/// How far undecided claims are repeated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a decision rule")]
pub(super) struct DecideEntry {
    pub most: Blocks,
    pub equal: Option<Interval>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a phase")]
pub(super) struct PhaseEntry {
    pub name: Word,
    pub title: Option<Line>,
    #[serde(default = "super::yes")]
    pub measure: bool,
    #[serde(default)]
    pub cold: bool,
    #[serde(default)]
    pub record: bool,
    pub limit: Option<Time>,
    #[serde(default)]
    pub at: Vec<Spanned<ChangeEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a change")]
pub(super) struct ChangeEntry {
    pub progress: Option<Progress>,
    pub seconds: Option<Seconds>,
    pub set: Spanned<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a factor")]
pub(super) struct FactorEntry {
    pub name: Spanned<Line>,
    pub path: Option<Spanned<OneOrMany<String>>>,
    pub levels: Spanned<Vec<Spanned<Value>>>,
}

/// A level with a name. Other levels are values for the factor's path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a level")]
pub(super) struct NamedLevel {
    pub name: Line,
    pub set: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a claim")]
pub(super) struct ClaimEntry {
    pub text: Line,
    pub measure: Spanned<Line>,
    pub better: Spanned<CaseEntries>,
    pub than: Option<Spanned<CaseEntries>>,
    pub least: Option<Bound>,
    pub about: Option<Bound>,
    #[serde(default)]
    pub lower: bool,
    pub times: Option<TimesRange>,
    pub limit: Option<Bound>,
    #[serde(default)]
    pub than_first: bool,
    pub report: Option<Spanned<Vec<Figure>>>,
    pub source: Option<Line>,
    pub decide: Option<Spanned<DecideEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a recommendation")]
pub(super) struct RecommendEntry {
    pub question: Option<Line>,
    pub dataset: Option<Spanned<String>>,
    pub properties: Option<Spanned<Vec<Spanned<String>>>>,
    pub factors: Option<Spanned<Vec<Spanned<String>>>>,
    pub goal: Option<Spanned<String>>,
    /// Metric of the tuner → measure.
    pub metrics: Option<Spanned<BTreeMap<Spanned<String>, Spanned<Line>>>>,
    pub only: Option<Spanned<LevelsEntries>>,
    pub original: Option<Spanned<CaseEntries>>,
    /// Of earlier runs: the measure that decides alone.
    pub by: Option<Spanned<Line>>,
    #[serde(default)]
    pub higher: bool,
}
