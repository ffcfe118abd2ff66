//! Direct I/O: the recorded requests that bypass the ARC, their cost, and remedies (docs/method.md, "Direct I/O").

use poolwright_base::units::format_size;
use poolwright_mrc::input::Direct;
use poolwright_openzfs::property::Settings;
use poolwright_trace::{Event, Flags, Op};

use crate::current::Current;

/// Below this share of a role's reads, the plan does not mention direct I/O.
const NOTABLE: f64 = 0.05;
/// The record sizes for which the plan states what direct reads cost.
const RECORDSIZES: [u64; 6] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20];

/// Whether a request bypasses the ARC under these settings, if the release of OpenZFS has direct I/O.
pub(crate) fn is_past_arc(event: &Event, settings: &Settings) -> bool {
    let property = settings.get("direct").and_then(|value| Direct::from_name(value));
    property.unwrap_or(Direct::Standard).bypasses(event)
}

/// How OpenZFS treats `O_DIRECT` where the database's files are, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectIo {
    /// Before 2.3: through the ARC.
    Cached,
    /// 2.3: past the ARC; with `direct=disabled`, through it.
    Bypass,
    /// Since 2.4: with `direct=disabled` through the ARC, which does not keep it.
    Uncached,
}

impl DirectIo {
    /// `module` is the version of the kernel's module, if that has the dataset. Without a dataset, the release is that of the engine.
    pub fn of(current: &Current, module: Option<&str>) -> DirectIo {
        if current.dataset.is_none() {
            return DirectIo::Bypass;
        }
        if current.value("direct").is_none() {
            return DirectIo::Cached;
        }
        if current.release(module) >= Some((2, 4)) { DirectIo::Uncached } else { DirectIo::Bypass }
    }

    /// Returns the other value of `direct` to try for files with these events; `None` if it would change nothing there.
    pub fn refinement<'a>(
        self,
        mut events: impl Iterator<Item = &'a Event>,
        today: &Settings,
    ) -> Option<Settings> {
        let other = match today.get("direct").map(String::as_str) {
            Some("disabled") => "standard",
            _ => "disabled",
        };
        let any = self == DirectIo::Bypass && events.any(|event| event.flags.contains(Flags::DIRECT));
        any.then(|| Settings::from([("direct".to_owned(), other.to_owned())]))
    }
}

/// Returns what the direct reads among these events cost by record size, and what avoids it; `None` if there are few.
/// `by_database` is the database's own setting against it.
pub(crate) fn note<'a>(
    events: impl Iterator<Item = &'a Event>,
    today: &Settings,
    release: DirectIo,
    by_database: Option<&str>,
) -> Option<String> {
    let reads: Vec<&Event> = events.filter(|event| event.op == Op::Read && event.len > 0).collect();
    let direct: Vec<&Event> = reads.iter().copied().filter(|event| is_past_arc(event, today)).collect();
    let share = direct.len() as f64 / reads.len().max(1) as f64;
    if share < NOTABLE || release == DirectIo::Cached {
        return None;
    }
    let costs =
        RECORDSIZES.map(|size| format!("{:.1} with {}", amplification(&direct, size), format_size(size)));
    let property = (release == DirectIo::Bypass).then_some("direct=disabled");
    let remedies: Vec<&str> = property.into_iter().chain(by_database).collect();
    let remedies = match remedies.as_slice() {
        [] => String::new(),
        some => format!("; {} lets the ARC answer them", some.join(" or ")),
    };
    Some(format!(
        "{:.0} % of the reads have O_DIRECT and bypass the ARC: each reads whole records, in bytes of records for each byte asked {}{remedies}",
        share * 100.0,
        costs.join(", ")
    ))
}

/// Bytes of the records that these reads touch, for each byte that they ask for.
fn amplification(reads: &[&Event], recordsize: u64) -> f64 {
    let records = |event: &Event| (event.offset + event.len - 1) / recordsize - event.offset / recordsize + 1;
    let read: u64 = reads.iter().map(|event| records(event) * recordsize).sum();
    let asked: u64 = reads.iter().map(|event| event.len).sum();
    read as f64 / asked.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset: u64, len: u64, flags: Flags) -> Event {
        Event { t_ns: 0, dur_ns: 1, op: Op::Read, file: 0, offset, len, pid: 1, tid: 1, flags, gap: None }
    }

    fn settings(direct: &str) -> Settings {
        Settings::from([("direct".to_owned(), direct.to_owned())])
    }

    #[test]
    fn aligned_requests_bypass_the_arc_as_the_property_says() {
        let (direct, plain) = (read(16384, 16384, Flags::DIRECT), read(16384, 16384, Flags::default()));
        let odd = read(16384, 512, Flags::DIRECT);
        let past =
            |event: &Event| ["standard", "always", "disabled"].map(|v| is_past_arc(event, &settings(v)));
        assert_eq!(past(&direct), [true, true, false]);
        assert_eq!(past(&plain), [false, true, false]);
        assert_eq!(past(&odd), [false, false, false]);
        assert!(is_past_arc(&direct, &Settings::new()));
    }

    #[test]
    fn the_note_states_the_cost_and_the_remedies_of_the_release() {
        let events: Vec<Event> = (0..100).map(|n| read(n * 16384, 16384, Flags::DIRECT)).collect();
        let of = |release| note(events.iter(), &Settings::new(), release, Some("innodb_flush_method=fsync"));
        let note_23 = of(DirectIo::Bypass).unwrap();
        assert!(note_23.contains("1.0 with 16K") && note_23.contains("8.0 with 128K"), "{note_23}");
        assert!(note_23.contains("direct=disabled or innodb_flush_method=fsync"), "{note_23}");
        let note_24 = of(DirectIo::Uncached).unwrap();
        assert!(!note_24.contains("direct=disabled") && note_24.contains("fsync"), "{note_24}");
        assert_eq!(of(DirectIo::Cached), None);
        assert_eq!(note(events.iter(), &settings("disabled"), DirectIo::Bypass, None), None);

        let refined = |release: DirectIo, today: &Settings| release.refinement(events.iter(), today);
        assert_eq!(refined(DirectIo::Bypass, &Settings::new()), Some(settings("disabled")));
        assert_eq!(refined(DirectIo::Bypass, &settings("disabled")), Some(settings("standard")));
        assert_eq!(refined(DirectIo::Uncached, &Settings::new()), None);
        let plain = [read(0, 4096, Flags::default())];
        assert_eq!(DirectIo::Bypass.refinement(plain.iter(), &Settings::new()), None);
    }
}
