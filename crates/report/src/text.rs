//! Formats that sentences share.

/// Formats a number with its sign and so many decimals. The minus is U+2212: `−14`, `+3`.
pub fn signed(value: f64, decimals: usize) -> String {
    format!("{value:+.decimals$}").replace('-', "−")
}

/// The text with a capital letter at its start.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Formats how long something has lasted: `40 s`, `12 min`, `3 h`, `12 days`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_sign_ages_a_unit_and_sentences_a_capital() {
        assert_eq!((signed(-14.4, 0), signed(2.96, 1)), ("−14".to_owned(), "+3.0".to_owned()));
        let ages = [0, 119, 120, 7200, 172_800, 259_199].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "2 h", "2 days", "2 days"]);
        assert_eq!((capitalised("the ARC"), capitalised("")), ("The ARC".to_owned(), String::new()));
    }
}
