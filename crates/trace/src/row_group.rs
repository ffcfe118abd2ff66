//! Encodes the columns of a row group.

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;

use crate::layout::Role;
use crate::schema::{self, COLUMNS, NO_GAP};
use crate::{Event, File, Op};

/// Writes all columns of `events`, with the present paths and roles of their files.
pub(crate) fn write_columns(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    files: &[File],
    events: &[Event],
) -> Result<(), ParquetError> {
    let text = |s: &str| ByteArray::from(s.as_bytes().to_vec());
    let paths: Vec<_> = files.iter().map(|f| text(&f.path)).collect();
    let roles: Vec<_> = files.iter().map(|f| text(f.role.map_or("", Role::name))).collect();
    let ops = Op::ALL.map(|op| text(op.name()));
    for column in &COLUMNS {
        match column.name {
            "t_ns" => put::<Int64Type>(group, events, |e| signed(e.t_ns)),
            "dur_ns" => put::<Int64Type>(group, events, |e| signed(e.dur_ns)),
            "op" => put::<ByteArrayType>(group, events, |e| ops[e.op as usize].clone()),
            "file" => put::<Int32Type>(group, events, |e| e.file as i32),
            "path" => put::<ByteArrayType>(group, events, |e| paths[e.file as usize].clone()),
            "role" => put::<ByteArrayType>(group, events, |e| roles[e.file as usize].clone()),
            "offset" => put::<Int64Type>(group, events, |e| signed(e.offset)),
            "len" => put::<Int64Type>(group, events, |e| signed(e.len)),
            "pid" => put::<Int32Type>(group, events, |e| e.pid as i32),
            "tid" => put::<Int32Type>(group, events, |e| e.tid as i32),
            "flags" => put::<Int32Type>(group, events, |e| i32::from(e.flags.0)),
            "gap_cpu_ns" => put::<Int64Type>(group, events, |e| e.gap.map_or(NO_GAP, |g| signed(g.cpu_ns))),
            "gap_ready_ns" => put::<Int32Type>(group, events, |e| e.gap.map_or(0, |g| g.ready_ns as i32)),
            "gap_wake_ns" => put::<Int32Type>(group, events, |e| e.gap.map_or(0, |g| g.wake_ns as i32)),
            "waker" => put::<Int32Type>(group, events, |e| e.gap.map_or(0, |g| g.waker as i32)),
            schema::SERVED_COLUMN => {
                put::<Int32Type>(group, events, |e| e.gap.map_or(0, |g| g.served_ns as i32))
            }
            other => unreachable!("no value for column {other}"),
        }?;
    }
    Ok(())
}

/// Converts to a signed value, limited to 2^63 − 1. Real file offsets and times are below it.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    events: &[Event],
    value: impl Fn(&Event) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = events.iter().map(value).collect();
    let mut column = group.next_column()?.expect("one call per column");
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}
