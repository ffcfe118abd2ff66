//! The segments in the archive, and the gaps between them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;

use poolwright_base::{cannot, time};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SegmentPlace, WalArchive, WalFile};
use crate::Result;
use crate::manifest::age;

/// The most gaps that are named.
const NAMED_GAPS: usize = 20;

/// The segments in a WAL archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WalCoverage {
    /// The dataset.
    pub dataset: String,
    /// Why the archive cannot be read; missing if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Number of whole segments.
    pub segments: u64,
    /// The first one; missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Seconds since the last one was archived; negative if that lies in the future of this host's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_age_s: Option<i64>,
    /// The oldest backup from which the log can be replayed to its end: the archive has the segment in which its recovery begins, and all
    /// later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayable_from: Option<String>,
    /// Gaps, at most 20: the first segment that is missing in each. A recovery of an older backup cannot go beyond it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl WalArchive {
    /// The segments in the archive, and the gaps between them. `recoveries` are the names of backups and the segments in which their
    /// recoveries begin, the oldest backup first.
    ///
    /// # Errors
    /// If its directory cannot be read.
    pub fn coverage(&self, dataset: &str, recoveries: &[(String, SegmentPlace)]) -> Result<WalCoverage> {
        let segments = self.segments()?;
        let gaps = gaps(&segments, self.identity.segment_size);
        let is_whole = |(_, first): &&(String, SegmentPlace)| {
            segments.contains_key(first) && gaps.last().is_none_or(|gap| *first >= gap.end)
        };
        let now = time::unix_seconds() as u64;
        let last = segments.last_key_value();
        Ok(WalCoverage {
            dataset: dataset.to_owned(),
            problem: None,
            segments: segments.len() as u64,
            first: segments.first_key_value().map(|(place, _)| place.to_string()),
            last: last.map(|(place, _)| place.to_string()),
            newest_age_s: last.map(|(_, archived)| age(now, *archived)),
            replayable_from: recoveries.iter().find(is_whole).map(|(name, _)| name.clone()),
            gaps: gaps.iter().take(NAMED_GAPS).map(|gap| gap.start.to_string()).collect(),
        })
    }

    /// The first missing segment after a segment; `None` if the archive has all of them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn gap_after(&self, first: SegmentPlace) -> Result<Option<SegmentPlace>> {
        let gaps = gaps(&self.segments()?, self.identity.segment_size);
        Ok(gaps.into_iter().map(|gap| gap.start).find(|missing| *missing > first))
    }

    /// The whole segments, and when each was archived, in seconds since 1970.
    fn segments(&self) -> Result<BTreeMap<SegmentPlace, u64>> {
        let mut segments = BTreeMap::new();
        for (name, file) in self.files()? {
            if let WalFile::Segment(place) = file
                && self.has(place)
            {
                let path = self.dir.join(name);
                match fs::metadata(&path) {
                    Ok(meta) => segments.insert(place, meta.mtime().try_into().unwrap_or(0)),
                    // `prune` has removed it meanwhile.
                    Err(cause) if cause.kind() == ErrorKind::NotFound => None,
                    Err(cause) => return Err(cannot("inspect", &path)(cause).into()),
                };
            }
        }
        Ok(segments)
    }
}

/// The gaps: the first missing segment, and the one after the gap. A timeline continues another one in the segment in which it began, so
/// each is looked at by itself.
fn gaps(segments: &BTreeMap<SegmentPlace, u64>, segment_size: u32) -> Vec<Range<SegmentPlace>> {
    let pairs = segments.keys().zip(segments.keys().skip(1));
    let gap = |(a, b): (&SegmentPlace, &SegmentPlace)| {
        let next = a.next(segment_size);
        (a.timeline == b.timeline && next != *b).then_some(next..*b)
    };
    pairs.filter_map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::tests::{archive, segment};

    #[test]
    fn gaps_are_found_in_each_timeline() {
        let (dir, archive) = archive();
        assert_eq!(archive.coverage("tank/wal", &[]).unwrap().segments, 0);
        for number in [2, 3, 5, 6, 9] {
            archive.push(&segment(&dir.path().join("pg_wal"), 7, number, b"")).unwrap();
        }
        let from = |number| (format!("from {number}"), SegmentPlace { timeline: 1, position: number });
        std::fs::write(archive.dir().join("000000010000000000000004"), "short").unwrap();
        std::fs::create_dir(archive.dir().join("000000010000000000000007")).unwrap();
        let found = archive.coverage("tank/wal", &[from(1), from(2), from(3), from(9)]).unwrap();
        assert_eq!(found.replayable_from.as_deref(), Some("from 9"));
        assert_eq!(archive.coverage("tank/wal", &[from(4), from(10)]).unwrap().replayable_from, None);
        let (first, last) = ("000000010000000000000002", "000000010000000000000009");
        assert_eq!(
            (found.segments, found.first.as_deref(), found.last.as_deref()),
            (5, Some(first), Some(last))
        );
        assert_eq!(found.gaps, ["000000010000000000000004", "000000010000000000000007"]);
        assert!(found.newest_age_s.is_some_and(|age| age.abs() < 3600));
        let place = |timeline, position| SegmentPlace { timeline, position };
        let two = [place(1, 0xFE), place(1, 0xFF), place(1, 1 << 32), place(2, 1 << 32)];
        assert_eq!(gaps(&two.map(|place| (place, 0)).into(), 16 << 20), []);
        assert_eq!(archive.gap_after(place(1, 4)).unwrap(), Some(place(1, 7)));
        assert_eq!(archive.gap_after(place(1, 9)).unwrap(), None);
    }
}
