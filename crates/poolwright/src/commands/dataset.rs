//! `poolwright dataset`: datasets and snapshots of the engine's pools, in `zfs`'s grammar.

use anyhow::Context as _;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use poolwright_render::dataset_list;
use poolwright_render::property_list::{self, Field};
use poolwright_zfs::user::json_output::{
    ChangedDatasets, CompletedRollback, CreatedDataset, DatasetList, DestroyedDatasets, InheritedProperty,
    PromotedDataset, PropertyValues, TakenSnapshots,
};
use poolwright_zfs::user::{DatasetFilter, DatasetInfo, Kind, Request, Value, name};

use poolwright_openzfs::property;

use super::options::Usage;
use super::pool::settings;
use super::pool_connection::{
    PoolConnection, PoolFiles, known, parse_dataset, parse_either, parse_snapshot, print_json,
};

/// Manage datasets and snapshots of pools on files
///
/// Works on mounted pools (through the mount process) and on pools that are not open. Properties take effect at once;
/// existing data keeps its record size, compression and checksum.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(CreateArgs),
    Set(SetArgs),
    Inherit(InheritArgs),
    Get(GetArgs),
    List(ListArgs),
    Snapshot(SnapshotArgs),
    Clone(CloneArgs),
    Promote(PromoteArgs),
    Rollback(RollbackArgs),
    Destroy(DestroyArgs),
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::Create(args) => create(args),
        Verb::Set(args) => set(args),
        Verb::Inherit(args) => inherit(args),
        Verb::Get(args) => get(args),
        Verb::List(args) => list(args),
        Verb::Snapshot(args) => snapshot(args),
        Verb::Clone(args) => clone(args),
        Verb::Promote(args) => promote(args),
        Verb::Rollback(args) => rollback(args),
        Verb::Destroy(args) => destroy(args),
    }
}

/// Create a dataset
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Its name: POOL/DATASET
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Property of the new dataset; the others are inherited
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Create missing parents too; succeed if the dataset exists
    #[arg(short = 'p')]
    parents: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: dataset, settings
    #[arg(long)]
    json: bool,
}

fn create(args: CreateArgs) -> anyhow::Result<u8> {
    let settings = settings(&args.property)?;
    warn(&args.dataset, &settings);
    let (dataset, parents) = (args.dataset.clone(), args.parents);
    let request = Request::Create { dataset, settings: settings.clone(), parents };
    let json = |()| CreatedDataset { dataset: args.dataset.clone(), settings };
    ask(&args.dataset, &args.files, &request, args.json, json)
}

/// Set properties of datasets
///
/// Properties take effect at once. quota limits the space of the dataset with its snapshots and everything below it, refquota
/// that of the dataset alone: a size, or none. A write over a limit fails with EDQUOT ("Disk quota exceeded").
#[derive(Debug, clap::Args)]
struct SetArgs {
    /// One or more PROP=VALUE, then one or more datasets
    #[arg(value_name = "PROP=VALUE… DATASET", required = true, num_args = 2..)]
    words: Vec<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: datasets, settings
    #[arg(long)]
    json: bool,
}

fn set(args: SetArgs) -> anyhow::Result<u8> {
    let (assignments, datasets): (Vec<String>, Vec<String>) =
        args.words.iter().cloned().partition(|word| word.contains('='));
    if assignments.is_empty() || datasets.is_empty() {
        let why = "write PROP=VALUE, then the dataset: recordsize=16K tank/db";
        return Err(anyhow::anyhow!("{}: {why}", args.words.join(" "))).context(Usage);
    }
    let settings = settings(&assignments)?;
    for dataset in &datasets {
        name::check_dataset(dataset).context(Usage)?;
        warn(dataset, &settings);
        let request = Request::Set { dataset: dataset.clone(), settings: settings.clone() };
        PoolConnection::once::<()>(name::pool_of(dataset), &args.files, &request)?;
    }
    if args.json {
        print_json(&ChangedDatasets { datasets, settings })?;
    }
    Ok(0)
}

/// Clear a property of a dataset, so that it inherits its parent's value or the default
///
/// quota and refquota are not inherited: `dataset set quota=none` clears them.
#[derive(Debug, clap::Args)]
struct InheritArgs {
    /// The property
    #[arg(value_name = "PROPERTY")]
    property: String,

    /// One or more datasets
    #[arg(value_name = "DATASET", required = true, value_parser = parse_dataset)]
    datasets: Vec<String>,

    /// Also clear it on all datasets below them
    #[arg(short = 'r')]
    recursive: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: property, datasets (the changed ones)
    #[arg(long)]
    json: bool,
}

