//! The exit codes of the program, and what the documentation says of each.

/// The work failed.
pub const FAILED: u8 = 1;
/// The arguments are wrong.
pub const USAGE: u8 = 2;
/// The program refused for safety.
pub const REFUSED: u8 = 3;
/// No setting is better than today's beyond noise.
pub const NOTHING_BETTER: u8 = 4;
/// The user interrupted the program.
pub const INTERRUPTED: u8 = 130;

/// Each exit code with its short meaning (for `--help`) and its full one (for the documentation).
pub const EXIT_CODES: [(u8, &str, &str); 6] = [
    (0, "done", "Done. Also if the reader of standard output closed the pipe (`| head`)."),
    (
        FAILED,
        "the work failed",
        "The work failed, or standard output cannot be written. The message says what failed, on which object, why, and what to \
         do. `pool status`: a pool has a problem. `check` \
         follows the guidelines of Nagios plugins instead: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, also if it fails.",
    ),
    (USAGE, "wrong usage", "Wrong arguments."),
    (
        REFUSED,
        "refused for safety",
        "Refused for safety: creating a pool on a file that is not empty; opening a pool that a kernel, another host or another \
         process may have open; using a mount point that is in use or protected; destroying a dataset that has snapshots or \
         children (without `-r`); replacing a file that Poolwright did not make; copying a database that a process has open for \
         writing; following a plan that is unsafe; or applying one to a database that runs, or for which it was not made.",
    ),
    (
        NOTHING_BETTER,
        "done, but no setting is better than today's beyond noise",
        "`tune` and `confirm`: done, but no setting is better than today's beyond noise. `confirm`: also if a requirement is \
         missed. `apply`, `verify`: the plan recommends no change. `verify`: also if a promise of the plan's goal is not kept. `backup \
         verify`: a check of a restored backup failed.",
    ),
    (INTERRUPTED, "interrupted", "Interrupted by Ctrl-C or SIGTERM."),
];

/// The exit codes in one sentence, for the end of the help.
pub fn summary() -> String {
    let codes: Vec<String> =
        EXIT_CODES.iter().map(|(code, meaning, _)| format!("{code} {meaning}")).collect();
    format!("Exit codes: {}.", codes.join("; "))
}
