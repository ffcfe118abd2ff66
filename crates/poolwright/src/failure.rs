//! Exit codes, and the message of a verb that failed.
//!
//! A failure is an [`anyhow::Error`]: a chain of causes, the outermost first. Markers in the chain
//! select the exit code ([`Usage`], [`Refused`]); hints ([`hint`]) are printed on lines of their own.

use std::fmt;

use crate::interrupt;

/// The work failed.
const FAILED: u8 = 1;
/// The arguments are wrong.
const USAGE: u8 = 2;
/// The program refused for safety.
const REFUSED: u8 = 3;
/// No setting is better than today's beyond noise.
pub const NOTHING_BETTER: u8 = 4;
/// The user interrupted the program.
const INTERRUPTED: u8 = 130;

/// Each exit code with its short meaning (for `--help`) and its full one (for the documentation).
pub const EXIT_CODES: [(u8, &str, &str); 6] = [
    (0, "done", "Done. Also if the reader of standard output closed the pipe (`| head`)."),
    (
        FAILED,
        "the work failed",
        "The work failed, or standard output cannot be written. The message says what failed, on which object, why, and what to \
         do. `tune --repeat`: the new run recommends other settings than the plan. `pool status`: a pool has a problem.",
    ),
    (USAGE, "wrong usage", "Wrong arguments."),
    (
        REFUSED,
        "refused for safety",
        "Refused for safety: creating a pool on a file that is not empty, using a pool or a mount point that is in use, mounting \
         over a protected directory, replacing a file that Poolwright did not make, or copying a database that a process has \
         open for writing.",
    ),
    (
        NOTHING_BETTER,
        "done, but no setting is better than today's beyond noise",
        "`tune` and `confirm`: done, but no setting is better than today's beyond noise. `confirm`: also if a requirement is \
         missed.",
    ),
    (INTERRUPTED, "interrupted", "Interrupted by Ctrl-C or SIGTERM."),
];

/// Starts a line that tells the user what to do, in a message of its own or at the end of one.
const HINT: &str = "hint: ";

/// Marks an error as wrong usage: exit code 2.
#[derive(Debug)]
pub struct Usage;

/// Marks an error as a refusal for safety: exit code 3.
#[derive(Debug)]
pub struct Refused;

impl fmt::Display for Usage {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

/// A context that tells the user what to do about an error.
pub fn hint(todo: impl fmt::Display) -> String {
    format!("{HINT}{todo}")
}

/// The exit code of a verb that failed.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if interrupt::requested() {
        INTERRUPTED
    } else if error.downcast_ref::<Usage>().is_some() || error.chain().any(is_invalid) {
        USAGE
    } else if error.downcast_ref::<Refused>().is_some() || error.chain().any(is_refusal) {
        REFUSED
    } else {
        FAILED
    }
}

/// Whether a library refused: to replace a file, or to open a pool.
fn is_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(poolwright_trace::Error::NotOverwritten { .. }))
        || is_output_refusal(cause)
        || is_pool_refusal(cause)
}

/// Whether this is a refusal to replace a user's file by an output.
fn is_output_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref().is_some_and(poolwright_host::output::Error::is_refusal)
}

/// Whether this is a refusal to open, change or mount a pool.
fn is_pool_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref().is_some_and(poolwright_openzfs::Error::is_refusal)
        || cause.downcast_ref().is_some_and(poolwright_userpool::Error::is_refusal)
        || cause.downcast_ref().is_some_and(poolwright_poolserver::Error::is_refusal)
}

/// Whether this is an invalid request to a pool, or an invalid output.
fn is_invalid(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref().is_some_and(poolwright_host::output::Error::is_invalid)
        || cause.downcast_ref().is_some_and(poolwright_userpool::Error::is_invalid)
        || cause.downcast_ref().is_some_and(poolwright_poolserver::Error::is_invalid)
}

/// Whether a pool was not opened because its label says that another host has it open.
fn is_not_exported(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref().is_some_and(poolwright_openzfs::Error::is_not_exported)
        || cause.downcast_ref().is_some_and(poolwright_userpool::Error::is_not_exported)
        || cause.downcast_ref().is_some_and(poolwright_poolserver::Error::is_not_exported)
}

/// The message on standard error: what failed, its causes, then the hints, a line each.
pub fn message(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let (mut message, mut hints) = join(&parts);
    if error.chain().any(is_not_exported) {
        hints.push(hint(
            "make sure that no virtual machine and no other host has the pool open, then use --force",
        ));
    }
    let is_output_refusal = error.chain().any(is_output_refusal);
    if is_output_refusal {
        hints.push(hint("name another file, or use --force to replace this one"));
    }
    if (is_output_refusal || error.chain().any(is_pool_refusal)) && !message.starts_with("refused") {
        message.insert_str(0, "refused: ");
    }
    let mut lines = vec![format!("poolwright: {message}")];
    lines.extend(hints);
    lines.join("\n")
}

/// Joins the causes and collects the hints. Omits a cause, or its first words, if the part before it already quotes them.
fn join(parts: &[String]) -> (String, Vec<String>) {
    let mut message = String::new();
    let mut hints: Vec<String> = Vec::new();
    for part in parts {
        let mut words = Vec::new();
        for line in part.lines() {
            if !line.starts_with(HINT) {
                words.push(line);
            } else if !hints.iter().any(|known| known == line) {
                hints.push(line.to_owned());
            }
        }
        let words = words.join("\n");
        let new = match words.split_once(": ") {
            Some((subject, rest)) if ends_with_words(&message, subject) => rest,
            _ => words.as_str(),
        };
        if new.is_empty() || message.contains(new) {
            continue;
        }
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(new);
    }
    (message, hints)
}

/// Whether the text ends with these words, as whole words.
fn ends_with_words(text: &str, words: &str) -> bool {
    text.strip_suffix(words).is_some_and(|before| before.is_empty() || before.ends_with([' ', ':', '(']))
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    fn shown(parts: &[&str]) -> String {
        join(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>()).0
    }

    #[test]
    fn a_cause_is_said_once() {
        let absent = "No such file or directory (os error 2)";
        assert_eq!(shown(&["cannot open t", absent]), format!("cannot open t: {absent}"));
        let quoted = format!("cannot open t: {absent}");
        assert_eq!(shown(&[&quoted, absent]), quoted);
        assert_eq!(
            shown(&["-o recordsize=5K", "recordsize=5K: not a power of two"]),
            "-o recordsize=5K: not a power of two"
        );
        // Only where the same thing is meant.
        assert_eq!(shown(&["copying data", "a: too long"]), "copying data: a: too long");
        assert_eq!(shown(&["opening /x/a", "a: too long"]), "opening /x/a: a: too long");
    }

    #[test]
    fn hints_come_last_and_markers_give_the_code() {
        let error = anyhow!("it exists\nhint: name another file").context("writing p").context(Refused);
        assert_eq!(message(&error), "poolwright: refused: writing p: it exists\nhint: name another file");
        assert_eq!(exit_code(&error), REFUSED);
        let error = Err::<(), _>(anyhow!("no such file")).context(hint("create it")).context("reading p");
        let error = error.context(hint("create it")).context(Usage).unwrap_err();
        assert_eq!(message(&error), "poolwright: reading p: no such file\nhint: create it");
        assert_eq!(exit_code(&error), USAGE);
        assert_eq!(exit_code(&anyhow!("broken")), FAILED);
    }
}
