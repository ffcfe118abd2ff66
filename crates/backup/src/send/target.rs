//! The dataset that receives streams, on this host or on another one.

use std::fmt;
use std::time::Duration;

use poolwright_zfs::kernel::command::remote::{InvalidHost, RemoteHost};
use poolwright_zfs::kernel::command::send::ResumeToken;
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;
use poolwright_zfs::kernel::{CommandOptions, ZfsCommands};

use crate::{Error, Result};

/// The time limit of a command that only reads, also through a remote shell.
const DEADLINE: Duration = Duration::from_secs(120);

/// A dataset, and the host on which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendTarget {
    /// `HOST` or `USER@HOST`; `None` for this host.
    pub host: Option<String>,
    /// The dataset.
    pub dataset: String,
}

impl SendTarget {
    /// Parses `[USER@HOST:]DATASET`. A colon before the first slash separates the host; a host with colons is written in brackets.
    ///
    /// # Errors
    /// If the host cannot be one. The dataset's name is not checked.
    pub fn parse(text: &str) -> std::result::Result<SendTarget, InvalidHost> {
        let bracketed = text.split_once("]:").filter(|(host, _)| host.contains('['));
        let (host, dataset) = match bracketed {
            Some((host, dataset)) => (Some(host.replacen('[', "", 1)), dataset),
            None => match text.split_once(':').filter(|(host, _)| !host.contains('/')) {
                Some((host, dataset)) => (Some(host.to_owned()), dataset),
                None => (None, text),
            },
        };
        if let Some(host) = &host {
            RemoteHost::new(host, None)?;
        }
        Ok(SendTarget { host, dataset: dataset.to_owned() })
    }
}

/// As it is parsed.
impl fmt::Display for SendTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => {
                let (user, address) = host.rsplit_once('@').map_or(("", &**host), |(user, of)| (user, of));
                let separator = if user.is_empty() { "" } else { "@" };
                write!(f, "{user}{separator}[{address}]:{}", self.dataset)
            }
            Some(host) => write!(f, "{host}:{}", self.dataset),
            None => f.write_str(&self.dataset),
        }
    }
}

/// The state of the receiving dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TargetState {
    /// The GUID of the dataset itself.
    pub guid: u64,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<HistoryPoint>,
    /// The stream that was interrupted, with its token.
    pub pending: Option<(String, ResumeToken)>,
}

/// Access to the receiving dataset.
pub(super) struct TargetDataset {
    pub name: SendTarget,
    pub commands: ZfsCommands,
}

impl TargetDataset {
    /// `shell` has the program of the remote shell and its first arguments, in place of `ssh`.
    pub(super) fn new(name: SendTarget, shell: Option<Vec<String>>) -> Result<TargetDataset> {
        let host = name.host.as_deref().map(|host| RemoteHost::new(host, shell));
        let remote = host.transpose().map_err(|why| Error::Refused(why.to_string()))?;
        Ok(TargetDataset { name, commands: commands(remote) })
    }

    /// The state of the dataset; `None` if it does not exist. `source` decodes the resume tokens of its streams.
    pub(super) fn state(&self, source: &ZfsCommands) -> Result<Option<TargetState>> {
        let dataset = &self.name.dataset;
        let values = self.commands.values_of(dataset, ["guid", "receive_resume_token", "encryption"])?;
        let Some([guid, token, encryption]) = values else { return Ok(None) };
        let mut snapshots = self.commands.history_of(dataset)?;
        snapshots.retain(|of| !of.is_bookmark());
        let pending = token.map(|token| source.resume_token(&token).map(|contents| (token, contents)));
        Ok(Some(TargetState {
            guid: guid.and_then(|guid| guid.parse().ok()).unwrap_or(0),
            is_encrypted: is_encrypted(encryption),
            snapshots,
            pending: pending.transpose()?,
        }))
    }

    /// Whether a dataset that is received here becomes encrypted by its parent; `None` if the parent does not exist.
    pub(super) fn parent_is_encrypted(&self) -> Result<Option<bool>> {
        let Some((parent, _)) = self.name.dataset.rsplit_once('/') else { return Ok(None) };
        let values = self.commands.values_of(parent, ["encryption"])?;
        Ok(values.map(|[encryption]| is_encrypted(encryption)))
    }

    /// The bytes that were written into the dataset since a snapshot of it. A refusal if that is not known.
    pub(super) fn written_since(&self, snapshot: &HistoryPoint) -> Result<u64> {
        let property = format!("written@{}", snapshot.short_name());
        let values = self.commands.values_of(&self.name.dataset, [property.as_str()])?;
        let written = values.and_then(|[written]| written?.parse().ok());
        let unknown = || {
            let (name, snapshot) = (&self.name, snapshot.short_name());
            Error::Refused(format!(
                "cannot determine whether {name} has changed since @{snapshot}: `zfs get {property}` has no number there"
            ))
        };
        written.ok_or_else(unknown)
    }
}

/// Whether this is the encryption of an encrypted dataset. Pools without the feature have no value.
pub(super) fn is_encrypted(encryption: Option<String>) -> bool {
    encryption.is_some_and(|value| value != "off")
}

/// Runs the programs on this host or on another one.
pub(crate) fn commands(remote: Option<RemoteHost>) -> ZfsCommands {
    ZfsCommands::new(CommandOptions { remote, deadline: DEADLINE, ..CommandOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_with_and_without_a_host() {
        let cases = [
            ("vault/pg", None, "vault/pg"),
            ("vault/pg:old", None, "vault/pg:old"),
            ("b.example:vault/pg", Some("b.example"), "vault/pg"),
            ("root@b:vault/pg:old", Some("root@b"), "vault/pg:old"),
            ("root@[fe80::1]:vault/pg", Some("root@fe80::1"), "vault/pg"),
            ("[fe80::1]:vault", Some("fe80::1"), "vault"),
        ];
        for (text, host, dataset) in cases {
            let target = SendTarget::parse(text).unwrap();
            assert_eq!((target.host.as_deref(), target.dataset.as_str()), (host, dataset), "{text}");
            assert_eq!(target.to_string(), text);
        }
        for wrong in [":vault/pg", "-oProxyCommand=x:vault/pg", "a b:vault/pg", "root@:vault"] {
            assert!(SendTarget::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_known_to_be_unchanged_is_refused() {
        // The answers of this `zfs` have the property for one of the snapshots.
        let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../zfs/tests/fake/streams/zfs");
        let options = CommandOptions { zfs: Some(fake.into()), device: None, ..CommandOptions::default() };
        let target = TargetDataset {
            name: SendTarget::parse("vault/pg").unwrap(),
            commands: ZfsCommands::new(options),
        };
        let written = |name: &str| {
            target.written_since(&HistoryPoint { name: format!("vault/pg@{name}"), guid: 1, created_txg: 1 })
        };
        assert_eq!(written("new").unwrap(), 4096);
        let refusal = written("old").unwrap_err();
        assert!(refusal.is_refusal() && refusal.to_string().contains("written@old"), "{refusal}");
    }

    #[test]
    fn encrypted_datasets() {
        let of = |text: &str| is_encrypted(Some(text.to_owned()));
        assert_eq!((of("off"), of("aes-256-gcm"), is_encrypted(None)), (false, true, false));
    }
}
