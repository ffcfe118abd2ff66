//! Figures over time.

use super::draw::{Anchor, Drawing, fit, text_width};
use super::frame::{self, Swatch};
use super::scale::{Axis, Scale};
use super::{Plot, WIDTH};

/// A line: a name and `(x, y)` in order of `x`. A `y` that is not finite is a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64, f64)>,
    dots: bool,
}

impl Line {
    /// Creates a named line.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), points, band: Vec::new(), dots: false }
    }

    /// Sets the band of uncertainty: `(x, low, high)` in order of `x`.
    pub fn band(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        self.band = band;
        self
    }

    /// Draws each point as a dot with a tooltip.
    pub fn dots(mut self) -> Self {
        self.dots = true;
        self
    }
}

/// Lines over a common axis, usually time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeries {
    title: String,
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
    right: Option<(Axis, Vec<Line>)>,
    events: Vec<(f64, String)>,
    size: (f64, f64),
}

impl TimeSeries {
    /// Creates a plot; `x` is usually time, `y` the figure.
    pub fn new(title: &str, x: Axis, y: Axis, lines: Vec<Line>) -> Self {
        let title = title.to_owned();
        TimeSeries { title, x, y, lines, right: None, events: Vec::new(), size: (WIDTH, 300.0) }
    }

    /// Adds lines with a second axis at the right, for another unit over the same time.
    pub fn right(mut self, axis: Axis, lines: Vec<Line>) -> Self {
        self.right = Some((axis, lines));
        self
    }

    /// Adds an event at `x`: a vertical line with a text.
    pub fn event(mut self, x: f64, text: &str) -> Self {
        self.events.push((x, text.to_owned()));
        self
    }

    /// Sets the size (default [`WIDTH`] by 300).
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// Returns the points of some lines that can be drawn.
    fn drawn<'a>(&'a self, lines: &'a [Line], y: &'a Axis) -> impl Iterator<Item = &'a (f64, f64)> {
        lines.iter().flat_map(|l| &l.points).filter(|p| self.x.takes(p.0) && y.takes(p.1))
    }

    /// Returns the ends of the bands of some lines.
    fn reached<'a>(&'a self, lines: &'a [Line], y: &'a Axis) -> impl Iterator<Item = f64> {
        let bands = lines.iter().flat_map(|l| &l.band).filter(|b| self.x.takes(b.0));
        bands.flat_map(|b| [b.1, b.2]).filter(|v| y.takes(*v))
    }

    /// Returns the second axis if it has anything to show.
    fn second(&self) -> Option<(&Axis, &[Line])> {
        let (axis, lines) = self.right.as_ref()?;
        self.drawn(lines, axis).next().is_some().then_some((axis, lines))
    }

    fn legend(&self) -> Vec<(Swatch, String)> {
        let right = self.right.iter().flat_map(|(_, lines)| lines);
        let names = self.lines.iter().map(|l| l.name.clone());
        let all: Vec<String> = names.chain(right.map(|l| format!("{} (right)", l.name))).collect();
        if all.len() < 2 {
            return Vec::new();
        }
        all.into_iter().enumerate().map(|(i, name)| (Swatch::Line(i), name)).collect()
    }
}

impl Plot for TimeSeries {
    fn draw(&self) -> Drawing {
        let (width, height) = self.size;
        let mut d = Drawing::new(width, height, &self.title);
        let texts = self.events.len().min(EVENT_TEXTS) as f64;
        let axis = frame::head(&mut d, &self.title, "", &self.legend(), width) + 22.0;
        let top = axis + EVENT_LINE * texts;
        // Legend and events increase the height instead of reducing that of the curves.
        let height = height.max(top + 150.0);
        d.set_height(height);
        let bottom = height - 46.0;
        let drawn = || self.drawn(&self.lines, &self.y);
        let second = self.second();
        if drawn().next().is_none() && second.is_none() {
            frame::nothing(&mut d, width / 2.0, (top + bottom) / 2.0);
            return d;
        }
        let values = drawn().map(|p| p.1).chain(self.reached(&self.lines, &self.y));
        let y = Scale::fit(&self.y, values, bottom, top, 4);
        let left = frame::label_room(&y);
        let y2 = second.map(|(axis, lines)| {
            (Scale::fit(axis, self.drawn(lines, axis).map(|p| p.1), bottom, top, 4), lines)
        });
        let right = width - y2.as_ref().map_or(14.0, |(y2, _)| frame::label_room(y2));
        let beside = second.into_iter().flat_map(|(axis, lines)| self.drawn(lines, axis));
        let times = drawn().chain(beside).map(|p| p.0).chain(self.events.iter().map(|e| e.0));
        let x = Scale::fit(&self.x.clone().tight(), times, left, right, 7);
        d.text(0.0, axis - 16.0, "axis", Anchor::Start, &self.y.title);
        frame::y_axis(&mut d, &y, left, right);
        frame::x_axis(&mut d, &x, top, bottom, (left + right) / 2.0);
        d.line((left, bottom), (right, bottom), "base");
        self.draw_events(&mut d, &x, (left, axis, right, bottom));
        for (i, line) in self.lines.iter().enumerate() {
            self.draw_band(&mut d, i, line, &x, &y);
        }
        for (i, line) in self.lines.iter().enumerate() {
            self.draw_line(&mut d, i, line, &x, &y);
        }
        if let Some((y2, lines)) = &y2 {
            self.draw_second(&mut d, lines, (&x, y2), (width, axis - 16.0), right);
        }
        let all = self.lines.iter().map(|l| l.points.len()).sum::<usize>();
        frame::left_out(&mut d, all - drawn().count(), right, bottom + 38.0);
        d
    }
}

