//! The program that unmounts FUSE file systems.

use std::path::Path;
use std::process::{Command, Stdio};

/// The command that unmounts a directory: `umount` for root, `fusermount3` for others, who may not use the system call. `lazily`: the
/// mount disappears at once, and ends when the last program stops using it. It reads nothing.
pub fn unmount_command(dir: &Path, lazily: bool) -> Command {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "umount" } else { "fusermount3" });
    command.args((!is_root).then_some("-u"));
    command.args(lazily.then_some(if is_root { "-l" } else { "-z" }));
    command.arg(dir).stdin(Stdio::null());
    command
}
