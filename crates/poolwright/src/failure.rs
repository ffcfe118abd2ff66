//! The exit code, and the message of a verb that failed.
//!
//! A failure is an [`anyhow::Error`]: a chain of causes, the outermost first. A library's error provides its exit code and its hint
//! ([`ReportedError`]); a verb adds a marker ([`Usage`], [`Refused`]) or a hint ([`hint`]) where it knows more. Each hint is printed on a
//! separate line.

use std::error::Error;
use std::fmt;

use poolwright_base::{Exit, ReportedError};

use crate::interrupt;

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

/// Returns an error in a chain of causes as one that says how it is reported.
type AsReported = for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a dyn ReportedError>;

/// [`AsReported`] for one type.
fn downcast<'a, E: ReportedError + 'static>(
    cause: &'a (dyn Error + 'static),
) -> Option<&'a dyn ReportedError> {
    cause.downcast_ref::<E>().map(|error| error as &dyn ReportedError)
}

/// The errors of the libraries. One that wraps another error is transparent, so that only the outer one is in the chain.
const REPORTED: [AsReported; 17] = [
    downcast::<poolwright_apply::Error>,
    downcast::<poolwright_backup::Error>,
    downcast::<poolwright_confirm::Error>,
    downcast::<poolwright_estimate::Error>,
    downcast::<poolwright_base::output::Error>,
    downcast::<poolwright_inspect::Error>,
    downcast::<poolwright_lab::Error>,
    downcast::<poolwright_monitor::Error>,
    downcast::<poolwright_mount::server::Error>,
    downcast::<poolwright_mrc::analysis::Error>,
    downcast::<poolwright_openzfs::Error>,
    downcast::<poolwright_record::Error>,
    downcast::<poolwright_replay::Error>,
    downcast::<poolwright_trace::Error>,
    downcast::<poolwright_tune::Error>,
    downcast::<poolwright_verify::Error>,
    downcast::<poolwright_zfs::user::Error>,
];

/// The errors of the libraries in the chain, the outermost first.
fn reported(error: &anyhow::Error) -> impl Iterator<Item = &dyn ReportedError> {
    error.chain().filter_map(|cause| REPORTED.iter().find_map(|downcast| downcast(cause)))
}

/// The exit code of a verb that failed.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let has = |exit| reported(error).any(|one| one.exit() == exit);
    let exit = if interrupt::requested() {
        Exit::Interrupted
    } else if error.is::<Usage>() || has(Exit::Usage) {
        Exit::Usage
    } else if error.is::<Refused>() || has(Exit::Refused) {
        Exit::Refused
    } else {
        Exit::Failed
    };
    exit.code()
}

/// The message on standard error: what failed, its causes, then the hints, a line each.
pub fn message(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let (mut message, mut hints) = join(&parts);
    for todo in reported(error).filter_map(ReportedError::hint).map(hint) {
        if !hints.contains(&todo) {
            hints.push(todo);
        }
    }
    let is_refusal = reported(error).any(|one| one.exit() == Exit::Refused);
    if is_refusal && !parts.iter().any(|part| says_that_it_refuses(part)) && !message.starts_with("refused") {
        message.insert_str(0, "refused: ");
    }
    let mut lines = vec![format!("poolwright: {message}")];
    lines.extend(hints);
    lines.join("\n")
}

/// Whether a message needs no "refused" before it.
fn says_that_it_refuses(message: &str) -> bool {
    ["refusing to", "will not"].iter().any(|words| message.starts_with(words))
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
    fn a_library_error_is_followed_by_the_flags_that_help() {
        let small = || poolwright_replay::Error::SampleTooSmall { max: 1, touched: 4096 };
        let expected = "poolwright: a sample of 1B of the 4K that the trace touches contains no reads or writes\n\
                        hint: raise --sample-bytes";
        assert_eq!(message(&small().into()), expected);
        assert_eq!(
            message(&poolwright_tune::Error::from(small()).into()),
            expected,
            "also within another error"
        );

        let used = || poolwright_lab::Error::Locked { path: "/s".into(), holder: "7".to_owned() };
        let expected = "poolwright: /s is in use by another run (process 7)\n\
                        hint: wait until that run ends, or choose another directory with --scratch";
        assert_eq!(message(&used().into()), expected);
        assert_eq!(message(&poolwright_confirm::Error::from(used()).into()), expected);

        let unknown = || poolwright_zfs::user::Error::Unknown("tank".to_owned());
        let expected = "poolwright: no such pool: \"tank\"\n\
                        hint: name its files with --pool-file, or run `poolwright pool import tank FILE…` first";
        assert_eq!(message(&unknown().into()), expected);
        assert_eq!(message(&poolwright_mount::server::Error::from(unknown()).into()), expected);
    }

    #[test]
    fn only_a_run_of_the_lab_can_measure_a_directory() {
        let hints = |error: anyhow::Error| message(&error).matches("--target").count();
        assert_eq!(hints(poolwright_lab::Error::NoHelper.into()), 1);
        assert_eq!(hints(poolwright_confirm::Error::from(poolwright_lab::Error::NoHelper).into()), 0);
    }

    #[test]
    fn hints_come_last_and_markers_give_the_code() {
        let error = anyhow!("it exists\nhint: name another file").context("writing p").context(Refused);
        assert_eq!(message(&error), "poolwright: refused: writing p: it exists\nhint: name another file");
        assert_eq!(exit_code(&error), Exit::Refused.code());
        let error = Err::<(), _>(anyhow!("no such file")).context(hint("create it")).context("reading p");
        let error = error.context(hint("create it")).context(Usage).unwrap_err();
        assert_eq!(message(&error), "poolwright: reading p: no such file\nhint: create it");
        assert_eq!(exit_code(&error), Exit::Usage.code());
        assert_eq!(exit_code(&anyhow!("broken")), Exit::Failed.code());
    }
}
