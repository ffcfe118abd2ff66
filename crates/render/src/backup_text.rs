//! Backups, restores, archives, replication and retention as terminal text.

use std::fmt::Write as _;

use poolwright_backup::BackupEntry;
use poolwright_backup::archive::ArchiveReport;
use poolwright_backup::listing::BackupListing;
use poolwright_backup::manifest::{BackupManifest, CheckVerdict, RestoreResult};
use poolwright_backup::prune::PruneReport;
use poolwright_backup::restore::RestoredDatabase;
use poolwright_backup::run::BackupAssessment;
use poolwright_backup::send::{SendReport, SentBackup, SentWal, StreamReport};
use poolwright_backup::verify::RestoreReport;
use poolwright_backup::wal::{WalArchiveReport, WalCoverage, WalRemoval};
use poolwright_base::quoted;
use poolwright_base::units::format_size;
use poolwright_dbms::quiesce::ConsistencyMeans;
use poolwright_plan::Settings;
use poolwright_report::{Table, Terminal, text::age};

/// What a run would do.
pub fn assessment(assessment: &BackupAssessment) -> String {
    let mut text = format!("database  {}\n", assessment.database.name());
    for source in &assessment.sources {
        let _ = writeln!(text, "source    {} on {}", quoted(&source.path), source.dataset);
    }
    let _ = match &assessment.created_with {
        None => writeln!(text, "to        {}", assessment.destination),
        Some(settings) => {
            writeln!(text, "to        {}, created with {}", assessment.destination, assignments(settings))
        }
    };
    let _ = writeln!(text, "+ {}", assessment.snapshot_command);
    text
}

/// A backup that was made.
pub fn backup(destination: &str, backup: &BackupManifest) -> String {
    let size = format_size(backup.bytes);
    let mut text = format!("{destination}@{}: {} files, {size}\n", backup.name, backup.files);
    let database = &backup.database;
    let _ = match (database.consistency, database.quiesced_s) {
        (ConsistencyMeans::Session | ConsistencyMeans::Hook, Some(seconds)) => {
            writeln!(text, "the database was quiesced for {seconds:.2} s")
        }
        (ConsistencyMeans::Stopped, _) => writeln!(text, "the database was not running"),
        _ => writeln!(text, "the database was not quiesced: the atomic snapshot is consistent"),
    };
    if !backup.skipped.is_empty() {
        let _ = writeln!(text, "not copied: {} sockets, fifos and device nodes", backup.skipped.len());
    }
    text
}

/// A list of backups.
pub fn list(listing: &BackupListing, terminal: Terminal) -> String {
    let list = &listing.backups;
    let table = Table::of(&list.backups)
        .left("backup", |entry| entry.manifest.name.as_str())
        .right("age", |entry| signed_age(entry.age_s))
        .right("size", |entry| format_size(entry.manifest.bytes))
        .right("quiesced", |entry| entry.manifest.database.quiesced_s.map(|s| format!("{s:.2} s")))
        .left("last restore", last_restore)
        .table();
    let mut text = if list.backups.is_empty() {
        format!("{} has no backups\n", list.dataset)
    } else {
        table.terminal(terminal)
    };
    if !list.backups.is_empty() {
        let _ = match list.last_good_restore_age_s {
            Some(seconds) => writeln!(text, "last restore that passed: {} ago", signed_age(seconds)),
            None => writeln!(text, "no backup has passed a restore yet"),
        };
    }
    if let Some(wal) = &listing.wal {
        add_wal(&mut text, wal);
    }
    for (name, why) in &list.others {
        let _ = writeln!(text, "@{name}: {why}");
    }
    text
}

/// An age by the clock, which is negative if the clock was ahead.
fn signed_age(seconds: i64) -> String {
    let sign = if seconds < 0 { "−" } else { "" };
    format!("{sign}{}", age(seconds.unsigned_abs()))
}

