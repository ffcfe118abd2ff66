//! The table of what was measured.

use std::collections::BTreeMap;

use poolwright_replay::Replay;
use poolwright_report::{Cell, Column, Table, Unit};
use poolwright_stats::median;
use poolwright_trace::{format_ns, format_size};

use super::Args;
use crate::commands::options::PerRole;

/// What a row of the table is of: the settings, or the directory's file system, which has none.
pub fn label(args: &Args, per_role: &PerRole) -> String {
    match &args.dir {
        None => spelled(per_role),
        Some(dir) => format!("{} in {}", poolwright_host::mountinfo::file_system(dir), dir.display()),
    }
}

/// The settings as on the command line.
pub fn spelled(per_role: &PerRole) -> String {
    let one = |(role, settings): (&String, &BTreeMap<String, String>)| {
        let prefix = if role == "*" { String::new() } else { format!("{role}:") };
        settings.iter().map(|(k, v)| format!("{prefix}{k}={v}")).collect::<Vec<_>>().join(" ")
    };
    let text: Vec<String> = per_role.iter().map(one).collect();
    if text.is_empty() { "OpenZFS defaults".into() } else { text.join(" ") }
}

/// Prints a row of medians for each setting, and what the trials have in common.
pub fn print(args: &Args, settings: &[PerRole], runs: &[Vec<Replay>]) {
    let has_work_rate = runs.iter().flatten().any(|r| r.work_rate.is_some());
    let work_rate = has_work_rate.then(|| Column::right("work rate"));
    let columns = [Column::left("settings")].into_iter().chain(work_rate).chain([
        Column::right("ops/s"),
        Column::right("read p50"),
        Column::right("p99"),
        Column::right("write p50"),
        Column::right("sync p50"),
        Column::right("p99"),
        Column::right("write amp."),
        Column::right("ARC hits"),
        Column::right("space"),
        Column::right("ratio"),
        Column::right("CPU"),
    ]);
    let mut table = Table::new(columns);
    for (per_role, trials) in settings.iter().zip(runs) {
        let of = |f: &dyn Fn(&Replay) -> Option<f64>, unit: Unit| {
            let values: Vec<f64> = trials.iter().filter_map(f).collect();
            if values.is_empty() { Cell::missing() } else { Cell::num(median(&values), unit) }
        };
        let latency = |kinds: &'static [&'static str], p99: bool| {
            of(
                &move |r: &Replay| {
                    let l = kinds.iter().find_map(|k| r.latency_ns.get(*k))?;
                    Some(if p99 { l.p99 } else { l.p50 } as f64)
                },
                Unit::Nanoseconds,
            )
        };
        let work_rate = has_work_rate.then(|| of(&|r| r.work_rate, Unit::Ratio));
        table.row([Cell::text(label(args, per_role))].into_iter().chain(work_rate).chain([
            of(&|r| Some(r.ops_per_second), Unit::Count),
            latency(&["read"], false),
            latency(&["read"], true),
            latency(&["write"], false),
            latency(&["fdatasync", "fsync"], false),
            latency(&["fdatasync", "fsync"], true),
            of(&|r| r.write_amplification, Unit::None),
            of(
                &|r| {
                    // A directory has no ARC, and a trial without accesses no share of hits.
                    let accesses = r.arc.hits + r.arc.iohits + r.arc.misses;
                    (accesses > 0).then(|| r.arc.hits as f64 / accesses as f64)
                },
                Unit::Fraction,
            ),
            of(&|r| Some(r.allocated_bytes as f64), Unit::Bytes),
            of(&|r| Some(r.logical_bytes as f64 / r.allocated_bytes.max(1) as f64), Unit::Ratio),
            of(&|r| Some(r.cpu_seconds), Unit::Seconds),
        ]));
    }
    print!("{}", table.terminal_in_parts(crate::stdout::terminal(), 1));
    let Some(one) = runs.iter().flatten().next() else { return };
    let trials = runs.iter().map(Vec::len).max().unwrap_or(0);
    println!(
        "\n{} on {}; medians of {} trial{} per setting; filled with {}, {:.1} % of the written bytes are the files' own.",
        poolwright_trace::format_count(one.ops) + " operations",
        one.target,
        trials,
        if trials == 1 { "" } else { "s" },
        format_size(one.filled_bytes),
        one.written_real * 100.0
    );
    if let Some(a) = &one.application {
        println!(
            "Work rate is recorded seconds of work per second. Foreground: {} threads, {} operations; background: {} threads, \
             {} operations; {} waited for another thread.",
            a.foreground_threads, a.foreground_ops, a.background_threads, a.background_ops, a.wakes
        );
    }
    if one.max_lag_ns > 0 {
        println!("Largest delay behind the recorded time: {}.", format_ns(one.max_lag_ns));
    }
    if !one.skipped.is_empty() {
        let list: Vec<String> = one.skipped.iter().map(|(op, n)| format!("{n} {op}")).collect();
        println!("Not replayed: {}.", list.join(", "));
    }
}
