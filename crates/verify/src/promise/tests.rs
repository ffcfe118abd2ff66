use std::collections::BTreeMap;

use poolwright_plan::MetricName::{AllocatedBytes, MeanLatencyNs, ReadP99Ns, WorkRate, WriteAmplification};
use poolwright_plan::{Gain, GainVerdict, RequestMix};

use super::*;

/// The documented example of a plan.
fn example() -> Plan {
    serde_json::from_str(include_str!("../../../../docs/examples/plan.json")).expect("a plan")
}

/// The example with these promises as fractions.
fn plan(promises: &[(MetricName, f64, (f64, f64))]) -> Plan {
    let mut plan = example();
    plan.goal.weights = promises.iter().map(|(metric, ..)| (metric.clone(), 1.0)).collect();
    let gain = |change: f64, ci95| {
        let to = 1.0 + change;
        Gain { from: 1.0, to, change, ci95, pairs: 6, verdict: GainVerdict::Better }
    };
    plan.gain = promises.iter().map(|(metric, change, ci)| (metric.clone(), gain(*change, *ci))).collect();
    plan
}

/// A measurement of one metric, whose blocks vary by ±2 %.
fn live(metric: MetricName, middle: f64) -> LiveMeasurement {
    let values = (0..10).map(|n| middle * (1.0 + 0.02 * f64::from(n % 3 - 1))).collect();
    LiveMeasurement {
        seconds: 60.0,
        blocks: 10,
        metrics: BTreeMap::from([(metric, values)]),
        mix: RequestMix {
            reads_s: 90.0,
            writes_s: 10.0,
            read_bytes: 8192.0,
            write_bytes: 8192.0,
            syncs_s: 1.0,
        },
        bytes: 1 << 30,
        ..LiveMeasurement::default()
    }
}

fn verdict_of(metric: MetricName, promise: (f64, f64), to: f64) -> (PromiseVerdict, VerificationVerdict) {
    let middle = f64::midpoint(promise.0, promise.1);
    let plan = plan(&[(metric.clone(), middle, promise)]);
    let found = check(&plan, None, Some(live(metric.clone(), 1.0)), live(metric, to), true, Vec::new());
    (found.promises[0].verdict, found.verdict)
}

#[test]
fn a_promise_is_compared_with_its_interval() {
    use PromiseVerdict::{Broken, Kept, Less, NothingPromised, Unclear};
    for (promise, to, expected) in [
        ((-0.35, -0.25), 0.70, Kept),
        ((-0.35, -0.25), 0.50, Kept),
        ((-0.35, -0.25), 0.90, Less),
        ((-0.35, -0.25), 1.00, Broken),
        ((-0.35, -0.25), 1.20, Broken),
        ((-0.35, -0.001), 1.00, Unclear),
        // No improvement was promised, or a cost was announced.
        ((-0.02, 0.05), 1.04, NothingPromised),
        ((-0.02, 0.05), 1.20, Broken),
        ((0.10, 0.20), 1.15, Kept),
        ((0.10, 0.20), 1.40, Broken),
    ] {
        assert_eq!(verdict_of(ReadP99Ns, promise, to).0, expected, "{promise:?} {to}");
    }
}

#[test]
fn a_rate_that_did_not_rise_proves_nothing_but_one_that_fell_does() {
    assert_eq!(verdict_of(WorkRate, (0.2, 0.3), 1.25), (PromiseVerdict::Kept, VerificationVerdict::Kept));
    assert_eq!(verdict_of(WorkRate, (0.2, 0.3), 1.1), (PromiseVerdict::Less, VerificationVerdict::Less));
    let unclear = (PromiseVerdict::Unclear, VerificationVerdict::Unclear);
    assert_eq!(verdict_of(WorkRate, (0.2, 0.3), 1.0), unclear);
    // Fewer requests arrived, or the database became slower: the latency tells.
    assert_eq!(verdict_of(WorkRate, (0.2, 0.3), 0.8), unclear);
    let plan = plan(&[(WorkRate, 0.25, (0.2, 0.3))]);
    let with_latency = |rate: f64, latency: f64| {
        let mut found = live(WorkRate, rate);
        found.metrics.extend(live(MeanLatencyNs, latency).metrics);
        found
    };
    for (latency, expected) in [(1.3, VerificationVerdict::Broken), (0.9, VerificationVerdict::Unclear)] {
        let found =
            check(&plan, None, Some(with_latency(1.0, 1.0)), with_latency(0.8, latency), true, Vec::new());
        assert_eq!(found.verdict, expected, "{found:?}");
    }
}

#[test]
fn an_unclear_rate_does_not_hide_what_the_other_figures_show() {
    let plan = plan(&[(WorkRate, 0.25, (0.2, 0.3)), (ReadP99Ns, -0.3, (-0.35, -0.25))]);
    let both = |rate: f64, latency: f64| {
        let mut found = live(WorkRate, rate);
        found.metrics.extend(live(ReadP99Ns, latency).metrics);
        found
    };
    let verdict =
        |latency: f64| check(&plan, None, Some(both(1.0, 1.0)), both(1.0, latency), true, Vec::new()).verdict;
    assert_eq!(verdict(0.7), VerificationVerdict::Kept);
    assert_eq!(verdict(0.9), VerificationVerdict::Less);
    assert_eq!(verdict(1.0), VerificationVerdict::Broken);
}

