//! Compares the database before and after a plan was applied with what the plan promises.

use poolwright_base::stats::{change_of_samples, median};
use poolwright_base::time;
use poolwright_plan::metric::VERIFIED;
use poolwright_plan::{
    BesidePlan as _, CheckedPromise, Confirmation, Contender, LiveMeasurement, MeasuredPromise, MetricName,
    Plan, PredictedChange, PromiseVerdict, RateUnit, Verification, VerificationVerdict,
};
use poolwright_report::Better;

use crate::blocks::{BLOCKS, MIN_FOR_DEVICES_S};

/// The metrics that count bytes on the devices of the pool.
const OF_DEVICES: &[MetricName] = &[MetricName::WriteAmplification, MetricName::VdevWriteBytes];
/// Those that count units of work.
const OF_WORK: &[MetricName] = &[MetricName::WorkRate, MetricName::VdevWriteBytes];

/// A promise is kept if it is missed by at most this fraction.
const CLOSE: f64 = 0.01;
/// Below this share of the database in the pool's writes, the bytes on the devices say nothing about the database.
const MIN_SHARE: f64 = 0.9;
/// A load whose share of reads differs by more than this has changed.
const READ_SHARE: f64 = 0.1;
/// So has one whose mean sizes differ by more than this factor.
const SIZES: f64 = 1.5;
/// Data that have grown or shrunk by more than this factor can take another share of the cache.
const GROWTH: f64 = 1.2;
/// A load with fewer requests than this share of those before has changed.
const FEWER: f64 = 0.8;
/// Above this share of lost events, counts and bytes of a recording are too low to be compared.
const MAX_LOST: f64 = 0.01;
/// A state before that was measured longer ago than this, in seconds, may be that of other data and another load.
const OLD: u64 = 7 * 24 * 3600;
/// Blocks shorter than this, in seconds, may hold no complete transaction group (`zfs_txg_timeout` is 5 s).
const SHORT: f64 = 5.0;

/// The verification of a plan that is not applied: the measurement is kept as the state before.
pub fn not_applied(plan: &Plan, before: LiveMeasurement) -> Verification {
    let (format, version, plan) = Verification::head(plan);
    Verification {
        format,
        version,
        plan,
        warnings: lost(&before, "the recording").into_iter().collect(),
        before: Some(before),
        after: None,
        promises: Vec::new(),
        verdict: VerificationVerdict::NotApplied,
        why: "The plan is not applied. This is kept as the state before it.".to_owned(),
    }
}

/// Compares both states. The promises are the changes in `confirmation`, as far as it has them. `is_complete`: whether all recommended
/// properties have their values; `differences`: sentences on what is not as the plan recommends.
pub fn check(
    plan: &Plan,
    confirmation: Option<&Confirmation>,
    before: Option<LiveMeasurement>,
    after: LiveMeasurement,
    is_complete: bool,
    differences: Vec<String>,
) -> Verification {
    let promises: Vec<CheckedPromise> = VERIFIED
        .iter()
        .filter_map(|metric| Some((metric, promised(plan, confirmation, metric)?)))
        .map(|(metric, promised)| checked(plan, metric, promised, before.as_ref(), &after))
        .collect();
    let (verdict, why) = match is_complete {
        true => verdict(&promises, before.is_some()),
        false => (VerificationVerdict::Unclear, "Only a part of the plan is applied.".to_owned()),
    };
    let mut warnings = differences;
    if let Some(before) = &before {
        warnings.extend(age(before, &after));
        warnings.extend(load_changes(before, &after));
        warnings.extend(lost(before, "the recording before"));
    }
    warnings.extend(lost(&after, "the recording"));
    if after.seconds / (BLOCKS as f64) < SHORT {
        warnings.push(format!(
            "the blocks of {:.1} s are shorter than a transaction group can take: record for a minute or more",
            after.seconds / BLOCKS as f64
        ));
    }
    let (format, version, plan) = Verification::head(plan);
    Verification { format, version, plan, before, after: Some(after), promises, verdict, why, warnings }
}

/// The promised change: that of the database itself if the plan is confirmed, else that of the trials.
fn promised(
    plan: &Plan,
    confirmation: Option<&Confirmation>,
    metric: &MetricName,
) -> Option<PredictedChange> {
    let confirmed = confirmation.and_then(|confirmation| {
        let recommended = confirmation.settings.iter().find(|of| of.name == Contender::Recommended)?;
        recommended.changes.get(metric)
    });
    let gain = confirmed.or_else(|| plan.gain.get(metric))?;
    Some(PredictedChange { change: gain.change, ci95: Some(gain.ci95) })
}

