//! The table of a trace's columns, from which the schema, the writer and the reader are derived.

use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type};

/// The format version that this program writes, and the newest that it reads (`poolwright.version`).
pub const FORMAT_VERSION: u32 = 1;

/// Footer key of the format version.
pub(crate) const KEY_VERSION: &str = "poolwright.version";
/// Footer key of [`crate::Meta`] as JSON.
pub(crate) const KEY_META: &str = "poolwright.meta";
/// Footer key of the file table, a JSON array of [`crate::File`].
pub(crate) const KEY_FILES: &str = "poolwright.files";
/// Footer key of the row groups' CRC-32, eight hexadecimal digits each, in order, without separators.
pub(crate) const KEY_CHECKSUMS: &str = "poolwright.crc32";

/// The type of a column on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Signed 64 bits, because SQL subtracts these values without wrapping around.
    Int64,
    /// Unsigned 32 bits.
    Uint32,
    /// Unsigned 16 bits, stored in 32.
    Uint16,
    /// UTF-8, dictionary-encoded.
    Text,
}

/// A column.
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether the column is delta-encoded, for values that ascend or differ in every row. Other columns have a
    /// dictionary.
    pub delta: bool,
}

const fn column(name: &'static str, kind: Kind, delta: bool) -> Column {
    Column { name, kind, delta }
}

/// All columns, in file order. `docs/trace-format.md` describes them.
pub(crate) const COLUMNS: [Column; 16] = [
    column("t_ns", Kind::Int64, true),
    column("dur_ns", Kind::Int64, true),
    column("op", Kind::Text, false),
    column("file", Kind::Uint32, false),
    column("path", Kind::Text, false),
    column("role", Kind::Text, false),
    column("offset", Kind::Int64, true),
    column("len", Kind::Int64, false),
    column("pid", Kind::Uint32, false),
    column("tid", Kind::Uint32, false),
    column("flags", Kind::Uint16, false),
    column("gap_cpu_ns", Kind::Int64, true),
    column("gap_ready_ns", Kind::Uint32, true),
    column("gap_wake_ns", Kind::Uint32, true),
    column("waker", Kind::Uint32, false),
    column(SERVED_COLUMN, Kind::Uint32, true),
];

/// The columns of [`crate::Gap`]. A trace has all of them, or none if it was written before they existed.
pub(crate) const GAP_COLUMNS: [&str; 4] = ["gap_cpu_ns", "gap_ready_ns", "gap_wake_ns", "waker"];

/// The column of [`crate::Gap::served_ns`], which a trace with the other columns of a gap need not have.
pub(crate) const SERVED_COLUMN: &str = "gap_served_ns";

/// The value of `gap_cpu_ns` for an event without a gap; the other columns are then 0.
pub(crate) const NO_GAP: i64 = -1;

fn leaf(column: &Column) -> Type {
    let (physical, converted, logical) = match column.kind {
        Kind::Int64 => (Physical::INT64, ConvertedType::NONE, None),
        Kind::Uint32 => (Physical::INT32, ConvertedType::UINT_32, Some(LogicalType::integer(32, false))),
        Kind::Uint16 => (Physical::INT32, ConvertedType::UINT_16, Some(LogicalType::integer(16, false))),
        Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(converted)
        .with_logical_type(logical)
        .build()
        .expect("the column table is a valid schema")
}

/// Returns the schema of a trace.
pub(crate) fn descriptor() -> SchemaDescPtr {
    let fields = COLUMNS.iter().map(|c| Arc::new(leaf(c))).collect();
    let root = Type::group_type_builder("event")
        .with_fields(fields)
        .build()
        .expect("the column table is a valid schema");
    Arc::new(SchemaDescriptor::new(Arc::new(root)))
}

/// Encodings and statistics. Every footer repeats the metadata of each column chunk; therefore there are no page
/// indexes, and only the time, by which readers skip row groups, has statistics.
pub(crate) fn properties() -> WriterPropertiesPtr {
    let zstd = ZstdLevel::try_new(1).expect("level 1 exists");
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("poolwright ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(zstd))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("t_ns"), EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        builder = builder.set_column_dictionary_enabled(path.clone(), !column.delta);
        if column.delta {
            builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Arc::new(builder.build())
}
