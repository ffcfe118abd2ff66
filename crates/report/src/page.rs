//! One self-contained HTML page, which looks the same when opened from a mail attachment or in ten years.
//!
//! The page loads nothing (its content security policy forbids it). Without scripts, only the sorting of tables is
//! missing. This module escapes all text, so callers pass it unescaped.

use std::fmt::Write as _;

use crate::escape::html;
use crate::plot::{self, Plot};
use crate::table::{Table, Tone, tone_class};

/// The element that identifies a file as a page written by Poolwright.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"Poolwright\">";

/// The kind of a callout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callout {
    /// The verdict: something should change.
    Change,
    /// The verdict: keep the current settings.
    Keep,
    /// Information that limits the trust in the rest of the page.
    Warning,
    /// A neutral remark.
    Note,
}

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    subtitle: String,
    footer: String,
    sections: Vec<Section>,
}

/// A heading and the content below it.
#[derive(Clone, Debug)]
pub struct Section {
    heading: String,
    body: String,
}

impl Page {
    /// Creates an empty page.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), subtitle: String::new(), footer: String::new(), sections: Vec::new() }
    }

    /// Sets the line below the title.
    pub fn subtitle(mut self, text: &str) -> Self {
        self.subtitle = text.to_owned();
        self
    }

    /// Sets the last line of the page, which names the program that made it.
    pub fn footer(mut self, text: &str) -> Self {
        self.footer = text.to_owned();
        self
    }

    /// Adds a section. An empty heading is for the content before the first heading.
    pub fn section(&mut self, heading: &str) -> &mut Section {
        self.sections.push(Section { heading: heading.to_owned(), body: String::new() });
        self.sections.last_mut().expect("a section was just added")
    }

    /// Returns the HTML of the page.
    pub fn html(&self) -> String {
        let (title, subtitle) = (html(&self.title), html(&self.subtitle));
        let style = [include_str!("page.css"), plot::STYLE].concat();
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             {GENERATOR}\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{style}</style>\n</head>\n<body>\n<header><h1>{title}</h1><p>{subtitle}</p></header>\n"
        );
        let named = || self.sections.iter().enumerate().filter(|(_, s)| !s.heading.is_empty());
        if named().count() > 2 {
            out.push_str("<nav aria-label=\"sections\">");
            for (i, s) in named() {
                let _ = write!(out, "<a href=\"#s{i}\">{}</a>", html(&s.heading));
            }
            out.push_str("</nav>\n");
        }
        out.push_str("<main>\n");
        for (i, s) in self.sections.iter().enumerate() {
            let _ = writeln!(out, "<section id=\"s{i}\">");
            if !s.heading.is_empty() {
                let _ = writeln!(out, "<h2>{}</h2>", html(&s.heading));
            }
            out.push_str(&s.body);
            out.push_str("</section>\n");
        }
        let script = include_str!("sort.js");
        let footer = html(&self.footer);
        let _ = write!(
            out,
            "</main>\n<footer>{footer}</footer>\n<script>\n{script}</script>\n</body>\n</html>\n"
        );
        out
    }
}