#[test]
fn a_part_of_a_plan_keeps_and_breaks_no_promise() {
    let plan = plan(&[(ReadP99Ns, -0.3, (-0.35, -0.25))]);
    for latency in [0.7, 1.5] {
        let found =
            check(&plan, None, Some(live(ReadP99Ns, 1.0)), live(ReadP99Ns, latency), false, Vec::new());
        assert_eq!(found.verdict, VerificationVerdict::Unclear);
    }
}

#[test]
fn lost_events_make_counts_unclear_but_not_latencies() {
    let plan = plan(&[(WorkRate, 0.25, (0.2, 0.3)), (ReadP99Ns, -0.3, (-0.35, -0.25))]);
    let both = |value: f64, lost: u64| {
        let mut found = LiveMeasurement { events: 1000, lost_events: lost, ..live(WorkRate, value) };
        found.metrics.extend(live(ReadP99Ns, 1.0 / value).metrics);
        found
    };
    let found = check(&plan, None, Some(both(1.0, 0)), both(1.4, 100), true, Vec::new());
    assert_eq!(found.promises[0].why.as_deref(), Some("too many events were lost"));
    assert_eq!(found.promises[1].verdict, PromiseVerdict::Kept);
    assert!(found.warnings.iter().any(|text| text.contains("lost 100 events")), "{:?}", found.warnings);
}

#[test]
fn an_old_state_before_is_named() {
    let plan = plan(&[(ReadP99Ns, -0.3, (-0.35, -0.25))]);
    let at = |created: &str| LiveMeasurement { created: Some(created.to_owned()), ..live(ReadP99Ns, 1.0) };
    let found =
        check(&plan, None, Some(at("2026-01-01T00:00:00Z")), at("2026-02-01T00:00:00Z"), true, Vec::new());
    assert!(found.warnings.contains(&"the state before was measured 31 days ago".to_owned()), "{found:?}");
}

#[test]
fn the_space_has_one_figure() {
    let plan = plan(&[(AllocatedBytes, -0.3, (-0.301, -0.299))]);
    let of = |per_byte: f64| LiveMeasurement {
        metrics: BTreeMap::from([(AllocatedBytes, vec![per_byte])]),
        ..live(ReadP99Ns, 1.0)
    };
    let found = check(&plan, None, Some(of(0.5)), of(0.35), true, Vec::new());
    assert_eq!(found.verdict, VerificationVerdict::Kept);
    let measured = found.promises[0].measured.expect("both sides are known");
    assert!((measured.change + 0.3).abs() < 1e-12, "{measured:?}");
    assert_eq!(
        check(&plan, None, Some(of(0.5)), of(0.4), true, Vec::new()).verdict,
        VerificationVerdict::Less
    );
}

#[test]
fn what_cannot_be_compared_has_a_reason() {
    let plan = plan(&[(ReadP99Ns, -0.3, (-0.35, -0.25)), (WriteAmplification, -0.3, (-0.35, -0.25))]);
    let after = || live(ReadP99Ns, 0.7);
    let none = check(&plan, None, None, after(), true, Vec::new());
    assert_eq!(none.verdict, VerificationVerdict::Unclear);
    assert!(none.promises.iter().all(|of| of.measured.is_none() && of.why.is_some()), "{none:?}");

    let before = LiveMeasurement { share_of_pool: Some(0.5), ..live(WriteAmplification, 1.0) };
    let shared = check(&plan, None, Some(before), live(WriteAmplification, 0.5), true, Vec::new());
    assert_eq!(shared.promises[1].why.as_deref(), Some("other datasets wrote 50 % of the pool's bytes"));
    assert_eq!(shared.promises[0].why.as_deref(), Some("not measured before"));
}

#[test]
fn rates_of_different_units_are_not_compared() {
    let plan = plan(&[(WorkRate, 0.3, (0.25, 0.35))]);
    let counted = LiveMeasurement { rate: RateUnit::Command("count".to_owned()), ..live(WorkRate, 1.3) };
    let found = check(&plan, None, Some(live(WorkRate, 1.0)), counted, true, Vec::new());
    assert_eq!(found.promises[0].verdict, PromiseVerdict::Unclear);
    assert!(
        found.promises[0].why.as_ref().is_some_and(|why| why.contains("not counted before")),
        "{found:?}"
    );
}

#[test]
fn another_load_is_named() {
    let plan = plan(&[(ReadP99Ns, -0.3, (-0.35, -0.25))]);
    let mut after = live(ReadP99Ns, 0.7);
    after.mix = RequestMix { reads_s: 40.0, writes_s: 60.0, write_bytes: 65536.0, ..after.mix };
    after.bytes *= 2;
    let found =
        check(&plan, None, Some(live(ReadP99Ns, 1.0)), after, true, vec!["one difference".to_owned()]);
    let all = found.warnings.join("\n");
    for part in [
        "one difference",
        "90 % of its requests were reads, now 40 %",
        "the mean write had 8192 bytes",
        "the files had 1G before",
    ] {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
    let same = check(&plan, None, Some(live(ReadP99Ns, 1.0)), live(ReadP99Ns, 0.7), true, Vec::new());
    assert!(same.warnings.is_empty(), "{:?}", same.warnings);
}

#[test]
fn a_confirmed_change_is_the_promise() {
    let text = include_str!("../../../../docs/examples/confirmation.json");
    let confirmation: Confirmation = serde_json::from_str(text).unwrap();
    let recommended = confirmation.settings.iter().find(|of| of.name == Contender::Recommended).unwrap();
    let found = promised(&example(), Some(&confirmation), &WorkRate).expect("a promise");
    assert!((found.change - recommended.changes[&WorkRate].change).abs() < 1e-12, "{found:?}");
}
