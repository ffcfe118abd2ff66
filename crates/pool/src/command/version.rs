//! The versions of the programs and of the kernel module.

use super::error::MalformedOutput;

/// A version of OpenZFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The first number: 2.
    pub major: u32,
    /// The second number: 3 of 2.3.4.
    pub minor: u32,
    /// The third number; 0 if there is none.
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
/// If there is no version of the programs.
pub fn parse_version(text: &str) -> Result<InstalledVersion, MalformedOutput> {
    todo!("{text}")
}
