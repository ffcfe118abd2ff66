//! The property `recordsize`: its values, and the message about any other value.

use std::fmt::Display;

/// The values that OpenZFS accepts.
pub const RECORDSIZES: &str = "a power of two from 512 to 16M";

/// Whether OpenZFS accepts this recordsize in bytes.
pub fn is_recordsize(bytes: u64) -> bool {
    bytes.is_power_of_two() && (512..=16 << 20).contains(&bytes)
}

/// The message about a value that OpenZFS does not accept, spelled as the user did.
pub fn invalid_recordsize(value: impl Display) -> String {
    format!("recordsize={value}: expected {RECORDSIZES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_from_512_to_16m() {
        for (bytes, valid) in [
            (0, false),
            (256, false),
            (512, true),
            (5120, false),
            (128 << 10, true),
            (16 << 20, true),
            (32 << 20, false),
        ] {
            assert_eq!(is_recordsize(bytes), valid, "{bytes}");
        }
    }
}
