//! The exit code, and the message of a verb that failed.
//!
//! A failure is an [`anyhow::Error`]: a chain of causes, the outermost first. Markers in the chain
//! select the exit code ([`Usage`], [`Refused`]); hints ([`hint`]) are printed on lines of their own.

use std::collections::BTreeSet;
use std::fmt;

use crate::manual::exit_code::{FAILED, INTERRUPTED, REFUSED, USAGE};
use poolwright_plan::{PlanFileError, PlanRisk};
use poolwright_render::pool_hint::pool_hint;
use poolwright_zfs::user::FaultKind;

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

/// Whether an error of one of these types says so.
macro_rules! says {
    ($cause:expr, $method:ident: $($error:ty),+) => {
        $($cause.downcast_ref().is_some_and(<$error>::$method))||+
    };
}

/// Whether a library refused: to replace a file, or to open a pool.
fn is_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    says!(cause, is_refusal: poolwright_trace::Error, poolwright_record::Error)
        || is_output_refusal(cause)
        || cause.downcast_ref().is_some_and(poolwright_monitor::Error::is_refusal)
        || is_pool_refusal(cause)
}

/// Whether this is a refusal to replace a user's file by an output.
fn is_output_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    says!(cause, is_refusal: poolwright_host::output::Error)
}

/// Whether this is a refusal to open, change or mount a pool.
fn is_pool_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    says!(
        cause,
        is_refusal: poolwright_openzfs::Error,
        poolwright_zfs::user::Error,
        poolwright_mount::server::Error,
        poolwright_apply::Error,
        poolwright_backup::Error,
        poolwright_verify::Error
    )
}

/// Whether this is an invalid request to a pool, or an invalid output.
fn is_invalid(cause: &(dyn std::error::Error + 'static)) -> bool {
    says!(cause, is_invalid: poolwright_host::output::Error, poolwright_zfs::user::Error, poolwright_mount::server::Error)
        || cause.downcast_ref().is_some_and(poolwright_monitor::terminal::Error::needs_terminal)
        || cause.downcast_ref().is_some_and(poolwright_monitor::alert::Error::is_invalid)
}

/// What the user can do about a library's error with this program's commands and flags, which the libraries do not know.
fn advice(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(kind) = pool_error_kind(cause) {
        return pool_hint(&kind);
    }
    if let Some(poolwright_tune::Error::NoIo(_)) = cause.downcast_ref() {
        return Some(
            "put load on the database while it is recorded, or record for longer (--for 5m)".to_owned(),
        );
    }
    if let Some(error) = cause.downcast_ref::<poolwright_lab::Error>() {
        return run_advice(error);
    }
    if let Some(error) = cause.downcast_ref::<poolwright_monitor::Error>() {
        return serve_advice(error).map(str::to_owned);
    }
    if cause.downcast_ref().is_some_and(poolwright_monitor::terminal::Error::needs_terminal) {
        return Some("`poolwright monitor --once` prints the readings without a screen".to_owned());
    }
    if let Some(poolwright_confirm::Error::Lab(error)) = cause.downcast_ref() {
        return scratch_advice(error).map(str::to_owned);
    }
    if cause.downcast_ref().is_some_and(poolwright_record::Error::is_impossible_here) {
        return Some(
            "without privileges, record a fio job (fio --write_iolog=FILE) and import its log with `poolwright trace import`"
                .to_owned(),
        );
    }
    if let Some(PlanFileError::Risky { risks, .. }) = plan_file_error(cause) {
        return Some(allow_unsafe(risks));
    }
    if let Some(advice) = cause.downcast_ref().and_then(backup_advice) {
        return Some(advice.to_owned());
    }
    if let Some(poolwright_trace::Error::UnrecognisedFormat { .. }) = cause.downcast_ref() {
        return Some(
            "a log of fio (fio --write_iolog) begins with the line \"fio version 3 iolog\" or 2".to_owned(),
        );
    }
    replay_advice(cause).map(str::to_owned)
}

/// What to do about a refusal of `backup`.
fn backup_advice(error: &poolwright_backup::Error) -> Option<&'static str> {
    use poolwright_backup::Error;
    match error {
        Error::Future(_) => Some(
            "set the clock if it is wrong now; if it was wrong when the backup was made, --accept-future goes on: backups are in the \
             order of their snapshots, whatever their times",
        ),
        Error::SourceChanged(_) => Some("if the change is intended, --accept-change accepts it once"),
        Error::WithOutcome { cause, .. } => backup_advice(cause),
        _ => None,
    }
}

/// The error of reading a plan.
fn plan_file_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a PlanFileError> {
    match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(poolwright_apply::Error::Plan(error)), _) => Some(error),
        (_, Some(poolwright_backup::Error::Plan(error))) => Some(error),
        _ => None,
    }
}

/// What allows a plan to set these values.
fn allow_unsafe(risks: &[PlanRisk]) -> String {
    let properties: BTreeSet<&str> = risks.iter().map(|risk| risk.property.as_str()).collect();
    let options: Vec<String> = properties.iter().map(|name| format!("--allow-unsafe {name}")).collect();
    format!("`tune` never recommends this; if it is what you want: {}", options.join(" "))
}

