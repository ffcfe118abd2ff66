//! Whether there is enough space for the copies.

use std::collections::BTreeMap;

use poolwright_base::units::format_size;
use poolwright_zfs::kernel::command::quota::{OwnerQuota, QuotaKind};

use super::{Assessment, DatasetAssessment};
use crate::Result;
use crate::error::refused;

/// Space that must stay free in addition to that of the copies, in bytes.
pub const RESERVE: u64 = 64 << 20;

/// The quota of a user or a group that is too small for its rewritten files. While they are copied, the copies belong to root; when they
/// replace the files, they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShortQuota {
    quota: OwnerQuota,
    /// How much more its files are expected to take, in bytes.
    more: u64,
}

impl ShortQuota {
    /// Whether a quota is too small. `by_owner` is the allocated space of the files to rewrite by user and group, `change` the share by which
    /// that is expected to grow.
    pub fn of(quota: OwnerQuota, by_owner: &BTreeMap<(u32, u32), u64>, change: f64) -> Option<ShortQuota> {
        let is_of = |(user, group): &(u32, u32)| match quota.kind {
            QuotaKind::User => *user == quota.id,
            QuotaKind::Group => *group == quota.id,
        };
        let files: u64 = by_owner.iter().filter(|(owner, _)| is_of(owner)).map(|(_, bytes)| bytes).sum();
        let more = (files as f64 * change) as u64;
        // OpenZFS gives no file to an owner whose quota is used up.
        let is_short = files > 0 && quota.used.saturating_add(more) >= quota.quota;
        is_short.then_some(ShortQuota { quota, more })
    }

    fn describe(&self, dataset: &str) -> String {
        let (owner, property) = match self.quota.kind {
            QuotaKind::User => ("user", "userquota"),
            QuotaKind::Group => ("group", "groupquota"),
        };
        let OwnerQuota { id, used, quota, .. } = self.quota;
        format!(
            "{owner} {id} may use {} in {dataset} and uses {}, and the rewritten files take about {} more\nhint: raise {property}@{id}, or \
             remove it until the plan is applied",
            format_size(quota),
            format_size(used),
            format_size(self.more)
        )
    }
}

impl Assessment {
    /// Refuses if there is not enough space for the copies.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check_space(&self) -> Result<()> {
        let needed = |of: &DatasetAssessment| {
            // Datasets of one pool share its space.
            let pool = poolwright_zfs::datasets::pool_of(&of.dataset);
            let same_pool = self
                .datasets
                .iter()
                .filter(|other| poolwright_zfs::datasets::pool_of(&other.dataset) == pool);
            same_pool.map(|other| other.needed).sum::<u64>().saturating_add(RESERVE)
        };
        if let Some((of, short)) = self.datasets.iter().find_map(|of| Some((of, of.short_quota?))) {
            return refused(short.describe(&of.dataset));
        }
        let short = self.datasets.iter().find(|of| of.needed > 0 && of.available < needed(of));
        short.map_or(Ok(()), |of| {
            refused(format!(
                "{} has {} available, and the copies of its files need about {} while the old blocks are kept\nhint: free \
                 space, or destroy unneeded snapshots",
                of.dataset,
                format_size(of.available),
                format_size(needed(of))
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_the_owners_of_files_must_suffice() {
        const M: u64 = 1 << 20;
        let by_owner = BTreeMap::from([((7, 70), 100 * M), ((7, 71), 20 * M), ((8, 71), 50 * M)]);
        let quota = |kind, id, used, quota| OwnerQuota { kind, id, used: used * M, quota: quota * M };
        let short = |of, change| ShortQuota::of(of, &by_owner, change).map(|short| short.more / M);
        let user = quota(QuotaKind::User, 7, 120, 150);
        assert_eq!((short(user, 0.2), short(user, 0.3)), (None, Some(36)));
        assert_eq!(short(quota(QuotaKind::Group, 71, 120, 150), 0.4), None, "its files are smaller");
        assert_eq!(short(quota(QuotaKind::Group, 71, 120, 150), 0.5), Some(35));
        assert_eq!(short(quota(QuotaKind::User, 8, 150, 150), 0.0), Some(0), "it is used up");
        assert_eq!(short(quota(QuotaKind::User, 9, 150, 150), 0.5), None, "it has no files to rewrite");
        let text = ShortQuota::of(user, &by_owner, 0.5).unwrap().describe("tank/db");
        assert!(
            text.starts_with("user 7 may use 150M in tank/db and uses 120M") && text.contains("userquota@7")
        );
    }
}
