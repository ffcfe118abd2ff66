//! Trees of files for the tests against a kernel's OpenZFS: random operations ([`plan`]) and manifests ([`manifest`]), which are equal
//! whether the engine (`engine-tree` in crates/devtools) or a kernel (`main.rs`) executes them.
#![allow(missing_docs, clippy::missing_errors_doc, clippy::new_without_default)] // only the two programs use it

pub mod manifest;
pub mod plan;
mod random;
