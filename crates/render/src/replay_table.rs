//! The table of replayed trials, with the medians of each setting.

use std::collections::BTreeMap;

use poolwright_base::quoted;
use poolwright_base::stats::median;
use poolwright_base::units::{counted, format_count, format_ns, format_size};
use poolwright_replay::rounds::Stopped;
use poolwright_replay::settings::PerRole;
use poolwright_replay::{Error, Latency, Replay};
use poolwright_report::{Cell, Table, Terminal, Unit};

/// The trials of one setting.
#[derive(Debug)]
pub struct TrialRow<'a> {
    /// The name of the setting, as from [`settings`].
    pub label: String,
    /// Its trials.
    pub trials: &'a [Replay],
}

/// A setting in the syntax of the command line: `recordsize=16K wal:compression=off`.
pub fn settings(per_role: &PerRole) -> String {
    let one = |(role, settings): (&String, &BTreeMap<String, String>)| {
        let prefix = if role == "*" { String::new() } else { format!("{role}:") };
        settings.iter().map(|(k, v)| format!("{prefix}{k}={v}")).collect::<Vec<_>>().join(" ")
    };
    let text: Vec<String> = per_role.iter().map(one).collect();
    if text.is_empty() { "OpenZFS defaults".into() } else { text.join(" ") }
}

/// Renders the medians of each setting, then a few lines that apply to all trials.
pub fn text(rows: &[TrialRow<'_>], terminal: Terminal) -> String {
    let has_work_rate = rows.iter().flat_map(|row| row.trials).any(|trial| trial.work_rate.is_some());
    let of = |row: &TrialRow<'_>, figure: &dyn Fn(&Replay) -> Option<f64>, unit: Unit| {
        let values: Vec<f64> = row.trials.iter().filter_map(figure).collect();
        Cell::num((!values.is_empty()).then(|| median(&values)), unit)
    };
    let latency = |row: &TrialRow<'_>, kind: &str, percentile: fn(&Latency) -> u64| {
        of(row, &|r| Some(percentile(r.latency_ns.get(kind)?) as f64), Unit::Nanoseconds)
    };
    let space_ratio = |r: &Replay| r.logical_bytes as f64 / r.allocated_bytes.max(1) as f64;
    let table = Table::of(rows)
        .left("settings", |row| row.label.as_str())
        .right_if(has_work_rate, "work rate", |row| of(row, &|r| r.work_rate, Unit::Ratio))
        .right("ops/s", |row| of(row, &|r| Some(r.ops_per_second), Unit::Count))
        .right("read p50", |row| latency(row, "read", |l| l.p50))
        .right("p99", |row| latency(row, "read", |l| l.p99))
        .right("write p50", |row| latency(row, "write", |l| l.p50))
        .right("sync p50", |row| latency(row, "fsync", |l| l.p50))
        .right("p99", |row| latency(row, "fsync", |l| l.p99))
        .right("write amp.", |row| of(row, &|r| r.write_amplification, Unit::None))
        .right("ARC hits", |row| of(row, &arc_hit_ratio, Unit::Fraction))
        .right("space", |row| of(row, &|r| Some(r.allocated_bytes as f64), Unit::Bytes))
        .right("ratio", |row| of(row, &|r| Some(space_ratio(r)), Unit::Ratio))
        .right("CPU", |row| of(row, &|r| Some(r.cpu_seconds), Unit::Seconds))
        .table();
    table.terminal_in_parts(terminal, 1) + &remarks(rows)
}

/// `None` for a directory, which has no ARC, and for a trial without accesses.
fn arc_hit_ratio(trial: &Replay) -> Option<f64> {
    let accesses = trial.arc.hits + trial.arc.iohits + trial.arc.misses;
    (accesses > 0).then(|| trial.arc.hits as f64 / accesses as f64)
}

/// The work, the target and the fidelity of the trials, from the first of them.
fn remarks(rows: &[TrialRow<'_>]) -> String {
    let Some(one) = rows.iter().flat_map(|row| row.trials).next() else { return String::new() };
    let trials = rows.iter().map(|row| row.trials.len()).max().unwrap_or(0);
    let mut out = format!(
        "\n{} on {}; medians of {} per setting; filled with {}, {:.1} % of the written bytes are the files' \
         own.\n",
        counted(one.ops, "operation"),
        one.target,
        counted(trials as u64, "trial"),
        format_size(one.filled_bytes),
        one.written_real * 100.0
    );
    if let Some(a) = &one.application {
        out += &format!(
            "Work rate is recorded seconds of work per second. Foreground: {}, {}; background: {}, {}; {} waited \
             for another thread.\n",
            counted(u64::from(a.foreground_threads), "thread"),
            counted(a.foreground_ops, "operation"),
            counted(u64::from(a.background_threads), "thread"),
            counted(a.background_ops, "operation"),
            format_count(a.wakes)
        );
    }
    if one.max_lag_ns > 0 {
        out += &format!("Largest delay behind the recorded time: {}.\n", format_ns(one.max_lag_ns));
    }
    if !one.skipped.is_empty() {
        let list: Vec<String> =
            one.skipped.iter().map(|(op, n)| format!("{} {op}", format_count(*n))).collect();
        out += &format!("Not replayed: {}.\n", list.join(", "));
    }
    out
}

/// A sentence about a setting whose trial was stopped. `repeat` is the number of trials of each setting, and `label` the name of
/// this one.
pub fn stopped(stopped: &Stopped, repeat: u32, label: &str) -> String {
    let trial = if repeat == 1 { String::new() } else { format!(" in trial {} of {repeat}", stopped.trial) };
    let why = match &stopped.why {
        Error::TooLong(limit) => format!("after {} s", limit.as_secs_f64()),
        Error::UsedUp { path, .. } => format!("because {} was nearly full", quoted(&path)),
        other => format!("by an error ({other})"),
    };
    format!("Stopped {why}{trial}, so there is no result for {label}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_spelled_as_on_the_command_line() {
        let of = |role: &str, name: &str, value: &str| {
            (role.to_owned(), BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        let per_role = PerRole::from([of("*", "recordsize", "16K"), of("wal", "compression", "off")]);
        assert_eq!(settings(&per_role), "recordsize=16K wal:compression=off");
        assert_eq!(settings(&PerRole::new()), "OpenZFS defaults");
    }

    #[test]
    fn columns_without_figures_are_dashes() {
        let trials = [Replay { ops: 1, ops_per_second: 10.0, ..Replay::default() }];
        let rows =
            [TrialRow { label: "16K".into(), trials: &trials }, TrialRow { label: "8K".into(), trials: &[] }];
        let text = text(&rows, Terminal::PLAIN);
        assert!(text.contains("1 operation on ; medians of 1 trial per setting"), "{text}");
        assert!(!text.contains("work rate") && text.contains('–'), "{text}");
    }
}
