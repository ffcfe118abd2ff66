//! The version, and the tests of the help texts.

use std::sync::LazyLock;

use poolwright_openzfs::Engine;

/// The program's version, its commit with the date, and the OpenZFS release that it was built with.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (version, commit, date) =
        (env!("CARGO_PKG_VERSION"), env!("POOLWRIGHT_COMMIT"), env!("POOLWRIGHT_DATE"));
    format!("{version} (commit {commit}, {date}, OpenZFS {})", Engine::version())
});

#[cfg(test)]
mod tests {
    use crate::manual::examples::{EXAMPLES, with_examples};
    use clap::{Command, CommandFactory as _};

    use crate::Cli;

    /// The visible verbs without subcommands.
    fn leaves(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        let verbs: Vec<&Command> =
            command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help").collect();
        for verb in &verbs {
            leaves(verb, &[path, &[verb.get_name().to_owned()]].concat(), found);
        }
        if verbs.is_empty() {
            found.push(path.to_vec());
        }
    }

    #[test]
    fn every_verb_has_an_example() {
        let mut verbs = Vec::new();
        leaves(&Cli::command(), &[], &mut verbs);
        for verb in &verbs {
            assert!(EXAMPLES.iter().any(|entry| entry.path == verb.as_slice()), "{verb:?} has none");
        }
        assert_eq!(verbs.len(), EXAMPLES.len(), "an entry's verb does not exist");
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for entry in EXAMPLES {
            for example in entry.examples {
                let words: Vec<&str> = example.split(' ').collect();
                assert_eq!(words[0], "poolwright", "{example}");
                assert_eq!(&words[1..=entry.path.len()], entry.path, "{example}");
                let parsed = with_examples(Cli::command()).try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn descriptions_are_in_the_imperative() {
        fn check(command: &Command) {
            for verb in command.get_subcommands().filter(|c| c.get_name() != "help") {
                let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
                let first = about.split(' ').next().unwrap_or_default();
                assert!(!first.ends_with('s') || first.ends_with("ss"), "{}: {about:?}", verb.get_name());
                check(verb);
            }
        }
        check(&Cli::command());
    }
}
