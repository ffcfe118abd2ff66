//! Power-of-two histograms, such as the sizes of reads and writes side by side.

use super::draw::{Anchor, Drawing, text_width};
use super::frame::{self, Swatch};
use super::scale::{Axis, Scale};
use super::{Plot, WIDTH};
use poolwright_base::units::Unit;

/// Bars per power-of-two bucket, one for each series.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    title: String,
    bucket: Unit,
    axis: String,
    series: Vec<(String, Vec<(u64, u64)>)>,
    size: (f64, f64),
}

impl Histogram {
    /// Creates an empty histogram. `bucket` is the unit of the buckets' lower bounds, `axis` describes them ("size of
    /// one operation").
    pub fn new(title: &str, axis: &str, bucket: Unit) -> Self {
        let (title, axis) = (title.to_owned(), axis.to_owned());
        Histogram { title, bucket, axis, series: Vec::new(), size: (WIDTH, 280.0) }
    }

    /// Adds a series of `(lower bound, count)`. A bucket covers values from its lower bound to below twice that.
    pub fn series(mut self, name: &str, buckets: &[(u64, u64)]) -> Self {
        self.series.push((name.to_owned(), buckets.to_vec()));
        self
    }

    /// Sets the size (default [`WIDTH`] by 280).
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// Returns every power of two from the smallest to the largest non-empty bucket. Gaps are shown, because they are
    /// informative.
    fn buckets(&self) -> Vec<u64> {
        let held =
            || self.series.iter().flat_map(|(_, b)| b).filter(|(_, n)| *n > 0).map(|(low, _)| floor(*low));
        let (Some(lo), Some(hi)) = (held().min(), held().max()) else { return Vec::new() };
        let powers = (0..64).map(|k| 1u64 << k).filter(|p| *p >= lo && *p <= hi);
        (lo == 0).then_some(0).into_iter().chain(powers).collect()
    }

    fn count(&self, series: usize, low: u64) -> u64 {
        let all = self.series[series].1.iter();
        all.filter(|(l, _)| floor(*l) == low).fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// Returns the non-empty series; an empty one takes no space beside the bars of the others.
    fn held(&self) -> Vec<usize> {
        (0..self.series.len()).filter(|&s| self.series[s].1.iter().any(|(_, n)| *n > 0)).collect()
    }

    fn range(&self, low: u64) -> String {
        match low {
            0 => self.bucket.format(0.0),
            1 => self.bucket.format(1.0),
            _ => format!(
                "{} to below {}",
                self.bucket.format(low as f64),
                self.bucket.format(low as f64 * 2.0)
            ),
        }
    }
}

/// Returns the largest power of two that is at most `v`, or 0 for 0.
fn floor(v: u64) -> u64 {
    if v == 0 { 0 } else { 1 << v.ilog2() }
}

impl Plot for Histogram {
    fn draw(&self) -> Drawing {
        let (width, height) = self.size;
        let mut d = Drawing::new(width, height, &self.title);
        let legend: Vec<_> =
            self.held().into_iter().map(|i| (Swatch::Bar(i), self.series[i].0.clone())).collect();
        let top = frame::head(&mut d, &self.title, "", &legend, width);
        let (right, bottom) = (width - 4.0, height - 46.0);
        let buckets = self.buckets();
        if buckets.is_empty() {
            frame::nothing(&mut d, width / 2.0, (top + bottom) / 2.0);
            return d;
        }
        let all =
            || (0..self.series.len()).flat_map(|s| buckets.iter().map(move |b| self.count(s, *b) as f64));
        let y = Scale::fit(&Axis::new("", Unit::Count).from_zero(), all(), bottom, top, 4);
        let left = frame::label_room(&y);
        frame::y_axis(&mut d, &y, left, right);
        let slot = (right - left) / buckets.len() as f64;
        self.bars(&mut d, &buckets, &y, (left, slot.min(90.0), bottom));
        d.line((left, bottom), (right, bottom), "base");
        self.labels(&mut d, &buckets, (left, slot.min(90.0), bottom));
        d.text((left + right) / 2.0, bottom + 38.0, "axis", Anchor::Middle, &self.axis);
        d
    }
}

impl Histogram {
    fn bars(&self, d: &mut Drawing, buckets: &[u64], y: &Scale, (left, slot, bottom): (f64, f64, f64)) {
        let held = self.held();
        let bar = (slot * 0.76 / held.len() as f64).min(26.0);
        for (k, low) in buckets.iter().enumerate() {
            let first = left + (k as f64 + 0.5) * slot - bar * held.len() as f64 / 2.0;
            for (index, &s) in held.iter().enumerate() {
                let (n, name) = (self.count(s, *low), &self.series[s].0);
                if n == 0 {
                    continue;
                }
                // A bucket with one operation in a million must still be visible.
                let top = y.at(n as f64).min(bottom - 1.0);
                let total: f64 = self.series[s].1.iter().map(|(_, n)| *n as f64).sum();
                let (shown, share) = (Unit::Count.format(n as f64), Unit::Fraction.format(n as f64 / total));
                let tip = format!("{name}, {}: {shown} ({share})", self.range(*low));
                d.tip(&tip, |d| {
                    let x = first + index as f64 * bar;
                    d.rect(x + 0.5, top, bar - 1.0, bottom - top, &format!("bar s{}", s % 7));
                });
            }
        }
    }

    fn labels(&self, d: &mut Drawing, buckets: &[u64], (left, slot, bottom): (f64, f64, f64)) {
        let mut free = f64::NEG_INFINITY;
        for (k, low) in buckets.iter().enumerate() {
            let at = left + (k as f64 + 0.5) * slot;
            let label = self.bucket.tick(*low as f64);
            let half = text_width(&label, 12.0) / 2.0;
            if at - half > free {
                d.text(at, bottom + 18.0, "tick", Anchor::Middle, &label);
                free = at + half + 6.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_and_odd_lower_ends_go_to_their_power() {
        let h = Histogram::new("t", "size", Unit::Bytes).series("read", &[(4096, 3), (5000, 2), (32768, 1)]);
        assert_eq!(h.buckets(), [4096, 8192, 16384, 32768]);
        assert_eq!(h.count(0, 4096), 5);
        let ends = Histogram::new("t", "size", Unit::Bytes)
            .series("r", &[(0, 1), (u64::MAX, u64::MAX), (u64::MAX, 1)]);
        assert_eq!((ends.buckets().len(), ends.count(0, 1 << 63)), (65, u64::MAX));
    }
}
