//! The common elements of plots: title, legend, axes and grid.

use std::cmp::Ordering;

use super::Mark;
use super::draw::{Anchor, Drawing, fit, text_width, widest};
use super::scale::Scale;

/// The symbol of a series in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swatch {
    Shape(usize),
    Line(usize),
    Bar(usize),
    Front,
    Today,
    Chosen,
}

/// The groups in the order of their first figure.
pub(super) fn groups<'a>(of_figures: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut groups: Vec<&str> = Vec::new();
    for group in of_figures {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// The legend of the marks that occur.
pub(super) fn legend_of_marks(marks: impl Iterator<Item = Mark> + Clone) -> Vec<(Swatch, String)> {
    let all = [(Swatch::Today, Mark::Today, "today"), (Swatch::Chosen, Mark::Chosen, "recommended")];
    let shown = all.into_iter().filter(|(_, mark, _)| marks.clone().any(|m| m == *mark));
    shown.map(|(swatch, _, name)| (swatch, name.to_owned())).collect()
}

/// Draws the title and the legend. Returns the vertical position at which the plot may begin.
pub(super) fn head(d: &mut Drawing, title: &str, sub: &str, legend: &[(Swatch, String)], width: f64) -> f64 {
    let mut y = 0.0;
    if !title.is_empty() {
        y += 16.0;
        d.text(0.0, y, "title", Anchor::Start, &fit(title, 15.0, width));
    }
    if !sub.is_empty() {
        y += 17.0;
        d.text(0.0, y, "sub", Anchor::Start, &fit(sub, 12.0, width));
    }
    if legend.is_empty() {
        return y + 14.0;
    }
    y += 22.0;
    let mut x = 0.0;
    for (swatch, name) in legend {
        let name = &fit(name, 12.0, width - 18.0);
        let need = 18.0 + text_width(name, 12.0);
        if x > 0.0 && x + need > width {
            (x, y) = (0.0, y + 18.0);
        }
        draw_swatch(d, *swatch, x + 6.0, y - 4.0);
        d.text(x + 17.0, y, "key", Anchor::Start, name);
        x += need + 18.0;
    }
    y + 16.0
}

fn draw_swatch(d: &mut Drawing, swatch: Swatch, x: f64, y: f64) {
    match swatch {
        Swatch::Shape(i) => d.shape(i, x, y, 4.5),
        Swatch::Line(i) => d.line((x - 7.0, y), (x + 7.0, y), &line_class(i)),
        Swatch::Bar(i) => d.rect(x - 5.0, y - 5.0, 10.0, 10.0, &format!("bar s{i}")),
        Swatch::Front => d.line((x - 7.0, y), (x + 7.0, y), "front"),
        Swatch::Today => d.circle(x, y, 6.0, "today"),
        Swatch::Chosen => d.circle(x, y, 6.0, "ring"),
    }
}

/// Returns the CSS class for colour and dash of line `i`. After the seventh line, the colours repeat with another dash.
pub(super) fn line_class(i: usize) -> String {
    format!("line s{} d{}", i % 7, (i % 7 % 2 + i / 7) % 4)
}

/// Draws labels and grid of a vertical axis at `left`. Its title is horizontal above the axis, so that it is easy to
/// read.
pub(super) fn y_axis(d: &mut Drawing, y: &Scale, left: f64, right: f64) {
    for tick in &y.ticks {
        let at = y.at(*tick);
        d.line((left, at), (right, at), "grid");
        d.text(left - 8.0, at + 4.0, "tick", Anchor::End, &y.label(*tick));
    }
}

/// Draws labels and grid of a horizontal axis at `bottom`, with its title below. Labels that would touch others are
/// omitted.
pub(super) fn x_axis(d: &mut Drawing, x: &Scale, top: f64, bottom: f64, middle: f64) {
    let mut free = f64::NEG_INFINITY;
    for tick in &x.ticks {
        let (at, label) = (x.at(*tick), x.label(*tick));
        d.line((at, top), (at, bottom), "grid");
        let half = text_width(&label, 12.0) / 2.0;
        // The last label may be at the very edge of the drawing.
        let (at, anchor) =
            if at + half > d.width() { (d.width(), Anchor::End) } else { (at, Anchor::Middle) };
        let begin = if anchor == Anchor::End { at - 2.0 * half } else { at - half };
        if begin > free {
            d.text(at, bottom + 18.0, "tick", anchor, &label);
            free = at + half + 8.0;
        }
    }
    d.text(middle, bottom + 38.0, "axis", Anchor::Middle, &x.axis.title);
}

/// Returns the space that the labels of a vertical axis need, in pixels.
pub(super) fn label_room(y: &Scale) -> f64 {
    let labels: Vec<String> = y.ticks.iter().map(|tick| y.label(*tick)).collect();
    widest(labels.iter().map(String::as_str), 20.0) + 12.0
}

/// The legend's text for arrows.
pub(super) const ARROWS: &str = "an arrow points to what lies beyond the axis";

/// Draws a horizontal error bar; an arrow replaces an end beyond the axis.
pub(super) fn whisker(d: &mut Drawing, x: &Scale, (low, high): (f64, f64), y: f64, class: &str) {
    d.line((x.at(low), y), (x.at(high), y), class);
    for end in [low, high] {
        match x.side(end) {
            Ordering::Equal => d.line((x.at(end), y - 4.0), (x.at(end), y + 4.0), class),
            side => beside(d, side, x.at(end), y),
        }
    }
}

/// Draws a mark at the left or right edge of a plot for a value beyond it.
pub(super) fn beside(d: &mut Drawing, side: Ordering, x: f64, y: f64) {
    match side {
        Ordering::Less => d.text(x - 1.0, y + 4.0, "label", Anchor::End, "◂"),
        Ordering::Greater => d.text(x + 1.0, y + 4.0, "label", Anchor::Start, "▸"),
        Ordering::Equal => {}
    }
}

/// Draws a mark at the lower or upper edge of a plot for a value beyond it.
pub(super) fn above(d: &mut Drawing, side: Ordering, x: f64, y: f64) {
    match side {
        Ordering::Less => d.text(x, y + 11.0, "label", Anchor::Middle, "▾"),
        Ordering::Greater => d.text(x, y - 3.0, "label", Anchor::Middle, "▴"),
        Ordering::Equal => {}
    }
}

/// Reports how many figures are not drawn.
pub(super) fn left_out(d: &mut Drawing, count: usize, x: f64, y: f64) {
    if count > 0 {
        let what = if count == 1 { "1 figure is" } else { &format!("{count} figures are") };
        d.text(x, y, "note", Anchor::End, &format!("{what} missing or cannot be drawn on this axis"));
    }
}

/// Draws an empty plot.
pub(super) fn nothing(d: &mut Drawing, x: f64, y: f64) {
    d.text(x, y, "sub", Anchor::Middle, "nothing was measured");
}
