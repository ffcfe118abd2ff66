//! Texts of alerts with the labels and the value of the alert.
//!
//! A template has `{value}`, `{LABEL}`, and `{LABEL|TEXT}`: the text followed by the label, or nothing if the label is empty.
//! For Prometheus, the same text is converted to its template language, which formats values as this module does.

use crate::alert::rule::ValueFormat;

/// A part of a template.
enum Part<'a> {
    Text(&'a str),
    Value,
    Label { name: &'a str, before: Option<&'a str> },
}

fn parts(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((text, (inside, after))) =
        rest.split_once('{').and_then(|(text, after)| Some((text, after.split_once('}')?)))
    {
        parts.push(Part::Text(text));
        parts.push(match inside.split_once('|') {
            None if inside == "value" => Part::Value,
            None => Part::Label { name: inside, before: None },
            Some((name, before)) => Part::Label { name, before: Some(before) },
        });
        rest = after;
    }
    parts.push(Part::Text(rest));
    parts
}

/// The labels that a template uses.
pub fn labels(template: &str) -> Vec<&str> {
    let names = parts(template).into_iter().filter_map(|part| match part {
        Part::Label { name, .. } => Some(name),
        Part::Text(_) | Part::Value => None,
    });
    names.collect()
}

/// The text for an alert.
pub fn render<'a>(
    template: &str,
    format: ValueFormat,
    value: f64,
    label: impl Fn(&str) -> Option<&'a str>,
) -> String {
    let mut text = String::new();
    for part in parts(template) {
        match part {
            Part::Text(fixed) => text.push_str(fixed),
            Part::Value => text.push_str(&format_value(format, value)),
            Part::Label { name, before } => {
                if let Some(value) = label(name).filter(|value| !value.is_empty()) {
                    text.push_str(before.unwrap_or_default());
                    text.push_str(value);
                }
            }
        }
    }
    text
}

/// The text for a reader of the rule, with the names of the value and of the labels in capitals.
pub fn to_names(template: &str) -> String {
    let name = |part| match part {
        Part::Text(fixed) => fixed.to_owned(),
        Part::Value => "VALUE".to_owned(),
        Part::Label { name, before } => before.unwrap_or_default().to_owned() + &name.to_uppercase(),
    };
    parts(template).into_iter().map(name).collect()
}

/// The template in the language of Prometheus.
pub fn to_prometheus(template: &str, format: ValueFormat) -> String {
    let (function, unit) = match format {
        ValueFormat::Number => ("humanize", ""),
        ValueFormat::Bytes => ("humanize1024", "B"),
        ValueFormat::Duration => ("humanizeDuration", ""),
        ValueFormat::Percentage => ("humanizePercentage", ""),
    };
    let mut text = String::new();
    for part in parts(template) {
        match part {
            Part::Text(fixed) => text.push_str(fixed),
            Part::Value => text.push_str(&format!("{{{{ $value | {function} }}}}{unit}")),
            Part::Label { name, before: None } => text.push_str(&format!("{{{{ $labels.{name} }}}}")),
            Part::Label { name, before: Some(before) } => {
                text.push_str(&format!("{{{{ with $labels.{name} }}}}{before}{{{{ . }}}}{{{{ end }}}}"));
            }
        }
    }
    text
}

/// A value as Prometheus's functions `humanize…` format it.
pub fn format_value(format: ValueFormat, value: f64) -> String {
    match format {
        ValueFormat::Number => number(value),
        ValueFormat::Bytes => bytes(value) + "B",
        ValueFormat::Duration => duration(value),
        ValueFormat::Percentage => four_digits(value * 100.0) + "%",
    }
}

fn number(mut value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return four_digits(value);
    }
    if value.abs() < 1.0 {
        return small(value);
    }
    let mut prefix = "";
    for next in ["k", "M", "G", "T", "P", "E", "Z", "Y"] {
        if value.abs() < 1000.0 {
            break;
        }
        (prefix, value) = (next, value / 1000.0);
    }
    four_digits(value) + prefix
}

/// A number below 1.
fn small(mut value: f64) -> String {
    let mut prefix = "";
    for next in ["m", "u", "n", "p", "f", "a", "z", "y"] {
        if value.abs() >= 1.0 {
            break;
        }
        (prefix, value) = (next, value * 1000.0);
    }
    four_digits(value) + prefix
}

fn bytes(mut value: f64) -> String {
    let mut prefix = "";
    if value.is_finite() && value.abs() > 1.0 {
        for next in ["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"] {
            if value.abs() < 1024.0 {
                break;
            }
            (prefix, value) = (next, value / 1024.0);
        }
    }
    four_digits(value) + prefix
}

fn duration(value: f64) -> String {
    if value == 0.0 {
        return "0s".to_owned();
    }
    if !value.is_finite() {
        return four_digits(value);
    }
    if value.abs() < 1.0 {
        return small(value) + "s";
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    let whole = value as u64;
    let (days, hours, minutes, seconds) = (whole / 86400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{}s", four_digits(value)),
        (0, 0, _) => format!("{sign}{minutes}m {seconds}s"),
        (0, _, _) => format!("{sign}{hours}h {minutes}m {seconds}s"),
        _ => format!("{sign}{days}d {hours}h {minutes}m {seconds}s"),
    }
}

/// The number with four significant digits, as `%.4g` of Go and C.
fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:.3e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the format has a number after e");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match exponent {
        -4..=3 => trim(&format!("{value:.*}", (3 - exponent) as usize)),
        _ => format!("{}e{}{:02}", trim(digits), if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_as_prometheus_does() {
        let cases = [
            (ValueFormat::Number, 0.0, "0"),
            (ValueFormat::Number, 1234567.0, "1.235M"),
            (ValueFormat::Number, 999.96, "1000"),
            (ValueFormat::Number, 0.01234, "12.34m"),
            (ValueFormat::Number, f64::NAN, "NaN"),
            (ValueFormat::Bytes, 1536.0, "1.5kiB"),
            (ValueFormat::Bytes, 10737418240.0, "10GiB"),
            (ValueFormat::Duration, 93784.5, "1d 2h 3m 4s"),
            (ValueFormat::Duration, 3600.0, "1h 0m 0s"),
            (ValueFormat::Duration, 59.994, "59.99s"),
            (ValueFormat::Duration, 0.0205, "20.5ms"),
            (ValueFormat::Percentage, 0.81234567, "81.23%"),
            (ValueFormat::Percentage, 1234.5, "1.234e+05%"),
        ];
        for (format, value, text) in cases {
            assert_eq!(format_value(format, value), text, "{format:?} {value}");
        }
    }

    #[test]
    fn both_languages_have_the_same_parts() {
        let template = "the ARC{pool| of } is {value} full";
        let label = |value: &'static str| move |name: &str| (name == "pool").then_some(value);
        let text = |value| render(template, ValueFormat::Percentage, 0.5, label(value));
        assert_eq!(text("tank"), "the ARC of tank is 50% full");
        assert_eq!(text(""), "the ARC is 50% full");
        assert_eq!(
            to_prometheus(template, ValueFormat::Percentage),
            "the ARC{{ with $labels.pool }} of {{ . }}{{ end }} is {{ $value | humanizePercentage }} full"
        );
        assert_eq!(labels(template), ["pool"]);
    }
}