fn inherit(args: InheritArgs) -> anyhow::Result<u8> {
    let known = property::find_settable(&args.property).context(Usage)?;
    if property::is_limit(known) {
        let why = "a limit belongs to one dataset and is not inherited";
        let hint = format!("`poolwright dataset set {}=none {}` clears it", known.name, args.datasets[0]);
        return Err(anyhow::anyhow!("{}: {why}\nhint: {hint}", known.name)).context(Usage);
    }
    let mut done: Vec<String> = Vec::new();
    for dataset in &args.datasets {
        let (dataset, property) = (dataset.clone(), known.name.to_owned());
        let pool = name::pool_of(&dataset).to_owned();
        let request = Request::Inherit { dataset, property, recursive: args.recursive };
        done.extend(PoolConnection::once::<Vec<String>>(&pool, &args.files, &request)?);
    }
    if args.json {
        print_json(&InheritedProperty { property: known.name.to_owned(), datasets: done })?;
    }
    Ok(0)
}

/// Warns about properties that risk data.
fn warn(dataset: &str, settings: &property::Settings) {
    for risk in property::risks(settings) {
        eprintln!("poolwright: warning: {dataset}: {risk}");
    }
}

/// Show properties and statistics of datasets, and the source of each property
#[derive(Debug, clap::Args)]
struct GetArgs {
    /// all, or properties separated by commas: recordsize,compressratio
    #[arg(value_name = "PROPERTIES")]
    properties: String,

    /// Datasets or snapshots
    #[arg(value_name = "DATASET", required = true, value_parser = parse_either)]
    datasets: Vec<String>,

    /// Columns to print, separated by commas
    #[arg(short = 'o', value_parser = fields(), value_delimiter = ',', value_name = "FIELD,…",
          default_values = Field::ALL.map(|(name, _)| name))]
    fields: Vec<Field>,

    /// For scripts: no headers, fields separated by a single tab
    #[arg(short = 'H')]
    script: bool,

    /// Sizes as plain bytes
    #[arg(short = 'p')]
    plain: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"values":[{dataset, property, value, size, source}]}, sizes as plain bytes
    #[arg(long)]
    json: bool,
}

/// Parses the name of a column, for clap.
fn fields() -> impl TypedValueParser<Value = Field> {
    PossibleValuesParser::new(Field::ALL.map(|(name, _)| name))
        .map(|name| Field::from_name(&name).expect("clap accepts only names of columns"))
}

fn get(args: GetArgs) -> anyhow::Result<u8> {
    let properties: Vec<String> = match args.properties.as_str() {
        "all" => Vec::new(),
        some => some.split(',').map(str::to_owned).collect(),
    };
    let mut values: Vec<Value> = Vec::new();
    for dataset in &args.datasets {
        let request = Request::Get { dataset: dataset.clone(), properties: properties.clone() };
        values.extend(PoolConnection::once::<Vec<Value>>(name::pool_of(dataset), &args.files, &request)?);
    }
    if args.json {
        print_json(&PropertyValues { values })?;
        return Ok(0);
    }
    let terminal = crate::stdout::terminal();
    print!("{}", property_list::text(&values, &args.fields, args.script, args.plain, terminal));
    Ok(0)
}

/// The kinds to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Type {
    Filesystem,
    Snapshot,
    All,
}

/// List datasets or snapshots with their space
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// List only these [default: those of all known pools]
    #[arg(value_name = "DATASET", value_parser = parse_either)]
    datasets: Vec<String>,

    /// Also list everything below them
    #[arg(short = 'r')]
    recursive: bool,

    /// What to list
    #[arg(short = 't', value_enum, default_value_t = Type::Filesystem, value_name = "TYPE")]
    kind: Type,

    /// For scripts: no headers, fields separated by a single tab
    #[arg(short = 'H')]
    script: bool,

    /// Sizes as plain bytes
    #[arg(short = 'p')]
    plain: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"datasets":[{name, kind, stats, available, mounted_on}]}
    #[arg(long)]
    json: bool,
}

fn list(args: ListArgs) -> anyhow::Result<u8> {
    let mut pools: Vec<String> = match args.datasets.is_empty() {
        true => known()?,
        false => args.datasets.iter().map(|d| name::pool_of(d).to_owned()).collect(),
    };
    pools.dedup();
    let mut all: Vec<DatasetInfo> = Vec::new();
    for pool in &pools {
        all.extend(PoolConnection::once::<Vec<DatasetInfo>>(pool, &args.files, &Request::List)?);
    }
    let kind = match args.kind {
        Type::Filesystem => Some(Kind::Filesystem),
        Type::Snapshot => Some(Kind::Snapshot),
        Type::All => None,
    };
    let all = DatasetFilter { names: args.datasets, recursive: args.recursive, kind }.apply(all)?;
    if args.json {
        print_json(&DatasetList { datasets: all })?;
        return Ok(0);
    }
    for (name, trouble) in all.iter().filter_map(|d| Some((&d.name, d.trouble.as_ref()?))) {
        eprintln!("poolwright: warning: {name}: {trouble}");
    }
    print!("{}", dataset_list::text(&all, args.script, args.plain, crate::stdout::terminal()));
    Ok(0)
}

