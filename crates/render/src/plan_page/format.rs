//! The wording of a plan's metrics, settings and gains on the page and on the terminal.

use std::cmp::Reverse;

use poolwright_base::units::{bytes, counted};
pub use poolwright_plan::metric::ordered;
use poolwright_plan::metric::{MetricFamily, representatives};
use poolwright_plan::{
    Evidence, Gain, GainVerdict, Goal, MetricName, Outcome, ReplayedSlice, RolePlan, Settings,
};
use poolwright_report::{Cell, Tone};

/// The title of a metric for a column heading, abbreviated.
pub fn short_title(name: &MetricName) -> String {
    name.title()
        .replace("amplification", "amp.")
        .replace("operation", "op")
        .replace("mean latency", "latency")
}

/// Returns the available metric of the family that the goal weighs most. If the goal weighs none, returns the one with
/// the highest precedence.
pub fn pick(
    family: MetricFamily,
    goal: &Goal,
    has: impl Fn(&MetricName) -> bool,
) -> Option<&'static MetricName> {
    let weight = |name: &MetricName| goal.weights.get(name).copied().filter(|w| *w > 0.0).unwrap_or(0.0);
    let available = representatives(family).into_iter().filter(|name| has(name));
    // min_by keeps the first of equals, and the representatives are in order of precedence
    available.min_by(|a, b| weight(b).total_cmp(&weight(a)))
}

/// Returns the metrics to show first: one each for space, speed and wear, and all others that the goal weighs.
pub fn headline(goal: &Goal, has: impl Fn(&MetricName) -> bool + Copy) -> Vec<&MetricName> {
    let families = [MetricFamily::Space, MetricFamily::Speed, MetricFamily::Wear];
    let picked = families.into_iter().filter_map(|family| pick(family, goal, has));
    let weighed = goal.weights.keys().filter(|name| has(name));
    ordered(picked.chain(weighed))
}

/// Begin and end of a slice of the recording, such as `30.0 s to 36.3 s`.
pub fn slice(slice: &ReplayedSlice) -> String {
    format!("{:.1} s to {:.1} s", slice.begin_s, slice.end_s)
}

/// Settings in the order of [`sorted`]: `recordsize=16K compression=zstd-3 …`.
pub fn settings(settings: &Settings) -> String {
    sorted(settings).into_iter().map(|(p, v)| format!("{p}={v}")).collect::<Vec<_>>().join(" ")
}

/// The properties that are shown first.
const MAIN: [&str; 3] = ["recordsize", "volblocksize", "compression"];

/// Returns block size and compression first, then the other properties by name.
pub fn sorted(settings: &Settings) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = settings.iter().map(|(p, v)| (p.as_str(), v.as_str())).collect();
    all.sort_by_key(|(property, _)| property_rank(property));
    all
}

/// The sort key of a property.
pub fn property_rank(property: &str) -> (usize, &str) {
    (MAIN.iter().position(|p| *p == property).unwrap_or(MAIN.len()), property)
}

/// Returns the tried value of the property, or else today's.
pub fn value<'a>(role: &'a RolePlan, tried: &'a Settings, property: &str) -> Option<&'a str> {
    tried.get(property).or_else(|| role.current.get(property)).map(String::as_str)
}

/// Block size and compression, then all other differences from today: `128K lz4 logbias=throughput`.
pub fn label(role: &RolePlan, tried: &Settings) -> String {
    let main = MAIN.into_iter().filter_map(|p| value(role, tried, p)).map(str::to_owned);
    let label = main.chain(differing(role, tried)).collect::<Vec<_>>().join(" ");
    if label.is_empty() { "as today".to_owned() } else { label }
}

/// Returns the settings after the recommendation is applied.
pub fn applied(role: &RolePlan) -> Settings {
    changed(role, &role.recommended)
}

/// Returns the settings after these changes of today's.
pub fn changed(role: &RolePlan, changes: &Settings) -> Settings {
    role.current.iter().chain(changes).map(|(p, v)| (p.clone(), v.clone())).collect()
}

/// Returns `property=value` for each tried property that differs from today, without block size and compression.
pub fn differing(role: &RolePlan, tried: &Settings) -> Vec<String> {
    let other =
        |p: &str, v: &str| property_rank(p).0 == MAIN.len() && role.current.get(p).is_none_or(|c| c != v);
    tried.iter().filter(|(p, v)| other(p, v)).map(|(p, v)| format!("{p}={v}")).collect()
}

/// Returns the settings of the other roles in the same trial, if they differ from today.
pub fn others(evidence: &Evidence) -> String {
    let all = evidence.others.iter().map(|(role, s)| format!("{role}: {}", settings(s)));
    all.collect::<Vec<_>>().join("; ")
}

/// Parses a size as `zfs` does: `16K` is 16384. Returns `None` for invalid text.
pub fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The sort key of a compression: by family, and within a family from fast to slow.
pub fn compression_rank(name: &str) -> (usize, i64, &str) {
    const FAMILIES: [&str; 7] = ["off", "zle", "lzjb", "lz4", "zstd-fast", "zstd", "gzip"];
    let (family, level) = match name.rsplit_once('-') {
        Some((family, level)) if level.bytes().all(|b| b.is_ascii_digit()) => (family, level.parse().ok()),
        _ => (name, None),
    };
    let rank = FAMILIES.iter().position(|f| *f == family).unwrap_or(FAMILIES.len());
    let default = match family {
        "zstd" => 3,
        "gzip" => 6,
        _ => 1,
    };
    let level: i64 = level.unwrap_or(default);
    // zstd-fast-10 is faster and compresses less than zstd-fast-1.
    (rank, if family == "zstd-fast" { -level } else { level }, name)
}

