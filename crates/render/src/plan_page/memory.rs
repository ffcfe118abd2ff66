//! The section on memory: the reads that ARCs of different sizes would need for the recorded accesses.

use poolwright_plan::Memory;
use poolwright_report::Section;

use crate::mrc_page;

/// Fills the section.
pub fn section(section: &mut Section, memory: &Memory) {
    let Some(explained) = &memory.curve else {
        section.paragraph(&unknown(memory));
        return;
    };
    section.paragraph(&format!("{} {}", mrc_page::format::sentences(explained).join(" "), COMPUTED));
    for (plot, caption) in mrc_page::picture::curves(std::slice::from_ref(explained), &memory.host) {
        section.plot(&plot, &caption);
    }
    section.paragraph(&about(memory));
    section.folded("Figures", |inside| mrc_page::figures(inside, explained));
}

/// The reliability of the curve.
const COMPUTED: &str = "Computed by a model from the recorded accesses, not measured. Accesses that recur only after a time \
                        longer than the recording are not included.";

/// The reason why there is no curve.
pub fn unknown(memory: &Memory) -> String {
    let why =
        memory.unknown.as_deref().unwrap_or("the recording has no access to data that the ARC may cache");
    format!("How much memory the ARC needs is not known: {}.", why.trim_end_matches('.'))
}

/// The inputs of the model: record sizes, read latency, the host's memory.
fn about(memory: &Memory) -> String {
    let records: Vec<String> =
        memory.recordsizes.iter().map(|(role, size)| format!("{role} in records of {size}")).collect();
    let mut text = format!("Modelled: {}", records.join(", "));
    if let Some(ns) = memory.miss_latency_ns {
        let read = poolwright_report::Unit::Nanoseconds.format(ns as f64);
        text += &format!("; a read from the device takes {read}, without queueing");
    }
    for (name, value) in mrc_page::format::host(&memory.host) {
        text += &format!("; {name}: {value}");
    }
    text + "."
}

/// Returns the interpretation of the curve as sentences, for the terminal.
pub fn sentences(memory: &Memory) -> Vec<String> {
    match &memory.curve {
        Some(explained) => mrc_page::format::sentences(explained),
        None => vec![unknown(memory)],
    }
}
