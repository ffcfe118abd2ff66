//! Statements of a transaction, and values of rows.

use serde::de::DeserializeOwned;

use crate::TrialKey;

/// A value of a row or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Whole(i64),
    Real(f64),
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// Success, or the database's error message.
pub(super) type Done = std::result::Result<(), String>;

/// The statements of a transaction. Parameters are `$1` …
pub(super) trait Statements {
    /// Runs a statement; returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[Value]) -> std::result::Result<u64, String>;

    /// Runs a query; returns the rows.
    fn query(&mut self, sql: &str, values: &[Value]) -> std::result::Result<Vec<Vec<Value>>, String>;
}

/// The values of the primary key of a trial and of its task.
pub(super) fn key_values(run: i64, key: &TrialKey) -> std::result::Result<Vec<Value>, String> {
    Ok(vec![
        Value::Whole(run),
        key.study.as_str().into(),
        Value::Text(json(&key.case)?),
        Value::Whole(key.block.into()),
    ])
}

/// The key in the columns `study, levels, block` at the begin of a row.
pub(super) fn key(row: &[Value]) -> std::result::Result<TrialKey, String> {
    Ok(TrialKey { study: text(row, 0), case: parsed(&text(row, 1))?, block: small(row, 2)? })
}

pub(super) fn small(row: &[Value], i: usize) -> std::result::Result<u32, String> {
    u32::try_from(whole(row, i)).map_err(|_| "a number is out of range".to_owned())
}

pub(super) fn whole(row: &[Value], i: usize) -> i64 {
    if let Some(Value::Whole(value)) = row.get(i) { *value } else { 0 }
}

pub(super) fn text(row: &[Value], i: usize) -> String {
    if let Some(Value::Text(value)) = row.get(i) { value.clone() } else { String::new() }
}

pub(super) fn json(value: &impl serde::Serialize) -> std::result::Result<String, String> {
    serde_json::to_string(value).map_err(|e| e.to_string())
}

pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("invalid row: {e}"))
}
