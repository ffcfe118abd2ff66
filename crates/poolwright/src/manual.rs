//! Man pages, shell completions and reference documentation, made from the definition of a command line, and the JSON Schemas,
//! made from the types of the output.
//!
//! [`write()`] writes all of them, as `make install` and the test of the documentation need them.

pub mod examples;
pub mod exit_code;
mod reference;
mod schemas;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use poolwright_base::{PathError, cannot};

/// An exit code of the program and its meaning.
pub type ExitCode<'a> = (u8, &'a str);

/// Writes `man1/`, `bash/`, `zsh/`, `fish/`, `docs/` and `schema/` below `dir`. The directories are created if they do not exist. Hidden
/// verbs are left out.
///
/// # Errors
/// If a directory or file cannot be written.
pub fn write(dir: &Path, command: &Command, exit_codes: &[ExitCode<'_>]) -> Result<(), PathError> {
    let command = visible(command);
    man_pages(&dir.join("man1"), &command)?;
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let dir = created(dir.join(name))?;
        clap_complete::generate_to(shell, &mut command.clone(), command.get_name(), &dir)
            .map_err(cannot("write", &dir))?;
    }
    for (name, schema) in schemas::all() {
        let path = created(dir.join("schema"))?.join(format!("{name}.json"));
        put(&path, format!("{schema:#}\n").as_bytes())?;
    }
    documentation(&created(dir.join("docs"))?, command, exit_codes)
}

/// `commands.md`, and a file for each generated table.
fn documentation(dir: &Path, mut command: Command, exit_codes: &[ExitCode<'_>]) -> Result<(), PathError> {
    command.build();
    let write = |name: &str, text: &str| put(&dir.join(format!("{name}.md")), text.as_bytes());
    write("commands", &reference::commands(&command))?;
    reference::tables(&command, exit_codes).iter().try_for_each(|(name, text)| write(name, text))
}

/// The command without its hidden verbs, which only the program itself runs.
fn visible(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    // clap cannot remove a subcommand, so the command is built again without the hidden ones.
    let mut visible = Command::new(command.get_name().to_owned())
        .arg_required_else_help(true)
        .version(command.get_version().unwrap_or_default().to_owned())
        .subcommands(shown);
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        visible = visible.after_help(after.clone());
    }
    visible
}

/// A page for the program, for each verb and for each verb below it.
fn man_pages(dir: &Path, command: &Command) -> Result<(), PathError> {
    let dir = created(dir.to_owned())?;
    let mut command = command.clone();
    command.build();
    let name = command.get_name().to_owned();
    write_pages(&dir, &command, &name)
}

fn write_pages(dir: &Path, command: &Command, name: &str) -> Result<(), PathError> {
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned()).disable_help_subcommand(true))
        .title(name.to_uppercase())
        .manual("Poolwright")
        .render(&mut page)
        .map_err(cannot("write", &path))?;
    put(&path, &page)?;
    reference::verbs_of(command)
        .try_for_each(|verb| write_pages(dir, verb, &format!("{name}-{}", verb.get_name())))
}

fn created(dir: PathBuf) -> Result<PathBuf, PathError> {
    fs::create_dir_all(&dir).map_err(cannot("write", &dir))?;
    Ok(dir)
}

fn put(path: &Path, content: &[u8]) -> Result<(), PathError> {
    fs::write(path, content).map_err(cannot("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_verbs_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let show = Command::new("show").about("Show <it>").arg(clap::Arg::new("n").long("n").help("A|B"));
        let command = Command::new("tool").subcommand(show).subcommand(Command::new("secret").hide(true));
        write(dir.path(), &command, &[(0, "done")]).unwrap();
        let mut pages: Vec<_> =
            fs::read_dir(dir.path().join("man1")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        pages.sort();
        assert_eq!(pages, ["tool-show.1", "tool.1"]);
        let page = |name: &str| fs::read_to_string(dir.path().join("docs").join(name)).unwrap();
        let commands = page("commands.md");
        assert!(commands.contains("## tool show\n\nShow &lt;it>\n"), "{commands}");
        assert!(commands.contains("| `--n N` | A\\|B |"), "{commands}");
        assert!(!commands.contains("secret"), "{commands}");
        assert_eq!(page("exit-codes.md"), "| code | meaning |\n| --- | --- |\n| 0 | done |\n");
        for file in ["bash/tool.bash", "zsh/_tool", "fish/tool.fish"] {
            assert!(!fs::read_to_string(dir.path().join(file)).unwrap().contains("secret"), "{file}");
        }
    }
}
