//! The SVG elements that the plots use.

use std::fmt::Write as _;

use crate::escape;

/// A finished drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    width: f64,
    height: f64,
    name: String,
    body: String,
}

/// The horizontal anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    /// Creates an empty drawing. Screen readers read `name`.
    pub(super) fn new(width: f64, height: f64, name: &str) -> Self {
        Drawing { width, height, name: name.to_owned(), body: String::new() }
    }

    pub(super) fn width(&self) -> f64 {
        self.width
    }

    pub(super) fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (px(x), px(y), escape::html(text));
        self.push(format_args!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\"{anchor}>{text}</text>"));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (px(from.0), px(from.1), px(to.0), px(to.1));
        self.push(format_args!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"));
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, class: &str) {
        let (x, y, w, h) = (px(x), px(y), px(w.max(0.0)), px(h.max(0.0)));
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"1.5\" class=\"{class}\"/>"
        ));
    }

    pub(super) fn circle(&mut self, x: f64, y: f64, r: f64, class: &str) {
        let (x, y, r) = (px(x), px(y), px(r));
        self.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" class=\"{class}\"/>"));
    }

    pub(super) fn path(&mut self, d: &str, class: &str) {
        self.push(format_args!("<path d=\"{d}\" class=\"{class}\"/>"));
    }

    /// Draws straight lines through the points.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        self.path(&path(points), class);
    }

    /// Adds the tooltip `tip` to the elements that `draw` draws.
    pub(super) fn tip(&mut self, tip: &str, draw: impl FnOnce(&mut Drawing)) {
        self.push(format_args!("<g><title>{}</title>", escape::html(tip)));
        draw(self);
        self.push(format_args!("</g>"));
    }

    /// Draws the marker of series `i` with radius `r`. From the eighth series on, the shapes repeat in other colours.
    pub(super) fn shape(&mut self, i: usize, x: f64, y: f64, r: f64) {
        let class = format!("dot s{}", colour(i));
        // Half of each shape; the other half is the first one turned by 180 degrees, except for the triangles.
        let (half, is_symmetric): (&[(f64, f64)], bool) = match i % 7 {
            0 => return self.circle(x, y, r, &class),
            1 => (&[(-0.9, -0.9), (0.9, -0.9)], true),
            2 => (&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)], false),
            3 => (&[(0.0, -1.3), (1.3, 0.0)], true),
            4 => (&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)], false),
            5 => (&[(-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)], true),
            _ => (&[(-0.6, -1.1), (0.6, -1.1), (1.2, 0.0)], true),
        };
        let turned = half.iter().filter(|_| is_symmetric).map(|(dx, dy)| (-dx, -dy));
        let at = |(dx, dy)| (x + dx * r, y + dy * r);
        let points: Vec<(f64, f64)> = half.iter().copied().chain(turned).map(at).collect();
        self.path(&format!("{}Z", path(&points)), &class);
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// Returns the SVG element.
    pub(super) fn svg(&self) -> String {
        let (w, h, name) = (px(self.width), px(self.height), escape::html(&self.name));
        format!(
            "<svg class=\"pw\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{name}\">\n{}</svg>\n",
            self.body
        )
    }
}

/// The data of a path of straight lines through the points.
fn path(points: &[(f64, f64)]) -> String {
    let step = |(i, (x, y)): (usize, &(f64, f64))| {
        format!("{}{} {}", if i == 0 { 'M' } else { 'L' }, px(*x), px(*y))
    };
    points.iter().enumerate().map(step).collect()
}

/// Returns the colour of series `i`. No two of 49 series share both colour and shape.
pub(super) fn colour(i: usize) -> usize {
    (i + i / 7) % 7
}

/// Formats a coordinate with one decimal, without "-0".
fn px(v: f64) -> String {
    let v = (v * 10.0).round() / 10.0 + 0.0;
    format!("{v}")
}

/// Estimates the width of a text in pixels at a font size, to place elements beside it. System fonts differ; narrow and
/// wide letters of common sans-serif fonts are not much wider than this.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | 'f' | 't' | 'r' | '('
            | ')' => 0.31,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.87,
            'A'..='Z' => 0.7,
            c if c as u32 > 0x1100 => 1.0,
            _ => 0.62,
        })
        .sum();
    em * size
}

/// The width of the widest of some texts and of `least`.
pub(super) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, least: f64) -> f64 {
    texts.into_iter().map(|text| text_width(text, 12.0)).fold(least, f64::max)
}

/// Truncates a text that would be wider than `width`.
pub(super) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if text_width(&out, size) + size > width {
            break;
        }
    }
    out + "…"
}
