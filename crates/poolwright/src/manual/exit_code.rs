//! The exit codes of the program, with their documentation.

use poolwright_base::Exit;

/// Each exit code with its short meaning (for `--help`) and its full one (for the documentation).
pub const EXIT_CODES: [(u8, &str, &str); 6] = [
    (0, "done", "Success, even if the reader of standard output closed the pipe (`| head`)."),
    (
        Exit::Failed.code(),
        "the work failed",
        "The work failed, or standard output cannot be written. The message names the operation, the object, the cause and \
         a remedy. Also used if a check finds a problem: `pool status` in a pool, `backup verify` in a restored backup, `verify` in a \
         figure of the plan's goal. `check` follows the guidelines of Nagios plugins instead: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also if it fails).",
    ),
    (Exit::Usage.code(), "wrong usage", "Wrong arguments."),
    (
        Exit::Refused.code(),
        "refused for safety",
        "Refused for safety: creating a pool on a file that is not empty; opening a pool that a kernel, another host or another \
         process may have open; using a mount point that is in use or protected; destroying a dataset that has snapshots or \
         children (without `-r`); overwriting a file that Poolwright did not write; copying a database that a process has open for \
         writing; following a plan that is unsafe; or applying a plan to a running database, or to one for which it was not made.",
    ),
    (
        Exit::NothingToChange.code(),
        "done, but there is nothing to change",
        "Done, but there is nothing to change. `tune` and `confirm`: no setting is better than today's beyond noise. `confirm`: also if \
         the recommended settings do not meet a requirement. `apply` and `verify`: the plan recommends no change.",
    ),
    (Exit::Interrupted.code(), "interrupted", "Interrupted by Ctrl-C or SIGTERM."),
];

/// The exit codes in one sentence, for the end of the help.
pub fn summary() -> String {
    let codes: Vec<String> =
        EXIT_CODES.iter().map(|(code, meaning, _)| format!("{code} {meaning}")).collect();
    format!("Exit codes: {}.", codes.join("; "))
}
