//! Changes and their uncertainty: one row per metric, with the figures before and after and the 95 % interval of the
//! change.

use std::cmp::Ordering;

use super::draw::{Anchor, Drawing, fit, widest};
use super::frame;
use super::scale::{Axis, Scale, robust};
use super::{Better, Plot, WIDTH};
use poolwright_base::units::Unit;

#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    from: String,
    to: String,
    change: f64,
    ci95: (f64, f64),
    better: Better,
}

/// Horizontal intervals around "no change".
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    title: String,
    rows: Vec<Row>,
    words: [String; 3],
}

impl Intervals {
    /// Creates a plot without rows.
    pub fn new(title: &str) -> Self {
        let words = ["today", "then", "change against today"].map(str::to_owned);
        Intervals { title: title.to_owned(), rows: Vec::new(), words }
    }

    /// Replaces the headings "today" and "then" above the figures and "change against today" below the axis.
    pub fn words(mut self, from: &str, to: &str, axis: &str) -> Self {
        self.words = [from, to, axis].map(str::to_owned);
        self
    }

    /// Adds a metric: its figures before and after in `unit`, the relative change as a fraction, and its interval.
    pub fn row(
        mut self,
        name: &str,
        unit: Unit,
        (from, to): (f64, f64),
        (change, ci95): (f64, (f64, f64)),
        better: Better,
    ) -> Self {
        let (name, from, to) = (name.to_owned(), unit.format(from), unit.format(to));
        self.rows.push(Row { name, from, to, change, ci95, better });
        self
    }
}

impl Row {
    fn drawable(&self, axis: &Axis) -> bool {
        [self.change, self.ci95.0, self.ci95.1].iter().all(|v| axis.takes(*v))
    }

    /// Returns the CSS class of the colour, and the verdict in words.
    fn verdict(&self) -> (&'static str, &'static str) {
        let (lo, hi) = self.ci95;
        if lo <= 0.0 && hi >= 0.0 {
            ("snoise", "inside the noise")
        } else if (hi < 0.0) == (self.better == Better::Lower) {
            ("sgood", "better")
        } else {
            ("sbad", "worse")
        }
    }
}

impl Plot for Intervals {
    fn draw(&self) -> Drawing {
        const ROW: f64 = 30.0;
        let mut d = Drawing::new(WIDTH, 0.0, &self.title);
        let [from, to, change] = &self.words;
        let axis = Axis::new(change, Unit::Change);
        let drawn: Vec<&Row> = self.rows.iter().filter(|r| r.drawable(&axis)).collect();
        let ends = || drawn.iter().flat_map(|r| [r.change, r.ci95.0, r.ci95.1]);
        let (low, high) = robust(&axis, ends());
        let mut about = "dot: measured change; bar: its 95 % interval".to_owned();
        if ends().any(|v| v < low || v > high) {
            about += &format!("; {}", frame::ARROWS);
        }
        let top = frame::head(&mut d, &self.title, &about, &[], WIDTH);
        let bottom = top + 20.0 + ROW * self.rows.len().max(1) as f64;
        d.set_height(bottom + 44.0);
        if drawn.is_empty() {
            frame::nothing(&mut d, WIDTH / 2.0, (top + bottom) / 2.0);
            return d;
        }
        let widest = |of: fn(&Row) -> &str, head| widest(drawn.iter().map(|r| of(r)).chain([head]), 0.0);
        let names = widest(|r| &r.name, "").min(WIDTH * 0.3) + 18.0;
        let heads = [from.as_str(), to, "change"];
        let (from, to) = (widest(|r| &r.from, from), widest(|r| &r.to, to));
        let right = WIDTH - from - to - 144.0;
        let shown = ends().map(|v| v.clamp(low, high)).chain([0.0]);
        let x = Scale::fit(&axis, shown, names, right, 6);
        frame::x_axis(&mut d, &x, top + 16.0, bottom, (names + right) / 2.0);
        d.line((x.at(0.0), top + 10.0), (x.at(0.0), bottom), "zero");
        let columns = [right + 26.0 + from, right + 56.0 + from + to, WIDTH - 2.0];
        for (at, name) in columns.iter().zip(heads) {
            d.text(*at, top + 6.0, "key", Anchor::End, name);
        }
        for (i, row) in drawn.iter().enumerate() {
            row.draw(&mut d, &x, top + 16.0 + ROW * (i as f64 + 0.5), names - 18.0, columns);
        }
        frame::left_out(&mut d, self.rows.len() - drawn.len(), WIDTH, bottom + 42.0);
        d
    }
}

impl Row {
    fn draw(&self, d: &mut Drawing, x: &Scale, y: f64, room: f64, columns: [f64; 3]) {
        let (class, word) = self.verdict();
        let (lo, hi) = self.ci95;
        let show = |v| Unit::Change.format(v);
        let tip = format!(
            "{}: {} → {}\nchange {}, 95 % interval {} to {}: {word}",
            self.name,
            self.from,
            self.to,
            show(self.change),
            show(lo),
            show(hi)
        );
        d.text(0.0, y + 4.0, "", Anchor::Start, &fit(&self.name, 12.0, room));
        d.tip(&tip, |d| {
            frame::whisker(d, x, self.ci95, y, &format!("whisker {class}"));
            if x.side(self.change) == Ordering::Equal {
                d.circle(x.at(self.change), y, 5.0, &format!("dot {class}"));
            }
        });
        let (arrow, from, to) = (columns[0] + 15.0, &self.from, &self.to);
        d.text(columns[0], y + 4.0, "sub", Anchor::End, from);
        d.text(arrow, y + 4.0, "sub", Anchor::Middle, "→");
        d.text(columns[1], y + 4.0, "", Anchor::End, to);
        let change = if class == "snoise" { "noise".to_owned() } else { show(self.change) };
        d.text(columns[2], y + 4.0, if class == "snoise" { "sub" } else { "bold" }, Anchor::End, &change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_interval_does_not_squeeze_the_others() {
        let mut plot = Intervals::new("t");
        for i in 0..9 {
            let change = 0.02 * f64::from(i) - 0.1;
            let ci95 = (change - 0.05, change + 0.05);
            plot = plot.row(&format!("m{i}"), Unit::None, (1.0, 1.0), (change, ci95), Better::Lower);
        }
        let tame = plot.svg();
        assert!(!tame.contains('▸') && !tame.contains(frame::ARROWS));
        let wild = plot.row("wild", Unit::None, (1.0, 9.0), (8.27, (-0.9, 40.0)), Better::Lower).svg();
        assert!(wild.contains('▸') && wild.contains('◂') && wild.contains(frame::ARROWS));
        // Its figures are still shown, and the axis is that of the others.
        assert!(wild.contains("+827.0 %") || wild.contains("+827 %"), "{wild}");
        assert!(!wild.contains(">+4000 %<") && !wild.contains(">+1000 %<"), "{wild}");
    }

    #[test]
    fn the_interval_decides_not_the_dot() {
        let row = |lo, hi, better| {
            Intervals::new("t").row("m", Unit::None, (1.0, 1.0), (-0.1, (lo, hi)), better).rows[0].verdict().1
        };
        assert_eq!(row(-0.2, -0.05, Better::Lower), "better");
        assert_eq!(row(-0.2, -0.05, Better::Higher), "worse");
        assert_eq!(row(0.05, 0.2, Better::Higher), "better");
        assert_eq!(row(-0.2, 0.01, Better::Lower), "inside the noise");
    }
}
