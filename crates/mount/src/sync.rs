//! The locks of the tables that all serving threads share. With `--cfg poolwright_loom` they are loom's, which runs a test
//! under every possible interleaving of the threads (`scripts/sanitize.sh loom`).

#[cfg(poolwright_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(poolwright_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
