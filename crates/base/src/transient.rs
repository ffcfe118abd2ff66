//! Files, directories and child processes that must not outlive this process. A second Ctrl-C ends the process without
//! running destructors; [`remove_all`] cleans up instead.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::sweep::sweep;

static ITEMS: Mutex<Items> = Mutex::new(Items { next: 0, all: Vec::new() });

struct Items {
    next: u64,
    all: Vec<(u64, Item)>,
}

#[derive(Debug)]
enum Item {
    /// A file or directory to remove.
    Path(PathBuf),
    /// A child process to kill.
    Child(OwnedFd),
    /// A parent directory and prefix: scratch directories of ended processes to remove.
    Scratch(PathBuf, &'static str),
}

fn items() -> MutexGuard<'static, Items> {
    ITEMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers an item for [`remove_all`] until it is dropped. Dropping it removes nothing else.
#[derive(Debug)]
pub struct Transient(u64);

impl Transient {
    /// Registers a file or directory to remove.
    pub fn new(path: &Path) -> Transient {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Transient::register(Item::Path(path))
    }

    /// Registers a child process to kill before anything is removed. `None` if it has ended or the kernel lacks pidfds.
    pub fn child(id: u32) -> Option<Transient> {
        let pid = Pid::from_raw(i32::try_from(id).ok()?)?;
        Some(Transient::register(Item::Child(pidfd_open(pid, PidfdFlags::empty()).ok()?)))
    }

    /// Registers the scratch directories in `parent` whose process has ended by then, such as those of a child.
    pub fn scratch(parent: &Path, prefix: &'static str) -> Transient {
        Transient::register(Item::Scratch(parent.to_owned(), prefix))
    }

    fn register(item: Item) -> Transient {
        let mut items = items();
        let id = items.next;
        items.next += 1;
        items.all.push((id, item));
        Transient(id)
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        items().all.retain(|(id, _)| *id != self.0);
    }
}

/// Kills and removes all registered items, before the process ends without running destructors. Afterwards, threads that
/// register or drop an item block until the process ends.
pub fn remove_all() {
    let items = items();
    for (_, item) in &items.all {
        if let Item::Child(child) = item {
            kill(child);
        }
    }
    for (_, item) in &items.all {
        match item {
            Item::Child(_) => {}
            Item::Scratch(parent, prefix) => drop(sweep(parent, prefix)),
            Item::Path(path) => persistently_remove(path),
        }
    }
    std::mem::forget(items);
}

fn kill(child: &OwnedFd) {
    const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    if pidfd_send_signal(child, Signal::KILL).is_ok() {
        // Readable once the process has ended.
        let _ = poll(&mut [PollFd::new(child, PollFlags::IN)], Some(&PATIENCE));
    }
}

/// Removes a path, retrying because another thread may still be creating files there.
fn persistently_remove(path: &Path) {
    const ATTEMPTS: u32 = 20;
    for _ in 0..ATTEMPTS {
        if remove(path).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
    }
}
