//! A limit for the memory of processes and of the page cache that they fill: a control group (`cgroups(7)`) of version 2, or 1.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use crate::mountinfo;

/// A control group for memory.
#[derive(Debug)]
pub struct MemoryGroup {
    dir: PathBuf,
    files: &'static Files,
}

/// The names of the files of a version.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    /// Limits swapping; not every kernel has it.
    swap: &'static str,
    usage: &'static str,
    /// Has a line `oom_kill NUMBER`.
    events: &'static str,
}

const V2: Files =
    Files { limit: "memory.max", swap: "memory.swap.max", usage: "memory.current", events: "memory.events" };
const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: "memory.swappiness",
    usage: "memory.usage_in_bytes",
    events: "memory.oom_control",
};

impl MemoryGroup {
    /// The group of this process.
    ///
    /// # Errors
    /// If no hierarchy with the memory controller is mounted, or the group of the process is not in the mounted part.
    pub fn current() -> Result<MemoryGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = mountinfo::table()?;
        let (name, files) = memory_line(&groups).ok_or_else(unsupported)?;
        let is_of_version = |mount: &&mountinfo::MountEntry| match files.limit == V2.limit {
            true => mount.file_system == "cgroup2",
            false => mount.file_system == "cgroup" && mount.point.join(V1.usage).exists(),
        };
        let mount = mounts.iter().find(is_of_version).ok_or_else(unsupported)?;
        // In a container, the root of the mount may be the group itself.
        let below = Path::new(name).strip_prefix(&mount.root).map_err(|_| unsupported())?;
        let dir = mount.point.join(below);
        if dir.is_dir() { Ok(MemoryGroup { dir, files }) } else { Err(unsupported()) }
    }

    /// Creates a group with a limit in bytes, without swap. An empty group of this name, which a killed process has left, is replaced.
    ///
    /// # Errors
    /// If the process has no right to create one: as a rule, it requires root.
    pub fn create(name: &str, limit: u64) -> Result<MemoryGroup> {
        let own = MemoryGroup::current()?;
        let parent = own.parent_for_new().ok_or_else(unsupported)?;
        let dir = parent.join(name);
        let _ = fs::remove_dir(&dir);
        fs::create_dir(&dir)?;
        let group = MemoryGroup { dir, files: own.files };
        group.write(own.files.limit, &limit.to_string())?;
        // Kernels without swap accounting do not have this file.
        let _ = group.write(own.files.swap, "0");
        Ok(group)
    }

    /// The directory in which a group for memory can be created. In version 2, a group with processes has no groups with controllers
    /// below it, so it is the nearest one above that has.
    fn parent_for_new(&self) -> Option<PathBuf> {
        if self.files.limit != V2.limit {
            return Some(self.dir.clone());
        }
        let has_memory = |dir: &&Path| {
            let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "memory")
        };
        self.dir.ancestors().skip(1).find(has_memory).map(Path::to_owned)
    }

    /// Moves a process into the group; the processes that it starts are in it, too.
    ///
    /// # Errors
    /// If the process has ended, or this one has no right to move it.
    pub fn add(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// The memory in use, in bytes, with the page cache.
    pub fn usage(&self) -> Option<u64> {
        fs::read_to_string(self.dir.join(self.files.usage)).ok()?.trim().parse().ok()
    }

    /// The number of processes that the kernel has killed because of the limit.
    pub fn killed(&self) -> u64 {
        let events = fs::read_to_string(self.dir.join(self.files.events)).unwrap_or_default();
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Removes the group. Its processes have ended.
    ///
    /// # Errors
    /// If a process is left in it.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir(&self.dir)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.dir.join(file), text)
    }
}

/// The group for memory in a file `/proc/PID/cgroup`: of version 1 if it has a line for memory, else of version 2.
fn memory_line(groups: &str) -> Option<(&str, &'static Files)> {
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
    let v2 = || lines().find(|(controllers, _)| controllers.is_empty());
    v1.map(|(_, group)| (group, &V1)).or_else(|| v2().map(|(_, group)| (group, &V2)))
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "no control group for memory can be created here")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn groups_of_both_versions() {
        let found = |text| memory_line(text).map(|(group, files)| (group, files.limit));
        assert_eq!(found("0::/user.slice/a:b.scope\n"), Some(("/user.slice/a:b.scope", V2.limit)));
        assert_eq!(found("9:cpu,memory:/x\n0::/y\n"), Some(("/x", V1.limit)));
        assert_eq!(found("5:cpuacct:/\n"), None);
    }

    #[test]
    fn a_process_over_the_limit_is_killed_and_counted() {
        let name = format!("poolwright-test-{}", std::process::id());
        let group = match MemoryGroup::create(&name, 32 << 20) {
            Ok(group) => group,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        // It waits for a line before it uses memory, so that all of it is counted.
        let mut child = Command::new("sh")
            .args(["-c", "read line; head -c $line /dev/zero | tail -c $line | wc -c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        group.add(child.id()).unwrap();
        assert!(group.usage().unwrap() < 32 << 20);
        assert_eq!(group.killed(), 0);
        writeln!(child.stdin.take().unwrap(), "{}", 256 << 20).unwrap();
        child.wait().unwrap();
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert_ne!(printed.trim(), (256 << 20).to_string());
        assert!(group.killed() >= 1);
        group.remove().unwrap();
    }
}
