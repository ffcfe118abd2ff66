//! Runs a program with a deadline.
