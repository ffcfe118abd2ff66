//! Compiles the BPF programs. `src/loader.rs` finds programs and maps by name, so no Rust code is generated.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    assert!(
        arch == "x86_64",
        "the recorder's system call table (bpf/syscall_table.h) supports only x86-64, not {arch}"
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // -mcpu=v3: atomics that return the old value, which clang 14 does not enable by default.
    SkeletonBuilder::new()
        .source("bpf/syscall.bpf.c")
        .obj(out.join("syscall.bpf.o"))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
        .build()
        .unwrap_or_else(|error| panic!("clang cannot compile bpf/syscall.bpf.c: {error:#}"));
}
