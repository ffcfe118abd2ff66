//! A verification: the changes of the live database, next to the promised ones. The page and the terminal have the same
//! table.

use poolwright_base::units::bytes;
use poolwright_plan::{
    CheckedPromise, LiveMeasurement, MetricName, PromiseVerdict, RateUnit, Verification, VerificationVerdict,
};
use poolwright_report::{Callout, Cell, Section, Table, Tone, Unit};

/// An explanation of the table.
pub const INTERVALS: &str = "Medians of the blocks of a recording of the database in operation, and the change from before the plan to \
                             now, with 95 % intervals. The goal of the plan has the figures marked with *; they decide.";

/// Fills the section of the page.
pub fn section(section: &mut Section, found: &Verification) {
    let kind = match found.verdict {
        VerificationVerdict::Kept | VerificationVerdict::Less => Callout::Change,
        VerificationVerdict::NotApplied | VerificationVerdict::Unclear | VerificationVerdict::Broken => {
            Callout::Warning
        }
    };
    section.callout(kind, headline(found), &found.why);
    if !found.promises.is_empty() {
        section.table(&table(found));
        section.paragraph(INTERVALS);
    }
    let remarks = [reasons(found), found.warnings.clone()].concat();
    section.list(&remarks);
    section.folded("How it was measured", |inside| {
        inside.key_values(conditions(found));
    });
}

/// The verdict in a few words.
pub fn headline(found: &Verification) -> &'static str {
    match found.verdict {
        VerificationVerdict::NotApplied => "Not applied",
        VerificationVerdict::Kept => "Promises kept",
        VerificationVerdict::Less => "Less than promised",
        VerificationVerdict::Broken => "Promises not kept",
        VerificationVerdict::Unclear => "Not decided",
    }
}

/// The length of the recordings: `60 s, before: 60 s`.
pub fn about(found: &Verification) -> String {
    let length =
        |of: &LiveMeasurement| format!("{} in {} blocks", Unit::Seconds.format(of.seconds), of.blocks);
    match (&found.before, &found.after) {
        (Some(before), Some(after)) => format!("{}, before: {}", length(after), length(before)),
        (Some(only), None) | (None, Some(only)) => length(only),
        (None, None) => String::new(),
    }
}

/// A table with a row for each promise.
pub fn table(found: &Verification) -> Table {
    let mark = |promise: &CheckedPromise| if promise.is_goal { " *" } else { "" };
    Table::of(&found.promises)
        .left("figure", |promise| format!("{}{}", promise.metric.title(), mark(promise)))
        .right("before", |promise| Cell::num(promise.measured.map(|of| of.from), unit(&promise.metric)))
        .right("now", |promise| Cell::num(promise.measured.map(|of| of.to), unit(&promise.metric)))
        .right("change", |promise| {
            Cell::num(promise.measured.map(|of| of.change), Unit::Change).tone(tone(promise.verdict))
        })
        .right("95 % interval", |promise| promise.measured.map(|of| Unit::Change.range(of.ci95)))
        .right("promised", |promise| Cell::num(promise.promised.change, Unit::Change))
        .right("95 % interval", |promise| promise.promised.ci95.map(|ci95| Unit::Change.range(ci95)))
        .left("verdict", |promise| Cell::text(verdict(promise)).tone(tone(promise.verdict)))
        .table()
}

fn verdict(promise: &CheckedPromise) -> &'static str {
    match promise.verdict {
        PromiseVerdict::Kept => "kept",
        PromiseVerdict::Less => "less",
        PromiseVerdict::Broken => "not kept",
        PromiseVerdict::NothingPromised => "nothing promised",
        PromiseVerdict::Unclear => "unclear",
    }
}

/// Why promises are unclear: the figures, and the reason.
pub fn reasons(found: &Verification) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for promise in &found.promises {
        let Some(why) = &promise.why else { continue };
        let name = promise.metric.title();
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    reasons.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect()
}

fn tone(verdict: PromiseVerdict) -> Tone {
    match verdict {
        PromiseVerdict::Kept => Tone::Good,
        PromiseVerdict::Broken => Tone::Bad,
        PromiseVerdict::Less | PromiseVerdict::Unclear | PromiseVerdict::NothingPromised => Tone::Plain,
    }
}

/// The unit of a metric in operation. The space is per byte of the files, the rate per second.
fn unit(name: &MetricName) -> Unit {
    match name {
        MetricName::WorkRate => Unit::PerSecond,
        MetricName::AllocatedBytes => Unit::Fraction,
        other => other.unit(),
    }
}

fn conditions(found: &Verification) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (when, of) in [("before", &found.before), ("now", &found.after)] {
        let Some(of) = of else { continue };
        let date = of.created.as_ref().map_or_else(String::new, |created| format!(", ended {created}"));
        let length = Unit::Seconds.format(of.seconds);
        all.push((format!("recording {when}"), format!("{length}, {} blocks{date}", of.blocks)));
        let mix = &of.mix;
        all.push((
            format!("load {when}"),
            format!(
                "{:.0} reads/s of {}, {:.0} writes/s of {}, {:.0} syncs/s",
                mix.reads_s,
                bytes(mix.read_bytes as u64),
                mix.writes_s,
                bytes(mix.write_bytes as u64),
                mix.syncs_s
            ),
        ));
        all.push((
            format!("work {when}"),
            match &of.rate {
                RateUnit::FileOperations => "file operations of the foreground threads".to_owned(),
                RateUnit::Command(command) => format!("counted by `{command}`"),
            },
        ));
    }
    all
}
