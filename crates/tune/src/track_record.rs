//! The track record of the predictions: `track-record.json`, which measured campaigns produce.

use serde::Deserialize;

use crate::plan::{MeasuredWorkload, TrackRecord};

const TEXT: &str = include_str!("../track-record.json");
const FORMAT: &str = "poolwright-track-record";

/// The layouts of database directories, and the systems that campaigns measure.
const SYSTEMS: &[(&str, &str)] = &[
    ("mariadb", "mariadb"),
    ("postgresql", "postgresql"),
    ("sqlite", "sqlite"),
    ("lmdb", "openldap"),
    ("openldap-bdb", "openldap"),
];

/// The content of `track-record.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    /// The workloads. The entries contain further fields for the tables of `docs/predictions.md`.
    workloads: Vec<MeasuredWorkload>,
}

/// Returns the track record for a plan of a database with this layout: the measured workloads of its system, or all
/// if there are none.
pub(crate) fn for_layout(layout: Option<&str>) -> Option<TrackRecord> {
    chosen(layout, read(TEXT)?)
}

/// Parses the workloads of a file of this format.
fn read(text: &str) -> Option<Vec<MeasuredWorkload>> {
    let file: File = serde_json::from_str(text).ok()?;
    (file.format == FORMAT && file.version == 1).then_some(file.workloads)
}

fn chosen(layout: Option<&str>, all: Vec<MeasuredWorkload>) -> Option<TrackRecord> {
    if all.is_empty() {
        return None;
    }
    let measured = all.len() as u32;
    let system = layout.and_then(|l| SYSTEMS.iter().find(|(name, _)| *name == l)).map(|(_, system)| *system);
    let own = |w: &MeasuredWorkload| Some(w.system.as_str()) == system;
    if all.iter().any(own) {
        let workloads = all.into_iter().filter(own).collect();
        return Some(TrackRecord { workloads, system: system.map(str::to_owned), measured });
    }
    Some(TrackRecord { workloads: all, system: None, measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_file_is_read_whole() {
        let all = read(TEXT).expect("crates/tune/track-record.json has the documented format");
        assert!(!all.is_empty());
        for w in &all {
            assert!(SYSTEMS.iter().any(|(_, system)| *system == w.system), "{}", w.system);
            assert!(w.known <= w.settings && w.settings > 0, "{}", w.workload);
            assert!(w.rate_within_ten_points <= w.settings, "{}", w.workload);
            assert!((-1.0..=1.0).contains(&w.kendall_tau) && w.regret_percent >= 0.0, "{}", w.workload);
        }
        for (layout, _) in SYSTEMS {
            assert!(poolwright_trace::layout::Layout::by_name(layout).is_some(), "{layout}");
        }
    }

    fn workload(title: &str, system: &str, right: u32, largest: f64) -> MeasuredWorkload {
        MeasuredWorkload {
            title: title.into(),
            system: system.into(),
            settings: 9,
            rate_within_ten_points: right,
            largest_rate_error_points: largest,
            ..MeasuredWorkload::default()
        }
    }

    #[test]
    fn a_plan_names_its_own_system_or_all() {
        let all = || vec![workload("MariaDB", "mariadb", 8, 10.1), workload("SQLite", "sqlite", 9, 4.0)];
        let own = chosen(Some("mariadb"), all()).unwrap();
        assert_eq!(
            own.sentence().unwrap(),
            "On MariaDB, work rate was predicted within 10 points of the truth for 8 of 9 settings (largest error 10.1 \
             points); measured on 2 workloads in all."
        );
        let other = chosen(Some("prometheus"), all()).unwrap();
        assert_eq!(
            other.sentence().unwrap(),
            "On MariaDB and SQLite, other databases than this one, work rate was predicted within 10 points of the truth \
             for 17 of 18 settings (largest error 10.1 points); measured on 2 workloads."
        );
        assert_eq!(chosen(None, all()).unwrap().workloads.len(), 2);
        assert_eq!(chosen(None, Vec::new()), None);
    }
}