fn checked(
    plan: &Plan,
    metric: &MetricName,
    promised: PredictedChange,
    before: Option<&LiveMeasurement>,
    after: &LiveMeasurement,
) -> CheckedPromise {
    let measured = before
        .ok_or_else(|| "the state before the plan was not measured".to_owned())
        .and_then(|before| measured(metric, before, after));
    let (measured, why) = match measured {
        Ok(measured) => (Some(measured), None),
        Err(why) => (None, Some(why)),
    };
    let is_goal = plan.goal.weights.get(metric).is_some_and(|weight| *weight > 0.0);
    let (mut verdict, mut unclear) = measured.map_or((PromiseVerdict::Unclear, None), |measured| {
        decide(metric, promised.ci95.unwrap_or((promised.change, promised.change)), measured.ci95)
    });
    if *metric == MetricName::WorkRate
        && verdict == PromiseVerdict::Broken
        && !before.is_some_and(|before| is_slower(before, after))
    {
        (verdict, unclear) = (
            PromiseVerdict::Unclear,
            Some("operations do not take longer, so the rate can be that of the clients"),
        );
    }
    let why = why.or_else(|| unclear.map(str::to_owned));
    CheckedPromise { metric: metric.clone(), promised, measured, is_goal, verdict, why }
}

/// Whether operations take longer beyond noise. The rate of a load depends on its clients, but this does not.
fn is_slower(before: &LiveMeasurement, after: &LiveMeasurement) -> bool {
    measured(&MetricName::MeanLatencyNs, before, after).is_ok_and(|change| change.ci95.0 > 0.0)
}

/// The measured change, or why there is none.
fn measured(
    metric: &MetricName,
    before: &LiveMeasurement,
    after: &LiveMeasurement,
) -> Result<MeasuredPromise, String> {
    if OF_WORK.contains(metric) && before.rate != after.rate {
        return Err(match &before.rate {
            RateUnit::FileOperations => "the work was not counted before the plan was applied".to_owned(),
            RateUnit::Command(command) => format!("before, the work was counted with `{command}`"),
        });
    }
    let counts_events = *metric == MetricName::WriteAmplification
        || (OF_WORK.contains(metric) && after.rate == RateUnit::FileOperations);
    if counts_events && [before, after].iter().any(|of| of.lost_events as f64 > MAX_LOST * of.events as f64) {
        return Err("too many events were lost".to_owned());
    }
    if OF_DEVICES.contains(metric)
        && let Some(share) = [before, after].iter().filter_map(|of| of.share_of_pool).reduce(f64::min)
        && share < MIN_SHARE
    {
        return Err(format!("other datasets wrote {:.0} % of the pool's bytes", 100.0 * (1.0 - share)));
    }
    let none = |when: &str| format!("not measured {when}");
    let first = before.metrics.get(metric).ok_or_else(|| none("before"))?;
    let second = after.metrics.get(metric).ok_or_else(|| none("afterwards"))?;
    let (from, to) = (median(first), median(second));
    // The space is that of all files at one time.
    let change = match metric {
        MetricName::AllocatedBytes => Some((to / from - 1.0, (to / from - 1.0, to / from - 1.0))),
        _ => change_of_samples(first, second).map(|found| (found.change, found.ci95)),
    };
    // Five groups of two blocks.
    let seconds = 5.0 * MIN_FOR_DEVICES_S;
    let few = || match () {
        () if OF_DEVICES.contains(metric) && before.seconds.min(after.seconds) < 0.99 * seconds => {
            format!("bytes on devices need recordings of {seconds:.0} s or more")
        }
        () if first.iter().chain(second).any(|value| *value <= 0.0) => {
            "nothing was counted in some blocks".to_owned()
        }
        () => "too few operations in the blocks".to_owned(),
    };
    let (change, ci95) = change.filter(|(change, _)| change.is_finite()).ok_or_else(few)?;
    Ok(MeasuredPromise { from, to, change, ci95 })
}

/// Compares the intervals of the promised and the measured change. Returns the verdict, and why it is unclear.
fn decide(
    metric: &MetricName,
    promised: (f64, f64),
    measured: (f64, f64),
) -> (PromiseVerdict, Option<&'static str>) {
    // From here on, a higher value is better, and logarithms make a half and a double equally far from 1.
    let improvement = |(low, high): (f64, f64)| match metric.better() {
        Better::Higher => ((1.0 + low).ln(), (1.0 + high).ln()),
        Better::Lower => (-(1.0 + high).ln(), -(1.0 + low).ln()),
    };
    let ((least, most), (low, high)) = (improvement(promised), improvement(measured));
    let reaches = high + CLOSE >= least;
    if least > 0.0 {
        // An improvement was promised.
        return match (low > 0.0, reaches) {
            (true, true) => (PromiseVerdict::Kept, None),
            (true, false) => (PromiseVerdict::Less, None),
            (false, false) if *metric == MetricName::WorkRate && high >= 0.0 => {
                (PromiseVerdict::Unclear, Some("a load that its clients limit does not become faster"))
            }
            (false, false) => (PromiseVerdict::Broken, None),
            (false, true) => (PromiseVerdict::Unclear, Some("the blocks differ too much from each other")),
        };
    }
    if most > 0.0 && reaches {
        return (PromiseVerdict::NothingPromised, None);
    }
    match (low + CLOSE >= least, reaches) {
        (true, _) => (PromiseVerdict::Kept, None),
        (false, true) => (PromiseVerdict::Unclear, Some("the blocks differ too much from each other")),
        (false, false) => (PromiseVerdict::Broken, None),
    }
}