impl Section {
    /// Adds a smaller heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.add(format_args!("<h3>{}</h3>", html(text)))
    }

    /// Adds a paragraph; `` `code` `` between backticks is set as code.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add(format_args!("<p>{}</p>", prose(text)))
    }

    /// Adds a list of items, formatted like paragraphs.
    pub fn list<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) -> &mut Self {
        let items: String = items.into_iter().map(|i| format!("<li>{}</li>", prose(i.as_ref()))).collect();
        if items.is_empty() { self } else { self.add(format_args!("<ul>{items}</ul>")) }
    }

    /// Adds a highlighted box with a heading and a short text.
    pub fn callout(&mut self, kind: Callout, heading: &str, text: &str) -> &mut Self {
        let class = match kind {
            Callout::Change => "change",
            Callout::Warning => "warning",
            Callout::Keep | Callout::Note => "note",
        };
        let (heading, text) = (html(heading), prose(text));
        self.add(format_args!("<div class=\"callout {class}\"><b>{heading}</b><p>{text}</p></div>"))
    }

    /// Adds figures in large type: name, figure, remark, tone.
    pub fn tiles<W, V, M>(&mut self, tiles: impl IntoIterator<Item = (W, V, M, Tone)>) -> &mut Self
    where
        W: AsRef<str>,
        V: AsRef<str>,
        M: AsRef<str>,
    {
        let mut all = String::new();
        for (what, value, more, tone) in tiles {
            let (what, value, more) = (html(what.as_ref()), html(value.as_ref()), html(more.as_ref()));
            let tone = tone_class(tone);
            let _ = write!(
                all,
                "<div class=\"tile\"><div class=\"what\">{what}</div><div class=\"value {tone}\">{value}</div>\
                 <div class=\"more\">{more}</div></div>"
            );
        }
        if all.is_empty() { self } else { self.add(format_args!("<div class=\"tiles\">{all}</div>")) }
    }

    /// Adds a table whose columns can be sorted.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body.push_str(&table.html());
        self
    }

    /// Adds a plot with a caption, which may be empty.
    pub fn plot(&mut self, plot: &dyn Plot, caption: &str) -> &mut Self {
        let figure = figure(plot, caption);
        self.add(format_args!("{figure}"))
    }

    /// Adds plots side by side if the window is wide enough; [`plot::HALF`] is a suitable width.
    pub fn plots<'a, P: Plot + 'a>(&mut self, plots: impl IntoIterator<Item = &'a P>) -> &mut Self {
        let figures: String = plots.into_iter().map(|p| figure(p, "")).collect();
        if figures.is_empty() { self } else { self.add(format_args!("<div class=\"pair\">{figures}</div>")) }
    }

    /// Adds a list of names and values.
    pub fn key_values<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        let mut all = String::new();
        for (key, value) in pairs {
            let _ = write!(all, "<dt>{}</dt><dd>{}</dd>", html(key.as_ref()), html(value.as_ref()));
        }
        self.add(format_args!("<dl>{all}</dl>"))
    }

    /// Adds preformatted text (JSON, a command) in a collapsed block with a name.
    pub fn raw(&mut self, name: &str, text: &str) -> &mut Self {
        let (name, text) = (html(name), html(text));
        self.add(format_args!("<details><summary>{name}</summary><pre>{text}</pre></details>"))
    }

    /// Adds the elements that `fill` adds in a collapsed block with a name.
    pub fn folded(&mut self, name: &str, fill: impl FnOnce(&mut Section)) -> &mut Self {
        let mut inner = Section { heading: String::new(), body: String::new() };
        fill(&mut inner);
        if inner.body.is_empty() {
            return self;
        }
        let (name, body) = (html(name), inner.body);
        self.add(format_args!(
            "<details><summary>{name}</summary><div class=\"inside\">\n{body}</div></details>"
        ))
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) -> &mut Self {
        let _ = self.body.write_fmt(element); // writing to a String cannot fail
        self.body.push('\n');
        self
    }
}

fn figure(plot: &dyn Plot, caption: &str) -> String {
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>", prose(caption))
    };
    format!("<figure>\n{}{caption}</figure>", plot.svg())
}

/// Escapes text and sets `` `code` `` as code. A backtick without a partner is kept.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        let part = html(part);
        match (i % 2 == 1, i + 1 < parts.len()) {
            (false, _) => out.push_str(&part),
            (true, true) => {
                let _ = write!(out, "<code>{part}</code>");
            }
            (true, false) => {
                out.push('`');
                out.push_str(&part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_between_two_backticks() {
        assert_eq!(prose("set `recordsize=16K` now"), "set <code>recordsize=16K</code> now");
        assert_eq!(prose("a ` b"), "a ` b");
        assert_eq!(prose("`<i>`"), "<code>&lt;i&gt;</code>");
    }
}
