//! The versions of the programs and of the kernel module.

use super::error::MalformedOutput;

/// A version of OpenZFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The first number: 2.
    pub major: u32,
    /// The second number: 3 of 2.3.4.
    pub minor: u32,
    /// The third number: 4 of 2.3.4; 0 if there is none.
    pub patch: u32,
    /// The version as printed, with the packager's suffix: `2.3.2-2~bpo12+2`.
    pub text: String,
}

/// The output of `zfs version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledVersion {
    /// The version of `zfs`, `zpool` and their libraries.
    pub userland: Release,
    /// The version of the kernel module. `None` if the output has none.
    pub kernel: Option<Release>,
}

impl Release {
    /// Whether this is `major.minor` or later.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// Parses the output of `zfs version`: `zfs-VERSION`, then `zfs-kmod-VERSION`.
///
/// # Errors
/// If the output has no version of the programs.
pub fn parse_version(text: &str) -> Result<InstalledVersion, MalformedOutput> {
    let lines = || text.lines().map(str::trim);
    let kernel = lines().find_map(|line| parse_release(line.strip_prefix("zfs-kmod-")?));
    let userland = lines().find_map(|line| parse_release(line.strip_prefix("zfs-")?));
    let userland = userland.ok_or_else(|| MalformedOutput::new(1, "no version"))?;
    Ok(InstalledVersion { userland, kernel })
}

/// Parses a version such as `2.3.2-2~bpo12+2`. Returns `None` if it does not begin with two numbers.
pub fn parse_release(text: &str) -> Option<Release> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.').map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
    Some(Release { major, minor, patch, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions() {
        let version = |text: &str| {
            let version = parse_version(text).unwrap();
            let numbers = |release: Release| (release.major, release.minor);
            (numbers(version.userland), version.kernel.map(numbers))
        };
        assert_eq!(version("zfs-2.1.11-1\nzfs-kmod-2.1.11-1\n"), ((2, 1), Some((2, 1))));
        assert_eq!(version("zfs-2.2.2-0ubuntu9.1\nzfs-kmod-2.2.2-0ubuntu9\n"), ((2, 2), Some((2, 2))));
        assert_eq!(version("zfs-2.3.2-2~bpo12+2\nzfs-kmod-2.3.4-1\n"), ((2, 3), Some((2, 3))));
        assert_eq!(version("zfs-2.4.99-123_gabcdef\n"), ((2, 4), None));
        assert_eq!(version("zfs-2.4-rc1\n"), ((2, 4), None));
        for text in ["", "zfs-", "zfs-kmod-2.3.2-1", "zfs-2", "zfs-2.x", "other"] {
            assert!(parse_version(text).is_err(), "{text}");
        }
    }

    #[test]
    fn releases_are_compared() {
        let release = parse_version("zfs-2.3.2-1").unwrap().userland;
        assert!(release.is_at_least(2, 3) && release.is_at_least(2, 1) && release.is_at_least(1, 9));
        assert!(!release.is_at_least(2, 4) && !release.is_at_least(3, 0));
        assert_eq!((release.patch, release.text.as_str()), (2, "2.3.2-1"));
        assert_eq!(parse_release("2.4-rc1").unwrap().patch, 0);
    }
}