fn verdict(promises: &[CheckedPromise], has_before: bool) -> (VerificationVerdict, String) {
    let names = |verdict: PromiseVerdict| -> Option<String> {
        let found = promises.iter().filter(|of| of.is_goal && of.verdict == verdict);
        let names: Vec<&str> = found.map(|of| of.metric.title()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = names(PromiseVerdict::Broken) {
        return (VerificationVerdict::Broken, format!("The plan does not bring what it promises: {names}."));
    }
    if !has_before {
        let why = "The state before the plan was not measured, so that nothing can be compared.";
        return (VerificationVerdict::Unclear, why.to_owned());
    }
    let (kept, less, unclear) =
        (names(PromiseVerdict::Kept), names(PromiseVerdict::Less), names(PromiseVerdict::Unclear));
    // The rate of a load that its clients limit never becomes clear. It does not hide what the other figures show.
    let is_only_rate =
        unclear.as_deref() == Some(MetricName::WorkRate.title()) && (kept.is_some() || less.is_some());
    let remark = if is_only_rate { " The work rate could not be decided." } else { "" };
    match (less, unclear.filter(|_| !is_only_rate), kept) {
        (_, Some(names), _) => {
            (VerificationVerdict::Unclear, format!("These promises could not be decided: {names}."))
        }
        (Some(names), ..) => (
            VerificationVerdict::Less,
            format!("Better than before, but by less than promised: {names}.{remark}"),
        ),
        (None, _, Some(names)) => (
            VerificationVerdict::Kept,
            format!("The database shows what the plan promises: {names}.{remark}"),
        ),
        (None, _, None) => {
            let why = "The plan promises none of the figures that can be measured in operation.";
            (VerificationVerdict::Unclear, why.to_owned())
        }
    }
}

/// A sentence if the state before was measured long ago.
fn age(before: &LiveMeasurement, after: &LiveMeasurement) -> Option<String> {
    let time = |of: &LiveMeasurement| time::parse_rfc3339(of.created.as_ref()?);
    let days = time(after)?.saturating_sub(time(before)?) / (24 * 3600);
    (days * 24 * 3600 >= OLD).then(|| format!("the state before was measured {days} days ago"))
}

/// Sentences on differences of the load, which change the figures too.
fn load_changes(before: &LiveMeasurement, after: &LiveMeasurement) -> Vec<String> {
    let mut found = Vec::new();
    let requests = |of: &LiveMeasurement| of.mix.reads_s + of.mix.writes_s + of.mix.syncs_s;
    let (first, second) = (requests(before), requests(after));
    if second < FEWER * first {
        found.push(format!("the load has changed: {first:.0} requests a second before, {second:.0} now"));
    }
    let share =
        |of: &LiveMeasurement| of.mix.reads_s / (of.mix.reads_s + of.mix.writes_s).max(f64::MIN_POSITIVE);
    let (first, second) = (share(before), share(after));
    if (first - second).abs() > READ_SHARE {
        found.push(format!(
            "the load has changed: {:.0} % of its requests were reads, now {:.0} % are",
            100.0 * first,
            100.0 * second
        ));
    }
    for (what, first, second) in [
        ("read", before.mix.read_bytes, after.mix.read_bytes),
        ("write", before.mix.write_bytes, after.mix.write_bytes),
    ] {
        if first > 0.0 && second > 0.0 && !within(first, second, SIZES) {
            found.push(format!(
                "the load has changed: the mean {what} had {first:.0} bytes, now it has {second:.0}"
            ));
        }
    }
    if before.bytes > 0 && after.bytes > 0 && !within(before.bytes as f64, after.bytes as f64, GROWTH) {
        found.push(format!(
            "the files had {} before and have {} now",
            poolwright_base::units::format_size(before.bytes),
            poolwright_base::units::format_size(after.bytes)
        ));
    }
    found
}

fn within(first: f64, second: f64, factor: f64) -> bool {
    (1.0 / factor..=factor).contains(&(second / first))
}

fn lost(of: &LiveMeasurement, name: &str) -> Option<String> {
    (of.lost_events > 0).then(|| format!("{name} lost {} events, so its rates are too low", of.lost_events))
}

#[cfg(test)]
mod tests;
