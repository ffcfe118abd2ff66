//! The conditions of the measurements, and how to read the figures.

use poolwright_base::units::{bytes, counted};
use poolwright_plan::{Device, Plan, ReplayBytes};
use poolwright_report::{Section, Unit};

use super::format;

/// Adds the machine, the device, the data, the recording and the seeds.
pub fn machine(section: &mut Section, plan: &Plan) {
    let m = &plan.machine;
    let mut all: Vec<(&str, String)> = vec![
        ("system", format!("{}, kernel {}", m.os, m.kernel)),
        ("CPU", format!("{}, {}", m.cpu, counted(m.cores.into(), "logical CPU"))),
        ("memory", bytes(m.memory_bytes)),
        ("OpenZFS", m.openzfs.clone()),
    ];
    all.extend(m.openzfs_kernel.iter().map(|v| ("OpenZFS in the kernel", v.clone())));
    all.extend(m.arc_bytes.map(|n| ("ARC limit of the trials", bytes(n))));
    all.extend(m.backing.iter().map(|b| ("device below the trials' pools", b.clone())));
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
        None => section.paragraph("There is no recording."),
    };
    skipped(section, plan);
}

fn work(plan: &Plan) -> String {
    let failed = match plan.failed_trials {
        0 => String::new(),
        n => format!(" ({} failed)", Unit::Count.format(n as f64)),
    };
    let took = Unit::Seconds.format(plan.seconds);
    format!("{}{failed} in {took}, without the recording", counted(plan.trials, "trial"))
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
        d.cache_bytes.map(|n| format!("read cache {}", Unit::Bytes.format(n as f64))),
        rate("reads", d.read_bytes_s),
        rate("writes", d.write_bytes_s),
        d.iops.map(|n| format!("{} operations per second", Unit::Count.format(n as f64))),
        d.queue_depth.map(|n| format!("queue depth {n}")),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let profile = if d.profile == "none" { "none: the machine's own speed" } else { &d.profile };
    if figures.is_empty() { profile.to_owned() } else { format!("{profile}: {}", figures.join(", ")) }
}

fn data(plan: &Plan) -> Vec<(&'static str, String)> {
    let (s, d) = (&plan.subject, &plan.data);
    let written = match d.replay_bytes {
        ReplayBytes::File => "those of the files at the same offset",
        ReplayBytes::Synthetic => "synthetic, with the measured compressibility of the files",
    };
    let mut all = vec![
        ("directory", s.directory.clone()),
        ("files", counted(s.files, "file")),
        ("length", bytes(s.bytes)),
    ];
    // It is not known of a volume.
    all.extend((s.allocated_bytes > 0).then(|| ("allocated today", bytes(s.allocated_bytes))));
    all.extend([
        ("sampled", bytes(d.sampled_bytes)),
        ("entropy", format!("{:.2} bits per byte", d.entropy_bits_per_byte)),
        ("zero pages", Unit::Fraction.format(d.zero_fraction)),
        ("lz4, 128K chunks", Unit::Ratio.format(d.lz4_ratio)),
        ("zstd-3, 128K chunks", Unit::Ratio.format(d.zstd3_ratio)),
        ("bytes written in trials", written.to_owned()),
    ]);
    all
}

fn recording(plan: &Plan) -> Option<Vec<(&'static str, String)>> {
    let t = plan.trace.as_ref()?;
    let ops: Vec<String> = t.ops.iter().map(|(op, n)| counted(*n, op)).collect();
    let bytes: Vec<String> = t.bytes.iter().map(|(op, n)| format!("{op} {}", bytes(*n))).collect();
    let mut all = vec![("subject", t.subject.clone()), ("length", Unit::Seconds.format(t.duration_s))];
    all.extend(plan.longest_slice().map(|slice| ("replayed in trials", format::slice(&slice))));
    all.extend([
        ("operations", ops.join(", ")),
        ("bytes", bytes.join(", ")),
        ("lost events", Unit::Count.format(t.lost_events as f64)),
        ("recorded by", format!("{}, probe set {}", t.creator, t.probe_set)),
    ]);
    all.extend(t.path.iter().map(|p| ("file", p.clone())));
    Some(all)
}

/// The first files that could not be read.
fn skipped(section: &mut Section, plan: &Plan) {
    const SHOWN: usize = 20;
    let all = &plan.subject.skipped;
    if all.is_empty() {
        return;
    }
    section.heading("Files left out");
    let mut lines: Vec<String> =
        all.iter().take(SHOWN).map(|s| format!("`{}`: {}", s.path, s.reason)).collect();
    if all.len() > SHOWN {
        lines.push(format!("and {} more, listed in the plan", all.len() - SHOWN));
    }
    section.list(lines);
}

/// Explains the objective and the metrics, and names the documents.
pub fn how_to_read(section: &mut Section, plan: &Plan) {
    section.paragraph(
        "The objective compares a setting with today's settings. It is the weighted geometric mean of the ratios of \
         the metrics, so today's settings have 1 and lower is better. A metric that is missing on either side is ignored.",
    );
    section.paragraph(
        "`objective = exp( Σ weight · ln( setting / today ) )`; the fraction is inverted for metrics that are better when \
         higher.",
    );
    section.paragraph(&format!("Weights of the goal {}: {}.", plan.goal.name, format::weights(&plan.goal)));
    section.list([
        "Space: the space on the pool that the files' data blocks take (level-0 `asize`), after compression and rounding \
         to sectors.",
        "Latency: measured at the file interface, so ARC hits count. 99 of 100 operations are faster than the p99.",
        "Write amplification: bytes written to devices per byte written by the database. It determines the wear of an SSD.",
        "Gain: from trials of today's and of the recommended settings. Its interval shows how far repeated trials scatter. It does \
         not contain the error of the prediction, which is larger: see the track record at the top, and confirm the plan.",
        "Trials are measured. Estimates are computed from samples of the files, models from the sizes of the operations.",
        "`recordsize` applies to new files only, and `volblocksize` to new volumes; the other properties to all data written after the change.",
    ]);
    section.paragraph(
        "`docs/method.md` describes how each figure is obtained and its limits; `docs/plan-format.md` describes the fields \
         of the plan.",
    );
}
