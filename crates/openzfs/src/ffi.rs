//! The declarations of `csrc/engine.h` in Rust, which bindgen makes when the crate is built (`bindings` in `build.rs`), with
//! compile-time assertions that the structures have the same layout in both languages.

#![allow(missing_docs, non_camel_case_types)]
#![allow(dead_code, reason = "all of engine.h is declared; the C code alone uses a few of its constants")]

include!(concat!(env!("OUT_DIR"), "/engine.rs"));
