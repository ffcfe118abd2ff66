//! A campaign's file as a tree of TOML values with line numbers.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Error, Result};

/// Path and text of a file.
pub(super) struct Source<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// Returns an error at a byte offset of the file.
    pub fn error(&self, at: usize, why: impl Into<String>) -> Error {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        Error::Campaign { path: self.path.to_owned(), line, why: why.into() }
    }

    /// Parses the file.
    pub fn tree(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|e| {
            self.error(e.span().map_or(0, |s| s.start), format!("invalid TOML: {}", e.message()))
        })
    }
}

/// A value and its key.
#[derive(Clone)]
pub(super) struct Node<'a> {
    source: &'a Source<'a>,
    value: &'a DeValue<'a>,
    at: usize,
    key: String,
}

impl<'a> Node<'a> {
    fn new(source: &'a Source<'a>, key: String, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        Node { source, value: value.get_ref(), at: value.span().start, key }
    }

    /// Returns the key of the value, or of the list that contains it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns an error at the position of this value.
    pub fn error(&self, why: impl Into<String>) -> Error {
        self.source.error(self.at, why)
    }

    /// Returns the error for a value of the wrong type or range.
    pub fn wrong(&self, wanted: &str) -> Error {
        let is = match self.value {
            DeValue::String(s) => format!("the text {:?}", s.as_ref()),
            DeValue::Integer(i) => format!("the number {i}"),
            DeValue::Float(f) => format!("the number {f}"),
            DeValue::Boolean(b) => format!("{b}"),
            other => format!("a value of type {}", other.type_str()),
        };
        self.error(format!("{:?} must be {wanted}, not {is}", self.key))
    }

