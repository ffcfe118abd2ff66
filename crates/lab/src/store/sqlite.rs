//! Stores results in an SQLite file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use poolwright_host::private;
use poolwright_host::quoted;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior};

use super::sql::{Database, SqlStore};
use super::statements::{Done, Statements, Value};
use crate::{Error, Result};

pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

/// Opens the file, or creates it.
pub(super) fn open(path: &Path) -> Result<SqlStore<Sqlite>> {
    let failed =
        |e: rusqlite::Error| Error::Store { location: quoted(&path).to_string(), why: e.to_string() };
    // SQLite would create the file with the umask's permissions, but results quote messages of drivers and
    // databases, which may contain rows of a table. If the file exists or cannot be created, `Connection::open`
    // handles it.
    let _ = private::create_new(path);
    let connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    SqlStore::new(Sqlite { connection, path: path.to_owned() })
}

impl Database for Sqlite {
    const IDENTITY: &'static str = "INTEGER PRIMARY KEY";
    const NOW_MS: &'static str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn batch(&mut self, sql: &str) -> Done {
        self.connection.execute_batch(sql).map_err(|e| e.to_string())
    }

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Statements) -> Done) -> Done {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let mut transaction = begun.map_err(|e| e.to_string())?;
        work(&mut transaction)?;
        transaction.commit().map_err(|e| e.to_string())
    }
}

impl Statements for Transaction<'_> {
    fn execute(&mut self, sql: &str, values: &[Value]) -> std::result::Result<u64, String> {
        let mut statement = self.prepare_cached(&numbered(sql)).map_err(|e| e.to_string())?;
        let changed = statement.execute(rusqlite::params_from_iter(values)).map_err(|e| e.to_string())?;
        Ok(changed as u64)
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> std::result::Result<Vec<Vec<Value>>, String> {
        let mut statement = self.prepare_cached(&numbered(sql)).map_err(|e| e.to_string())?;
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|i| row.get_ref(i).map(value)).collect();
        let rows = statement.query_map(rusqlite::params_from_iter(values), row).map_err(|e| e.to_string())?;
        rows.collect::<std::result::Result<_, _>>().map_err(|e: rusqlite::Error| e.to_string())
    }
}

/// Rewrites parameters for SQLite, which would parse `$1` as a name.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => Value::Whole(whole),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Value::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Whole(whole) => ValueRef::Integer(*whole),
            Value::Real(real) => ValueRef::Real(*real),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
