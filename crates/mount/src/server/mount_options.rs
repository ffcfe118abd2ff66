//! The options of a mount, in the syntax of `mount -o`.

use std::path::PathBuf;

use crate::Caching;
use poolwright_zfs::user::Mounted;

/// Bounds of the number of threads that serve a mount.
const THREADS: std::ops::RangeInclusive<usize> = 1..=256;

/// An option that does not exist, or has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: options are readonly, ignore-acls, caching=through|pages|writeback, threads=1…256")]
pub struct InvalidOption(String);

/// A mount of this dataset on this directory with these options: `readonly` (or `ro`), `rw`, `ignore-acls` (which includes
/// `readonly`), `caching=MODE`, `threads=N`.
///
/// # Errors
/// If an option is unknown or its value is invalid.
pub fn parse_mount(dataset: &str, dir: PathBuf, options: &[String]) -> Result<Mounted, InvalidOption> {
    let mut mount = Mounted::new(dataset, dir);
    for option in options {
        match option.split_once('=') {
            None if option == "readonly" || option == "ro" => mount.readonly = true,
            None if option == "rw" => mount.readonly = false,
            None if option == "ignore-acls" => mount.ignore_acls = true,
            Some(("caching", mode)) if Caching::from_name(mode).is_some() => {
                mount.caching = Some(mode.to_owned());
            }
            Some(("threads", n)) if n.parse().is_ok_and(|n: usize| THREADS.contains(&n)) => {
                mount.threads = n.parse().ok();
            }
            _ => return Err(InvalidOption(option.clone())),
        }
    }
    mount.readonly |= mount.ignore_acls;
    Ok(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<Mounted, InvalidOption> {
        let options: Vec<String> = options.split(',').filter(|o| !o.is_empty()).map(str::to_owned).collect();
        parse_mount("tank", "/mnt".into(), &options)
    }

    #[test]
    fn options_set_their_fields() {
        let all = parse("ignore-acls,caching=pages,threads=8").unwrap();
        assert!(all.readonly && all.ignore_acls);
        assert_eq!((all.caching.as_deref(), all.threads), (Some("pages"), Some(8)));
        assert!(parse("ro").unwrap().readonly && !parse("ro,rw").unwrap().readonly);
        assert!(!parse("").unwrap().readonly);
        for bad in ["noatime", "caching=some", "threads=0", "threads=257", "readonly=1"] {
            assert_eq!(parse(bad), Err(InvalidOption(bad.into())));
        }
    }
}
