//! Shows the readings of the monitor in the terminal: on a screen with tabs, or once as plain tables.
//!
//! ```text
//! Poller ─▶ SampleReader (thread) ─▶ MonitorSampler ─▶ MonitorSample ─┬─▶ tab (rows of text) ─▶ draw ─▶ screen
//!                                    rates, merging                   └─▶ tab (rows of text) ─▶ once
//!                                                        keys ─▶ ScreenState ─▶ draw
//! ```
//!
//! [`sample`] merges what several sources read of one resource, and computes rates. [`tab`] makes rows of text from a sample;
//! only the visible rows are formatted. [`state`] contains the position, the filter and the order, which [`keys`] changes. These parts have
//! no side effects. [`screen`] connects them with the terminal. The poller runs in a separate thread ([`reader`]), so that a source that
//! hangs never delays the screen.

pub mod draw;
pub mod keys;
pub mod once;
pub mod reader;
pub mod rows;
pub mod sample;
pub mod screen;
pub mod state;
pub mod tab;
pub mod terminal_modes;

pub use once::{Once, once};
pub use screen::{Ended, ScreenOptions, run};

#[cfg(test)]
pub(crate) mod fixture;
