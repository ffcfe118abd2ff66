//! Maps figures to positions in the drawing, and chooses ticks.

use std::cmp::Ordering;

use poolwright_base::units::Unit;

/// The largest value drawn: a yottabyte, or thirty million years in nanoseconds. A larger value is an error and would
/// compress everything else into a point.
const LIMIT: f64 = 1e24;

/// An axis: its title, unit and kind of scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) log: bool,
    pub(super) zero: bool,
    ends: Ends,
}

/// The ends of a linear axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// On the first and last tick.
    Ticks,
    /// Slightly beyond the data.
    Padded,
    /// At the ends of the data.
    Tight,
}

impl Axis {
    /// Creates a linear axis over the range of the data.
    pub fn new(title: &str, unit: Unit) -> Self {
        Axis { title: title.to_owned(), unit, log: false, zero: false, ends: Ends::Ticks }
    }

    /// Makes the axis logarithmic; only positive figures are drawn.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Makes the axis begin at zero.
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    pub(super) fn padded(mut self) -> Self {
        self.ends = Ends::Padded;
        self
    }

    pub(super) fn tight(mut self) -> Self {
        self.ends = Ends::Tight;
        self
    }

    /// Whether the axis can show a figure.
    pub(super) fn takes(&self, v: f64) -> bool {
        v.abs() <= LIMIT && (!self.log || v >= 1.0 / LIMIT)
    }

    /// Returns the ends of an error bar if the axis can show both.
    pub(super) fn takes_range(&self, range: Option<(f64, f64)>) -> Option<(f64, f64)> {
        range.filter(|(low, high)| self.takes(*low) && self.takes(*high))
    }
}

/// An axis with its range and its position in the drawing.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub axis: Axis,
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
    pub ticks: Vec<f64>,
}

impl Scale {
    /// Creates a scale for all `values` that the axis can show, from position `from` to `to` in pixels, with about
    /// `count` ticks.
    pub fn fit(
        axis: &Axis,
        values: impl IntoIterator<Item = f64>,
        from: f64,
        to: f64,
        count: usize,
    ) -> Scale {
        let mut lo = f64::INFINITY;
        let mut hi = f64::NEG_INFINITY;
        for v in values.into_iter().filter(|v| axis.takes(*v)) {
            lo = lo.min(v);
            hi = hi.max(v);
        }
        if lo > hi {
            (lo, hi) = (1.0, 10.0); // no values: any range works
        }
        let (lo, hi, ticks) =
            if axis.log { log_range(axis.unit, lo, hi, count) } else { linear_range(axis, lo, hi, count) };
        Scale { axis: axis.clone(), lo, hi, from, to, ticks }
    }

