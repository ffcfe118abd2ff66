//! A trade-off between two metrics: one point per setting, and the Pareto front.

use std::cmp::Ordering;

use super::draw::{Anchor, Drawing, colour, fit, text_width};
use super::frame::{self, Swatch};
use super::scale::{Axis, Scale, robust};
use super::{Better, Mark, Plot, WIDTH};

/// A setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    x: f64,
    y: f64,
    x_range: Option<(f64, f64)>,
    y_range: Option<(f64, f64)>,
    group: String,
    label: String,
    mark: Mark,
}

impl Point {
    /// Creates a point. `group` determines colour and shape; `label` is the setting's name.
    pub fn new(x: f64, y: f64, group: &str, label: &str) -> Self {
        let (group, label) = (group.to_owned(), label.to_owned());
        Point { x, y, x_range: None, y_range: None, group, label, mark: Mark::None }
    }

    /// Sets the ends of the horizontal error bar.
    pub fn x_range(mut self, ends: impl Into<Option<(f64, f64)>>) -> Self {
        self.x_range = ends.into();
        self
    }

    /// Sets the ends of the vertical error bar.
    pub fn y_range(mut self, ends: impl Into<Option<(f64, f64)>>) -> Self {
        self.y_range = ends.into();
        self
    }

    /// Marks the current or the recommended setting.
    pub fn mark(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }
}

/// Points with error bars and their Pareto front.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    title: String,
    x: Axis,
    y: Axis,
    better: (Better, Better),
    points: Vec<Point>,
    size: (f64, f64),
}

impl Scatter {
    /// Creates a plot. `better` is the direction in which each axis improves, for the Pareto front.
    pub fn new(title: &str, x: Axis, y: Axis, better: (Better, Better), points: Vec<Point>) -> Self {
        Scatter { title: title.to_owned(), x, y, better, points, size: (WIDTH, 460.0) }
    }

    /// Sets the size (default [`WIDTH`] by 460).
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    fn groups(&self) -> Vec<&str> {
        frame::groups(self.points.iter().map(|point| point.group.as_str()))
    }

    /// Returns the indices of the points on the Pareto front, from left to right: no other point is better on one axis
    /// without being worse on the other.
    fn front(&self, drawn: &[usize]) -> Vec<usize> {
        let beats = |a: &Point, b: &Point| {
            let (bx, by) = self.better;
            bx.at_least(a.x, b.x) && by.at_least(a.y, b.y) && (a.x != b.x || a.y != b.y)
        };
        let points = &self.points;
        let mut front: Vec<usize> = (drawn.iter().copied())
            .filter(|&i| !drawn.iter().any(|&j| beats(&points[j], &points[i])))
            .collect();
        front.sort_by(|&a, &b| points[a].x.total_cmp(&points[b].x));
        front
    }

    fn legend(&self, front: usize) -> Vec<(Swatch, String)> {
        let groups = self.groups();
        let mut legend: Vec<(Swatch, String)> = Vec::new();
        if groups.len() > 1 {
            legend.extend(groups.iter().enumerate().map(|(i, g)| (Swatch::Shape(i), (*g).to_owned())));
        }
        legend.extend(frame::legend_of_marks(self.points.iter().map(|point| point.mark)));
        if front > 1 {
            legend.push((Swatch::Front, "no setting is better in both".to_owned()));
        }
        legend
    }

    fn tip(&self, p: &Point) -> String {
        let axis = |axis: &Axis, v: f64, range: Option<(f64, f64)>| {
            let spread = range.map_or(String::new(), |(lo, hi)| {
                format!(" ({} to {})", axis.unit.format(lo), axis.unit.format(hi))
            });
            format!("\n{}: {}{spread}", axis.title, axis.unit.format(v))
        };
        let (x, y) = (axis(&self.x, p.x, p.x_range), axis(&self.y, p.y, p.y_range));
        format!("{}{}{x}{y}", p.label, p.mark.remark())
    }
}

