//! A database system: where it is, how it is stopped and started, quiesced and asked.
//!
//! - [`database`] finds a database in directories, and [`directories`] the datasets that it is on.
//! - [`service`] stops and starts the database of the host.
//! - [`quiesce`] keeps a running database still for the moment of a snapshot.
//! - [`client`] asks a server through its command-line client; [`postgresql`] knows the servers and data directories of PostgreSQL.
//! - [`server`] runs a private server as a child process.
//! - [`program`] finds programs and runs them as the [`owner`] of the database's files.

pub mod client;
pub mod database;
pub mod directories;
mod error;
pub mod owner;
pub mod postgresql;
pub mod program;
pub mod quiesce;
pub mod server;
pub mod service;
#[cfg(test)]
#[allow(dead_code)] // it has more than these tests use
mod test_users;

pub use error::{Error, Result};
