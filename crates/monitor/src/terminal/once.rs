//! Prints all tabs once, as plain tables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Poller;
use poolwright_base::time::unix_seconds;
use poolwright_report::{Cell, Column, Table, Terminal};

use crate::Result;
use crate::terminal::rows::Rows;
use crate::terminal::sample::{MonitorSample, MonitorSampler};
use crate::terminal::tab::datasets::DatasetChoice;
use crate::terminal::tab::{arc, datasets, plan, pools, sources};

/// How long a reading waits for the sources: as a scrape of the exporter.
pub const READ_LIMIT: Duration = Duration::from_secs(5);
/// How often the wait between the readings checks whether to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

/// The result of [`once`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// The tables.
    Text(String),
    /// `stop` became true between the readings.
    Interrupted,
}

/// Reads all sources twice, `every` apart, and returns all tabs as tables without colours.
///
/// # Errors
/// If a source cannot be started.
pub fn once(poller: &Poller, every: Duration, stop: &AtomicBool) -> Result<Once> {
    let mut sampler = MonitorSampler::default();
    let start = Instant::now();
    sampler.sample(&poller.refresh(READ_LIMIT)?, Instant::now(), unix_seconds());
    while let Some(left) = every.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        if stop.load(Ordering::Relaxed) {
            return Ok(Once::Interrupted);
        }
        thread::sleep(left.min(STOP_POLL));
    }
    let read = poller.refresh(READ_LIMIT)?;
    let now = Instant::now();
    Ok(Once::Text(text(&sampler.sample(&read, now, unix_seconds()), now)))
}

/// All tabs as tables at the time `now`.
pub fn text(sample: &MonitorSample, now: Instant) -> String {
    let tables = [
        pools::rows(sample, now),
        datasets::rows(sample, &DatasetChoice::default()),
        arc::rows(sample),
        arc::state_rows(sample),
        plan::rows(sample),
        sources::rows(sample, now),
    ];
    tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// The title, and the table with all rows and columns.
fn table(rows: &Rows) -> String {
    if rows.count == 0 {
        return format!("{}: {}\n", rows.title, rows.nothing);
    }
    let column = |column: &crate::terminal::rows::RowColumn| match column.is_figure {
        true => Column::right(column.title),
        false => Column::left(column.title),
    };
    let mut table = Table::new(rows.columns.iter().map(column));
    for index in 0..rows.count {
        table.row((rows.row)(index).into_iter().map(|field| Cell::text(field.text)));
    }
    format!("{}\n{}", rows.title, table.terminal(Terminal::PLAIN))
}