impl Plot for Scatter {
    fn draw(&self) -> Drawing {
        let (width, height) = self.size;
        let mut d = Drawing::new(width, height, &self.title);
        let drawn: Vec<usize> = (0..self.points.len())
            .filter(|&i| self.x.takes(self.points[i].x) && self.y.takes(self.points[i].y))
            .collect();
        let front = self.front(&drawn);
        let on = || drawn.iter().map(|&i| &self.points[i]);
        let xs = Shown::new(&self.x, on().map(|p| (p.x, p.x_range, p.mark)));
        let ys = Shown::new(&self.y, on().map(|p| (p.y, p.y_range, p.mark)));
        let about = if xs.cut || ys.cut { frame::ARROWS } else { "" };
        let top = frame::head(&mut d, &self.title, about, &self.legend(front.len()), width) + 22.0;
        let bottom = height - 58.0;
        let right = width - 14.0;
        let y = Scale::fit(&self.y, ys.values, bottom, top, 5);
        let left = frame::label_room(&y);
        let x = Scale::fit(&self.x.clone().padded(), xs.values, left, right, 7);
        if drawn.is_empty() {
            frame::nothing(&mut d, width / 2.0, (top + bottom) / 2.0);
        } else {
            d.text(0.0, top - 16.0, "axis", Anchor::Start, &self.y.title);
            frame::y_axis(&mut d, &y, left, right);
            frame::x_axis(&mut d, &x, top, bottom, (left + right) / 2.0);
            d.line((left, bottom), (right, bottom), "base");
            self.draw_front(&mut d, &front, &x, &y);
            self.draw_points(&mut d, &drawn, &x, &y);
            Labels::new(self, &drawn, &x, &y, (left, top, right, bottom)).draw(&mut d, &front);
        }
        frame::left_out(&mut d, self.points.len() - drawn.len(), right, top - 16.0);
        d
    }
}

/// The range of an axis.
struct Shown {
    values: Vec<f64>,
    /// Whether some value lies beyond it.
    cut: bool,
}

impl Shown {
    /// Returns the robust range of figures and error bars, extended to the current and the recommended setting.
    fn new(axis: &Axis, points: impl Iterator<Item = (f64, Option<(f64, f64)>, Mark)> + Clone) -> Shown {
        let ends = |(v, range, _): (f64, Option<(f64, f64)>, Mark)| {
            let (lo, hi) = range.unwrap_or((v, v));
            [v, lo, hi]
        };
        let (mut low, mut high) = robust(axis, points.clone().flat_map(ends));
        for (v, _, _) in points.clone().filter(|p| p.2 != Mark::None) {
            (low, high) = (low.min(v), high.max(v));
        }
        let all: Vec<f64> = points.flat_map(ends).filter(|v| axis.takes(*v)).collect();
        let cut = all.iter().any(|v| *v < low || *v > high);
        Shown { values: all.into_iter().map(|v| v.clamp(low, high)).collect(), cut }
    }
}

impl Scatter {
    /// Draws the front as steps, because there is no setting between two others.
    fn draw_front(&self, d: &mut Drawing, front: &[usize], x: &Scale, y: &Scale) {
        if front.len() < 2 {
            return;
        }
        let at = |i: usize| (x.at(self.points[i].x), y.at(self.points[i].y));
        let mut line = vec![at(front[0])];
        for pair in front.windows(2) {
            let (a, b) = (at(pair[0]), at(pair[1]));
            // The corner has the worse value on both axes, so that no real setting is worse than the line.
            line.push(if self.better.0 == Better::Higher { (a.0, b.1) } else { (b.0, a.1) });
            line.push(b);
        }
        d.polyline(&line, "front");
    }

    fn draw_points(&self, d: &mut Drawing, drawn: &[usize], x: &Scale, y: &Scale) {
        let groups = self.groups();
        // Draw marked points last, so that they are on top.
        let mut order = drawn.to_vec();
        order.sort_by_key(|&i| self.points[i].mark != Mark::None);
        for p in order.iter().map(|&i| &self.points[i]) {
            let group = groups.iter().position(|g| *g == p.group).unwrap_or(0);
            let (px, py) = (x.at(p.x), y.at(p.y));
            let class = format!("err s{}", colour(group));
            d.tip(&self.tip(p), |d| {
                if let Some((lo, hi)) = self.x.takes_range(p.x_range) {
                    d.line((x.at(lo), py), (x.at(hi), py), &class);
                }
                if let Some((lo, hi)) = self.y.takes_range(p.y_range) {
                    d.line((px, y.at(lo)), (px, y.at(hi)), &class);
                }
                frame::beside(d, x.side(p.x), px, py);
                frame::above(d, y.side(p.y), px, py);
                if x.side(p.x) == Ordering::Equal && y.side(p.y) == Ordering::Equal {
                    d.shape(group, px, py, 5.0);
                }
                match p.mark {
                    Mark::None => {}
                    Mark::Today => d.circle(px, py, 10.0, "today"),
                    Mark::Chosen => d.circle(px, py, 10.0, "ring"),
                }
            });
        }
    }
}

type Box4 = (f64, f64, f64, f64);

/// Places labels beside points: always for marked points, and for those on the front if there is space.
struct Labels<'a> {
    plot: &'a Scatter,
    at: Vec<(usize, f64, f64)>,
    taken: Vec<Box4>,
    frame: Box4,
}

