use super::*;

fn claim(lower: bool) -> Claim {
    let case = |level: &str| Case::from([("compression".to_owned(), level.to_owned())]);
    Claim {
        text: "gzip-9 takes far longer than gzip-1".into(),
        measure: "write/durable_s".into(),
        better: case("gzip-1"),
        than: case("gzip-9"),
        least: None,
        lower,
        times: None,
        limit: None,
        than_first: false,
        report: None,
        source: String::new(),
        decide: None,
    }
}

/// Three pairs (than, better) with small differences.
fn pairs(than: f64, better: f64) -> Vec<(f64, f64)> {
    [0.99, 1.0, 1.01].map(|drift| (than * drift, better * drift * (2.0 - drift).sqrt())).to_vec()
}

fn judged(claim: &Claim, pairs: &[(f64, f64)]) -> (ClaimVerdict, String) {
    let TestedClaim { verdict, ratio, pairs } = crate::claim_test::of_pairs(claim, pairs.to_vec(), None);
    let ours = format::medians(&pairs).map(|(than, better)| [better, than]);
    (verdict, line(claim, verdict, "s", ours, ratio.as_ref()))
}

#[test]
fn the_figures_stand_in_the_sentences_order_and_have_names() {
    let mut claim = claim(true);
    claim.than_first = true;
    claim.report = Some([1.3, 11.05]);
    let (_, line) = judged(&claim, &pairs(0.219, 0.0655));
    assert!(line.contains("than gzip-1 – here 219 ms (gzip-9) against 65.5 ms (gzip-1), 3.34x ("), "{line}");
    assert!(line.ends_with("; the original 11.1 s against 1.30 s, 8.50x"), "{line}");
    claim.than_first = false;
    let (_, line) = judged(&claim, &pairs(0.219, 0.0655));
    assert!(line.contains("here 65.5 ms (gzip-1) against 219 ms (gzip-9), 0.30x ("), "{line}");
}

#[test]
fn far_longer_means_a_factor() {
    let mut claim = claim(true);
    claim.than_first = true;
    let of = |claim: &Claim, than, better| judged(claim, &pairs(than, better)).0;
    assert_eq!(of(&claim, 1.2, 1.0), ClaimVerdict::Agrees, "only a direction");
    claim.times = Some(Times { least: 2.0, most: None });
    assert_eq!(of(&claim, 3.3, 1.0), ClaimVerdict::Agrees);
    assert_eq!(of(&claim, 1.2, 1.0), ClaimVerdict::DoesNotAgree, "longer, but not far");
    assert_eq!(of(&claim, 2.0, 1.0), ClaimVerdict::Unclear);
    assert_eq!(of(&claim, 1.0, 3.0), ClaimVerdict::DoesNotAgree);
    let (_, line) = judged(&claim, &pairs(1.2, 1.0));
    assert!(line.contains(", wanted at least 2.00x"), "{line}");
    // In the inverse order, the bound is inverted too.
    claim.than_first = false;
    let (_, line) = judged(&claim, &pairs(1.2, 1.0));
    assert!(line.contains(", wanted at most 0.50x"), "{line}");
}

#[test]
fn as_good_as_has_a_bound_on_either_side() {
    let mut claim = claim(false);
    claim.times = Some(Times { least: 0.9, most: Some(1.1) });
    let of = |than, better| judged(&claim, &pairs(than, better)).0;
    assert_eq!(of(1.0, 1.0), ClaimVerdict::Agrees);
    assert_eq!(of(1.0, 1.5), ClaimVerdict::DoesNotAgree);
    assert_eq!(of(1.0, 0.5), ClaimVerdict::DoesNotAgree);
    assert_eq!(of(1.0, 1.1), ClaimVerdict::Unclear);
}

#[test]
fn usable_and_not_usable_are_on_two_sides_of_a_limit() {
    let mut claim = claim(true);
    claim.limit = Some(0.1);
    // 1.56 ms against 2.93 ms: both are usable.
    assert_eq!(judged(&claim, &pairs(0.00293, 0.00156)).0, ClaimVerdict::DoesNotAgree);
    let (verdict, line) = judged(&claim, &pairs(0.7, 0.002));
    assert_eq!(verdict, ClaimVerdict::Agrees);
    assert!(line.contains("wanted below 100 ms (gzip-1) and above it (gzip-9)"), "{line}");
    assert_eq!(judged(&claim, &pairs(0.7, 0.2)).0, ClaimVerdict::DoesNotAgree);
    assert_eq!(judged(&claim, &pairs(0.1, 0.002)).0, ClaimVerdict::Unclear);
    assert_eq!(judged(&claim, &pairs(0.7, 0.002)[..2]).0, ClaimVerdict::TooFew);
}
