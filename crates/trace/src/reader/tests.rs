//! Hostile traces: small files with valid seals and checksums but false claims.

use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaDataWriter};

use super::footer::{FALSE_SEALS, TAIL};
use super::part::column_extent;
use super::*;
use crate::Trace;
use crate::checksum::seal;
use crate::layout::Role;
use crate::pages::tests::header;

/// The false claims of a trace.
#[derive(Default)]
struct Lie {
    /// The number of row groups that all refer to the same bytes; 0 means one.
    groups: usize,
    /// The number of rows that each row group claims; 0 means the true number.
    rows: i64,
    /// Bytes that replace the pages of the column `op`.
    ops: Option<Vec<u8>>,
    /// The role of the trace's file, in place of the true one.
    role: Option<&'static str>,
}

const ROWS: u64 = 100;

fn honest(role: Role) -> Trace {
    let op = |i| if i % 2 == 0 { Op::Read } else { Op::Write };
    let event = |i| Event { t_ns: i, op: op(i), offset: i * 4096, len: 4096, ..Event::default() };
    let file = File { path: "/db/t".into(), role: Some(role), ..File::default() };
    Trace { meta: Meta::default(), files: vec![file], events: (0..ROWS).map(event).collect() }
}

/// Writes a trace with the given false claims.
fn write(path: &Path, lie: &Lie) {
    honest(Role::Data).save(path).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let metadata = find_footer(&Disk::open(path).unwrap(), path, bytes.len() as u64).unwrap().0;
    let honest = metadata.row_group(0);
    let start = extent(honest).0;
    let mut file = bytes[..start as usize].to_vec();
    let mut columns = Vec::new();
    for column in honest.columns() {
        let (from, len) = column_extent(column).unwrap();
        let at = file.len() as i64;
        let builder = column.clone().into_builder();
        columns.push(match &lie.ops {
            Some(pages) if column.column_path().parts() == ["op"] => {
                file.extend_from_slice(pages);
                builder.set_total_compressed_size(pages.len() as i64)
            }
            _ => {
                file.extend_from_slice(&bytes[from as usize..][..len as usize]);
                builder
            }
        });
        let shift = at - from as i64;
        let builder = columns.pop().unwrap().set_data_page_offset(column.data_page_offset() + shift);
        let dictionary = column.dictionary_page_offset().map(|location| location + shift);
        columns.push(builder.set_dictionary_page_offset(dictionary));
    }
    let columns = columns.into_iter().map(|c| c.build().unwrap()).collect();
    let checksum = format!("{:08x}", crc32fast::hash(&file[start as usize..]));
    let rows = if lie.rows == 0 { ROWS as i64 } else { lie.rows };
    let group = honest.clone().into_builder().set_column_metadata(columns).set_num_rows(rows);
    let group = group.set_file_offset(start as i64).build().unwrap();
    let groups = lie.groups.max(1);
    let pair = |pair: &KeyValue| match pair.key.as_str() {
        KEY_CHECKSUMS => KeyValue::new(KEY_CHECKSUMS.to_owned(), checksum.repeat(groups)),
        KEY_FILES if lie.role.is_some() => {
            let files = pair.value.as_ref().unwrap().replace("data", lie.role.unwrap());
            KeyValue::new(KEY_FILES.to_owned(), files)
        }
        _ => pair.clone(),
    };
    let about = metadata.file_metadata();
    let pairs = about.key_value_metadata().unwrap().iter().map(pair).collect();
    let schema = about.schema_descr_ptr();
    let about = FileMetaData::new(1, rows * groups as i64, None, Some(pairs), schema, None);
    let metadata = ParquetMetaData::new(about, vec![group; groups]);
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish().unwrap();
    file.extend_from_slice(&seal(&footer[..footer.len() - TAIL as usize]));
    file.extend_from_slice(&footer);
    std::fs::write(path, file).unwrap();
}

fn refusal(lie: &Lie) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, lie);
    Trace::load(&path).unwrap_err().to_string()
}

#[test]
fn the_lies_are_told_in_traces_that_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, &Lie::default());
    assert_eq!(Trace::load(&path).unwrap().events, honest(Role::Data).events);
    write(&path, &Lie { groups: 3, ..Lie::default() });
    assert_eq!(Trace::load(&path).unwrap().events.len(), 300);
}

#[test]
fn a_row_group_that_claims_too_much() {
    let why = refusal(&Lie { rows: 1 << 24, ..Lie::default() });
    assert!(why.contains("row group 0 claims 16777216 events"), "{why}");
}

#[test]
fn more_events_than_there_is_memory_for() {
    // 2^20 events take 132 MiB.
    let (groups, rows) = (20_000, 1 << 20);
    if memory().is_none_or(|available| available > groups as u64 * (80 << 20)) {
        eprintln!("skipped: this machine has terabytes of memory or does not report its memory");
        return;
    }
    let why = refusal(&Lie { groups, rows, ..Lie::default() });
    assert!(why.contains("is available") && why.contains("events"), "{why}");
}

fn memory() -> Option<u64> {
    poolwright_base::memory::available()
}

#[test]
fn a_dictionary_that_claims_too_many_values() {
    let pages = [header(true, 8, 40, 0x3fff_ffff, 0), vec![0; 40]].concat();
    let why = refusal(&Lie { ops: Some(pages), ..Lie::default() });
    assert!(why.contains("claims 1073741823 values, of 100 rows"), "{why}");
}

#[test]
fn a_page_that_claims_to_unpack_to_gigabytes() {
    let pages = [header(false, 0x7fff_ffff, 40, 100, 0), vec![0; 40]].concat();
    let why = refusal(&Lie { ops: Some(pages), ..Lie::default() });
    assert!(why.contains("claim more than"), "{why}");
}

#[test]
fn a_role_that_is_not_a_name() {
    for role in ["../../etc", "a b", "data@snapshot", "Data", "*"] {
        let why = refusal(&Lie { role: Some(role), ..Lie::default() });
        assert!(why.contains("is not a role"), "{why}");
    }
}

#[test]
fn lengths_that_no_call_moves_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let mut trace = honest(Role::Data);
    for (event, op) in trace.events.iter_mut().zip([Op::Read, Op::Write, Op::Truncate]) {
        (event.op, event.len) = (op, i64::MAX as u64);
    }
    trace.save(&path).unwrap();
    let read: Vec<u64> = Trace::load(&path).unwrap().events[..3].iter().map(|event| event.len).collect();
    assert_eq!(read, [MAX_CALL, MAX_CALL, i64::MAX as u64]);
}

/// The reader checks the footer behind each false seal, so their number is limited; a torn trace has at most one.
#[test]
fn a_search_behind_many_false_seals_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    honest(Role::Data).save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let false_seal = [SEAL_MAGIC.as_slice(), &[0; 8], &[0; 4], &4u32.to_le_bytes(), MAGIC].concat();
    for (seals, found) in [(1, true), (FALSE_SEALS, true), (FALSE_SEALS + 1, false)] {
        std::fs::write(&path, [whole.clone(), false_seal.repeat(seals as usize)].concat()).unwrap();
        match Reader::open(&path) {
            Ok(reader) => assert!(found && reader.len() == ROWS, "{seals}"),
            Err(why) => assert!(!found && matches!(why, Error::Truncated(_)), "{seals}: {why}"),
        }
    }
}
