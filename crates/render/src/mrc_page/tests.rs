//! The page of made-up curves.

use poolwright_mrc::advice::{Explained, GIB, Given, Host};
use poolwright_mrc::analysis::Divided;
use poolwright_mrc::partition::Share;
use poolwright_mrc::{Confidence, Curve, Point, Sample, UnsupportedSize};

use super::{Report, html};
use crate::plan_page::tests::assert_has;

#[path = "../../../report/tests/common/mod.rs"]
mod common;

use common::golden;

const HOST: Host =
    Host { arc_max_bytes: Some(3 * GIB), arc_bytes: Some(2 * GIB), memory_bytes: Some(16 * GIB) };

fn curve(model: &str, recordsize: Option<u64>, scale: f64, confidence: f64) -> Curve {
    let points = [(1, 0.9), (2, 0.7), (4, 0.4), (8, 0.15), (16, 0.12), (32, 0.1)];
    let point = |(gib, miss): (u64, f64)| Point {
        cache_bytes: gib * GIB,
        miss_ratio: miss * scale,
        update_miss_ratio: miss * scale / 10.0,
        write_miss_ratio: 0.0,
        confidence: (confidence > 0.0)
            .then_some(Confidence { low: miss * scale - confidence, high: miss * scale + confidence }),
    };
    let points = points.into_iter().map(point).collect();
    let unsupported_sizes = vec![UnsupportedSize { cache_bytes: GIB / 2, needs_rate: 0.16 }];
    let sample = (confidence > 0.0).then_some(Sample { rate: 0.01, records: 1000, unsupported_sizes });
    Curve { model: model.into(), recordsize, requests: 1_000_000, records: 100_000, points, sample }
}

fn given(host: Host) -> Given {
    Given { seconds: Some(100.0), miss_latency_ns: Some(8_000_000), footprint_bytes: None, host }
}

fn divided() -> Divided {
    let share = |database: u64, device_reads| Share {
        database_bytes: database * GIB,
        arc_bytes: (8 - database) * GIB,
        requests: 1000,
        database_reads: 900,
        write_backs: 5,
        dirty_at_end: 0,
        device_reads,
    };
    let shares = [(0, 300), (2, 350), (4, 420), (6, 330), (8, 290)].map(|(d, r)| share(d, r)).to_vec();
    Divided { total_bytes: 8 * GIB, model: "arc".into(), recordsize: Some(16384), shares }
}

fn page(curves: &[Explained], host: Host, split: Option<&Divided>, warnings: &[String]) -> String {
    let about = [("format".to_owned(), "trace".to_owned())];
    let machine = [("CPU".to_owned(), "made-up".to_owned())];
    html(&Report {
        source: "made-up.parquet",
        creator: "poolwright, MADE-UP FIGURES",
        about: &about,
        machine: &machine,
        curves,
        host,
        split,
        warnings,
        json: "{}",
    })
}

fn explained(curves: impl IntoIterator<Item = Curve>, host: Host) -> Vec<Explained> {
    curves.into_iter().map(|c| Explained::new(c, &given(host))).collect()
}

/// Two models at two recordsizes, one of them sampled, and a division.
fn full() -> String {
    let small = Some(16 << 10);
    let curves = [
        curve("arc", small, 0.9, 0.0),
        curve("lru", small, 1.0, 0.03),
        curve("arc", Some(128 << 10), 0.8, 0.0),
    ];
    page(&explained(curves, HOST), HOST, Some(&divided()), &["12 events were lost".into()])
}

#[test]
fn the_page_is_the_golden_one() {
    let page = full();
    // The golden file of crate `report` has the style and the script.
    let body = &page[page.find("<body>").unwrap()..page.find("<script>").unwrap()];
    golden("mrc.html", body);
}

#[test]
fn it_says_knee_today_and_the_next_gigabyte() {
    let page = full();
    assert_has(
        &page,
        &[
            "<div class=\"what\">knee</div><div class=\"value \">8G</div>",
            "<div class=\"what\">today&#39;s ARC</div>",
            // 0.15 * 0.9 of 10,000 requests a second
            "−1.35k/s",
            "10.8 s of waiting per second",
            "knee of arc, 8G",
            "today&#39;s ARC, 3G",
            "12 events were lost",
            "Reads of every recordsize",
            "class=\"band",
            "Sample of 1,000 records, 1 %. Too few of them fit into 512M; use --sample 0.16",
            "no difference beyond the confidence interval",
            "8G for the database&#39;s own cache and 0B for the ARC (arc): 29.0 %",
        ],
    );
}

#[test]
fn unknown_facts_are_left_out() {
    let one = Explained::new(curve("lru", None, 1.0, 0.0), &Given::default());
    let page = page(&[one], Host::default(), None, &[]);
    for part in [
        "today&#39;s ARC,",
        "The database's cache",
        "Reads of every",
        "waiting saved per second</",
        "class=\"band",
    ] {
        assert!(!page.contains(part), "{part:?} is in the page");
    }
    assert!(page.contains("no ARC") || page.contains("none: the ZFS kernel module is not loaded"));
    assert!(page.contains("the trace has no times") || page.contains("The trace has no times"));
    let nothing = self::page(&[], Host::default(), None, &[]);
    assert!(nothing.contains("<h2>What it ran on</h2>"));
}

#[test]
fn names_from_outside_are_text() {
    let bad = "</pre><script>alert(1)</script>";
    let about = [(bad.to_owned(), bad.to_owned())];
    let curves = explained([curve(bad, Some(8192), 1.0, 0.0)], HOST);
    let page = html(&Report {
        source: bad,
        creator: bad,
        about: &about,
        machine: &about,
        curves: &curves,
        host: HOST,
        split: None,
        warnings: &[bad.to_owned()],
        json: bad,
    });
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("<script").count(), 1);
}
