//! One bar per setting, starting at zero, with an error bar at its end.

use super::draw::{Anchor, Drawing, fit, widest};
use super::frame::{self, Swatch};
use super::scale::{Axis, Scale, robust};
use super::{Mark, Plot, WIDTH};

/// A bar.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    label: String,
    group: String,
    value: f64,
    range: Option<(f64, f64)>,
    mark: Mark,
}

/// Horizontal bars, because the names of settings are long and there may be many of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    title: String,
    axis: Axis,
    bars: Vec<Bar>,
    width: f64,
}

impl Bars {
    /// Creates a plot without bars; `axis` describes their length.
    pub fn new(title: &str, axis: Axis) -> Self {
        Bars { title: title.to_owned(), axis: axis.from_zero(), bars: Vec::new(), width: WIDTH }
    }

    /// Adds a bar. `group` determines its colour; `range` contains the ends of its error bar.
    pub fn bar(
        mut self,
        label: &str,
        group: &str,
        value: f64,
        range: Option<(f64, f64)>,
        mark: Mark,
    ) -> Self {
        self.bars.push(Bar { label: label.to_owned(), group: group.to_owned(), value, range, mark });
        self
    }

    /// Sets the width (default [`WIDTH`]). The height depends on the number of bars.
    pub fn width(mut self, width: f64) -> Self {
        self.width = width;
        self
    }

    fn shown(&self, bar: &Bar) -> String {
        let value = self.axis.unit.format(bar.value);
        if bar.mark == Mark::Chosen { format!("{value} ✓") } else { value }
    }
}

impl Bar {
    /// Returns the ends of the error bar if they can be drawn.
    fn ends(&self, axis: &Axis) -> Option<(f64, f64)> {
        axis.takes_range(self.range).filter(|(lo, hi)| lo <= hi)
    }
}

impl Plot for Bars {
    fn draw(&self) -> Drawing {
        const ROW: f64 = 24.0;
        let mut d = Drawing::new(self.width, 0.0, &self.title);
        let groups = frame::groups(self.bars.iter().map(|bar| bar.group.as_str()));
        let legend: Vec<_> = match groups.len() {
            0 | 1 => Vec::new(),
            _ => groups.iter().enumerate().map(|(i, g)| (Swatch::Bar(i % 7), (*g).to_owned())).collect(),
        };
        let drawn: Vec<&Bar> = self.bars.iter().filter(|b| self.axis.takes(b.value)).collect();
        let ends = || {
            drawn.iter().flat_map(|b| {
                let (lo, hi) = b.ends(&self.axis).unwrap_or((b.value, b.value));
                [b.value, lo, hi]
            })
        };
        // A bar must be drawn in full, otherwise it misleads; only its error bar may extend beyond the axis.
        let (low, high) = robust(&self.axis, ends());
        let value = |end: fn(f64, f64) -> f64, first| drawn.iter().map(|b| b.value).fold(first, end);
        let (low, high) = (value(f64::min, low), value(f64::max, high));
        let about = if ends().any(|v| v < low || v > high) { frame::ARROWS } else { "" };
        let top = frame::head(&mut d, &self.title, about, &legend, self.width);
        let bottom = top + ROW * drawn.len().max(2) as f64 + 6.0;
        d.set_height(bottom + 44.0);
        if drawn.is_empty() {
            frame::nothing(&mut d, self.width / 2.0, (top + bottom) / 2.0);
            return d;
        }
        let left = widest(drawn.iter().map(|b| b.label.as_str()), 20.0).min(self.width * 0.42) + 12.0;
        let figures: Vec<String> = drawn.iter().map(|b| self.shown(b)).collect();
        let figures = widest(figures.iter().map(String::as_str), 20.0);
        let right = (self.width - figures - 16.0).max(left + 40.0);
        let ticks = if self.width < 600.0 { 3 } else { 6 };
        let x = Scale::fit(&self.axis, ends().map(|v| v.clamp(low, high)), left, right, ticks);
        frame::x_axis(&mut d, &x, top, bottom, (left + right) / 2.0);
        for (row, bar) in drawn.iter().enumerate() {
            let group = groups.iter().position(|g| *g == bar.group).unwrap_or(0) % 7;
            self.draw_bar(&mut d, bar, group, &x, top + ROW * (row as f64 + 0.5) + 3.0, left);
        }
        d.line((x.at(0.0), top), (x.at(0.0), bottom), "base");
        frame::left_out(&mut d, self.bars.len() - drawn.len(), self.width, bottom + 38.0);
        d
    }
}

impl Bars {
    fn draw_bar(&self, d: &mut Drawing, bar: &Bar, group: usize, x: &Scale, y: f64, left: f64) {
        let ends = bar.ends(&self.axis);
        let show = |v| self.axis.unit.format(v);
        let interval =
            ends.map_or(String::new(), |(lo, hi)| format!("\n95 % interval {} to {}", show(lo), show(hi)));
        let tip = format!("{}{}: {}{interval}", bar.label, bar.mark.remark(), show(bar.value));
        let class = if bar.mark == Mark::None { "" } else { "bold" };
        d.text(left - 10.0, y + 4.0, class, Anchor::End, &fit(&bar.label, 12.0, left - 10.0));
        let (zero, at) = (x.at(0.0), x.at(bar.value));
        d.tip(&tip, |d| {
            // A value close to zero must still be visible.
            d.rect(zero.min(at), y - 7.0, (at - zero).abs().max(1.0), 14.0, &format!("bar s{group}"));
            if let Some(ends) = ends {
                frame::whisker(d, x, ends, y, "whisker sink");
            }
        });
        let beyond = ends.map_or(at, |(_, hi)| x.at(hi)).max(at).max(zero);
        d.text(beyond + 8.0, y + 4.0, class, Anchor::Start, &self.shown(bar));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_base::units::Unit;

    #[test]
    fn a_wild_error_bar_is_cut_and_a_bar_never() {
        let mut plot = Bars::new("t", Axis::new("x", Unit::None));
        for i in 0..9 {
            let value = 10.0 + f64::from(i);
            plot = plot.bar("b", "g", value, Some((value - 1.0, value + 1.0)), Mark::None);
        }
        let wild = plot.clone().bar("wild", "g", 12.0, Some((0.1, 9000.0)), Mark::None).svg();
        assert!(wild.contains('▸') && wild.contains(frame::ARROWS), "{wild}");
        let long = plot.bar("long", "g", 9000.0, Some((8999.0, 9001.0)), Mark::None).svg();
        assert!(long.contains("9000") || long.contains("9,000") || long.contains("9k"), "{long}");
    }
}
