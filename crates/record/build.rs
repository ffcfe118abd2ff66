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
    let source = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    // Two builds in two directories give the same object: its line table has no absolute paths.
    let prefixes = [(source.as_str(), "."), (out.to_str().expect("OUT_DIR is UTF-8"), "out")]
        .map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    for set in ["syscall", "block"] {
        // -mcpu=v3: atomics that return the old value, which clang 14 does not enable by default.
        SkeletonBuilder::new()
            .source(format!("bpf/{set}.bpf.c"))
            .obj(out.join(format!("{set}.bpf.o")))
            .clang_args(
                ["-mcpu=v3", "-Wall", "-Werror"].into_iter().chain(prefixes.iter().map(String::as_str)),
            )
            .build()
            .unwrap_or_else(|error| panic!("clang cannot compile bpf/{set}.bpf.c: {error:#}"));
    }
}
