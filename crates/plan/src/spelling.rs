//! The spelling of a property's value.

use poolwright_base::units::format_size;
use poolwright_openzfs::property;

/// A value of `zfs get -p` as it is set: a size with its unit.
pub fn spelled_setting(property: &str, value: &str) -> String {
    let is_size = property::find(property).is_ok_and(|known| known.size);
    let bytes = value.parse().ok().filter(|_| is_size);
    bytes.map_or_else(|| value.to_owned(), format_size)
}