    pub fn at(&self, v: f64) -> f64 {
        let share = if self.axis.log {
            (v.ln() - self.lo.ln()) / (self.hi.ln() - self.lo.ln())
        } else {
            (v - self.lo) / (self.hi - self.lo)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns `Less` or `Greater` if a figure is below or above the range of the axis, otherwise `Equal`.
    pub fn side(&self, v: f64) -> Ordering {
        if v < self.lo {
            Ordering::Less
        } else if v > self.hi {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }

    pub fn label(&self, v: f64) -> String {
        self.axis.unit.tick(v)
    }
}

/// Up to this number of figures, all are shown.
const FEW: usize = 12;
/// The number of interquartile ranges beyond a quartile to which an axis extends: Tukey's outer fences.
const FENCE: f64 = 3.0;
/// A range is cut only if that shortens it at least by this factor.
const WORTH: f64 = 1.5;

/// Returns the range of `values` to show, so that a few outliers do not compress the others: up to Tukey's outer fences
/// (J. W. Tukey, *Exploratory Data Analysis*, 1977), computed from logarithms on a logarithmic axis. Without outliers,
/// the range is infinite.
pub(super) fn robust(axis: &Axis, values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let shown = |v: f64| if axis.log { v.ln() } else { v };
    let mut all: Vec<f64> = values.into_iter().filter(|v| axis.takes(*v)).map(shown).collect();
    all.sort_by(f64::total_cmp);
    let whole = (f64::NEG_INFINITY, f64::INFINITY);
    if all.len() < FEW {
        return whole;
    }
    let quartile = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    let (first, third) = (quartile(0.25), quartile(0.75));
    let reach = FENCE * (third - first);
    let (lo, hi) = (first - reach, third + reach);
    let (least, most) = (all[0], all[all.len() - 1]);
    if reach <= 0.0 || most - least <= WORTH * (hi.min(most) - lo.max(least)) {
        return whole;
    }
    if axis.log { (lo.exp(), hi.exp()) } else { (lo, hi) }
}

fn linear_range(axis: &Axis, lo: f64, hi: f64, count: usize) -> (f64, f64, Vec<f64>) {
    let (mut lo, mut hi) = (lo, hi);
    if axis.zero {
        (lo, hi) = (lo.min(0.0), hi.max(0.0));
    }
    // The values are identical, or so close that rounding hides the difference.
    if hi - lo <= hi.abs().max(lo.abs()) * 1e-9 {
        let pad = if hi == 0.0 { 1.0 } else { hi.abs() * 0.1 };
        (lo, hi) = (if axis.zero && lo == 0.0 { 0.0 } else { lo - pad }, hi + pad);
    }
    let pad = if axis.ends == Ends::Tight { 0.0 } else { (hi - lo) * 0.04 };
    let low = if lo == 0.0 || (lo > 0.0 && lo < pad) { 0.0 } else { lo - pad };
    let high = if hi == 0.0 { 0.0 } else { hi + pad };
    // An axis of shares of a whole ends at the whole.
    let high = if axis.unit == Unit::Fraction && hi <= 1.0 && high > 1.0 { 1.0 } else { high };
    let step = step(high - low, count, axis.unit);
    let (first, last) = match axis.ends {
        Ends::Ticks => ((low / step).floor(), (high / step).ceil()),
        _ => ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor()),
    };
    let ticks: Vec<f64> = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
    match axis.ends {
        Ends::Ticks => (first * step, last * step, ticks),
        _ => (low, high, ticks),
    }
}

/// Returns a round distance between ticks: 1, 2, 2.5 or 5 times a power of ten, or a power of two for bytes.
fn step(range: f64, count: usize, unit: Unit) -> f64 {
    let rough = range / count.max(1) as f64;
    if matches!(unit, Unit::Bytes | Unit::BytesPerSecond) && rough >= 1.0 {
        return rough.log2().ceil().exp2();
    }
    let ten = 10f64.powf(rough.log10().floor());
    let choices = [1.0, 2.0, 2.5, 5.0, 10.0];
    ten * choices.into_iter().find(|c| c * ten >= rough * 0.999).unwrap_or(10.0)
}

/// Returns about `count` powers of two, for sizes in bytes, or none if there are too few for orientation.
fn powers_of_two(lo: f64, hi: f64, count: usize) -> Vec<f64> {
    let (first, last) = (lo.log2().ceil() as i32, hi.log2().floor() as i32);
    let stride = ((last - first) as f64 / count.max(1) as f64).ceil().max(1.0) as i32;
    let ticks: Vec<f64> =
        (first..=last).filter(|k| k.rem_euclid(stride) == 0).map(|k| f64::from(k).exp2()).collect();
    if ticks.len() < count.div_ceil(2).max(3) { Vec::new() } else { ticks }
}

fn log_range(unit: Unit, lo: f64, hi: f64, count: usize) -> (f64, f64, Vec<f64>) {
    let pad = (hi / lo).powf(0.05).clamp(1.06, 10.0);
    let (lo, hi) = (lo / pad, hi * pad);
    if matches!(unit, Unit::Bytes | Unit::BytesPerSecond) {
        let ticks = powers_of_two(lo, hi, count);
        if !ticks.is_empty() {
            return (lo, hi, ticks);
        }
    }
    let first = lo.log10().floor() as i32;
    let last = hi.log10().ceil() as i32;
    let stride = ((hi / lo).log10() / count.max(1) as f64).ceil().max(1.0) as i32;
    let within = |set: &[f64]| -> Vec<f64> {
        let decades = (first..=last).filter(|k| k.rem_euclid(stride) == 0);
        let all = decades.flat_map(|k| set.iter().map(move |m| m * 10f64.powi(k)));
        all.filter(|t| *t >= lo && *t <= hi).collect()
    };
    if stride > 1 {
        return (lo, hi, within(&[1.0]));
    }
    // Use the coarsest set that still has enough ticks for orientation.
    let sets: [&[f64]; 4] =
        [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];
    let enough = count.div_ceil(2).max(3);
    let ticks = sets.iter().map(|s| within(s)).find(|t| t.len() >= enough);
    let ticks = ticks.unwrap_or_else(|| {
        let step = step(hi - lo, count, Unit::None);
        (0..=count * 2).map(|i| ((lo / step).ceil() + i as f64) * step).filter(|t| *t <= hi).collect()
    });
    (lo, hi, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(axis: Axis, values: &[f64]) -> Scale {
        Scale::fit(&axis, values.iter().copied(), 0.0, 100.0, 5)
    }

    #[test]
    fn everything_taken_lies_on_the_paper_and_between_the_ticks() {
        let sets: [&[f64]; 9] = [
            &[],
            &[0.0],
            &[5.0],
            &[-3.0, 8.0],
            &[1e-24, 1e24],
            &[1e24, -1e24],
            &[7.0, 7.0, 7.0],
            &[1.0, f64::NAN, f64::INFINITY, 2.0],
            &[1e9, 1e9 + 1e-6],
        ];
        for unit in [Unit::None, Unit::Bytes, Unit::Nanoseconds] {
            let axis = || Axis::new("x", unit);
            for base in [axis(), axis().log(), axis().from_zero(), axis().padded(), axis().tight()] {
                for set in sets {
                    let s = scale(base.clone(), set);
                    assert!(s.lo < s.hi && s.lo.is_finite() && s.hi.is_finite(), "{base:?} {set:?} {s:?}");
                    assert!((2..=14).contains(&s.ticks.len()), "{base:?} {set:?}: {:?}", s.ticks);
                    for v in set.iter().filter(|v| base.takes(**v)) {
                        assert!((0.0..=100.0).contains(&s.at(*v)) && s.lo <= *v && *v <= s.hi, "{v} {s:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_few_figures_far_away_do_not_stretch_the_range() {
        let mut values: Vec<f64> = (0..30).map(f64::from).collect();
        let axis = Axis::new("x", Unit::None);
        assert_eq!(robust(&axis, values.iter().copied()), (f64::NEG_INFINITY, f64::INFINITY));
        values.push(5000.0);
        let (lo, hi) = robust(&axis, values.iter().copied());
        assert!(lo < 0.0 && (30.0..200.0).contains(&hi), "{lo} {hi}");
        // On a logarithmic axis, a factor of a thousand is an outlier, a factor of ten is not.
        let log = || Axis::new("x", Unit::None).log();
        let powers = || (0..30).map(|i| f64::from(i % 5) + 1.0);
        assert_eq!(robust(&log(), powers().chain([50.0])).1, f64::INFINITY);
        assert!(robust(&log(), powers().chain([1e9])).1 < 1e6);
        // Few or almost equal figures are all shown.
        assert_eq!(robust(&axis, [1.0, 2.0, 3.0, 1e6]).1, f64::INFINITY);
        assert_eq!(robust(&axis, [[1.0; 20], [9.0; 20]].concat()[..25].iter().copied()).1, f64::INFINITY);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            scale(Axis::new("x", Unit::None).from_zero(), &[0.0, 9.4]).ticks,
            [0., 2., 4., 6., 8., 10.]
        );
        let bytes = scale(Axis::new("x", Unit::Bytes).from_zero(), &[0.0, 900.0 * 1024.0]);
        assert!(bytes.ticks.iter().all(|t| t % (128.0 * 1024.0) == 0.0), "{:?}", bytes.ticks);
        assert_eq!(scale(Axis::new("x", Unit::None).log(), &[1.0, 1000.0]).ticks, [1., 10., 100., 1000.]);
        let sizes = scale(Axis::new("x", Unit::Bytes).log(), &[5e6, 1e11]);
        assert_eq!(
            sizes.ticks.iter().map(|t| sizes.label(*t)).collect::<Vec<_>>(),
            ["16M", "128M", "1G", "8G", "64G"]
        );
    }
}
