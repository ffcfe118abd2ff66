//! Plots of the curves.

use poolwright_base::units::bytes;
use poolwright_mrc::advice::{Explained, Host};
use poolwright_mrc::analysis::Divided;
use poolwright_report::plot::{Line, TimeSeries, WIDTH};
use poolwright_report::{Axis, Unit};

use super::format;

/// The largest number of distinguishable lines in a plot.
const MOST: usize = 7;

/// Returns a plot for each record size with a line for each model. If there are several record sizes, the first plot shows the
/// reads from the device, because only these are comparable.
pub fn curves(all: &[Explained], host: &Host) -> Vec<(TimeSeries, String)> {
    let mut sizes: Vec<Option<u64>> = all.iter().map(|e| e.curve.recordsize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut plots = Vec::new();
    if sizes.len() > 1 {
        let shown: Vec<&Explained> = all.iter().take(MOST).collect();
        let y = Axis::new("reads from the device", Unit::Count).from_zero();
        let plot = marked(plot("Reads of every recordsize", y, &shown, reads), &shown[..1], host);
        plots.push((plot, "Records read over the whole trace; a larger record is more bytes.".to_owned()));
    }
    for size in sizes {
        let of_size: Vec<&Explained> = all.iter().filter(|e| e.curve.recordsize == size).take(MOST).collect();
        let title = size.map_or("Misses by size of the cache".to_owned(), |s| {
            format!("Misses by size of the cache, {} records", bytes(s))
        });
        let y = Axis::new("misses of all requests", Unit::Fraction).from_zero();
        let sampled = of_size.iter().any(|e| e.curve.points.iter().any(|p| p.confidence.is_some()));
        let caption = if sampled { "Shaded: 95 % confidence interval of the sample." } else { "" };
        plots.push((marked(plot(&title, y, &of_size, ratio), &of_size[..1], host), caption.to_owned()));
    }
    plots
}

fn plot(title: &str, y: Axis, shown: &[&Explained], line: fn(&Explained) -> Line) -> TimeSeries {
    let x = Axis::new("size of the cache", Unit::Bytes).log();
    TimeSeries::new(title, x, y, shown.iter().map(|e| line(e)).collect()).size(WIDTH, 340.0)
}

/// Adds the knee of the first curve and today's ARC.
fn marked(plot: TimeSeries, first: &[&Explained], host: &Host) -> TimeSeries {
    let ends = first.iter().flat_map(|e| e.curve.points.iter().map(|p| p.cache_bytes));
    let (low, high) = (ends.clone().min().unwrap_or(0), ends.max().unwrap_or(0));
    let knee = first.first().and_then(|e| Some((e.advice.knee?, &e.curve)));
    let plot = match knee {
        Some((knee, curve)) => {
            let text = format!("knee of {}, {}", curve.model, bytes(knee.cache_bytes));
            plot.event(knee.cache_bytes as f64, &text)
        }
        None => plot,
    };
    // A mark far outside the curve would compress the curve into a corner.
    match host.arc_max_bytes {
        Some(today) if today >= low / 4 && today <= high.saturating_mul(4) => {
            plot.event(today as f64, &format!("today's ARC, {}", bytes(today)))
        }
        _ => plot,
    }
}

fn ratio(e: &Explained) -> Line {
    let points = e.curve.points.iter().map(|p| (p.cache_bytes as f64, p.miss_ratio)).collect();
    let confidence =
        e.curve.points.iter().filter_map(|p| p.confidence.map(|b| (p.cache_bytes as f64, b.low, b.high)));
    Line::new(&e.curve.model, points).band(confidence.collect()).dots()
}

fn reads(e: &Explained) -> Line {
    let requests = e.curve.requests as f64;
    let points = e.curve.points.iter().map(|p| (p.cache_bytes as f64, p.read_ratio() * requests)).collect();
    let confidence = e.curve.points.iter().filter_map(|p| {
        let reads = |miss: f64| (miss - p.write_miss_ratio).max(0.0) * requests;
        p.confidence.map(|b| (p.cache_bytes as f64, reads(b.low), reads(b.high)))
    });
    Line::new(&format::name(&e.curve), points).band(confidence.collect()).dots()
}

/// Returns a plot of the reads by the size of the database's cache.
pub fn division(divided: &Divided) -> TimeSeries {
    let points = divided.shares.iter().map(|s| (s.database_bytes as f64, format::device_ratio(s))).collect();
    let x = Axis::new("the database's own cache; the rest is the ARC's", Unit::Bytes);
    let y = Axis::new("requests that read from the device", Unit::Fraction).from_zero();
    let title = format!("{} divided", bytes(divided.total_bytes));
    TimeSeries::new(&title, x, y, vec![Line::new("reads", points).dots()])
}
