//! Help texts beside the options: examples and usage lines of each verb, in one table; the version; the exit codes.

use std::sync::LazyLock;

use clap::Command;
use poolwright_openzfs::Engine;

use crate::failure::EXIT_CODES;

/// The program's version, its commit with the date, and the OpenZFS release that it was built with.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (version, commit, date) =
        (env!("CARGO_PKG_VERSION"), env!("POOLWRIGHT_COMMIT"), env!("POOLWRIGHT_DATE"));
    format!("{version} (commit {commit}, {date}, OpenZFS {})", Engine::version())
});

/// The examples and the usage line of one verb.
struct Entry {
    /// The verb, followed by its subcommand if there is one.
    path: &'static [&'static str],
    /// Complete command lines, which run if their files exist.
    examples: &'static [&'static str],
    /// The usage line in the style of `zfs` and `zpool`, for verbs whose generated line does not show the order of the
    /// arguments.
    usage: Option<&'static str>,
}

const fn entry(path: &'static [&'static str], examples: &'static [&'static str]) -> Entry {
    Entry { path, examples, usage: None }
}

const ENTRIES: &[Entry] = &[
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
            "poolwright tune --repeat plan.json",
        ],
    ),
    entry(
        &["confirm"],
        &["poolwright confirm plan.json --start ./start.sh --load ./load.sh --stop ./stop.sh --settle 10s"],
    ),
    entry(
        &["pool", "create"],
        &[
            "poolwright pool create tank /srv/tank.img:50G -o ashift=12 -O compression=lz4",
            "poolwright pool create tank mirror /srv/a.img:50G /srv/b.img:50G",
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
    Entry {
        path: &["dataset", "set"],
        examples: &["poolwright dataset set compression=lz4 quota=20G tank/db"],
        usage: Some("poolwright dataset set [OPTIONS] PROPERTY=VALUE… DATASET…"),
    },
    Entry {
        path: &["dataset", "inherit"],
        examples: &["poolwright dataset inherit -r compression tank/db"],
        usage: Some("poolwright dataset inherit [OPTIONS] PROPERTY DATASET…"),
    },
    Entry {
        path: &["dataset", "get"],
        examples: &["poolwright dataset get recordsize,compressratio tank/db"],
        usage: Some("poolwright dataset get [OPTIONS] all|PROPERTY,… DATASET|SNAPSHOT…"),
    },
    entry(&["dataset", "list"], &["poolwright dataset list -r -t all tank"]),
    entry(&["dataset", "snapshot"], &["poolwright dataset snapshot -r tank/db@before"]),
    entry(&["dataset", "rollback"], &["poolwright dataset rollback tank/db@before"]),
    entry(&["dataset", "destroy"], &["poolwright dataset destroy tank/db@before"]),
    entry(
        &["mount"],
        &[
            "poolwright mount tank/db /mnt/db --background",
            "poolwright mount tank/db /mnt/db --arc 1G --device nvme --record db.parquet",
        ],
    ),
    entry(&["lab", "list"], &["poolwright lab list"]),
    entry(&["lab", "run"], &["poolwright lab run ldap-import"]),
    entry(&["lab", "report"], &["poolwright lab report ldap-import -o ldap.html"]),
];

/// The exit codes in one sentence, for the end of the help.
pub fn exit_codes() -> String {
    let codes: Vec<String> =
        EXIT_CODES.iter().map(|(code, meaning, _)| format!("{code} {meaning}")).collect();
    format!("Exit codes: {}.", codes.join("; "))
}

/// Adds the table's examples and usage lines to the verbs.
pub fn complete(command: Command) -> Command {
    ENTRIES.iter().fold(command, |command, entry| add(command, entry.path, entry))
}

fn add(command: Command, path: &[&'static str], entry: &Entry) -> Command {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    /// The visible verbs without subcommands.
    fn leaves(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        let verbs: Vec<&Command> =
            command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help").collect();
        for verb in &verbs {
            leaves(verb, &[path, &[verb.get_name().to_owned()]].concat(), found);
        }
        if verbs.is_empty() {
            found.push(path.to_vec());
        }
    }

    #[test]
    fn every_verb_has_an_example() {
        let mut verbs = Vec::new();
        leaves(&Cli::command(), &[], &mut verbs);
        for verb in &verbs {
            assert!(ENTRIES.iter().any(|entry| entry.path == verb.as_slice()), "{verb:?} has none");
        }
        assert_eq!(verbs.len(), ENTRIES.len(), "an entry's verb does not exist");
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for entry in ENTRIES {
            for example in entry.examples {
                let words: Vec<&str> = example.split(' ').collect();
                assert_eq!(words[0], "poolwright", "{example}");
                assert_eq!(&words[1..=entry.path.len()], entry.path, "{example}");
                let parsed = complete(Cli::command()).try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn descriptions_are_in_the_imperative() {
        fn check(command: &Command) {
            for verb in command.get_subcommands().filter(|c| c.get_name() != "help") {
                let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
                let first = about.split(' ').next().unwrap_or_default();
                assert!(!first.ends_with('s') || first.ends_with("ss"), "{}: {about:?}", verb.get_name());
                check(verb);
            }
        }
        check(&Cli::command());
    }
}
