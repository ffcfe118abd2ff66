//! The reference documentation as Markdown: every verb with its arguments, and the tables of exit codes, devices and goals.
//!
//! `docs/commands.md` is the output of [`commands`]; the tables are between markers in `docs/reference.md`.

use std::fmt::Write as _;

use clap::{Arg, Command};
use poolwright_openzfs::Device;
use poolwright_plan::MetricName;
use poolwright_tune::objective::GOALS;

use crate::manual::ExitCode;

/// Name of each generated table and its Markdown.
pub fn tables(command: &Command, exit_codes: &[ExitCode<'_>]) -> [(&'static str, String); 5] {
    let codes = exit_codes.iter().map(|(code, meaning)| [code.to_string(), cell(meaning)]);
    [
        ("verbs", verbs(command)),
        ("exit-codes", table(["code", "meaning"], codes)),
        ("devices", devices()),
        ("goals", goals()),
        ("inspection-rules", poolwright_inspect::table_of_rules()),
    ]
}

/// All verbs with their usage, arguments and options. The command must be built ([`Command::build`]).
pub fn commands(command: &Command) -> String {
    let mut page = String::from(
        "# Commands\n\n`poolwright generate` writes this page from the definition of the command line. `poolwright VERB --help` prints \
         the same texts.\n",
    );
    for verb in leaves(command, command.get_name()) {
        section(&mut page, verb.0, verb.1);
    }
    page
}

/// The visible verbs directly below a command.
pub fn verbs_of(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

/// The verbs without subcommands, each with its full name.
fn leaves<'a>(command: &'a Command, name: &str) -> Vec<(String, &'a Command)> {
    if verbs_of(command).next().is_none() {
        return vec![(name.to_owned(), command)];
    }
    verbs_of(command).flat_map(|verb| leaves(verb, &format!("{name} {}", verb.get_name()))).collect()
}

fn section(page: &mut String, name: String, verb: &Command) {
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
    let about =
        verb.get_long_about().or_else(|| verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n## {name}\n\n{}\n\n    {}\n", paragraphs(&about), usage.replace('\n', "\n    "));
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let arguments: Vec<&Arg> = verb.get_arguments().filter(shown).collect();
    if arguments.is_empty() {
        return;
    }
    page.push_str("\n| argument | meaning |\n| --- | --- |\n");
    for arg in arguments {
        let help =
            arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| {} | {}{}{} |", spelled(arg), cell(&help), values(arg), default(arg));
    }
}

/// The argument as a user writes it: `` `-o`, `--output FILE` ``.
fn spelled(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let value = if names.is_empty() { arg.get_id().as_str().to_uppercase() } else { names };
    if arg.is_positional() {
        return format!("`{value}`");
    }
    let mut spellings: Vec<String> = Vec::new();
    spellings.extend(arg.get_short().map(|short| format!("-{short}")));
    spellings.extend(arg.get_long().map(|long| format!("--{long}")));
    if let (true, Some(last)) = (takes_value, spellings.last_mut()) {
        let _ = write!(last, " {value}");
    }
    spellings.iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(", ")
}

/// The possible values in parentheses, if there is a fixed set.
fn values(arg: &Arg) -> String {
    let all: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if all.is_empty() || !arg.get_action().takes_values() {
        return String::new();
    }
    format!(" (values: {})", all.join(", "))
}

/// The default value in parentheses, if the argument has one that a user may want to know.
fn default(arg: &Arg) -> String {
    if !arg.get_action().takes_values() || arg.is_hide_default_value_set() {
        return String::new();
    }
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if values.is_empty() { String::new() } else { format!(" (default: `{}`)", cell(&values.join(","))) }
}

fn verbs(command: &Command) -> String {
    let rows = leaves(command, "").into_iter().map(|(name, verb)| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let name = name.trim();
        [format!("[`{name}`](commands.md#poolwright-{})", name.replace(' ', "-")), cell(&about)]
    });
    table(["command", "description"], rows)
}

fn devices() -> String {
    let rows = Device::profiles().map(|(name, what)| [format!("`{name}`"), cell(what)]);
    table(["device", "description"], rows)
}

fn goals() -> String {
    let rows = GOALS.iter().map(|row| {
        let weight = |(metric, weight): &(MetricName, f64)| format!("`{metric}` {:.0} %", weight * 100.0);
        let weights: Vec<String> = row.weights.iter().map(weight).collect();
        let limits: Vec<String> = row.limits.iter().map(|limit| format!("`{}`", cell(limit))).collect();
        [format!("`{}`", row.name), weights.join(", "), limits.join(", ")]
    });
    table(["goal", "weights", "limits"], rows)
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(N));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// The text on one line, with characters escaped that end a cell of a Markdown table or start an HTML tag.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// Text of a help page as Markdown paragraphs: no HTML tags.
fn paragraphs(text: &str) -> String {
    text.replace('<', "&lt;")
}