/// Take a snapshot
#[derive(Debug, clap::Args)]
struct SnapshotArgs {
    /// DATASET@SNAPSHOT
    #[arg(value_name = "DATASET@SNAPSHOT", value_parser = parse_snapshot)]
    name: String,

    /// Also take snapshots of all datasets below it
    #[arg(short = 'r')]
    recursive: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"snapshots":[…]}
    #[arg(long)]
    json: bool,
}

fn snapshot(args: SnapshotArgs) -> anyhow::Result<u8> {
    let request = Request::Snapshot { name: args.name.clone(), recursive: args.recursive };
    let json = |snapshots: Vec<String>| TakenSnapshots { snapshots };
    ask(&args.name, &args.files, &request, args.json, json)
}

/// Create a dataset from a snapshot; the two share their blocks
///
/// The snapshot cannot be destroyed while the clone exists, unless the clone is promoted.
#[derive(Debug, clap::Args)]
struct CloneArgs {
    /// DATASET@SNAPSHOT
    #[arg(value_name = "DATASET@SNAPSHOT", value_parser = parse_snapshot)]
    snapshot: String,

    /// The new dataset, in the same pool
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Property of the new dataset; the others are inherited
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Create missing parents too
    #[arg(short = 'p')]
    parents: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: dataset, settings
    #[arg(long)]
    json: bool,
}

fn clone(args: CloneArgs) -> anyhow::Result<u8> {
    let settings = settings(&args.property)?;
    warn(&args.dataset, &settings);
    let (snapshot, dataset) = (args.snapshot, args.dataset.clone());
    let request = Request::Clone { snapshot, dataset, settings: settings.clone(), parents: args.parents };
    let json = |()| CreatedDataset { dataset: args.dataset.clone(), settings };
    ask(&args.dataset, &args.files, &request, args.json, json)
}

/// Promote a clone, so that the dataset from which it was cloned can be destroyed
///
/// The snapshots up to and including the origin move to the clone. The other dataset becomes a clone of it.
#[derive(Debug, clap::Args)]
struct PromoteArgs {
    /// The clone
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"dataset":…}
    #[arg(long)]
    json: bool,
}

fn promote(args: PromoteArgs) -> anyhow::Result<u8> {
    let request = Request::Promote { dataset: args.dataset.clone() };
    let json = |()| PromotedDataset { dataset: args.dataset.clone() };
    ask(&args.dataset, &args.files, &request, args.json, json)
}

/// Roll a dataset back to its latest snapshot, and discard all later changes
///
/// The dataset can stay mounted. Open files that also exist in the snapshot stay open; requests on other open files fail.
#[derive(Debug, clap::Args)]
struct RollbackArgs {
    /// DATASET@SNAPSHOT
    #[arg(value_name = "DATASET@SNAPSHOT", value_parser = parse_snapshot)]
    name: String,

    /// Roll back to an older snapshot, and destroy the newer ones
    #[arg(short = 'r')]
    recursive: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"snapshot":…}
    #[arg(long)]
    json: bool,
}

fn rollback(args: RollbackArgs) -> anyhow::Result<u8> {
    let request = Request::Rollback { name: args.name.clone(), recursive: args.recursive };
    let json = |()| CompletedRollback { snapshot: args.name.clone() };
    ask(&args.name, &args.files, &request, args.json, json)
}

/// Destroy a dataset or a snapshot
#[derive(Debug, clap::Args)]
struct DestroyArgs {
    /// DATASET or DATASET@SNAPSHOT; not a pool's root dataset
    #[arg(value_name = "NAME", value_parser = parse_either)]
    name: String,

    /// Also destroy all snapshots and datasets below it
    #[arg(short = 'r')]
    recursive: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"destroyed":[…]}
    #[arg(long)]
    json: bool,
}

fn destroy(args: DestroyArgs) -> anyhow::Result<u8> {
    let request = Request::Destroy { name: args.name.clone(), recursive: args.recursive };
    let json = |destroyed: Vec<String>| DestroyedDatasets { destroyed };
    ask(&args.name, &args.files, &request, args.json, json)
}

/// Sends a request about `name`, and prints the answer as JSON if `print` is set.
fn ask<T: serde::de::DeserializeOwned, O: serde::Serialize>(
    name: &str,
    files: &PoolFiles,
    request: &Request,
    print: bool,
    json: impl FnOnce(T) -> O,
) -> anyhow::Result<u8> {
    let answer = PoolConnection::once(name::pool_of(name), files, request)?;
    if print {
        print_json(&json(answer))?;
    }
    Ok(0)
}