/// Both values of a gain: `961M → 802M`.
pub fn from_to(name: &MetricName, gain: &Gain) -> String {
    format!("{} → {}", name.unit().format(gain.from), name.unit().format(gain.to))
}

/// The verdict of a gain, and whether it is estimated.
pub fn verdict(gain: &Gain) -> &'static str {
    match (gain.verdict, gain.pairs) {
        (GainVerdict::Better, 0) => "better, estimated",
        (GainVerdict::Better, _) => "better",
        (GainVerdict::Worse, 0) => "worse, estimated",
        (GainVerdict::Worse, _) => "worse",
        (GainVerdict::Noise, _) => "inside the noise",
    }
}

/// The tone of a change with this verdict.
pub fn tone(verdict: GainVerdict) -> Tone {
    match verdict {
        GainVerdict::Better => Tone::Good,
        GainVerdict::Worse => Tone::Bad,
        GainVerdict::Noise => Tone::Muted,
    }
}

/// The word and the tone of today's and of the recommended settings; nothing for other settings.
pub fn mark(outcome: Outcome) -> (&'static str, Tone) {
    match outcome {
        Outcome::Current => ("today", Tone::Strong),
        Outcome::Recommended => ("recommended", Tone::Good),
        _ => ("", Tone::Plain),
    }
}

/// The word of [`mark`] as a cell.
pub fn marked(outcome: Outcome) -> Cell {
    let (mark, tone) = mark(outcome);
    Cell::text(mark).tone(tone)
}

/// The first `most` settings in their order, always including today's and the recommended ones.
pub fn shortened<T: Clone>(all: &[T], most: usize, outcome: fn(&T) -> Outcome) -> Vec<T> {
    let is_marked = |i: &usize| matches!(outcome(&all[*i]), Outcome::Current | Outcome::Recommended);
    let mut kept: Vec<usize> = (0..all.len()).collect();
    kept.sort_by_key(|i| !is_marked(i)); // The sort is stable: both halves keep their order.
    kept.truncate(most);
    kept.sort_unstable();
    kept.into_iter().map(|i| all[i].clone()).collect()
}

/// The weights of a goal, largest first: `mean latency 0.40, space 0.30`.
pub fn weights(goal: &Goal) -> String {
    let mut all: Vec<(&MetricName, &f64)> = goal.weights.iter().collect();
    all.sort_by_key(|(_, w)| Reverse((**w * 1e6) as i64));
    all.iter().map(|(name, w)| format!("{} {w:.2}", name.title())).collect::<Vec<_>>().join(", ")
}

/// The size of some files: `2.1G in 41 files`.
pub fn extent(size: u64, files: u64) -> String {
    format!("{} in {}", bytes(size), counted(files, "file"))
}

/// The name of a role, with its path if several entries have the same role.
pub fn role_name(roles: &[RolePlan], role: &RolePlan) -> String {
    let twins = roles.iter().filter(|r| r.role == role.role).count();
    if twins > 1 { format!("{} in {}", role.role, role.path) } else { role.role.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_sort_by_effort() {
        let mut all =
            ["gzip-9", "zstd-19", "off", "zstd-3", "lz4", "zstd", "zstd-fast-1", "gzip", "zstd-fast-10"];
        all.sort_by_key(|c| compression_rank(c));
        let expected =
            ["off", "lz4", "zstd-fast-10", "zstd-fast-1", "zstd", "zstd-3", "zstd-19", "gzip", "gzip-9"];
        assert_eq!(all, expected);
    }

    #[test]
    fn sizes_are_read_as_zfs_prints_them() {
        let read = ["512", "16K", "1M", "16M", "1g", "none", "K", "99999999999G"].map(size);
        let some = [Some(512), Some(16384), Some(1 << 20), Some(16 << 20), Some(1 << 30)];
        assert_eq!(read, [some[0], some[1], some[2], some[3], some[4], None, None, None]);
    }

    #[test]
    fn the_goal_decides_which_latency_is_shown() {
        let goal = |weights: &[(MetricName, f64)]| Goal {
            weights: weights.iter().cloned().collect(),
            ..Goal::default()
        };
        let fsyncs = goal(&[(MetricName::FsyncP99Ns, 0.5)]);
        assert_eq!(pick(MetricFamily::Speed, &fsyncs, |_| true), Some(&MetricName::FsyncP99Ns));
        let is_read = |n: &MetricName| *n == MetricName::ReadP99Ns;
        assert_eq!(pick(MetricFamily::Speed, &fsyncs, is_read), Some(&MetricName::ReadP99Ns));
        assert_eq!(pick(MetricFamily::Speed, &goal(&[]), |_| true), Some(&MetricName::WorkRate));
        let is_other = |n: &MetricName| *n != MetricName::WorkRate;
        assert_eq!(pick(MetricFamily::Speed, &goal(&[]), is_other), Some(&MetricName::MeanLatencyNs));
        assert_eq!(pick(MetricFamily::Speed, &goal(&[]), |_| false), None);
    }
}
