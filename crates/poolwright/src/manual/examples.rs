//! Examples and usage lines of the verbs, which their help texts, man pages and reference documentation show.

use clap::Command;

/// The examples and the usage line of a verb.
#[derive(Clone, Copy, Debug)]
pub struct VerbExamples {
    /// The verb, followed by its subcommand if there is one.
    pub path: &'static [&'static str],
    /// Complete command lines, which run if their files exist.
    pub examples: &'static [&'static str],
    /// The usage line in the style of `zfs` and `zpool`, for verbs whose generated line does not show the order of the
    /// arguments.
    pub usage: Option<&'static str>,
}

const fn entry(path: &'static [&'static str], examples: &'static [&'static str]) -> VerbExamples {
    VerbExamples { path, examples, usage: None }
}

/// The examples of all verbs.
pub const EXAMPLES: &[VerbExamples] = &[
    entry(
        &["inspect"],
        &["poolwright inspect", "poolwright inspect /var/lib/mysql -v", "poolwright inspect tank --json"],
    ),
    entry(
        &["estimate"],
        &[
            "poolwright estimate /var/lib/mysql -o recordsize=16K,128K -o compression=lz4,zstd-3 --ashift 12",
            "poolwright estimate dump.sql --full --json",
        ],
    ),
    entry(&["record"], &["poolwright record --dir /var/lib/mysql --for 60s -o mysql.parquet"]),
    entry(&["trace", "show"], &["poolwright trace show mysql.parquet"]),
    entry(&["trace", "import"], &["poolwright trace import job.log -o job.parquet"]),
    entry(&["trace", "export"], &["poolwright trace export mysql.parquet --format csv -o mysql.csv"]),
    entry(
        &["mrc"],
        &["poolwright mrc mysql.parquet --recordsize 16K,128K --sizes 256M,1G,4G -o report.html"],
    ),
    entry(
        &["replay"],
        &[
            "poolwright replay mysql.parquet -o recordsize=16K,128K -o wal:logbias=latency,throughput --repeat 3",
        ],
    ),
    entry(
        &["tune"],
        &[
            "poolwright tune /var/lib/mysql --for 60s --goal balanced",
            "poolwright tune /var/lib/mysql --trace mysql.parquet --goal space --arc 1G --device sata-ssd",
        ],
    ),
    entry(
        &["confirm"],
        &["poolwright confirm plan.json --start ./start.sh --load ./load.sh --stop ./stop.sh --settle 10s"],
    ),
    entry(
        &["apply"],
        &[
            "poolwright apply plan.json --dry-run",
            "poolwright apply plan.json --unit mariadb.service --online --max-downtime 30s",
            "poolwright apply plan.json --stop './stop-db' --start './start-db'",
            "poolwright apply plan.json --new-pool fast --online --unit postgresql@15-main.service",
        ],
    ),
    entry(
        &["undo"],
        &["poolwright undo plan.json --unit mariadb.service", "poolwright undo plan.json --discard"],
    ),
    entry(
        &["verify"],
        &[
            "poolwright verify plan.json --for 10m",
            "poolwright verify plan.json --work ./count-transactions.sh",
            "poolwright verify plan.json --before before.parquet --report report.html",
        ],
    ),
    entry(
        &["backup", "run"],
        &[
            "poolwright backup run /srv/pg --to tank/backup --dry-run",
            "poolwright backup run /srv/pg /srv/wal --to tank/backup --rate 50M",
            "poolwright backup run /srv/orientdb --to tank/backup --freeze ./freeze.sh --thaw ./release.sh",
        ],
    ),
    entry(&["backup", "wal-create"], &["poolwright backup wal-create tank/backup --to tank/wal-archive"]),
    entry(
        &["backup", "wal-push"],
        &["poolwright backup wal-push /tank/wal-archive pg_wal/00000001000000000000002A"],
    ),
    entry(&["backup", "list"], &["poolwright backup list tank/backup"]),
    entry(
        &["backup", "verify"],
        &[
            "poolwright backup verify tank/backup",
            "poolwright backup verify tank/backup --all --check ./invariants.sh",
            "poolwright backup verify tank/backup --until 2026-03-01T14:05:00Z",
        ],
    ),
    entry(
        &["backup", "restore"],
        &[
            "poolwright backup restore tank/backup --dry-run",
            "poolwright backup restore tank/backup --until 2026-03-01T14:05:00Z",
            "poolwright backup restore tank/backup 20260301T020003Z --to /srv/check",
        ],
    ),
    entry(
        &["backup", "archive"],
        &[
            "poolwright backup archive tank/backup --to vault/archive --dry-run",
            "poolwright backup archive tank/backup --to vault/archive -o recordsize=1M -o compression=zstd-9 --rate 20M",
        ],
    ),
    entry(
        &["backup", "send"],
        &[
            "poolwright backup send tank/backup --to vault/replica --dry-run",
            "poolwright backup send tank/backup --to root@backup.example:vault/pg --rate 20M",
            "poolwright backup send tank/backup --to root@backup.example:vault/pg --ssh /root/ssh-to-replica",
            "poolwright backup send tank/wal --to root@backup.example:vault/wal",
        ],
    ),
    entry(
        &["backup", "prune"],
        &[
            "poolwright backup prune tank/backup --keep 7 --keep-for 30d --dry-run",
            "poolwright backup prune tank/backup --keep 7 --archive vault/archive",
        ],
    ),
    entry(
        &["pool", "create"],
        &[
            "poolwright pool create tank /srv/tank.img:50G -o ashift=12 -O compression=lz4",
            "poolwright pool create tank mirror /srv/a.img:50G /srv/b.img:50G",
            "poolwright pool create tank mirror /srv/a.img:50G /disk2/b.img:50G spare /disk3/s.img:50G",
        ],
    ),
    entry(
        &["pool", "add"],
        &[
            "poolwright pool add tank mirror /srv/c.img:50G /srv/d.img:50G",
            "poolwright pool add tank log /srv/log.img:4G cache /ssd/cache.img:20G",
            "poolwright pool add tank spare /disk3/s.img:50G",
        ],
    ),
    entry(&["pool", "attach"], &["poolwright pool attach -w tank /srv/a.img /disk2/b.img"]),
    entry(&["pool", "detach"], &["poolwright pool detach tank /srv/a.img"]),
    entry(&["pool", "remove"], &["poolwright pool remove tank /ssd/log.img"]),
    entry(
        &["pool", "replace"],
        &[
            "poolwright pool replace tank /srv/a.img /disk2/a.img",
            "poolwright pool replace tank /srv/a.img",
            "poolwright pool replace tank /disk2/b.img /disk3/s.img",
        ],
    ),
    entry(&["pool", "destroy"], &["poolwright pool destroy tank"]),
    entry(
        &["pool", "import"],
        &[
            "poolwright pool import /srv/tank.img",
            "poolwright pool import tank -d /srv",
            "poolwright pool import -D /srv/tank.img",
        ],
    ),
    entry(&["pool", "export"], &["poolwright pool export tank"]),
    entry(&["pool", "status"], &["poolwright pool status tank"]),
    entry(&["pool", "list"], &["poolwright pool list"]),
    entry(&["pool", "iostat"], &["poolwright pool iostat -v tank 1"]),
    entry(&["pool", "scrub"], &["poolwright pool scrub -w tank"]),
    entry(&["dataset", "create"], &["poolwright dataset create tank/db -o recordsize=16K"]),
    VerbExamples {
        path: &["dataset", "set"],
        examples: &["poolwright dataset set compression=lz4 quota=20G tank/db"],
        usage: Some("poolwright dataset set [OPTIONS] PROPERTY=VALUE… DATASET…"),
    },
    VerbExamples {
        path: &["dataset", "inherit"],
        examples: &["poolwright dataset inherit -r compression tank/db"],
        usage: Some("poolwright dataset inherit [OPTIONS] PROPERTY DATASET…"),
    },
    VerbExamples {
        path: &["dataset", "get"],
        examples: &["poolwright dataset get recordsize,compressratio tank/db"],
        usage: Some("poolwright dataset get [OPTIONS] all|PROPERTY,… DATASET|SNAPSHOT…"),
    },
    entry(&["dataset", "list"], &["poolwright dataset list -r -t all tank"]),
    entry(&["dataset", "snapshot"], &["poolwright dataset snapshot -r tank/db@before"]),
    entry(
        &["dataset", "clone"],
        &["poolwright dataset clone tank/db@before tank/experiment -o compression=zstd"],
    ),
    entry(&["dataset", "promote"], &["poolwright dataset promote tank/experiment"]),
    entry(&["dataset", "rollback"], &["poolwright dataset rollback tank/db@before"]),
    entry(&["dataset", "destroy"], &["poolwright dataset destroy tank/db@before"]),
    entry(
        &["mount"],
        &[
            "poolwright mount tank/db /mnt/db --background",
            "poolwright mount tank/db /mnt/db --arc 1G --device nvme --record db.parquet",
        ],
    ),
    entry(
        &["serve"],
        &[
            "poolwright serve",
            "poolwright serve --listen 192.0.2.7:9968 --tls-cert cert.pem --tls-key key.pem --token-file token",
        ],
    ),
    entry(
        &["monitor"],
        &["poolwright monitor", "poolwright monitor --every 500ms", "poolwright monitor --once --json"],
    ),
    entry(
        &["check"],
        &[
            "poolwright check",
            "poolwright check PoolDegraded ScrubOverdue --threshold scrub-age=1209600",
            "poolwright check --prometheus --threshold quota=0.8",
        ],
    ),
    entry(&["lab", "list"], &["poolwright lab list"]),
    entry(
        &["lab", "run"],
        &[
            "poolwright lab run ldap-import",
            "poolwright lab run ldap-import --scale full --only primarycache",
        ],
    ),
    entry(&["lab", "share"], &["poolwright lab share ldap-import /shared/ldap"]),
    entry(
        &["lab", "task"],
        &["poolwright lab task 7 --shared /shared/ldap --node node3 --scratch /local/scratch"],
    ),
    entry(&["lab", "report"], &["poolwright lab report ldap-import -o ldap.html"]),
];

/// Adds the examples and usage lines to the help of the verbs.
pub fn with_examples(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, entry| add(command, entry.path, entry))
}

fn add(command: Command, path: &[&'static str], entry: &VerbExamples) -> Command {
    match path {
        [] => {
            let command = command.after_help(format!("Examples:\n  {}", entry.examples.join("\n  ")));
            match entry.usage {
                Some(usage) => command.override_usage(usage),
                None => command,
            }
        }
        [verb, rest @ ..] => command.mut_subcommand(verb, |below| add(below, rest, entry)),
    }
}
