//! The space used by users and groups in a dataset, and their quotas: `zfs userspace` and `zfs groupspace`.

use super::error::{CommandError, MalformedOutput};
use super::number::Row;
use super::runner::{ZFS, ZfsCommands, check_name};

/// Whose space is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// The space of the files of a user.
    User,
    /// The space of the files of a group.
    Group,
}

/// The space of a user or a group with a quota. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerQuota {
    /// Whether this is a user or a group.
    pub kind: QuotaKind,
    /// The numeric ID.
    pub id: u32,
    /// The space used. OpenZFS updates it at the end of a transaction group.
    pub used: u64,
    /// The quota.
    pub quota: u64,
}

/// Parses the output of `zfs userspace -Hpn -o name,used,quota`. Leaves out users without a quota, and those of other systems (SIDs).
///
/// # Errors
/// If a line has another number of columns.
pub fn parse_quotas(text: &str, kind: QuotaKind) -> Result<Vec<OwnerQuota>, MalformedOutput> {
    let mut quotas = Vec::new();
    for row in Row::all(text, 3) {
        let row = row?;
        // A quota that is not set is `none`, `-` or 0.
        let number = |column: usize| row.text(column).parse::<u64>().ok();
        if let (Ok(id), Some(used), Some(quota)) = (row.text(0).parse(), number(1), number(2))
            && quota > 0
        {
            quotas.push(OwnerQuota { kind, id, used, quota });
        }
    }
    Ok(quotas)
}

impl ZfsCommands {
    /// The quotas of users and groups in a dataset (`userquota@`, `groupquota@`). None if the pool does not count the space of users.
    ///
    /// # Errors
    /// If a command cannot be run, does not end in time, or prints something unexpected.
    pub fn owner_quotas(&self, dataset: &str) -> Result<Vec<OwnerQuota>, CommandError> {
        check_name(dataset)?;
        let mut all = Vec::new();
        for (verb, kind, of) in
            [("userspace", QuotaKind::User, "posixuser"), ("groupspace", QuotaKind::Group, "posixgroup")]
        {
            let arguments = [verb, "-Hpn", "-t", of, "-o", "name,used,quota", dataset];
            match self.parsed(&self.invocation(ZFS, &arguments)?, |text| parse_quotas(text, kind)) {
                // The file system has a version that does not count it.
                Err(CommandError::Failed { .. }) => {}
                quotas => all.extend(quotas?),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owners_with_a_quota_count() {
        let text = "0\t1048576\tnone\n999\t900\t1000\n1000\t5\t-\n1001\t5\t0\nS-1-5-21\t5\t7\n";
        let quota = OwnerQuota { kind: QuotaKind::User, id: 999, used: 900, quota: 1000 };
        assert_eq!(parse_quotas(text, QuotaKind::User).unwrap(), [quota]);
        assert!(parse_quotas("", QuotaKind::Group).unwrap().is_empty());
        assert!(parse_quotas("999\t900\n", QuotaKind::Group).is_err());
    }
}