impl<'a> Labels<'a> {
    fn new(plot: &'a Scatter, drawn: &[usize], x: &Scale, y: &Scale, frame: Box4) -> Self {
        let at: Vec<(usize, f64, f64)> =
            drawn.iter().map(|&i| (i, x.at(plot.points[i].x), y.at(plot.points[i].y))).collect();
        let around = |r: f64, px: f64, py: f64| (px - r, py - r, px + r, py + r);
        let taken = at
            .iter()
            .map(|&(i, px, py)| around(if plot.points[i].mark == Mark::None { 5.5 } else { 10.5 }, px, py))
            .collect();
        Labels { plot, at, taken, frame }
    }

    fn draw(mut self, d: &mut Drawing, front: &[usize]) {
        let mut order: Vec<(usize, f64, f64)> = self.at.clone();
        let rank = |i: usize| match self.plot.points[i].mark {
            Mark::Chosen => 0,
            Mark::Today => 1,
            Mark::None if front.contains(&i) => 2,
            Mark::None => 3,
        };
        order.retain(|(i, ..)| rank(*i) < 3 || self.plot.points.len() <= 8);
        order.sort_by_key(|(i, ..)| rank(*i));
        for (i, px, py) in order {
            self.place(d, i, px, py);
        }
    }

    fn place(&mut self, d: &mut Drawing, i: usize, px: f64, py: f64) {
        let point = &self.plot.points[i];
        let marked = point.mark != Mark::None;
        let class = if marked { "label bold" } else { "label" };
        let label = fit(&point.label, 11.0, 260.0);
        let width = text_width(&label, 11.0) * if marked { 1.08 } else { 1.0 } + 2.0;
        let rings: &[f64] = if marked { &[14.0, 26.0, 42.0, 62.0] } else { &[9.0, 18.0] };
        for &r in rings {
            let s = r * 0.8;
            // Left edge and baseline of the text, in order of preference.
            let places = [
                (px + r, py + 4.0),
                (px + s, py - s + 2.0),
                (px + s, py + s + 6.0),
                (px - r - width, py + 4.0),
                (px - s - width, py - s + 2.0),
                (px - s - width, py + s + 6.0),
                (px - width / 2.0, py - r - 2.0),
                (px - width / 2.0, py + r + 10.0),
            ];
            let found = places.into_iter().find(|&(x, y)| self.free((x, y - 10.0, x + width, y + 3.0)));
            let Some((x, y)) = found else { continue };
            if r > 18.0 {
                let to = (px.clamp(x, x + width), if y < py { y + 3.0 } else { y - 9.0 });
                let len = (to.0 - px).hypot(to.1 - py).max(1.0);
                let start = (px + (to.0 - px) / len * 11.0, py + (to.1 - py) / len * 11.0);
                d.line(start, to, "leader");
            }
            d.text(x, y, class, Anchor::Start, &label);
            self.taken.push((x, y - 10.0, x + width, y + 3.0));
            return;
        }
    }

    fn free(&self, b: Box4) -> bool {
        let (left, top, right, bottom) = self.frame;
        let inside = b.0 >= left && b.1 >= top - 6.0 && b.2 <= right + 8.0 && b.3 <= bottom;
        inside && !self.taken.iter().any(|t| b.0 < t.2 && t.0 < b.2 && b.1 < t.3 && t.1 < b.3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_base::units::Unit;

    fn plot(points: Vec<Point>) -> Scatter {
        let axis = |t| Axis::new(t, Unit::None);
        Scatter::new("t", axis("space"), axis("latency"), (Better::Higher, Better::Lower), points)
    }

    #[test]
    fn one_wild_setting_does_not_squeeze_the_others() {
        let tame = || (0..12).map(|i| Point::new(f64::from(i), 5.0 + f64::from(i % 4), "g", "p"));
        assert!(!plot(tame().collect()).svg().contains(frame::ARROWS));
        let wild = || Point::new(5.0, 9000.0, "g", "wild");
        let svg = plot(tame().chain([wild()]).collect()).svg();
        assert!(svg.contains('▴') && svg.contains(frame::ARROWS), "{svg}");
        assert!(!svg.contains(">10000<") && !svg.contains(">8000<") && !svg.contains(">8,000<"), "{svg}");
        assert!(svg.contains("wild"), "its figures are there when it is pointed at");
        // The recommended setting is never cut off.
        let chosen = plot(tame().chain([wild().mark(Mark::Chosen)]).collect()).svg();
        assert!(!chosen.contains('▴') && !chosen.contains(frame::ARROWS), "{chosen}");
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let p = |x, y| Point::new(x, y, "g", "p");
        let s = plot(vec![p(1.0, 1.0), p(2.0, 2.0), p(1.5, 3.0), p(3.0, 2.0), p(0.5, 1.0)]);
        assert_eq!(s.front(&[0, 1, 2, 3, 4]), [0, 3]);
        let twins = plot(vec![p(1.0, 1.0), p(1.0, 1.0)]);
        assert_eq!(twins.front(&[0, 1]).len(), 2, "equal points do not beat each other");
    }
}
