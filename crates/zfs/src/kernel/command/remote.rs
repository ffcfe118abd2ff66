//! Runs `zpool` and `zfs` on another host, through a remote shell.
//!
//! `ssh` passes its arguments to the user's shell on the host as one string, which that shell splits into words. Therefore, the remote
//! command is one argument, in which each word is quoted.

use std::path::PathBuf;

/// The program of the remote shell. It never asks for a password: the commands have no terminal. A host that does not answer ends it after
/// a minute.
const SSH: &str =
    "ssh -o BatchMode=yes -o ConnectTimeout=60 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 --";

/// A host, and the program that runs commands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHost {
    /// The program and its first arguments, which the host and the remote command follow.
    shell: Vec<String>,
    host: String,
}

/// A name that cannot be that of a host: empty, with a leading hyphen, which would make it an option, or with spaces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host:?} is not a host")]
pub struct InvalidHost {
    /// The name.
    pub host: String,
}

impl RemoteHost {
    /// A host, `HOST` or `USER@HOST`. `shell` is a program and its first arguments, instead of `ssh`; the host and the remote command
    /// are added to them.
    ///
    /// # Errors
    /// If the name cannot be that of a host.
    pub fn new(host: &str, shell: Option<Vec<String>>) -> Result<RemoteHost, InvalidHost> {
        let shell = shell.filter(|words| !words.is_empty());
        let shell = shell.unwrap_or_else(|| SSH.split(' ').map(str::to_owned).collect());
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        let is_invalid =
            host.split('@').any(|part| part.is_empty() || part.starts_with('-')) || host.contains(is_odd);
        match is_invalid {
            true => Err(InvalidHost { host: host.to_owned() }),
            false => Ok(RemoteHost { shell, host: host.to_owned() }),
        }
    }

    /// The program and the host, for messages.
    pub fn name(&self) -> String {
        format!("{} {}", self.shell.first().map_or("ssh", String::as_str), self.host)
    }

    /// The local program, with its arguments, that runs a program on the remote host.
    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> (PathBuf, Vec<String>) {
        let mut words = self.shell.iter().cloned();
        let path = PathBuf::from(words.next().unwrap_or_default());
        let remote = command_line(std::iter::once(program).chain(arguments.iter().copied()));
        (path, words.chain([self.host.clone(), remote]).collect())
    }
}

/// Words as a command line of a POSIX shell, which splits it into the same words.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Quotes one word for a shell: unchanged if it has no special characters, otherwise in single quotes.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c);
    // `zsh` replaces a word that begins with `=`.
    match !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_remote_command_is_one_argument() {
        let host = RemoteHost::new("root@backup.example", None).unwrap();
        let (program, arguments) = host.command("zfs", &["receive", "-s", "vault/my db"]);
        assert_eq!(program, PathBuf::from("ssh"));
        assert_eq!(arguments[..2], ["-o", "BatchMode=yes"]);
        assert!(arguments.contains(&"ServerAliveInterval=15".to_owned()));
        let end = ["--", "root@backup.example", "zfs receive -s 'vault/my db'"];
        assert_eq!(arguments[arguments.len() - 3..], end);
        let words = ["ssh", "-p", "2222"].map(str::to_owned).to_vec();
        let host = RemoteHost::new("h", Some(words)).unwrap();
        assert_eq!(host.command("zfs", &["list"]).1, ["-p", "2222", "h", "zfs list"]);
        assert_eq!(host.name(), "ssh h");
    }

    #[test]
    fn names_that_are_not_hosts() {
        for wrong in ["", "-oProxyCommand=x", "a b", "a\n", "@h", "u@", "u@-h", "-u@h"] {
            let why = RemoteHost::new(wrong, None).unwrap_err();
            assert_eq!(why.to_string(), format!("{wrong:?} is not a host"));
        }
        assert!(RemoteHost::new("fe80::1", None).is_ok());
    }

    #[test]
    fn words_that_shells_would_change() {
        let line = command_line(["zfs", "a b", "", "it's", "=x", "a=b", "~", "$HOME", "tank/a#b", "*"]);
        assert_eq!(line, r"zfs 'a b' '' 'it'\''s' '=x' a=b '~' '$HOME' 'tank/a#b' '*'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_splits_a_command_line_into_the_same_words(words in prop::collection::vec("[ -~\n\t]{0,12}", 1..6)) {
            let line = command_line(words.iter().map(String::as_str));
            let script = format!("printf '%s\\0' {line}");
            let done = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
        }
    }
}
