//! Selects the roles that are raced. Roles whose files share a directory would share a dataset and its settings:
//! they are replayed together, and one race decides for all of them.

use poolwright_trace::layout::Role;
/// A group is not raced if it has less than this share of both the operations and the bytes of the trace
/// (docs/method.md, "What is tried").
const NEGLIGIBLE: f64 = 0.01;

/// The load on one role in the recording.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub role: Role,
    /// Directory on which its dataset would be mounted.
    pub mountpoint: String,
    /// Number of reads, writes and syncs.
    pub ops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Whether the capture contains bytes of the role; without any, there is nothing to replay.
    pub captured: bool,
}

/// Roles that share a directory and are replayed together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// Directory on which their dataset would be mounted.
    pub mountpoint: String,
    /// The roles, the busiest first, `import` last. The first one determines the group's candidates, and the plan shows the
    /// evidence under it.
    pub roles: Vec<Role>,
}

/// The loads of all roles, with the recording's totals.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    all: Vec<Load>,
    ops: f64,
    bytes: f64,
}

impl Loads {
    pub fn new(all: Vec<Load>) -> Loads {
        let ops = all.iter().map(|l| l.ops).sum::<u64>().max(1) as f64;
        let bytes = all.iter().map(|l| l.bytes).sum::<u64>().max(1) as f64;
        Loads { all, ops, bytes }
    }

    /// Returns the share of these loads in the operations or in the bytes, whichever is larger.
    fn share(&self, loads: &[&Load]) -> f64 {
        let ops: u64 = loads.iter().map(|l| l.ops).sum();
        let bytes: u64 = loads.iter().map(|l| l.bytes).sum();
        (ops as f64 / self.ops).max(bytes as f64 / self.bytes)
    }

    /// Returns the groups that are worth a race, the busiest first.
    pub fn to_race(&self) -> Vec<Group> {
        let mut mountpoints: Vec<&str> = self.all.iter().map(|l| l.mountpoint.as_str()).collect();
        mountpoints.sort_unstable();
        mountpoints.dedup();
        let mut groups: Vec<(f64, Group)> = Vec::new();
        for mountpoint in mountpoints {
            let mut loads: Vec<&Load> =
                self.all.iter().filter(|l| l.mountpoint == mountpoint && l.captured).collect();
            // The file of an import may be the busiest, but what suits it does not suit the pages of the database beside it.
            let is_import = |load: &Load| load.role == Role::Import;
            loads.sort_by(|a, b| {
                is_import(a).cmp(&is_import(b)).then(self.share(&[b]).total_cmp(&self.share(&[a])))
            });
            let share = self.share(&loads);
            if share >= NEGLIGIBLE {
                let roles = loads.into_iter().map(|l| l.role).collect();
                groups.push((share, Group { mountpoint: mountpoint.to_owned(), roles }));
            }
        }
        groups.sort_by(|a, b| b.0.total_cmp(&a.0));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Explains why `role` has no trials under its own name.
    pub fn why_not(&self, role: Role, raced: &[Group]) -> String {
        let Some(load) = self.all.iter().find(|l| l.role == role) else { return String::new() };
        let group = raced.iter().find(|g| g.mountpoint == load.mountpoint);
        let lead = group.and_then(|g| g.roles.first());
        if let (Some(group), Some(lead)) = (group, lead)
            && group.roles.contains(&role)
        {
            return format!(
                "tried together with {lead}: both are in {} and would share a dataset; see the figures of {lead}",
                group.mountpoint
            );
        }
        let shared = lead.map_or_else(
            || "nothing is recommended".to_owned(),
            |lead| format!("these files share a dataset with {lead} and get its settings"),
        );
        if load.ops == 0 {
            return format!("no read, write or sync of these files was recorded; {shared}");
        }
        if !load.captured {
            return format!("only syncs of these files were recorded, no reads or writes; {shared}");
        }
        format!(
            "{} of {:.0} recorded reads, writes and syncs are too few to compare settings; {shared}",
            load.ops, self.ops
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(role: Role, mountpoint: &str, ops: u64, bytes: u64) -> Load {
        Load { role, mountpoint: mountpoint.into(), ops, bytes, captured: bytes > 0 }
    }

    #[test]
    fn a_log_beside_its_data_is_raced_with_it() {
        // SQLite: the log cannot leave the directory.
        let loads =
            Loads::new(vec![load(Role::Data, "/db", 9000, 40 << 20), load(Role::Wal, "/db", 919, 6 << 20)]);
        let raced = loads.to_race();
        assert_eq!(raced, [Group { mountpoint: "/db".into(), roles: vec![Role::Data, Role::Wal] }]);
        let why = loads.why_not(Role::Wal, &raced);
        assert!(why.starts_with("tried together with data") && !why.contains("too few"), "{why}");
    }

    #[test]
    fn directories_are_raced_apart_and_the_busiest_first() {
        let loads = Loads::new(vec![
            load(Role::Binlog, "/db", 3, 4096),
            load(Role::Data, "/db", 1000, 10 << 20),
            load(Role::Wal, "/db-wal", 5000, 20 << 20),
            load(Role::Temp, "/db-temp", 9, 8192),
            load(Role::Backup, "/db-backup", 0, 0),
            load(Role::Index, "/db-index", 400, 0),
        ]);
        let raced = loads.to_race();
        let roles: Vec<Vec<Role>> = raced.iter().map(|g| g.roles.clone()).collect();
        assert_eq!(roles, [vec![Role::Wal], vec![Role::Data, Role::Binlog]]);
        assert!(loads.why_not(Role::Temp, &raced).starts_with("9 of 6412 recorded reads"));
        assert!(loads.why_not(Role::Backup, &raced).starts_with("no read, write or sync"));
        assert!(loads.why_not(Role::Index, &raced).contains("only syncs"));
        assert!(loads.why_not(Role::Backup, &raced).ends_with("nothing is recommended"));
    }

    #[test]
    fn the_file_of_an_import_does_not_lead_the_data_beside_it() {
        let loads = Loads::new(vec![
            load(Role::Import, "/db", 9000, 90 << 20),
            load(Role::Data, "/db", 900, 9 << 20),
        ]);
        assert_eq!(loads.to_race()[0].roles, [Role::Data, Role::Import]);
    }

    #[test]
    fn small_roles_of_one_directory_count_together() {
        let mut all = vec![load(Role::Data, "/elsewhere", 1000, 1 << 20)];
        all.extend([Role::Other, Role::Temp].map(|role| load(role, "/db", 8, 8192)));
        let groups = Loads::new(all).to_race();
        assert_eq!(groups.len(), 2, "{groups:?}");
    }
}
