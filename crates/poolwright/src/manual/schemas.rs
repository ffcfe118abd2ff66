//! JSON Schemas (draft 2020-12) of the plan, of trials, and of each command's `--json`. The types' documentation becomes the
//! descriptions.

use poolwright_apply::migration::run::MigrationReport;
use poolwright_apply::run::{ApplyReport, Outcome as ApplyOutcome};
use poolwright_backup::archive::ArchiveReport;
use poolwright_backup::listing::BackupListing;
use poolwright_backup::manifest::BackupManifest;
use poolwright_backup::prune::PruneReport;
use poolwright_backup::restore::RestoredDatabase;
use poolwright_backup::run::BackupReport;
use poolwright_backup::send::SendReport;
use poolwright_backup::verify::RestoreReport;
use poolwright_backup::wal::WalArchiveReport;
use poolwright_estimate::Estimate;
use poolwright_inspect::Inspection;
use poolwright_lab::json_output::{CampaignEntry, ComparedReport, RunSummary, SharedSummary};
use poolwright_lab::{Outcome, TrialSpec};
use poolwright_monitor::alert::ApiAlerts;
use poolwright_monitor::alert::check::CheckResult;
use poolwright_monitor::server::ApiReadings;
use poolwright_plan::{Confirmation, Plan, Verification};
use poolwright_record::RecordingSummary;
use poolwright_render::mrc_text::MrcOutput;
use poolwright_render::pool_iostat::IoReport;
use poolwright_render::pool_status::{ListOutput, StatusOutput};
use poolwright_render::replay_comparison::ReplayOutput;
use poolwright_replay::{Replay, Spec};
use poolwright_trace::export::ExportSummary;
use poolwright_trace::import::ImportSummary;
use poolwright_trace::stats::Stats;
use poolwright_zfs::user::json_output::{
    ChangedDatasets, ChangedPool, ClosedPool, CompletedRollback, CreatedDataset, CreatedPool, DatasetList,
    DestroyedDatasets, ImportResult, InheritedProperty, NewMount, PoolScrub, PromotedDataset, PropertyValues,
    TakenSnapshots,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The name and the schema of each file. The schema of a command's output has the command's name.
pub fn all() -> Vec<(&'static str, Value)> {
    let outputs = [
        ("apply", of::<ApplyReport>()),
        ("apply-new-pool", of::<MigrationReport>()),
        ("backup-archive", of::<ArchiveReport>()),
        ("backup-list", of::<BackupListing>()),
        ("backup-prune", of::<PruneReport>()),
        ("backup-restore", of::<RestoredDatabase>()),
        ("backup-run", of::<BackupReport>()),
        ("backup-send", of::<SendReport>()),
        ("backup-verify", of::<RestoreReport>()),
        ("backup-wal-create", of::<WalArchiveReport>()),
        ("check", of::<CheckResult>()),
        ("confirm", of::<Confirmation>()),
        ("dataset-clone", of::<CreatedDataset>()),
        ("dataset-create", of::<CreatedDataset>()),
        ("dataset-destroy", of::<DestroyedDatasets>()),
        ("dataset-get", of::<PropertyValues>()),
        ("dataset-inherit", of::<InheritedProperty>()),
        ("dataset-list", of::<DatasetList>()),
        ("dataset-promote", of::<PromotedDataset>()),
        ("dataset-rollback", of::<CompletedRollback>()),
        ("dataset-set", of::<ChangedDatasets>()),
        ("dataset-snapshot", of::<TakenSnapshots>()),
        ("estimate", of::<Estimate>()),
        ("inspect", of::<Inspection>()),
        ("lab-list", of::<Vec<CampaignEntry>>()),
        ("lab-report", of::<ComparedReport>()),
        ("lab-run", of::<RunSummary>()),
        ("lab-share", of::<SharedSummary>()),
        ("monitor", of::<ApiReadings>()),
        ("mount", of::<NewMount>()),
        ("mrc", of::<MrcOutput>()),
        ("pool-add", of::<ChangedPool>()),
        ("pool-attach", of::<ChangedPool>()),
        ("pool-create", of::<CreatedPool>()),
        ("pool-destroy", of::<ClosedPool>()),
        ("pool-detach", of::<ChangedPool>()),
        ("pool-export", of::<ClosedPool>()),
        ("pool-import", of::<ImportResult>()),
        ("pool-iostat", of::<IoReport>()),
        ("pool-list", of::<ListOutput>()),
        ("pool-remove", of::<ChangedPool>()),
        ("pool-replace", of::<ChangedPool>()),
        ("pool-scrub", of::<PoolScrub>()),
        ("pool-status", of::<StatusOutput>()),
        ("record", of::<RecordingSummary>()),
        ("replay", of::<ReplayOutput>()),
        ("trace-export", of::<ExportSummary>()),
        ("trace-import", of::<ImportSummary>()),
        ("trace-show", of::<Stats>()),
        ("undo", of::<ApplyOutcome>()),
        ("verify", of::<Verification>()),
    ];
    let outputs = outputs.map(|(name, schema)| {
        let command = name.replacen('-', " ", 1);
        (name, titled(schema, &format!("Output of `poolwright {command} --json`")))
    });
    let files = [
        ("plan", titled(of::<Plan>(), "Plan: the output of `poolwright tune`")),
        ("backup-manifest", titled(of::<BackupManifest>(), "Description of a backup, in its snapshot")),
        ("trial-spec", titled(input::<Spec>(), "Input of a trial (`poolwright trial`)")),
        ("trial-result", titled(of::<Replay>(), "Result of a trial (`poolwright trial`)")),
        ("lab-trial-spec", titled(input::<TrialSpec>(), "Input of a lab trial (`poolwright trial`)")),
        ("lab-trial-result", titled(of::<Outcome>(), "Result of a lab trial (`poolwright trial`)")),
        ("serve-alerts", titled(of::<ApiAlerts>(), "Answer of `/api/v1/alerts` of `poolwright serve`")),
    ];
    files.into_iter().chain(outputs).collect()
}

/// The schema of a type as Poolwright writes it.
fn of<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of a type as Poolwright reads it.
fn input<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    describe(&mut schema, "`null`");
    schema
}

