//! What the figures were measured on, and how to read them.

use poolwright_report::{Section, Unit};
use poolwright_tune::plan::{Device, Plan, ReplayBytes};

use super::format;

/// Machine, device, data, recording, seeds.
pub fn machine(section: &mut Section, plan: &Plan) {
    let m = &plan.machine;
    let mut all: Vec<(&str, String)> = vec![
        ("system", format!("{}, kernel {}", m.os, m.kernel)),
        ("CPU", format!("{}, {}", m.cpu, format::counted(m.cores.into(), "logical CPU"))),
        ("memory", format::bytes(m.memory_bytes)),
        ("OpenZFS", format!("{} (library, ran the trials)", m.openzfs)),
    ];
    all.extend(m.openzfs_kernel.iter().map(|v| ("OpenZFS in the kernel", v.clone())));
    all.extend(m.arc_bytes.map(|n| ("ARC limit of the trials", format::bytes(n))));
    all.extend(m.backing.iter().map(|b| ("pools of the trials on", b.clone())));
    all.push(("emulated device", device(&m.device)));
    if !m.versions.is_empty() {
        let versions: Vec<String> = m.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
        all.push(("other programs", versions.join(", ")));
    }
    all.push(("work", work(plan)));
    if !plan.seeds.is_empty() {
        let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
        all.push(("seeds", seeds.join(", ")));
    }
    section.key_values(all);
    section.heading("The data").key_values(data(plan));
    section.heading("The recording");
    match recording(plan) {
        Some(pairs) => section.key_values(pairs),
        None => section.paragraph("None was given or made."),
    };
    skipped(section, plan);
}

fn work(plan: &Plan) -> String {
    let failed = match plan.failed_trials {
        0 => String::new(),
        n => format!(" ({} failed)", Unit::Count.format(n as f64)),
    };
    let took = Unit::Seconds.format(plan.seconds);
    format!("{}{failed} in {took}, recording left out", format::counted(plan.trials, "trial"))
}

fn device(d: &Device) -> String {
    let time =
        |what: &str, ns: Option<u64>| ns.map(|n| format!("{what} {}", Unit::Nanoseconds.format(n as f64)));
    let rate =
        |what: &str, n: Option<u64>| n.map(|n| format!("{what} {}", Unit::BytesPerSecond.format(n as f64)));
    let figures = [
        time("read", d.read_latency_ns),
        time("write", d.write_latency_ns),
        time("flush", d.flush_latency_ns),
        time("seek", d.seek_ns),
        rate("reads", d.read_bytes_s),
        rate("writes", d.write_bytes_s),
        d.iops.map(|n| format!("{} operations a second", Unit::Count.format(n as f64))),
        d.queue_depth.map(|n| format!("queue depth {n}")),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let profile =
        if d.profile == "none" { "none: nothing added to the machine's own speed" } else { &d.profile };
    if figures.is_empty() { profile.to_owned() } else { format!("{profile}: {}", figures.join(", ")) }
}

fn data(plan: &Plan) -> Vec<(&'static str, String)> {
    let (s, d) = (&plan.subject, &plan.data);
    let written = match d.replay_bytes {
        ReplayBytes::File => "the files' own at the same place",
        ReplayBytes::Synthetic => "made, with the files' measured compressibility",
    };
    vec![
        ("directory", s.directory.clone()),
        ("files", format::counted(s.files, "file")),
        ("length", format::bytes(s.bytes)),
        ("blocks today", format::bytes(s.allocated_bytes)),
        ("judged by", format!("{} of it", format::bytes(d.sampled_bytes))),
        ("entropy", format!("{:.2} bits per byte", d.entropy_bits_per_byte)),
        ("zero pages", Unit::Fraction.format(d.zero_fraction)),
        ("lz4, 128K chunks", Unit::Ratio.format(d.lz4_ratio)),
        ("zstd-3, 128K chunks", Unit::Ratio.format(d.zstd3_ratio)),
        ("bytes written in trials", written.to_owned()),
    ]
}

fn recording(plan: &Plan) -> Option<Vec<(&'static str, String)>> {
    let t = plan.trace.as_ref()?;
    let ops: Vec<String> = t.ops.iter().map(|(op, n)| format::counted(*n, op)).collect();
    let bytes: Vec<String> = t.bytes.iter().map(|(op, n)| format!("{op} {}", format::bytes(*n))).collect();
    let mut all = vec![
        ("of", t.subject.clone()),
        ("length", Unit::Seconds.format(t.duration_s)),
        ("operations", ops.join(", ")),
        ("bytes", bytes.join(", ")),
        ("lost events", Unit::Count.format(t.lost_events as f64)),
        ("recorded by", format!("{}, probe set {}", t.creator, t.probe_set)),
    ];
    all.extend(t.path.iter().map(|p| ("kept as", p.clone())));
    Some(all)
}

/// Files that could not be read; of very many, the first.
fn skipped(section: &mut Section, plan: &Plan) {
    const SHOWN: usize = 20;
    let all = &plan.subject.skipped;
    if all.is_empty() {
        return;
    }
    section.heading("Left out");
    let mut lines: Vec<String> =
        all.iter().take(SHOWN).map(|s| format!("`{}`: {}", s.path, s.reason)).collect();
    if all.len() > SHOWN {
        lines.push(format!("and {} more, all in the plan", all.len() - SHOWN));
    }
    section.list(lines);
}

/// The objective, the words, and where the method is written down.
pub fn how_to_read(section: &mut Section, plan: &Plan) {
    section.paragraph(
        "The objective weighs a setting against today's: the weighted geometric mean of the ratios, so today is \
         1 and lower is better. A metric that is missing on one side takes no part.",
    );
    section.paragraph("`objective = exp( Σ weight · ln( setting / today ) )`, the fraction upside down where higher is better.");
    section.paragraph(&format!("Weights of the goal {}: {}.", plan.goal.name, format::weights(&plan.goal)));
    section.list([
        "Space is what the data blocks of the files take on the pool (level-0 `asize`), after compression and \
         rounding to sectors.",
        "Latency is at the file interface, so with the ARC; p99 is what 99 of 100 operations stay below.",
        "Write amplification is bytes written to devices per byte written by the database: what wears an SSD.",
        "A gain comes from interleaved pairs of trials; its interval holds the true change in 95 of 100 cases. \
         If the interval holds 0, the change is inside the noise, whatever its median.",
        "A trial is measured, an estimate is computed from the files' own bytes, a model from the sizes of the \
         operations alone.",
        "`recordsize` takes effect for new files only; other properties for what is written from then on.",
    ]);
    section.paragraph("How each figure is obtained, and what it cannot tell: `docs/method.md`. The plan's fields: `docs/plan-format.md`.");
}