    pub fn text(&self) -> Result<String> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("text in quotes"))
    }

    /// Returns non-empty text.
    pub fn line(&self) -> Result<String> {
        let text = self.text()?;
        if text.trim().is_empty() { Err(self.error(format!("{:?} is empty", self.key))) } else { Ok(text) }
    }

    /// Returns text that is usable as a name of files, datasets and columns.
    pub fn word(&self) -> Result<String> {
        let text = self.text()?;
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if text.is_empty() || !text.chars().all(fine) {
            return Err(
                self.error(format!("{:?}: {text:?} must consist of letters, digits, - and _", self.key))
            );
        }
        Ok(text)
    }

    pub fn whole(&self, range: RangeInclusive<u32>) -> Result<u32> {
        let wanted = || self.wrong(&format!("a whole number from {} to {}", range.start(), range.end()));
        let value = integer(self.value).and_then(|v| u32::try_from(v).ok()).ok_or_else(wanted)?;
        if range.contains(&value) { Ok(value) } else { Err(wanted()) }
    }

    pub fn number(&self) -> Result<f64> {
        let value = match self.value {
            DeValue::Float(f) => f.as_str().parse().ok(),
            other => integer(other).map(|v| v as f64),
        };
        value.filter(|v: &f64| v.is_finite()).ok_or_else(|| self.wrong("a number"))
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn number_in(&self, low: f64, high: f64) -> Result<f64> {
        let value = self.number()?;
        let fits = (low..=high).contains(&value);
        if fits { Ok(value) } else { Err(self.wrong(&format!("a number from {low} to {high}"))) }
    }

    pub fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub fn list(&self) -> Result<Vec<Node<'a>>> {
        let array = self.value.as_array().ok_or_else(|| self.wrong("a list in [ ]"))?;
        Ok(array.iter().map(|v| Node::new(self.source, self.key.clone(), v)).collect())
    }

    /// Returns a list of non-empty texts.
    pub fn lines(&self) -> Result<Vec<String>> {
        self.list()?.iter().map(Node::line).collect()
    }

    /// Returns the entries of a table with arbitrary keys.
    pub fn entries(&self) -> Result<Vec<Node<'a>>> {
        let table = self.value.as_table().ok_or_else(|| self.wrong("a table"))?;
        Ok(table.iter().map(|(key, v)| Node::new(self.source, key.get_ref().to_string(), v)).collect())
    }

    /// Returns a table with known keys; `what` describes it in messages.
    pub fn fields(&self, what: impl Into<String>) -> Result<Fields<'a>> {
        let table = self.value.as_table().ok_or_else(|| self.wrong("a table"))?;
        Ok(Fields { source: self.source, table, at: self.at, what: what.into(), asked: RefCell::default() })
    }

    /// Returns the text of a value as in levels, cases and properties: text, integer, number, true or false.
    pub fn spelled(&self) -> Result<String> {
        match self.value {
            DeValue::String(s) => Ok(s.to_string()),
            DeValue::Boolean(b) => Ok(b.to_string()),
            other => match integer(other) {
                Some(whole) => Ok(whole.to_string()),
                None => self.number().map(|v| v.to_string()).map_err(|_| self.wrong("text or a number")),
            },
        }
    }

    /// Returns any value as JSON for a driver. The parser limits the nesting.
    pub fn json(&self) -> Result<Json> {
        Ok(match self.value {
            DeValue::String(s) => Json::String(s.to_string()),
            DeValue::Boolean(b) => Json::Bool(*b),
            DeValue::Integer(_) => integer(self.value).ok_or_else(|| self.wrong("a 64-bit integer"))?.into(),
            DeValue::Float(_) => self.number()?.into(),
            DeValue::Datetime(d) => Json::String(d.to_string()),
            DeValue::Array(_) => Json::Array(self.list()?.iter().map(Node::json).collect::<Result<_>>()?),
            DeValue::Table(_) => Json::Object(self.object()?),
        })
    }

    /// Returns a table as a JSON object.
    pub fn object(&self) -> Result<serde_json::Map<String, Json>> {
        self.entries()?.iter().map(|n| Ok((n.key.clone(), n.json()?))).collect()
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A table with known keys: [`Fields::end`] fails if the table has other keys than those read before.
pub(super) struct Fields<'a> {
    source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    at: usize,
    what: String,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    /// Returns the top level of the file.
    pub fn of_file(source: &'a Source<'a>, tree: &'a DeTable<'a>) -> Fields<'a> {
        Fields { source, table: tree, at: 0, what: "the campaign".into(), asked: RefCell::default() }
    }

    /// Returns an error at the position of the table.
    pub fn error(&self, why: impl Into<String>) -> Error {
        self.source.error(self.at, why)
    }

    pub fn get(&self, key: &'static str) -> Option<Node<'a>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        Some(Node::new(self.source, key.to_owned(), self.table.get(key)?))
    }

    pub fn need(&self, key: &'static str) -> Result<Node<'a>> {
        self.get(key).ok_or_else(|| self.error(format!("{} lacks {key:?}", self.what)))
    }

    /// Returns the value of a key in this table, or else in `shared`. Marks the key as known in both.
    pub fn get_or_shared(&self, shared: &Fields<'a>, key: &'static str) -> Option<Node<'a>> {
        let other = shared.get(key);
        self.get(key).or(other)
    }

    pub fn need_or_shared(&self, shared: &Fields<'a>, key: &'static str) -> Result<Node<'a>> {
        self.get_or_shared(shared, key).ok_or_else(|| self.error(format!("{} lacks {key:?}", self.what)))
    }

    /// Returns an optional list of tables.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Node<'a>>> {
        self.get(key).map_or(Ok(Vec::new()), |node| node.list())
    }

    /// Fails if the table has a key that was never read.
    pub fn end(self) -> Result<()> {
        let asked = self.asked.borrow();
        let unknown = self.table.keys().filter(|k| !asked.contains(&k.get_ref().as_ref()));
        let Some(first) = unknown.min_by_key(|k| k.span().start) else { return Ok(()) };
        let why =
            format!("unknown key {:?} in {}; known keys: {}", first.get_ref(), self.what, asked.join(", "));
        Err(self.source.error(first.span().start, why))
    }
}
