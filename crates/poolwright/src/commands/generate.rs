//! `poolwright generate`: man pages, shell completions and the reference documentation, made from the same definitions as `--help`,
//! and the JSON Schemas, made from the types of the output.

mod reference;
mod schemas;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Command, ValueHint};
use clap_complete::Shell;

/// Write the man pages, the completions of the shells, the reference documentation and the JSON Schemas
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that receives `man1/`, `bash/`, `zsh/`, `fish/`, `docs/` and `schema/`; it is created if it does not exist
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

/// Writes the files; the value is the exit code.
///
/// # Errors
/// If a directory or file cannot be written.
pub fn run(args: Args, command: Command) -> anyhow::Result<u8> {
    let command = visible(command);
    man_pages(&args.dir.join("man1"), &command)?;
    for (shell, dir) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let dir = created(args.dir.join(dir))?;
        clap_complete::generate_to(shell, &mut command.clone(), "poolwright", &dir)
            .with_context(|| format!("write the completions to {}", dir.display()))?;
    }
    schemas(&created(args.dir.join("schema"))?)?;
    documentation(&created(args.dir.join("docs"))?, command)?;
    Ok(0)
}

/// `NAME.json` for each schema.
fn schemas(dir: &Path) -> anyhow::Result<()> {
    for (name, schema) in schemas::all() {
        let path = dir.join(format!("{name}.json"));
        fs::write(&path, format!("{schema:#}\n")).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// `commands.md`, and a file for each generated table.
fn documentation(dir: &Path, mut command: Command) -> anyhow::Result<()> {
    command.build();
    let write = |name: &str, text: &str| {
        let path = dir.join(format!("{name}.md"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    write("commands", &reference::commands(&command))?;
    reference::tables(&command).iter().try_for_each(|(name, text)| write(name, text))
}

/// The command without its hidden verbs, which only the program itself runs.
fn visible(command: Command) -> Command {
    let hidden: Vec<String> =
        command.get_subcommands().filter(|c| c.is_hide_set()).map(|c| c.get_name().to_owned()).collect();
    let shown: Vec<Command> =
        command.get_subcommands().filter(|c| !hidden.contains(&c.get_name().to_owned())).cloned().collect();
    // clap has no way to remove a subcommand: the rest of the command is put together anew.
    let mut all = Command::new("poolwright")
        .arg_required_else_help(true)
        .version(command.get_version().unwrap_or_default().to_owned())
        .subcommands(shown);
    if let Some(about) = command.get_about() {
        all = all.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        all = all.after_help(after.clone());
    }
    all
}

/// `poolwright.1`, and `poolwright-VERB.1` for each verb and each verb below it.
fn man_pages(dir: &Path, command: &Command) -> anyhow::Result<()> {
    let dir = created(dir.to_owned())?;
    let mut command = command.clone();
    command.build();
    write_pages(&dir, &command, "poolwright")
}

fn write_pages(dir: &Path, command: &Command, name: &str) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned()).disable_help_subcommand(true))
        .title(name.to_uppercase())
        .manual("Poolwright")
        .render(&mut page)?;
    fs::write(&path, page).with_context(|| format!("write {}", path.display()))?;
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        write_pages(dir, verb, &format!("{name}-{}", verb.get_name()))?;
    }
    Ok(())
}

fn created(dir: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&dir).with_context(|| format!("create the directory {}", dir.display()))?;
    Ok(dir)
}