/// The segments in a WAL archive.
fn add_wal(text: &mut String, wal: &WalCoverage) {
    let dataset = &wal.dataset;
    let _ = match (&wal.problem, &wal.first, &wal.last) {
        (Some(why), ..) => writeln!(text, "WAL archive {dataset}: {why}"),
        (None, Some(first), Some(last)) => {
            let newest =
                wal.newest_age_s.map_or_else(String::new, |s| format!(", the newest {} old", signed_age(s)));
            writeln!(text, "WAL archive {dataset}: {} segments, {first} to {last}{newest}", wal.segments)
        }
        _ => writeln!(text, "WAL archive {dataset}: no segment yet"),
    };
    if wal.segments > 0 {
        let _ = match &wal.replayable_from {
            Some(name) => writeln!(text, "  any state since {name} can be restored, up to the last segment"),
            None => writeln!(text, "  no backup since the log is archived without gaps: make one"),
        };
    }
    for first in &wal.gaps {
        let _ = writeln!(text, "  {first} is missing: recoveries from before end there");
    }
}

/// A WAL archive, and the settings of the server.
pub fn wal_archive(report: &WalArchiveReport) -> String {
    let state = if report.created { "created" } else { "exists" };
    let setting = |name: &str, value: &str| format!("{name} = '{}'\n", value.replace('\'', "''"));
    format!(
        "{}: {state}, in {}, owned by user {}\n\nSettings of PostgreSQL (archive_mode needs a restart, the others a reload):\n\n\
         archive_mode = on\n{}archive_timeout = 300\n",
        report.wal_archive,
        quoted(&report.directory),
        report.owner,
        setting("archive_command", &report.archive_command),
    )
}

