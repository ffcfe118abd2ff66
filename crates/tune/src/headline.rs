//! The headline of the plan, and its costs.
//!
//! All outputs follow one rule: the headline quotes the comparison of the whole plan, with its intervals. It claims
//! no change if the interval contains 0, and no gain that the trials of the changed roles alone did not show as
//! well.

use poolwright_report::Better;
use poolwright_report::text::signed;

use crate::candidates::assignments;
use poolwright_plan::{Cost, Gain, GainVerdict, Gains, MetricName, Role, RolePlan, TrackRecord, Verdict};

/// The metrics that the headline names.
const HEADLINE_METRICS: &[MetricName] =
    &[MetricName::AllocatedBytes, MetricName::WorkRate, MetricName::VdevWriteBytes];

/// A metric is a cost if its whole 95 % interval is worse by more than this fraction.
const COST: f64 = 0.1;

/// Returns the changes with the interval in which the work rate is expected on the database, as the plan's table has it.
pub(crate) fn with_expected_rate(gain: &Gains, record: Option<&TrackRecord>) -> Gains {
    let mut expected = gain.clone();
    if let (Some(record), Some(rate)) = (record, expected.get_mut(&MetricName::WorkRate)) {
        rate.ci95 = record.rate_interval(rate.change, rate.ci95);
    }
    expected
}

