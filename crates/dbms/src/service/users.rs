//! The programs that use the files of a database, and messages about them.

use std::path::{Path, PathBuf};

use poolwright_base::kernel_users::{self, KernelUser};
use poolwright_base::process::is_in_initial_pid_namespace;
use poolwright_base::quoted;
use poolwright_base::writers::{Writer, find_writers, find_writers_of_mounts};

use super::Service;
use crate::Result;
use crate::error::refused;

/// How many users a message names.
const NAMED: usize = 5;

/// Possible writers of a database's files: processes, those of the database first, and parts of the kernel.
#[derive(Clone, Debug, Default)]
pub struct FileUsers {
    /// Processes that have a file open for writing.
    pub writers: Vec<Writer>,
    /// Parts of the kernel.
    pub kernel: Vec<KernelUser>,
}

impl FileUsers {
    /// Finds the users of the files of these mount points.
    pub fn of(roots: &[PathBuf]) -> FileUsers {
        FileUsers { writers: find_writers_of_mounts(roots), kernel: kernel_users::find(roots) }
    }

    /// Finds the users of the files below these directories, which need not be mount points.
    pub fn below(roots: &[PathBuf]) -> FileUsers {
        FileUsers { writers: find_writers(roots), kernel: kernel_users::find(roots) }
    }

    /// Refuses if there are any.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused).
    pub fn check(&self, service: &Service) -> Result<()> {
        if self.is_empty() { Ok(()) } else { refused(self.describe(service)) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writers.is_empty() && self.kernel.is_empty()
    }

    /// Names them, and advises the user.
    pub fn describe(&self, service: &Service) -> String {
        // The writers of the database's own unit come first.
        let mut writers: Vec<(&Writer, Option<String>)> =
            self.writers.iter().map(|of| (of, unit_of(of.pid))).collect();
        writers.sort_by_key(|(_, unit)| unit.is_none() || !service.is_unit(unit.as_deref()));
        let processes = writers.iter().map(|(of, _)| {
            let Writer { pid, name, path } = of;
            format!("{name} (process {pid}) has {} open for writing", quoted(path))
        });
        let others = self.kernel.iter().map(|of| format!("{} is a {}", quoted(&of.path), of.name));
        let all: Vec<String> = processes.chain(others).collect();
        let mut text = all[..all.len().min(NAMED)].join("; ");
        if all.len() > NAMED {
            text.push_str(&format!("; and {} more", all.len() - NAMED));
        }
        let todo = match writers.first() {
            None => "end this use of the files, with swapoff, losetup -d or exportfs -u".to_owned(),
            Some(_) if service.is_known() => match writers.iter().find_map(|(_, unit)| unit.as_ref()) {
                Some(unit) => format!("stop it too; its unit is {unit}"),
                None => "stop it too".to_owned(),
            },
            Some((_, Some(unit))) => format!("stop it, or have it stopped and started: its unit is {unit}"),
            Some((_, None)) => "stop it, or name the commands that stop and start it".to_owned(),
        };
        format!("{text}\nhint: {todo}")
    }
}

/// Refuses if anything may write files of these mount points.
///
/// # Errors
/// [`Error::Refused`](crate::Error::Refused).
pub fn check_unused(service: &Service, roots: &[PathBuf]) -> Result<()> {
    FileUsers::of(roots).check(service)
}

/// Refuses in a PID namespace: `/proc` shows only its processes, and others may write the database's files.
///
/// # Errors
/// [`Error::Refused`](crate::Error::Refused).
pub fn check_namespace() -> Result<()> {
    if is_in_initial_pid_namespace() {
        return Ok(());
    }
    refused(
        "this process is in a PID namespace (such as a container's), and cannot see the host's other processes, which may write \
         to the database's files\nhint: run it on the host, or in a container that shares the PID namespace of the host",
    )
}

/// The systemd service that a process belongs to.
pub fn unit_of(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("cgroup")).ok()?;
    unit_in(&text)
}

/// The service in a file `/proc/PID/cgroup` (`cgroups(7)`). Not the service that contains a whole session or container.
fn unit_in(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
    (!unit.starts_with("user@")).then(|| unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_processes() {
        let unit = |text: &str| unit_in(text);
        assert_eq!(
            unit("0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n").as_deref(),
            Some("postgresql@15-main.service")
        );
        assert_eq!(unit("0::/user.slice/user-0.slice/user@0.service/app.slice/run.scope\n"), None);
        assert_eq!(unit("0::/\n"), None);
        assert_eq!(unit(""), None);
    }

    #[test]
    fn all_users_are_named_briefly() {
        let writer = |pid: i32| Writer { pid, name: "db".to_owned(), path: format!("/m/{pid}").into() };
        let kernel = vec![KernelUser { name: "loop device loop0".to_owned(), path: "/m/an image".into() }];
        let users = FileUsers { writers: vec![writer(-1), writer(-2)], kernel };
        assert_eq!(
            users.describe(&Service::None),
            "db (process -1) has /m/-1 open for writing; db (process -2) has /m/-2 open for writing; \"/m/an image\" is a loop device \
             loop0\nhint: stop it, or name the commands that stop and start it"
        );
        let many = FileUsers { writers: (1..=7).map(|n| writer(-n)).collect(), kernel: Vec::new() };
        assert!(many.describe(&Service::None).contains("/m/-5 open for writing; and 2 more\n"));
        let commands = Service::Commands { stop: String::new(), start: String::new() };
        assert!(many.describe(&commands).ends_with("hint: stop it too"));
    }
}