/// The kind of an error of a pool or a mount, also if the pool's owner has sent it.
fn pool_error_kind(cause: &(dyn std::error::Error + 'static)) -> Option<FaultKind> {
    match cause.downcast_ref::<poolwright_openzfs::Error>() {
        Some(why) => why.is_not_exported().then_some(FaultKind::NotExported),
        None => (cause.downcast_ref().and_then(poolwright_zfs::user::Error::kind))
            .or_else(|| cause.downcast_ref().and_then(poolwright_mount::server::Error::kind)),
    }
}

/// What to do about an error of a trial or its preparation.
fn replay_advice(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use poolwright_replay::Error;
    let error = match cause.downcast_ref() {
        Some(poolwright_tune::Error::Replay(error)) => error,
        _ => cause.downcast_ref::<Error>()?,
    };
    match error {
        Error::NoRoom { .. } => {
            Some("free some space, name another directory with --scratch, or take less with --sample-bytes")
        }
        Error::UsedUp { .. } => Some("name another directory with --scratch"),
        Error::WroteEnough { .. } => Some("allow more with --max-bytes"),
        Error::SlowsOthers { .. } => Some(
            "run the trials when the pool has less to do, allow slower I/O with --max-io-time, or leave --on out: the trials then run on \
             the engine",
        ),
        Error::SampleTooSmall { .. } => Some("take more with --sample-bytes"),
        _ => None,
    }
}

/// What to do about an error of `lab run`.
fn run_advice(error: &poolwright_lab::Error) -> Option<String> {
    use poolwright_lab::Error;
    match error {
        Error::UnfitTarget { others, .. } if others.is_empty() => {
            Some("none of the campaign's studies can run there".to_owned())
        }
        Error::UnfitTarget { others, .. } => Some(format!("these studies can: --only {}", others.join(","))),
        Error::Datasets(error) => replay_advice(error).map(str::to_owned),
        Error::NoResults { campaign, .. } => Some(format!("`poolwright lab run {campaign}` makes them")),
        Error::NoRun { campaign, known, .. } if known.is_empty() => {
            Some(format!("`poolwright lab run {campaign}` makes one"))
        }
        Error::NoHelper | Error::NoFuse(_) => {
            Some("or measure the host's own file system with --target directory:PATH".to_owned())
        }
        _ => scratch_advice(error).map(str::to_owned),
    }
}

/// What to do about an error of `serve`.
fn serve_advice(error: &poolwright_monitor::Error) -> Option<&'static str> {
    use poolwright_monitor::Error;
    match error {
        Error::Exposed { .. } => {
            Some("use --tls-cert and --tls-key with --token-file or --client-ca, or listen on 127.0.0.1")
        }
        Error::Listen { .. } => Some("name another address or port with --listen"),
        _ => None,
    }
}

/// What to do about a scratch directory.
fn scratch_advice(error: &poolwright_lab::Error) -> Option<&'static str> {
    use poolwright_lab::Error;
    match error {
        Error::Locked { .. } => Some("wait until it ends, or choose another directory with --scratch"),
        Error::Unsafe { .. } => Some("remove it, or choose another directory with --scratch"),
        Error::NoSpace { .. } => Some("choose another directory with --scratch"),
        _ => None,
    }
}

/// The message on standard error: what failed, its causes, then the hints, a line each.
pub fn message(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let (mut message, mut hints) = join(&parts);
    for todo in error.chain().filter_map(advice).map(hint) {
        if !hints.contains(&todo) {
            hints.push(todo);
        }
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
    fn a_library_error_is_followed_by_the_flags_that_help() {
        let small = || poolwright_replay::Error::SampleTooSmall { max: 1, touched: 4096 };
        let expected = "poolwright: a sample of 1B of the 4K that the trace touches contains no reads or writes\n\
                        hint: take more with --sample-bytes";
        assert_eq!(message(&small().into()), expected);
        assert_eq!(
            message(&poolwright_tune::Error::from(small()).into()),
            expected,
            "also within another error"
        );

        let used = || poolwright_lab::Error::Locked { path: "/s".into(), holder: "7".to_owned() };
        let expected = "poolwright: another run (process 7) uses /s\n\
                        hint: wait until it ends, or choose another directory with --scratch";
        assert_eq!(message(&used().into()), expected);
        assert_eq!(message(&poolwright_confirm::Error::from(used()).into()), expected);

        let unknown = || poolwright_zfs::user::Error::Unknown("tank".to_owned());
        let expected = "poolwright: no pool \"tank\" is known\n\
                        hint: name its files with --pool-file, or run `poolwright pool import tank FILE…` once";
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
        assert_eq!(exit_code(&error), REFUSED);
        let error = Err::<(), _>(anyhow!("no such file")).context(hint("create it")).context("reading p");
        let error = error.context(hint("create it")).context(Usage).unwrap_err();
        assert_eq!(message(&error), "poolwright: reading p: no such file\nhint: create it");
        assert_eq!(exit_code(&error), USAGE);
        assert_eq!(exit_code(&anyhow!("broken")), FAILED);
    }
}
