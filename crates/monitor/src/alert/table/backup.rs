//! Backups and their restores.

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::Unless;
use crate::alert::condition::{
    Expression, Limit, Match, Relation, Selector, above, all, compare, holds, is, is_positive, only,
};
use crate::alert::example::{Example, constant};
use crate::alert::rule::AlertSeverity::Critical;
use crate::alert::rule::{AlertRule, ValueFormat};
use crate::alert::threshold::{ARCHIVE_AGE, BACKUP_AGE, REPLICA_AGE, RESTORE_AGE};

const BACKUP: &[&str] = &["tank/backup", "backup", "postgresql"];
const ARCHIVE: &[&str] = &["vault/archive", "archive", "postgresql"];
const OF_BACKUPS: &[Match] = &[is("tier", &["backup"])];
const OF_ARCHIVES: &[Match] = &[is("tier", &["archive"])];
const DAY: f64 = 86_400.0;
/// Restores of backups that are not in an archive.
const GOOD_RESTORE: Selector = only(&BACKUPS_GOOD_RESTORE, OF_BACKUPS);

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "BackupOld",
        condition: When(above(Expression::Age(only(&BACKUPS_NEWEST, OF_BACKUPS)), &BACKUP_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "the newest backup of {database} in {dataset} is {value} old",
        meaning: "No backup has been completed since. What was written since then would be lost with the database. The time is that of the snapshot of the database, as `poolwright backup` recorded it; the alert also fires if the dataset was destroyed, or its pool is away.",
        action: "`systemctl status 'poolwright-backup@*'` or the log of your job says why. Run `poolwright backup run`. If the dataset was given up on purpose, remove its summary (see [backup.md](backup.md#in-the-monitor)).",
        is_figure: true,
        example: Example::Series {
            fires: &[constant(&BACKUPS_NEWEST, BACKUP, -2.0 * DAY), constant(&BACKUPS_NEWEST, ARCHIVE, -2.0 * DAY)],
            quiet: &[constant(&BACKUPS_NEWEST, BACKUP, -DAY)],
        },
    },
    rule! {
        name: "BackupInFuture",
        condition: When(compare(Expression::Age(all(&BACKUPS_LATEST)), Relation::Below, Limit::Number(-300.0)), &[]),
        format: ValueFormat::Duration,
        summary: "a time of the backups of {database} in {dataset} lies in the future: its age is {value}",
        meaning: "The clock of the host was ahead when a backup was made or restored, or is behind now. Until then, the ages of backups are wrong, old ones look new to `BackupOld` and `BackupRestoreOld`, and `poolwright backup run` and `prune` refuse. Backups stay in the order in which they were made.",
        action: "Set the clock if it is wrong. If it was wrong before, let `poolwright backup run` and `prune` accept it (their help names the option) until that time has passed, or destroy the backup if later ones have passed a restore.",
        example: Example::levels(&BACKUPS_LATEST, BACKUP, DAY, 60.0),
    },
    rule! {
        name: "BackupRestoreFailed",
        severity: Critical,
        condition: When(compare(Expression::Now(all(&BACKUPS_RESTORE_PASSED)), Relation::Equal, Limit::Number(0.0)), &[]),
        summary: "the last restore of a backup of {database} in {dataset} failed a check",
        meaning: "The database did not start on the restored backup, or its own checks found damage. The database itself may have the same damage, and newer backups too.",
        action: "`poolwright backup list DATASET` names the backup and the last one that passed; `poolwright backup verify DATASET NAME` repeats the checks with their messages. Check the database with its own programs. `prune` keeps the last good backup.",
        example: Example::levels(&BACKUPS_RESTORE_PASSED, BACKUP, 0.0, 1.0),
    },
    rule! {
        name: "BackupNotTested",
        condition: When(holds(all(&BACKUPS_UNTESTED)), &[]),
        summary: "the last restore of a backup of {database} in {dataset} could not test it",
        meaning: "The host lacked memory, space in the scratch directory, or a program. This says nothing about the backup, and `prune` does not treat it as one that failed.",
        action: "The JSON output of `poolwright backup list DATASET` has the reason (`untested`). Remove it, and run `poolwright backup verify DATASET` again, with another scratch directory if its space was short.",
        example: Example::levels(&BACKUPS_UNTESTED, BACKUP, 1.0, 0.0),
    },
    rule! {
        name: "BackupRestoreOld",
        condition: When(above(Expression::Age(GOOD_RESTORE), &RESTORE_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "the last restore of a backup of {database} in {dataset} that passed was {value} ago",
        meaning: "Since then, no backup has been shown to be usable: restores were not tested, or failed.",
        action: "Run `poolwright backup verify DATASET`, and regularly: the package has a timer for it.",
        is_figure: true,
        example: Example::levels(&BACKUPS_GOOD_RESTORE, BACKUP, -15.0 * DAY, -13.0 * DAY),
    },
    rule! {
        name: "BackupNeverRestored",
        condition: When(
            above(Expression::Age(only(&BACKUPS_OLDEST, OF_BACKUPS)), &RESTORE_AGE),
            &[Unless(is_positive(Expression::Age(GOOD_RESTORE)))],
        ),
        format: ValueFormat::Duration,
        summary: "no backup of {database} in {dataset} has passed a restore; the oldest is {value} old",
        meaning: "No restore has shown that the backups are usable. `prune` removes none of them meanwhile, so they fill the pool.",
        action: "Run `poolwright backup verify DATASET`, and regularly: the package has a timer for it.",
        example: Example::Series {
            fires: &[constant(&BACKUPS_OLDEST, BACKUP, -15.0 * DAY)],
            quiet: &[
                constant(&BACKUPS_OLDEST, BACKUP, -15.0 * DAY),
                constant(&BACKUPS_GOOD_RESTORE, BACKUP, -13.0 * DAY),
            ],
        },
    },
    rule! {
        name: "ArchiveOld",
        condition: When(above(Expression::Age(only(&BACKUPS_NEWEST, OF_ARCHIVES)), &ARCHIVE_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "the newest backup of {database} in the archive {dataset} is {value} old",
        meaning: "No newer backup was copied into the archive. If the dataset of the backups is lost, what was written since is lost with it.",
        action: "`systemctl status 'poolwright-backup-archive@*'` or the log of your job says why. Run `poolwright backup archive`.",
        example: Example::Series {
            fires: &[constant(&BACKUPS_NEWEST, ARCHIVE, -10.0 * DAY)],
            quiet: &[constant(&BACKUPS_NEWEST, ARCHIVE, -8.0 * DAY), constant(&BACKUPS_NEWEST, BACKUP, -10.0 * DAY)],
        },
    },
    rule! {
        name: "ReplicaOld",
        condition: When(above(Expression::Age(all(&REPLICA_SENT)), &REPLICA_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "{dataset} was last sent to {target} {value} ago",
        meaning: "No transfer has brought the target up to date since. What was written since is lost with this host.",
        action: "`systemctl status 'poolwright-backup-send@*' 'poolwright-backup-wal-send@*'` or the log of your job says why. Run `poolwright backup send`. If the target was given up on purpose, remove its record (see [backup.md](backup.md#in-the-monitor)).",
        example: Example::levels(&REPLICA_SENT, &["tank/backup", "root@b.example:vault/pg"], -2.0 * DAY, -DAY),
    },
];