/// The height of an event's text in pixels, and the maximum number of events with text; the others have only a tooltip.
const EVENT_LINE: f64 = 15.0;
const EVENT_TEXTS: usize = 4;

impl TimeSeries {
    /// Draws each event's text on a separate line above the curves, so that no two overlap.
    fn draw_events(&self, d: &mut Drawing, x: &Scale, (left, top, right, bottom): (f64, f64, f64, f64)) {
        for (i, (at, text)) in self.events.iter().enumerate().filter(|(_, e)| self.x.takes(e.0)) {
            let px = x.at(*at);
            let baseline = top + EVENT_LINE * (i.min(EVENT_TEXTS - 1) as f64 + 0.5);
            d.tip(&format!("{}: {text}", self.x.unit.format(*at)), |d| {
                d.line((px, baseline - 8.0), (px, bottom), "event");
                if i >= EVENT_TEXTS {
                    return;
                }
                let text = fit(text, 11.0, (right - left) * 0.8);
                let fits = px + 6.0 + text_width(&text, 11.0) <= right + 12.0;
                let (at, anchor) = if fits { (px + 6.0, Anchor::Start) } else { (px - 6.0, Anchor::End) };
                d.text(at, baseline, "label", anchor, &text);
            });
        }
    }

    fn draw_second(
        &self,
        d: &mut Drawing,
        lines: &[Line],
        (x, y): (&Scale, &Scale),
        title: (f64, f64),
        right: f64,
    ) {
        d.text(title.0, title.1, "axis", Anchor::End, &y.axis.title);
        for tick in &y.ticks {
            d.text(right + 8.0, y.at(*tick) + 4.0, "tick", Anchor::Start, &y.label(*tick));
        }
        for (i, line) in lines.iter().enumerate() {
            self.draw_line(d, self.lines.len() + i, line, x, y);
        }
    }

    fn draw_line(&self, d: &mut Drawing, i: usize, line: &Line, x: &Scale, y: &Scale) {
        let takes = |p: &(f64, f64)| self.x.takes(p.0) && y.axis.takes(p.1);
        for run in line.points.split(|p| !takes(p)).filter(|run| !run.is_empty()) {
            let points = thin(run.iter().map(|p| (x.at(p.0), y.at(p.1))));
            d.tip(&line.name, |d| match points.as_slice() {
                [(px, py)] => d.circle(*px, *py, 2.0, &format!("dot s{}", i % 7)),
                points => d.polyline(points, &frame::line_class(i)),
            });
        }
        if line.dots {
            for p in line.points.iter().filter(|p| takes(p)) {
                let tip = format!("{}, {}: {}", line.name, self.x.unit.format(p.0), y.axis.unit.format(p.1));
                d.tip(&tip, |d| d.circle(x.at(p.0), y.at(p.1), 3.0, &format!("dot s{}", i % 7)));
            }
        }
    }

    fn draw_band(&self, d: &mut Drawing, i: usize, line: &Line, x: &Scale, y: &Scale) {
        let takes = |b: &(f64, f64, f64)| self.x.takes(b.0) && y.axis.takes(b.1) && y.axis.takes(b.2);
        for run in line.band.split(|b| !takes(b)).filter(|run| run.len() > 1) {
            let upper = run.iter().map(|b| (x.at(b.0), y.at(b.2)));
            let lower = run.iter().rev().map(|b| (x.at(b.0), y.at(b.1)));
            d.polyline(&upper.chain(lower).collect::<Vec<_>>(), &format!("band s{}", i % 7));
        }
    }
}

/// Keeps at most four points per pixel column (first, lowest, highest, last). The line looks the same, and an hour of
/// milliseconds does not produce a page of 100 MB.
fn thin(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    let mut column: Vec<(f64, f64)> = Vec::new();
    let flush = |column: &mut Vec<(f64, f64)>, out: &mut Vec<(f64, f64)>| {
        if column.len() <= 4 {
            out.append(column);
            return;
        }
        let by_y = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let lowest = (0..column.len()).min_by(by_y).unwrap_or(0);
        let highest = (0..column.len()).max_by(by_y).unwrap_or(0);
        let mut keep = [0, lowest, highest, column.len() - 1];
        keep.sort_unstable();
        out.extend(keep.iter().map(|&i| column[i]));
        column.clear();
    };
    for p in points {
        if column.first().is_some_and(|first| first.0.floor() != p.0.floor()) {
            flush(&mut column, &mut out);
        }
        column.push(p);
    }
    flush(&mut column, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_peaks() {
        let many = (0..100_000).map(|i| (i as f64 / 1000.0, if i == 54_321 { 99.0 } else { (i % 7) as f64 }));
        let few = thin(many);
        assert!(few.len() <= 400, "{}", few.len());
        assert!(few.contains(&(54.321, 99.0)));
        assert!(few.windows(2).all(|w| w[0].0 <= w[1].0));
    }
}