/// Explains the verdict in a few sentences.
pub(crate) fn why(verdict: Verdict, roles: &[RolePlan], gain: &Gains, costs: &[Cost]) -> String {
    if verdict == Verdict::Keep {
        return "None of the settings that were tried is better than today's beyond noise.".into();
    }
    let changes: Vec<String> = roles.iter().filter(|r| !r.gain.is_empty()).map(change).collect();
    let effects: Vec<String> =
        HEADLINE_METRICS.iter().filter_map(|metric| effect(metric, roles, gain)).collect();
    let mut text = format!("{}. ", changes.join("; "));
    if effects.is_empty() {
        text += "The whole plan could not be compared with today's settings.";
    } else {
        text +=
            &format!("The whole plan against today's settings, with 95 % intervals: {}.", effects.join(", "));
    }
    let mut metrics: Vec<&MetricName> = costs.iter().map(|c| &c.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    match metrics.len() {
        0 => {}
        1 => text += " One figure gets clearly worse: see the costs.",
        n => text += &format!(" {n} figures get clearly worse: see the costs."),
    }
    text
}

/// Formats the change of a role: `data and wal with recordsize=16K`.
fn change(role: &RolePlan) -> String {
    format!("{} with {}", role.replayed_roles(), assignments(&role.recommended))
}

/// Describes the effect of the whole plan on a metric; returns `None` if it was not measured.
fn effect(metric: &MetricName, roles: &[RolePlan], gain: &Gains) -> Option<String> {
    let g = gain.get(metric)?;
    let name = noun(metric);
    if g.verdict == GainVerdict::Noise {
        return Some(format!("no clear change in {name} ({})", range(g)));
    }
    if g.change.abs() < 0.005 {
        return Some(format!("{name} unchanged"));
    }
    let alone: Vec<(&RolePlan, &Gain)> =
        roles.iter().filter_map(|r| Some((r, r.gain.get(metric)?))).collect();
    let shown = alone.iter().any(|(_, g)| g.verdict == GainVerdict::Better);
    if g.verdict == GainVerdict::Better && !alone.is_empty() && !shown {
        let others: Vec<String> =
            alone.iter().map(|(r, g)| format!("{} for {}", range(g), r.replayed_roles())).collect();
        return Some(format!(
            "no clear change in {name} ({} for all files together, but {} in separate trials)",
            range(g),
            others.join(" and ")
        ));
    }
    let (low, high) = g.ci95;
    Some(format!("{name} {} % ({} to {})", percent(g.change), percent(low), percent(high)))
}

/// The name of a metric inside a sentence.
fn noun(metric: &MetricName) -> &str {
    match metric {
        MetricName::VdevWriteBytes => "bytes written to devices",
        other => other.title(),
    }
}

/// Formats an interval: `−14 to +3 %`.
fn range(g: &Gain) -> String {
    format!("{} to {} %", percent(g.ci95.0), percent(g.ci95.1))
}

/// Formats a fraction as per cent with its sign: `−14`.
fn percent(fraction: f64) -> String {
    signed(fraction * 100.0, 0)
}

/// Returns every metric that the recommended settings make worse by more than [`COST`] over the whole 95 %
/// interval: first those of the whole plan, then those that only a role's own comparison shows.
pub(crate) fn costs(roles: &[RolePlan], gain: &Gains) -> Vec<Cost> {
    let mut all = costs_of(None, gain);
    for role in roles {
        for cost in costs_of(Some(role.role), &role.gain) {
            if !all.iter().any(|c| c.role.is_none() && c.metric == cost.metric) {
                all.push(cost);
            }
        }
    }
    all
}

fn costs_of(role: Option<Role>, gain: &Gains) -> Vec<Cost> {
    let costly = |metric: &MetricName| {
        gain.get(metric).is_some_and(|g| match metric.better() {
            Better::Higher => g.ci95.1 < -COST,
            Better::Lower => g.ci95.0 > COST,
        })
    };
    let twin = |metric: &MetricName| metric.row().and_then(|row| row.same_cost_as).is_some_and(costly);
    let found = gain.iter().filter(|(metric, _)| costly(metric) && !twin(metric));
    found.map(|(metric, g)| Cost { role, metric: metric.clone(), gain: *g }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_plan::{CurrentSource, DatasetLocation, Settings};

    fn gain(change: f64, ci95: (f64, f64), verdict: GainVerdict) -> Gain {
        Gain { from: 1.0, to: 1.0 + change, change, ci95, pairs: 3, verdict }
    }

    fn gains(all: &[(MetricName, Gain)]) -> Gains {
        all.iter().cloned().collect()
    }

    fn role(gain: Gains) -> RolePlan {
        RolePlan {
            role: Role::Data,
            path: "/db".into(),
            paths: vec!["/db".into()],
            files: 1,
            bytes: 1 << 20,
            location: DatasetLocation::default(),
            current: Settings::new(),
            current_source: CurrentSource::ZfsDefaults { why: "a test".into() },
            recommended: Settings::from([("recordsize".into(), "16K".into())]),
            safe_because: Settings::new(),
            io: None,
            together_with: vec![Role::Wal],
            replayed: None,
            evidence: Vec::new(),
            gain,
            alternative: None,
            excluded: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_change_inside_the_noise_is_not_claimed() {
        let whole = gains(&[
            (MetricName::AllocatedBytes, gain(-0.12, (-0.13, -0.11), GainVerdict::Better)),
            (MetricName::WorkRate, gain(0.2, (-0.1, 0.4), GainVerdict::Noise)),
        ]);
        let message = why(Verdict::Change, &[role(whole.clone())], &whole, &[]);
        assert!(
            message.starts_with("data and wal with recordsize=16K. The whole plan against today's"),
            "{message}"
        );
        assert!(message.contains("space −12 % (−13 to −11)"), "{message}");
        assert!(message.contains("no clear change in work rate (−10 to +40 %)"), "{message}");
        assert!(!message.contains("work rate +"), "{message}");
    }

    #[test]
    fn a_gain_that_the_role_alone_does_not_show_is_not_claimed() {
        let metric = || MetricName::WorkRate;
        let whole = gains(&[(metric(), gain(0.32, (0.3, 0.34), GainVerdict::Better))]);
        let alone = gains(&[(metric(), gain(0.14, (-0.04, 0.3), GainVerdict::Noise))]);
        let message = why(Verdict::Change, &[role(alone)], &whole, &[]);
        assert!(
            message.contains("no clear change in work rate (+30 to +34 % for all files together"),
            "{message}"
        );
        assert!(message.contains("but −4 to +30 % for data and wal"), "{message}");
        // If the role alone shows the gain as well, the headline quotes the figures of the whole plan.
        let message = why(Verdict::Change, &[role(whole.clone())], &whole, &[]);
        assert!(message.contains("work rate +32 % (+30 to +34)"), "{message}");
        // A loss is always reported.
        let worse = gains(&[(metric(), gain(-0.3, (-0.4, -0.2), GainVerdict::Worse))]);
        let message = why(Verdict::Change, &[role(gains(&[]))], &worse, &[]);
        assert!(message.contains("work rate −30 % (−40 to −20)"), "{message}");
    }

    /// The trials' own interval is much narrower than the one in the plan's table.
    #[test]
    fn the_interval_of_the_work_rate_is_that_of_the_table() {
        let record = TrackRecord { rate_error: 0.5, ..TrackRecord::default() };
        let whole = gains(&[(MetricName::WorkRate, gain(0.32, (0.3, 0.34), GainVerdict::Better))]);
        let expected = with_expected_rate(&whole, Some(&record));
        let message = why(Verdict::Change, &[role(whole.clone())], &expected, &[]);
        assert!(message.contains("work rate +32 % (+4 to +68)"), "{message}");
        assert_eq!(with_expected_rate(&whole, None), whole);
    }

    #[test]
    fn whatever_gets_much_worse_is_a_cost() {
        let whole = gains(&[
            (MetricName::AllocatedBytes, gain(0.47, (0.47, 0.47), GainVerdict::Worse)),
            (MetricName::SpaceRatio, gain(-0.32, (-0.32, -0.32), GainVerdict::Worse)),
            (MetricName::MeanLatencyNs, gain(0.8, (0.7, 0.9), GainVerdict::Worse)),
            (MetricName::OpsS, gain(-0.4, (-0.45, -0.35), GainVerdict::Worse)),
            (MetricName::CpuNsPerOp, gain(0.12, (0.04, 0.2), GainVerdict::Worse)),
            (MetricName::WriteAmplification, gain(-0.6, (-0.7, -0.5), GainVerdict::Better)),
        ]);
        let alone = gains(&[
            (MetricName::MeanLatencyNs, gain(0.9, (0.8, 1.0), GainVerdict::Worse)),
            (MetricName::FsyncP99Ns, gain(8.27, (5.0, 12.0), GainVerdict::Worse)),
        ]);
        let roles = [role(alone)];
        let all = costs(&roles, &whole);
        let found: Vec<(Option<Role>, MetricName)> = all.iter().map(|c| (c.role, c.metric.clone())).collect();
        let expected = [
            (None, MetricName::AllocatedBytes),
            (None, MetricName::MeanLatencyNs),
            (None, MetricName::OpsS),
            (Some(Role::Data), MetricName::FsyncP99Ns),
        ];
        assert_eq!(found, expected);
        assert_eq!(all[3].gain.change, 8.27);
        let message = why(Verdict::Change, &roles, &whole, &all);
        assert!(message.ends_with("4 figures get clearly worse: see the costs."), "{message}");
    }
}