/// A database that was restored, or would be, and what is left to the user.
pub fn restored(report: &RestoredDatabase) -> String {
    let word = if report.dry_run { "would restore" } else { "restored" };
    let size = format_size(report.bytes);
    let mut text = format!(
        "{word} {}@{} of {}: {} files, {size}\n",
        report.dataset, report.backup, report.created, report.files
    );
    for directory in &report.directories {
        let _ = writeln!(text, "  {} to {}", quoted(&directory.path), quoted(&directory.restored_to));
    }
    if !report.settings.is_empty() {
        let does = match &report.until {
            Some(until) => format!("replays the log until {until}"),
            None => "begins a new timeline, for the WAL archive".to_owned(),
        };
        let _ = writeln!(
            text,
            "when it is started, PostgreSQL {does}; settings in postgresql.auto.conf, to be removed afterwards:"
        );
        for setting in &report.settings {
            let _ = writeln!(text, "  {setting}");
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if !report.dry_run {
        let _ = writeln!(text, "next: start the database");
    }
    text
}

fn last_restore(entry: &BackupEntry) -> String {
    match &entry.last_restore {
        None => "never".to_owned(),
        Some(restore) => format!("{} {}", verdict(restore), restore.time),
    }
}

fn verdict(restore: &RestoreResult) -> &'static str {
    match (restore.passed, &restore.untested) {
        (true, _) => "passed",
        (false, None) => "FAILED",
        (false, Some(_)) => "not tested",
    }
}

/// The results of restores.
pub fn restores(report: &RestoreReport) -> String {
    let mut text = String::new();
    for restore in &report.restores {
        add_restore(&mut text, &report.dataset, restore);
    }
    text
}

fn add_restore(text: &mut String, dataset: &str, restore: &RestoreResult) {
    let _ = writeln!(
        text,
        "{dataset}@{}: {} (restored in {:.1} s, checked in {:.1} s)",
        restore.name,
        verdict(restore),
        restore.restore_s,
        restore.check_s
    );
    if let Some(until) = &restore.until {
        let last = restore.last_transaction.as_deref().unwrap_or("none");
        let _ = writeln!(text, "  the log was replayed until: {until}; last transaction: {last}");
    }
    for check in &restore.checks {
        let result = match check.result {
            CheckVerdict::Passed => "passed",
            CheckVerdict::Failed => "FAILED",
            CheckVerdict::NotRun => "not run",
        };
        let detail = check.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
        let _ = writeln!(text, "  {result:7}  {}{detail}", check.name);
    }
}

/// Which backups were copied into an archive or would be, and which are not copied.
pub fn archive(report: &ArchiveReport) -> String {
    let mut text = match &report.created_with {
        None => format!("archive       {}\n", report.archive),
        Some(settings) => {
            format!("archive       {}, created with {}\n", report.archive, assignments(settings))
        }
    };
    for decision in &report.decisions {
        let word = match (decision.copied, report.dry_run) {
            (false, _) => "not copied",
            (true, true) => "would copy",
            (true, false) => "copied",
        };
        let reason = decision.reason.clone().unwrap_or_else(|| format_size(decision.bytes));
        let _ = writeln!(text, "{word:12}  {}: {reason}", decision.name);
    }
    if report.decisions.is_empty() {
        let _ = writeln!(text, "{} has no backups", report.dataset);
    }
    text
}

/// Which backups were sent or would be, and which the target has.
pub fn send(report: &SendReport) -> String {
    let raw = if report.raw { ", encrypted (raw)" } else { "" };
    let mut text = format!("target        {}{raw}\n", report.target);
    for stream in &report.streams {
        add_stream(&mut text, stream, report.dry_run);
    }
    let is_sent = |of: &&SentBackup| report.streams.iter().any(|stream| stream.snapshot == of.name);
    for backup in report.backups.iter().filter(|of| !is_sent(of)) {
        let _ = match &backup.reason {
            Some(why) => writeln!(text, "not sent      {}: {why}", backup.name),
            None if backup.on_target => writeln!(text, "has           {}", backup.name),
            None => writeln!(text, "lacks         {}", backup.name),
        };
    }
    let target = &report.target;
    let count = report.backups.iter().filter(|of| of.on_target).count();
    let _ = match &report.wal {
        None => writeln!(text, "{target} has {count} of {} backups", report.backups.len()),
        Some(SentWal { last_segment: Some(last) }) => {
            writeln!(text, "the last segment on {target} is {last}")
        }
        Some(_) if report.dry_run => Ok(()),
        Some(_) => writeln!(text, "{target} has no segment yet"),
    };
    text
}

fn add_stream(text: &mut String, stream: &StreamReport, is_dry_run: bool) {
    let word = if is_dry_run { "would send" } else { "sent" };
    let size = match (stream.sent_bytes, stream.expected_bytes) {
        (Some(bytes), _) => format_size(bytes),
        (None, Some(bytes)) => format!("about {}", format_size(bytes)),
        (None, None) => "size unknown".to_owned(),
    };
    let from = match (&stream.from, stream.resumed) {
        (Some(from), _) => format!(", changes since {from}"),
        (None, true) => ", continued".to_owned(),
        (None, false) => ", whole".to_owned(),
    };
    let _ = writeln!(text, "{word:12}  {}: {size}{from}", stream.snapshot);
    if is_dry_run {
        let _ = writeln!(text, "+ {} | {}", stream.send_command, stream.receive_command);
    }
}

fn assignments(settings: &Settings) -> String {
    let listed: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    listed.join(", ")
}

/// Which backups stay, and which were removed or would be.
pub fn prune(report: &PruneReport) -> String {
    let mut text = String::new();
    for decision in &report.decisions {
        let word = match (decision.kept, report.dry_run) {
            (true, _) => "keep",
            (false, true) => "would remove",
            (false, false) => "removed",
        };
        let _ = writeln!(text, "{word:12}  {}: {}", decision.name, decision.reason);
    }
    if report.decisions.is_empty() {
        let _ = writeln!(text, "{} has no backups", report.dataset);
    }
    if let Some(wal) = &report.wal {
        add_wal_removal(&mut text, wal, report.dry_run);
    }
    text
}

fn add_wal_removal(text: &mut String, wal: &WalRemoval, is_dry_run: bool) {
    let word = if is_dry_run { "would remove" } else { "removed" };
    let files = poolwright_base::units::counted(wal.files, "file");
    let size = format_size(wal.bytes);
    let _ = match (&wal.reason, &wal.needed_from) {
        (Some(why), _) => writeln!(text, "{:12}  WAL archive {}: {why}", "keep", wal.dataset),
        (None, Some(from)) => {
            writeln!(text, "{word:12}  WAL archive {}: {files}, {size}; needed from {from}", wal.dataset)
        }
        (None, None) => writeln!(text, "{word:12}  WAL archive {}: {files}, {size}", wal.dataset),
    };
}
