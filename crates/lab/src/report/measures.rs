//! How measures are shown, and whether higher or lower values are better.

use poolwright_report::{Better, Unit};

use crate::campaign::Study;

/// Returns the name of a measure without its phase.
fn bare(column: &str) -> &str {
    column.split_once('/').map_or(column, |(_, name)| name)
}

/// Returns the display unit of these figures and the factor that converts to it.
pub fn shown(column: &str, unit: &str, figures: impl IntoIterator<Item = f64>) -> (Unit, f64) {
    match unit {
        "bytes" => (Unit::Bytes, 1.0),
        "bytes/s" => (Unit::BytesPerSecond, 1.0),
        "s" => (Unit::Seconds, 1.0),
        "ns" => (Unit::Nanoseconds, 1.0),
        "1/s" => (Unit::PerSecond, 1.0),
        "percent" => (Unit::Fraction, 0.01),
        "ratio" if column.contains("hit") => (Unit::Fraction, 1.0),
        "ratio" => (Unit::Ratio, 1.0),
        // Means of small counts keep their decimals.
        _ if figures.into_iter().any(|v| v.abs() < 100.0 && v.fract() != 0.0) => (Unit::None, 1.0),
        _ => (Unit::Count, 1.0),
    }
}

/// Formats a figure with its unit.
pub fn format(column: &str, unit: &str, value: f64) -> String {
    let (shown, factor) = shown(column, unit, [value]);
    shown.format(value * factor)
}

/// Returns which direction is better: as the study states it, otherwise as the measure is declared, otherwise by its kind, or
/// `None` if unknown.
pub fn better(study: &Study, column: &str, unit: &str) -> Option<Better> {
    let claimed = study.claims.iter().find(|c| c.measure == column).map(|c| !c.lower);
    match claimed {
        Some(true) => Some(Better::Higher),
        Some(false) => Some(Better::Lower),
        None => study.info(column).better.map(Better::from).or_else(|| usual(bare(column), unit)),
    }
}

/// Returns the direction by the kind of measure. Levels, counts and ratios of unknown kinds have none.
fn usual(name: &str, unit: &str) -> Option<Better> {
    let family = name.split('.').next().unwrap_or(name);
    match (family, unit) {
        ("arc_size" | "arc_target" | "logical", _) => None,
        ("ratio" | "arc_hit_ratio", _) | (_, "1/s" | "bytes/s") => Some(Better::Higher),
        ("host_cpu" | "disk_busy" | "flushes", _) | (_, "s" | "ns" | "bytes") => Some(Better::Lower),
        _ => None,
    }
}

/// Whether a measure includes the work of all processes of the host, not only that of the trial.
pub fn is_of_host(column: &str) -> bool {
    let name = bare(column);
    name == "run_queue" || name.starts_with("host_") || name.starts_with("disk_")
}

/// Whether a measure describes speed, and so belongs on one axis of the trade-off against space.
pub fn is_speed(column: &str, unit: &str) -> bool {
    let cpu = matches!(bare(column), "user_s" | "system_s" | "engine_s");
    matches!(unit, "1/s" | "bytes/s") || (unit == "s" && !cpu)
}

/// Whether a measure describes the space on disk.
pub fn is_space(column: &str) -> bool {
    bare(column) == "allocated" || bare(column).starts_with("allocated.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_in_the_tables() {
        assert_eq!(format("host_cpu", "percent", 37.5), "37.5 %");
        assert_eq!(format("run/arc_hit_ratio", "ratio", 0.934), "93.4 %");
        assert_eq!(format("ratio.db", "ratio", 1.333), "1.33x");
        assert_eq!(format("run_queue", "count", 1.75), "1.75");
        assert_eq!(format("flushes", "count", 18422.0), "18,422");
        assert_eq!(format("entries_per_s", "1/s", 812.5), "812/s");
    }
}
