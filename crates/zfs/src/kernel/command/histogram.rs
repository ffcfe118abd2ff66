//! Histograms of latencies and request sizes: `zpool iostat -w` and `-r`.

use super::error::MalformedOutput;

/// Which histogram `zpool iostat` printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistogramKind {
    /// `-w`: times. The bound of a bucket is the longest time in it, in nanoseconds: 2ⁿ − 1.
    Latency,
    /// `-r`: sizes of I/Os. The bound of a bucket is the smallest size in it, in bytes: 2ⁿ.
    RequestSize,
}

/// The columns of [`HistogramKind::Latency`], by their number: 10 columns until 2.2, and `rebuild` since 2.3. `total` is the time from
/// the request to its end, `disk` that at the device, and the others that in a queue.
pub const LATENCY_COLUMNS: [&str; 11] = [
    "total_read",
    "total_write",
    "disk_read",
    "disk_write",
    "sync_read",
    "sync_write",
    "async_read",
    "async_write",
    "scrub",
    "trim",
    "rebuild",
];

/// The columns of [`HistogramKind::RequestSize`], by their number: 12 columns until 2.2, and those of `rebuild` since 2.3.
/// `ind` counts I/Os that were issued on their own, `agg` those that were made by aggregating several.
pub const REQUEST_SIZE_COLUMNS: [&str; 14] = [
    "sync_read_ind",
    "sync_read_agg",
    "sync_write_ind",
    "sync_write_agg",
    "async_read_ind",
    "async_read_agg",
    "async_write_ind",
    "async_write_agg",
    "scrub_ind",
    "scrub_agg",
    "trim_ind",
    "trim_agg",
    "rebuild_ind",
    "rebuild_agg",
];

/// The histogram of one vdev, counted since the pool was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevHistogram {
    /// The pool's name.
    pub pool: String,
    /// The vdev's GUID; `None` for the whole pool.
    pub vdev: Option<u64>,
    /// The bounds of the buckets, ascending; [`HistogramKind`] defines them.
    pub bounds: Vec<u64>,
    /// The columns: each has a name and the number of I/Os in each bucket.
    pub columns: Vec<HistogramColumn>,
}

/// One column of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramColumn {
    /// The name, from [`LATENCY_COLUMNS`] or [`REQUEST_SIZE_COLUMNS`].
    pub name: &'static str,
    /// The number of I/Os in each bucket. The counts are not summed over buckets.
    pub counts: Vec<u64>,
}

/// The limit for the number of buckets: one for each bit.
const MAX_BUCKETS: usize = 64;

/// Parses the output of `zpool iostat -wvgHp` or `-rvgHp`. A histogram is a line with the pool's name or the vdev's GUID, and a
/// line for each bucket.
///
/// # Errors
/// If a line is malformed, a vdev comes before its pool, or a histogram has an unknown number of columns.
pub fn parse_histograms(text: &str, kind: HistogramKind) -> Result<Vec<VdevHistogram>, MalformedOutput> {
    let mut histograms: Vec<VdevHistogram> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let malformed = |cause: &str| MalformedOutput::new(at + 1, cause);
        if line.contains('\t') {
            let last =
                histograms.last_mut().ok_or_else(|| malformed("a bucket before the name of a pool"))?;
            add_bucket(last, line, kind).map_err(malformed)?;
            continue;
        }
        let name = line.trim();
        let (pool, vdev) = if name.starts_with(|c: char| c.is_ascii_digit()) {
            let pool = histograms.last().ok_or_else(|| malformed("a vdev before its pool"))?.pool.clone();
            (pool, Some(name.parse().map_err(|_| malformed("invalid GUID"))?))
        } else {
            (name.to_owned(), None)
        };
        histograms.push(VdevHistogram { pool, vdev, bounds: Vec::new(), columns: Vec::new() });
    }
    Ok(histograms)
}

fn add_bucket(histogram: &mut VdevHistogram, line: &str, kind: HistogramKind) -> Result<(), &'static str> {
    let mut fields = line.split('\t').map(|field| field.trim().parse::<u64>().map_err(|_| "not a number"));
    let bound = fields.next().ok_or("an empty bucket")??;
    let counts = fields.collect::<Result<Vec<u64>, _>>()?;
    if histogram.columns.is_empty() {
        let names = column_names(kind, counts.len()).ok_or("unknown number of columns")?;
        histogram.columns = names.iter().map(|name| HistogramColumn { name, counts: Vec::new() }).collect();
    }
    if histogram.columns.len() != counts.len() {
        return Err("the number of columns changes");
    }
    if histogram.bounds.last().is_some_and(|last| *last >= bound) || histogram.bounds.len() >= MAX_BUCKETS {
        return Err("the bounds of the buckets do not ascend");
    }
    histogram.bounds.push(bound);
    for (column, count) in histogram.columns.iter_mut().zip(counts) {
        column.counts.push(count);
    }
    Ok(())
}

/// The names of this many columns. Versions differ in whether they have those of `rebuild`.
fn column_names(kind: HistogramKind, count: usize) -> Option<&'static [&'static str]> {
    let (names, optional): (&[&str], usize) = match kind {
        HistogramKind::Latency => (&LATENCY_COLUMNS, 1),
        HistogramKind::RequestSize => (&REQUEST_SIZE_COLUMNS, 2),
    };
    [names.len(), names.len() - optional].contains(&count).then(|| &names[..count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_vdevs_and_columns() {
        let row = |bound: &str, count: usize| format!("{bound}{}\n", "\t2".repeat(count));
        let text = format!("\ntank\n{}{}\n17\n{}\nother\n", row("1", 10), row("3", 10), row("1", 11));
        let histograms = parse_histograms(&text, HistogramKind::Latency).unwrap();
        assert_eq!(histograms.len(), 3);
        assert_eq!((histograms[0].vdev, &histograms[0].bounds), (None, &vec![1, 3]));
        assert_eq!(histograms[0].columns[9], HistogramColumn { name: "trim", counts: vec![2, 2] });
        assert_eq!((histograms[1].pool.as_str(), histograms[1].vdev), ("tank", Some(17)));
        assert_eq!(histograms[1].columns[10].name, "rebuild");
        assert_eq!((histograms[2].pool.as_str(), histograms[2].columns.len()), ("other", 0));
        for count in [12, 14] {
            let text = format!("tank\n{}", row("512", count));
            assert_eq!(parse_histograms(&text, HistogramKind::RequestSize).unwrap()[0].columns.len(), count);
        }
    }

    #[test]
    fn malformed_histograms() {
        let fails = |text: &str| parse_histograms(text, HistogramKind::Latency).unwrap_err().to_string();
        let row = "1\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\n";
        assert_eq!(fails(row), "line 1: a bucket before the name of a pool");
        assert_eq!(fails("17\n"), "line 1: a vdev before its pool");
        assert_eq!(fails("tank\n1\t0\n"), "line 2: unknown number of columns");
        assert_eq!(fails(&format!("tank\n{row}{row}")), "line 3: the bounds of the buckets do not ascend");
        assert_eq!(fails(&format!("tank\n{row}2\t0\n")), "line 3: the number of columns changes");
        assert_eq!(fails("tank\nx\t0\n"), "line 2: not a number");
        assert_eq!(fails("tank\n1x\n"), "line 2: invalid GUID");
    }
}
