//! Compiles the C side against the installed OpenZFS 2.3 development package and links libzpool dynamically.

use std::path::PathBuf;
use std::process::exit;

/// The packaged library is a debug build: without `ZFS_DEBUG`, the layouts of its structures differ.
const DEFINES: &[(&str, &str)] = &[
    ("_GNU_SOURCE", "1"),
    ("_REENTRANT", "1"),
    ("_FILE_OFFSET_BITS", "64"),
    ("_LARGEFILE64_SOURCE", "1"),
    ("DEBUG", "1"),
    ("ZFS_DEBUG", "1"),
];
const SOURCES: &[&str] = &[
    "engine",
    "seam",
    "pool",
    "vdev",
    "health",
    "dataset",
    "layout",
    "node",
    "attr",
    "dir",
    "name",
    "xattr",
    "file",
    "clone",
    "blocks",
    "handoff",
    "log",
    "replay",
    "codec",
    "device",
    "library",
    "fault",
    "log_check",
];

/// Compiled only with the feature `fault-injection`.
const FAULT_INJECTION: &[&str] = &["inject", "power", "backlog"];

fn main() {
    let zfs = match pkg_config::Config::new().cargo_metadata(false).atleast_version("2.3").probe("libzfs") {
        Ok(found) => found,
        Err(why) => {
            eprintln!(
                "poolwright-openzfs needs the development package of OpenZFS 2.3 (libzfslinux-dev; on Debian 12 from \
                 backports/contrib, because 2.1 is too old): {why}\nhint: `scripts/install.sh` installs it"
            );
            exit(1);
        }
    };
    let mut build = cc::Build::new();
    build
        .std("gnu99")
        .flag("-fno-strict-aliasing")
        .warnings(false)
        .flag("-Wall")
        .flag("-Wno-unused-function");
    build
        .flag("-Wno-pedantic")
        .include("csrc/shim")
        .include("/usr/include/libspl")
        .include("/usr/include/libzfs");
    for path in &zfs.include_paths {
        build.include(path);
    }
    for (name, value) in DEFINES {
        build.define(name, *value);
    }
    let library = library(&build);
    println!("cargo:rerun-if-changed={}", library.display());
    build.define("PW_LIBZPOOL_BUILD_ID", format!("\"{}\"", build_id(&library)).as_str());
    build.define("PW_OPENZFS_VERSION", format!("\"{}\"", zfs.version).as_str());
    for define in signatures(&zfs.include_paths) {
        build.define(define, None);
    }
    if std::env::var_os("CARGO_CFG_POOLWRIGHT_SANITIZE").is_some() {
        sanitize(&mut build);
    }
    let fault_injection = std::env::var_os("CARGO_FEATURE_FAULT_INJECTION").is_some();
    let mut sources = SOURCES.to_vec();
    if fault_injection {
        build.define("PW_FAULT_INJECTION", None);
        sources.extend(FAULT_INJECTION);
    }
    bindings(fault_injection);
    for source in sources {
        build.file(format!("csrc/{source}.c"));
    }
    build.compile("poolwright_engine");
    println!("cargo:rustc-link-lib=dylib=zpool");
    println!("cargo:rustc-link-lib=dylib=nvpair");
    println!("cargo:rustc-link-lib=dylib=m");
    println!("cargo:rerun-if-changed=csrc");
}

