//! The track record of the predictions: `track-record.json`, which `scripts/truth.sh --publish` writes.

use serde::Deserialize;

use poolwright_plan::{MeasuredWorkload, TrackRecord};

const TEXT: &str = include_str!("../track-record.json");
const FORMAT: &str = "poolwright-track-record";

/// The layouts of database directories, and the systems that campaigns measure.
const SYSTEMS: &[(&str, &str)] = &[
    ("mariadb", "mariadb"),
    ("postgresql", "postgresql"),
    ("sqlite", "sqlite"),
    ("lmdb", "openldap"),
    ("etcd", "etcd"),
    ("wiredtiger", "wiredtiger"),
    ("rocksdb", "leveldb"),
    ("openldap-bdb", "openldap"),
];

/// The content of `track-record.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    workloads: Vec<Entry>,
}

/// A workload. The entries contain further fields for the tables of `docs/predictions.md`.
#[derive(Clone, Debug, Default, Deserialize)]
struct Entry {
    #[serde(flatten)]
    summary: MeasuredWorkload,
    changes: Vec<RateChange>,
}

/// The change of the work rate with a setting, in per cent of today's.
#[derive(Clone, Debug, Deserialize)]
struct RateChange {
    true_percent: f64,
    predicted_percent: f64,
}

/// The share of earlier predictions whose error an interval of [`TrackRecord::rate_interval`] contains.
const COVERED: f64 = 0.95;

impl RateChange {
    /// The error of the prediction on the scale of [`TrackRecord::rate_error`].
    fn error(&self) -> f64 {
        let [truth, predicted] =
            [self.true_percent, self.predicted_percent].map(|percent| (1.0 + percent / 100.0).ln());
        (predicted - truth).abs() / TrackRecord::scale(predicted)
    }
}

/// Returns the error that 95 % of the predictions did not exceed.
fn rate_error(all: &[Entry]) -> f64 {
    let mut errors: Vec<f64> =
        all.iter().flat_map(|entry| entry.changes.iter().map(RateChange::error)).collect();
    errors.sort_by(f64::total_cmp);
    let rank = (COVERED * (errors.len() + 1) as f64).ceil() as usize;
    errors.get(rank.min(errors.len()).saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The system of workloads on a volume, whatever uses it.
const VOLUME: &str = "volume";

/// Returns the track record for a plan of a database with this layout: the measured workloads of its system, or all
/// if there are none.
pub(crate) fn for_layout(layout: Option<&str>) -> Option<TrackRecord> {
    chosen(layout.and_then(system_of), read(TEXT)?)
}

/// Returns the track record for a plan of a volume.
pub(crate) fn for_volume() -> Option<TrackRecord> {
    chosen(Some(VOLUME), read(TEXT)?)
}

fn system_of(layout: &str) -> Option<&'static str> {
    SYSTEMS.iter().find(|(name, _)| *name == layout).map(|(_, system)| *system)
}

/// Parses the workloads of a file of this format.
fn read(text: &str) -> Option<Vec<Entry>> {
    let file: File = serde_json::from_str(text).ok()?;
    (file.format == FORMAT && file.version == 1).then_some(file.workloads)
}

fn chosen(system: Option<&str>, all: Vec<Entry>) -> Option<TrackRecord> {
    if all.is_empty() {
        return None;
    }
    let (measured, rate_error) = (all.len() as u32, rate_error(&all));
    let all: Vec<MeasuredWorkload> = all.into_iter().map(|entry| entry.summary).collect();
    let own = |w: &MeasuredWorkload| Some(w.system.as_str()) == system;
    if all.iter().any(own) {
        let workloads = all.into_iter().filter(own).collect();
        return Some(TrackRecord { workloads, system: system.map(str::to_owned), measured, rate_error });
    }
    Some(TrackRecord { workloads: all, system: None, measured, rate_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_file_is_read_whole() {
        let all = read(TEXT).expect("crates/tune/track-record.json has the documented format");
        assert!(!all.is_empty());
        for Entry { summary: w, changes } in &all {
            assert_eq!(changes.len(), w.settings as usize, "{}", w.workload);
            let is_known = w.system == VOLUME || SYSTEMS.iter().any(|(_, system)| *system == w.system);
            assert!(is_known, "{}", w.system);
            assert!(w.known <= w.settings && w.settings > 0, "{}", w.workload);
            assert!(w.rate_within_ten_points <= w.settings, "{}", w.workload);
            assert!((-1.0..=1.0).contains(&w.kendall_tau) && w.regret_percent >= 0.0, "{}", w.workload);
        }
        for (layout, _) in SYSTEMS {
            assert!(poolwright_trace::layout::Layout::by_name(layout).is_some(), "{layout}");
        }
    }

    fn workload(title: &str, system: &str, right: u32, largest: f64) -> Entry {
        let summary = MeasuredWorkload {
            title: title.into(),
            system: system.into(),
            settings: 9,
            rate_within_ten_points: right,
            largest_rate_error_points: largest,
            ..MeasuredWorkload::default()
        };
        Entry { summary, changes: Vec::new() }
    }

    #[test]
    fn an_interval_contains_the_errors_of_earlier_predictions() {
        let change = |true_percent, predicted_percent| RateChange { true_percent, predicted_percent };
        let changes: Vec<RateChange> =
            (0..18).map(|_| change(20.0, 20.0)).chain([change(120.0, 100.0), change(-50.0, 100.0)]).collect();
        let record = chosen(None, vec![Entry { changes, ..Entry::default() }]).unwrap();
        // The twentieth of twenty errors: a quarter instead of a factor of two.
        let (low, high) = record.rate_interval(1.0, (0.99, 1.01));
        assert!((low + 0.5).abs() < 1e-9 && (high - 7.0).abs() < 1e-9, "{low} {high}");
        // A small change has a small error, and the trials' scatter is never left out.
        let (low, high) = record.rate_interval(0.0, (-0.5, 0.001));
        assert!(low == -0.5 && (0.3..0.4).contains(&high), "{low} {high}");
        assert_eq!(TrackRecord::default().rate_interval(0.3, (0.2, 0.4)), (0.2, 0.4));
    }

    #[test]
    fn a_plan_names_its_own_system_or_all() {
        let all = || vec![workload("MariaDB", "mariadb", 8, 10.1), workload("SQLite", "sqlite", 9, 4.0)];
        let own = chosen(Some("mariadb"), all()).unwrap();
        assert_eq!(
            own.sentence().unwrap(),
            "On MariaDB, work rate was predicted within 10 points of the truth for 8 of 9 settings (largest error 10.1 \
             points); measured on 2 workloads in all. \
             The interval of the work rate contains 95 % of all these errors; other intervals contain only the scatter of the trials."
        );
        let other = chosen(Some("prometheus"), all()).unwrap();
        assert_eq!(
            other.sentence().unwrap(),
            "On 2 workloads of other databases, work rate was predicted within 10 points of the truth \
             for 17 of 18 settings (largest error 10.1 points); this one was not measured. The \
             interval of the work rate contains 95 % of all these errors; other intervals contain only the scatter of the trials."
        );
        assert_eq!(chosen(None, all()).unwrap().workloads.len(), 2);
        assert_eq!(chosen(None, Vec::new()), None);
    }
}
