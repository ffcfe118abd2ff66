//! A database system: finding it, stopping and starting it, quiescing it, and querying it.
//!
//! - [`database`] finds a database in directories, and [`directories`] the datasets that it is on.
//! - [`service`] stops and starts the host's database.
//! - [`quiesce`] quiesces a running database for a snapshot.
//! - [`client`] queries a server through its command-line client ([`mariadb`], [`postgresql`]), and [`settings`] reads its settings.
//! - [`postgresql`] also handles PostgreSQL's servers and data directories.
//! - [`server`] runs a private server as a child process.
//! - [`program`] finds programs and runs them as the [`owner`] of the database's files.

pub mod client;
pub mod database;
pub mod directories;
mod error;
pub mod mariadb;
pub mod owner;
pub mod postgresql;
pub mod program;
pub mod quiesce;
pub mod server;
pub mod service;
pub mod settings;
#[cfg(test)]
#[allow(dead_code)] // it has more than these tests use
mod test_users;

pub use error::{Error, Result};