/// Writes the Rust declarations of what `csrc/engine.h` declares, with assertions about the layout of its structures, to
/// `$OUT_DIR/engine.rs` (`src/ffi.rs`). With the feature `fault-injection`, adds those of `csrc/inject.h` and `csrc/power.h`
/// that `src/inject.rs` and `src/power.rs` call.
fn bindings(fault_injection: bool) {
    let mut bindings = bindgen::Builder::default()
        .header("csrc/engine.h")
        .allowlist_file(r".*csrc/engine\.h")
        .rust_edition(bindgen::RustEdition::Edition2024)
        .prepend_enum_name(false)
        .derive_default(true)
        .merge_extern_blocks(true)
        .enable_function_attribute_detection()
        .formatter(bindgen::Formatter::None);
    if fault_injection {
        bindings = bindings
            .clang_arg("-DPW_FAULT_INJECTION")
            .header("csrc/inject.h")
            .allowlist_function("pw_inject|pw_inject_calls|pw_inject_stop")
            .allowlist_var("PW_INJECT_.*")
            .header("csrc/power.h")
            .allowlist_function("pw_power_start|pw_power_stop|pw_power_cut")
            .allowlist_var("PW_POWER_EXIT");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("engine.rs");
    let written = bindings
        .generate()
        .map_err(|why| why.to_string())
        .and_then(|bindings| bindings.write_to_file(&out).map_err(|why| format!("{}: {why}", out.display())));
    if let Err(why) = written {
        eprintln!("poolwright-openzfs cannot translate csrc/engine.h: {why}");
        exit(1);
    }
}

/// Returns the path of the shared library that the linker finds as `-lzpool`, with symbolic links resolved.
fn library(build: &cc::Build) -> PathBuf {
    let asked = build.get_compiler().to_command().arg("-print-file-name=libzpool.so").output();
    let path = asked.ok().and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    PathBuf::from(path.trim()).canonicalize().unwrap_or_else(|why| {
        eprintln!("poolwright-openzfs cannot find libzpool.so (the compiler reports {path:?}): {why}");
        exit(1)
    })
}

/// Returns the library's build id in hexadecimal, from its note of type 3 by "GNU" (elf(5)); empty if it has none. Structures
/// of libzpool change between releases with the same soname, so the engine compares this id with that of the loaded library.
fn build_id(library: &PathBuf) -> String {
    let bytes = std::fs::read(library).unwrap_or_else(|why| {
        eprintln!("poolwright-openzfs cannot read {}: {why}", library.display());
        exit(1)
    });
    let is_note = |w: &[u8]| w[..4] == [4, 0, 0, 0] && w[5..8] == [0; 3] && w[8..16] == *b"\x03\0\0\0GNU\0";
    let id = bytes
        .windows(16)
        .position(is_note)
        .and_then(|at| bytes.get(at + 16..at + 16 + usize::from(bytes[at + 4])));
    id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For builds with `--cfg poolwright_sanitize` (`scripts/sanitize.sh`): instruments the C code with the sanitizers that
/// `POOLWRIGHT_SANITIZE` names (`address,undefined`), if it is set.
fn sanitize(build: &mut cc::Build) {
    println!("cargo:rerun-if-env-changed=POOLWRIGHT_SANITIZE");
    if let Ok(sanitizers) = std::env::var("POOLWRIGHT_SANITIZE") {
        build
            .flag(format!("-fsanitize={sanitizers}"))
            .flag("-fno-omit-frame-pointer")
            .flag("-g")
            .opt_level(1);
    }
    // Only libzpool calls it, so without this option the linker would drop it.
    cc::Build::new().file("csrc/aio.c").link_lib_modifier("+whole-archive,-bundle").compile("poolwright_aio");
}

/// Signatures that changed within or after 2.3 (2.3.2 in Debian 12's backports, a later release in Debian 13): header, function, an
/// argument of the later form, and the define for that form.
const SIGNATURES: &[(&str, &str, &str, &str)] = &[
    ("sys/zfs_file.h", "zfs_file_open(", "cred_t", "PW_FILE_OPEN_HAS_CRED"),
    ("sys/zfs_file.h", "zfs_file_pwrite(", "ashift", "PW_FILE_PWRITE_HAS_ASHIFT"),
    ("sys/dmu.h", "dmu_tx_hold_clone_by_dnode(", "blksz", "PW_HOLD_CLONE_HAS_BLKSZ"),
    ("sys/dsl_dataset.h", "dsl_dataset_clone(", "origin", "PW_HAS_DSL_DATASET_CLONE"),
];

/// Returns the defines for the signatures in the installed headers.
fn signatures(include_paths: &[PathBuf]) -> Vec<&'static str> {
    let default = PathBuf::from("/usr/include/libzfs");
    let text = |header: &str| {
        let mut places = include_paths.iter().chain([&default]).map(|dir| dir.join(header));
        places.find(|p| p.exists()).and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let later = |(header, function, argument, _): &&(&str, &str, &str, &str)| {
        let text = text(header);
        let tail = text.split_once(function).map_or("", |(_, tail)| tail);
        tail.split_once(';').is_some_and(|(declaration, _)| declaration.contains(argument))
    };
    SIGNATURES.iter().filter(later).map(|(_, _, _, define)| *define).collect()
}
