//! Parses properties of a dataset.

use poolwright_openzfs::Error;
use poolwright_openzfs::property::{self, Settings};

/// Parses and checks assignments `PROPERTY=VALUE`, limits such as `quota` included.
///
/// # Errors
/// [`Error::Invalid`] for an unknown property, an invalid value or a list of values.
pub fn parse_settings(assignments: &[String]) -> Result<Settings, Error> {
    let mut settings = Settings::new();
    for assignment in assignments {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(Error::Invalid(format!(
                "{assignment:?} is not PROPERTY=VALUE, such as recordsize=16K"
            )));
        };
        if value.contains(',') {
            return Err(Error::Invalid(format!("{assignment}: give one value for each property")));
        }
        let name = property::find_settable(name)?.name;
        property::check(name, value)?;
        settings.insert(name.to_owned(), value.to_owned());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_each_and_limits() {
        let parse =
            |words: &[&str]| parse_settings(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        let settings = parse(&["recordsize=16K", "quota=1G", "compression=lz4", "compression=off"]).unwrap();
        let all: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(all, ["compression=off", "quota=1G", "recordsize=16K"]);
        for bad in [
            "recordsize",
            "recordsize=3K",
            "recordsize=8K,16K",
            "wal:recordsize=8K",
            "colour=red",
            "quota=much",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