fn titled(mut schema: Value, title: &str) -> Value {
    schema["title"] = title.into();
    schema
}

/// Rewrites the descriptions for readers of the JSON: links to Rust items become plain names, and `None` becomes `none`, which
/// says how the JSON represents it.
fn describe(schema: &mut Value, none: &str) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = unwrapped(&without_links(text).replace("`None`", none));
            }
            let required = fields.get("required").cloned().unwrap_or_default();
            for (key, value) in fields {
                match value {
                    Value::Object(properties) if key == "properties" => {
                        for (name, property) in properties {
                            let is_required = required
                                .as_array()
                                .is_some_and(|all| all.iter().any(|one| one == name.as_str()));
                            describe(property, if is_required { "`null`" } else { "missing" });
                        }
                    }
                    _ => describe(value, "`null`"),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| describe(one, "`null`")),
        _ => {}
    }
}

/// Joins the lines of each paragraph.
fn unwrapped(text: &str) -> String {
    let paragraphs: Vec<String> = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    paragraphs.join("\n\n")
}

/// Replaces Rust's links, ``[`path::Name`]`` and ``[`Name`](path)``, with `` `Name` ``.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((path, after)) = link.split_once("`]") else { break };
        let name = path.rsplit("::").next().unwrap_or(path);
        out.push_str(&format!("{before}`{name}`"));
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_rust_become_names() {
        let text = "As [`crate::manual::Goal`] and [`Plan::goal`](super::Plan) say; [0, 1] stays.";
        assert_eq!(without_links(text), "As `Goal` and `goal` say; [0, 1] stays.");
    }

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        assert_eq!(unwrapped("One\nsentence.\n\nAnother."), "One sentence.\n\nAnother.");
    }

    #[test]
    fn none_is_described_as_it_is_written() {
        let mut schema = serde_json::json!({
            "required": ["a"],
            "properties": {"a": {"description": "`None` if unknown."}, "b": {"description": "`None` if unknown."}},
        });
        describe(&mut schema, "`null`");
        assert_eq!(schema["properties"]["a"]["description"], "`null` if unknown.");
        assert_eq!(schema["properties"]["b"]["description"], "missing if unknown.");
    }
}
