//! The result of a scrub.

use poolwright_base::units::format_size;
use poolwright_openzfs::ScanState;
use poolwright_zfs::user::Scrub;

/// Renders the result of a scrub, or that it runs.
pub fn text(scrub: &Scrub) -> String {
    match scrub.state {
        ScanState::Scanning => {
            return "scrub started; `poolwright pool status` shows the progress".to_owned();
        }
        ScanState::Canceled => return "scrub stopped".to_owned(),
        ScanState::Finished => {}
    }
    let found = match scrub.errors() + scrub.lost {
        0 => "no errors".to_owned(),
        _ => format!(
            "{} read, {} write and {} checksum errors, {} repaired, {} blocks lost",
            scrub.read_errors,
            scrub.write_errors,
            scrub.checksum_errors,
            size(scrub.repaired),
            scrub.lost
        ),
    };
    format!("{} checked in {:.1} s, {found}", format_size(scrub.allocated), scrub.seconds)
}

/// A size as `zpool` prints it: bytes have a unit too.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes}B") } else { format_size(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!([0, 1023, 1024].map(size), ["0B", "1023B", "1K"]);
    }
}
