//! Stopping and starting the database.

mod command;
mod downtime;
mod users;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_base::writers::find_writer_of_mounts;

use crate::error::refused;
use crate::{Error, Result};

pub use command::ServiceCommand;
pub use downtime::Downtime;
pub use users::{FileUsers, check_namespace, check_unused, unit_of};

/// How the database is stopped and started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// It is not; it must be stopped already.
    #[default]
    None,
    /// A unit of systemd.
    Unit(String),
    /// Commands of the shell.
    Commands {
        /// Stops the database and waits until it has ended.
        stop: String,
        /// Starts the database and waits until it answers.
        start: String,
    },
}

/// The time limit of `systemctl` commands that only query or mark a unit.
const SYSTEMD_TIME: Duration = Duration::from_secs(30);

/// Receives what happens while a database is stopped or started.
pub trait ServiceObserver {
    /// A command that changes a service or a dataset is about to run.
    fn command(&mut self, command: &str);
    /// A remark for the user.
    fn note(&mut self, text: &str);
    /// Whether the user wants to stop. Called often.
    fn is_interrupted(&self) -> bool;
}

impl Service {
    /// Whether a running database can be stopped.
    pub fn is_known(&self) -> bool {
        *self != Service::None
    }

    /// The command that stops the database.
    pub fn stop_command(&self) -> Option<ServiceCommand> {
        match self {
            Service::None => None,
            Service::Unit(unit) => Some(ServiceCommand::systemctl(&["stop"], unit)),
            Service::Commands { stop, .. } => Some(ServiceCommand::Shell(stop.clone())),
        }
    }

    /// The command that starts the database.
    pub fn start_command(&self) -> Option<ServiceCommand> {
        match self {
            Service::None => None,
            Service::Unit(unit) => Some(ServiceCommand::systemctl(&["start"], unit)),
            Service::Commands { start, .. } => Some(ServiceCommand::Shell(start.clone())),
        }
    }

    /// Whether the database runs. For a unit, systemd decides, even if other programs have its files open. Without a unit, it runs if a
    /// process has a file of these mount points open for writing.
    ///
    /// # Errors
    /// [`Error::Service`] if systemd cannot be queried; [`Error::Refused`] if the unit does not exist or could not be started.
    pub fn is_running(&self, roots: &[PathBuf]) -> Result<bool> {
        match self {
            Service::Unit(unit) => {
                let state = UnitState::of(unit)?;
                if state.is_running() && state.is_masked() {
                    return refused(format!(
                        "{unit} is masked: it could be stopped, but not started again\nhint: unmask it"
                    ));
                }
                Ok(state.is_running())
            }
            _ => Ok(find_writer_of_mounts(roots).is_some()),
        }
    }

    /// Whether this is the database's unit.
    fn is_unit(&self, unit: Option<&str>) -> bool {
        let Service::Unit(own) = self else { return false };
        unit.is_some_and(|unit| unit == own || unit.strip_suffix(".service") == Some(own))
    }
}

/// The state of a unit, as `systemctl show` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitState {
    active: String,
    load: String,
}

impl UnitState {
    fn of(unit: &str) -> Result<UnitState> {
        let command = ServiceCommand::systemctl(&["show", "--property=ActiveState,LoadState"], unit);
        let printed = command.run(SYSTEMD_TIME, |_| {}, || {})?;
        let Some(state) = UnitState::parse(&printed) else {
            let why = format!("unexpected output: {}", printed.trim());
            return Err(Error::Service { command: command.to_string(), why });
        };
        match state.load.as_str() {
            "not-found" => {
                refused(format!("systemd has no unit {unit}\nhint: `systemctl list-units` lists all units"))
            }
            _ => Ok(state),
        }
    }

    fn parse(printed: &str) -> Option<UnitState> {
        let value = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Some(UnitState { active: value("ActiveState=")?, load: value("LoadState=")? })
    }

    /// A unit that is being started, or that systemd is about to start again after a failure, counts as running. One that is being stopped
    /// does not: another program or the administrator stops it, and it is not to be started again.
    fn is_running(&self) -> bool {
        matches!(self.active.as_str(), "active" | "activating" | "reloading" | "refreshing")
    }

    fn is_masked(&self) -> bool {
        self.load == "masked"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_units() {
        let of = |active: &str, load: &str| {
            UnitState::parse(&format!("LoadState={load}\nActiveState={active}\n")).unwrap()
        };
        // An automatic restart after a failure is a part of `activating`.
        for active in ["active", "activating", "reloading"] {
            assert!(of(active, "loaded").is_running());
        }
        for active in ["inactive", "failed", "deactivating"] {
            assert!(!of(active, "loaded").is_running());
        }
        assert!(of("active", "masked").is_masked() && !of("active", "loaded").is_masked());
        assert_eq!(UnitState::parse("System has not been booted with systemd\n"), None);
    }

    #[test]
    fn a_unit_has_a_name_with_and_without_its_type() {
        let service = Service::Unit("mariadb".to_owned());
        assert!(service.is_unit(Some("mariadb.service")) && service.is_unit(Some("mariadb")));
        assert!(!service.is_unit(Some("maria.service")) && !service.is_unit(None));
    }

    #[test]
    fn a_process_that_writes_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let open = std::fs::File::create(root.join("table")).unwrap();
        let refused = check_unused(&Service::None, std::slice::from_ref(&root)).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains(" open for writing"), "{refused}");
        drop(open);
    }
}
