//! A pool that can be imported, in the form of `zpool import`.

use poolwright_zfs::user::LockOwner;
use poolwright_zfs::user::label::{FoundPool, State, Vdev};

/// Renders a pool that was found by the labels of its files. `user` is the process that has it open.
pub fn text(found: &FoundPool, user: Option<&LockOwner>) -> String {
    let host = found.host.as_ref().map_or_else(String::new, |host| format!(" (on host {host})"));
    let state = match (found.state, user) {
        (_, Some(user)) => format!("in use by process {} ({})", user.pid, user.command),
        (State::Active, None) => format!("not exported by its last user{host}"),
        (State::Exported, None) => "exported".to_owned(),
        (State::Destroyed, None) => "destroyed".to_owned(),
        (State::Spare | State::Cache, None) => "no pool of its own".to_owned(),
    };
    let mut out = format!("  pool: {}\n    id: {}\n state: {state}\nconfig:\n", found.pool, found.guid);
    for (depth, vdev) in found.vdevs.iter().flat_map(Vdev::walk) {
        let missing = match &vdev.path {
            Some(path) if vdev.children.is_empty() && found.missing.contains(path) => "  (missing)",
            _ => "",
        };
        out.push_str(&format!("\t{}{}{missing}\n", "  ".repeat(1 + depth), vdev.title()));
    }
    for cache in &found.cache {
        out.push_str(&format!("\t  {} (cache)\n", cache.display()));
    }
    for spare in &found.spares {
        out.push_str(&format!("\t  {} (spare)\n", spare.display()));
    }
    if found.missing_tops > 0 {
        out.push_str(&format!("\t  and {} vdevs that are in none of these files\n", found.missing_tops));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_and_the_last_host_are_shown() {
        let leaf = |path: &str| Vdev { kind: "file".into(), path: Some(path.into()), ..Vdev::default() };
        let found = FoundPool {
            pool: "tank".into(),
            guid: 7,
            state: State::Active,
            host: Some("far".into()),
            txg: 1,
            files: vec!["/a".into()],
            vdevs: vec![leaf("/a"), leaf("/b")],
            guids: [].into(),
            cache: Vec::new(),
            spares: vec!["/s".into()],
            missing: vec!["/b".into()],
            missing_tops: 1,
        };
        let text = text(&found, None);
        assert!(text.contains(" state: not exported by its last user (on host far)\n"), "{text}");
        assert!(text.contains("/b  (missing)\n") && !text.contains("/a  (missing)"), "{text}");
        assert!(text.contains("\t  /s (spare)\n"), "{text}");
        assert!(text.ends_with("\t  and 1 vdevs that are in none of these files\n\n"), "{text}");
    }
}
