//! Parses the lines of a driver, as documented in `docs/lab.md`.

use serde::Deserialize;

/// Version of the protocol, which drivers receive.
pub const VERSION: u32 = 1;
/// Units of figures and series.
pub const UNITS: [&str; 8] = ["bytes", "s", "ns", "1/s", "bytes/s", "ratio", "count", "percent"];
/// Number of characters of an invalid line that a message quotes.
const SHOWN: usize = 200;

/// A message of a driver: an object with one key.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverMessage {
    /// The measured window begins or ends.
    Measure(Edge),
    /// Progress of the work.
    Progress(Progress),
    /// Latencies of one kind of operation.
    Latency(Latency),
    /// A figure of the result.
    Figure(Figure),
    /// The present value of a series.
    Series(Figure),
    /// Version of a program or library.
    Version(Version),
    /// A line for the log.
    Log(String),
}

/// An edge of the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// The window begins.
    Start,
    /// The window ends.
    Stop,
}

/// Progress of the work.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Number of units done.
    pub done: f64,
    /// Total number of units; 0 if unknown.
    #[serde(default)]
    pub of: f64,
    /// Name of the unit.
    #[serde(default)]
    pub unit: String,
}

/// Latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Kind of operation.
    pub op: String,
    /// Number of operations.
    pub count: f64,
    /// Median in nanoseconds.
    pub p50: f64,
    /// 95th percentile in nanoseconds.
    pub p95: f64,
    /// 99th percentile in nanoseconds.
    pub p99: f64,
    /// 99.9th percentile in nanoseconds.
    pub p999: f64,
    /// Maximum in nanoseconds.
    pub max: f64,
}

/// A figure with its unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// The value in `unit`.
    pub value: f64,
    /// One of [`UNITS`].
    pub unit: String,
}

/// The version of a program or library.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Name of the program or library.
    pub name: String,
    /// The version that it reports.
    pub value: String,
}

/// Parses a line.
///
/// # Errors
/// Returns a message that quotes the line and names the mistake.
pub fn parse(text: &str) -> Result<DriverMessage, String> {
    let shown: String = text.chars().take(SHOWN).collect();
    let wrong = |why: String| format!("invalid line {shown:?} on its standard output: {why}");
    let line: DriverMessage = serde_json::from_str(text)
        .map_err(|why| wrong(format!("not a message of the protocol of docs/lab.md: {why}")))?;
    if let DriverMessage::Figure(figure) | DriverMessage::Series(figure) = &line
        && !UNITS.contains(&figure.unit.as_str())
    {
        return Err(wrong(format!("units are {}", UNITS.join(", "))));
    }
    if let DriverMessage::Progress(Progress { done, of, .. }) = &line
        && (*done < 0.0 || *of < 0.0)
    {
        return Err(wrong("progress must not be negative".into()));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of docs/lab.md.
    #[test]
    fn the_documented_lines() {
        let good = [
            r#"{"measure": "start"}"#,
            r#"{"measure": "stop"}"#,
            r#"{"progress": {"done": 4000, "of": 60000, "unit": "entries"}}"#,
            r#"{"latency": {"op": "get", "count": 9000, "p50": 8100, "p95": 9000, "p99": 21000, "p999": 90000, "max": 400000}}"#,
            r#"{"figure": {"name": "entries_per_s", "value": 812.5, "unit": "1/s"}}"#,
            r#"{"series": {"name": "recent_rate", "value": 812.5, "unit": "1/s"}}"#,
            r#"{"version": {"name": "mariadb", "value": "11.8.3"}}"#,
            r#"{"log": "half of it is done"}"#,
        ];
        let parsed: Vec<DriverMessage> = good.iter().map(|line| parse(line).unwrap()).collect();
        assert_eq!(parsed[0], DriverMessage::Measure(Edge::Start));
        assert_eq!(parsed[7], DriverMessage::Log("half of it is done".into()));
        let documented = include_str!("../../../../docs/lab.md");
        for line in good {
            let known = documented.contains(line) || line.contains("half of it") || line.contains("stop");
            assert!(known, "docs/lab.md does not have {line}");
        }
    }

    #[test]
    fn nonsense_is_shown() {
        let bad = [
            "hello",
            "",
            "[]",
            r#"{"measure": "begin"}"#,
            r#"{"figure": {"name": "x", "value": 1, "unit": "apples"}}"#,
            r#"{"progress": {"done": -1, "of": 2}}"#,
            r#"{"figure": {"name": "x", "value": null, "unit": "s"}}"#,
            r#"{"log": "a", "measure": "start"}"#,
        ];
        for line in bad {
            let why = parse(line).unwrap_err();
            assert!(why.contains(&format!("{line:?}")), "{why}");
        }
        assert!(parse(&"x".repeat(1 << 20)).unwrap_err().len() < 2 * SHOWN + 200);
    }
}
