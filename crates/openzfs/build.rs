//! Compiles the C side against OpenZFS's sources, and links OpenZFS's library statically. `scripts/openzfs.sh` makes both.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const DEFINES: &[(&str, &str)] = &[
    ("_GNU_SOURCE", "1"),
    ("_REENTRANT", "1"),
    ("_FILE_OFFSET_BITS", "64"),
    ("_LARGEFILE64_SOURCE", "1"),
    ("HAVE_CONFIG_H", "1"),
];
/// Headers of OpenZFS for programs in user space, below its sources.
const INCLUDES: &[&str] = &[
    "include",
    "lib/libspl/include",
    "lib/libspl/include/os/linux",
    "lib/libzpool/include",
    "include/os/linux/zfs",
];
const SOURCES: &[&str] = &[
    "engine",
    "kernel/clock",
    "kernel/fiber",
    "kernel/compressed",
    "kernel/cost",
    "kernel/file",
    "kernel/hash",
    "kernel/lock",
    "kernel/taskq",
    "kernel/thread",
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
    "direct",
    "blocks",
    "log",
    "replay",
    "volume",
    "codec",
    "device",
    "fault",
    "log_check",
];

/// Compiled only with the feature `fault-injection`.
const FAULT_INJECTION: &[&str] = &["inject", "power", "backlog"];

fn main() {
    let openzfs = OpenZfs::find();
    let mut build = cc::Build::new();
    build
        .std("gnu99")
        .flag("-fno-strict-aliasing")
        .warnings(false)
        .flag("-Wall")
        .flag("-Wno-unused-function")
        .flag("-Wno-pedantic")
        .flag("-include")
        .flag(openzfs.library.join("zfs_config.h"))
        .flag("-include")
        .flag("csrc/kernel/interpose.h");
    for path in INCLUDES {
        build.include(openzfs.source.join(path));
    }
    for (name, value) in DEFINES.iter().chain(openzfs.assertions()) {
        build.define(name, *value);
    }
    println!("cargo:rustc-env=POOLWRIGHT_OPENZFS_RELEASE={}", openzfs.release);
    for define in signatures(&openzfs.source.join("include")) {
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
    println!("cargo:rustc-link-search=native={}", openzfs.library.display());
    println!("cargo:rustc-link-lib=static=openzfs");
    for library in ["blkid", "uuid", "z", "m"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    println!("cargo:rerun-if-changed=csrc");
}

fn fail(why: &str) -> ! {
    eprintln!("poolwright-openzfs: building OpenZFS failed: {why}");
    exit(1)
}

/// A build of OpenZFS by `scripts/openzfs.sh`.
struct OpenZfs {
    release: String,
    source: PathBuf,
    /// The directory of the library and its configuration.
    library: PathBuf,
    checked: bool,
}

impl OpenZfs {
    /// Has `scripts/openzfs.sh` build the release that the file `RELEASE`, or the environment variable POOLWRIGHT_OPENZFS, names,
    /// unless it did before. With POOLWRIGHT_OPENZFS_ASSERTIONS=1: with assertions.
    fn find() -> OpenZfs {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let script = root.join("scripts/openzfs.sh");
        for name in ["POOLWRIGHT_OPENZFS", "POOLWRIGHT_OPENZFS_ASSERTIONS", "ZFS_SOURCE"] {
            println!("cargo:rerun-if-env-changed={name}");
        }
        println!("cargo:rerun-if-changed=RELEASE");
        println!("cargo:rerun-if-changed={}", script.display());
        let release =
            std::env::var("POOLWRIGHT_OPENZFS").unwrap_or_else(|_| include_str!("RELEASE").trim().to_owned());
        let checked = std::env::var_os("POOLWRIGHT_OPENZFS_ASSERTIONS").is_some_and(|value| value == "1");
        let mut build = Command::new(&script);
        build.args(["--release", &release]).args(checked.then_some("--assertions"));
        match build.output() {
            Ok(done) if done.status.success() => {}
            Ok(done) => fail(&String::from_utf8_lossy(&[done.stdout, done.stderr].concat())),
            Err(why) => fail(&format!("{}: {why}", script.display())),
        }
        let root = root.join("target/openzfs").join(&release);
        let library = root.join(if checked { "assertions" } else { "plain" });
        println!("cargo:rerun-if-changed={}", library.join("built").display());
        OpenZfs { release, source: root.join("source"), library, checked }
    }

    /// The layouts of structures differ between a library with and without assertions.
    fn assertions(&self) -> &'static [(&'static str, &'static str)] {
        if self.checked { &[("DEBUG", "1"), ("ZFS_DEBUG", "1")] } else { &[("NDEBUG", "1")] }
    }
}

/// Writes the Rust declarations of what `csrc/engine.h` declares, with assertions about the layout of its structures, to
/// `$OUT_DIR/engine.rs` (`src/ffi.rs`). With the feature `fault-injection`, adds those of `csrc/inject.h` and `csrc/power.h`
/// that `src/inject.rs` and `src/power.rs` call.
fn bindings(fault_injection: bool) {
    let mut bindings = bindgen::Builder::default()
        .header("csrc/engine.h")
        .header("csrc/kernel/clock.h")
        .allowlist_file(r".*csrc/(engine|kernel/clock)\.h")
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
    // Only OpenZFS calls it, so without this option the linker would drop it.
    cc::Build::new().file("csrc/aio.c").link_lib_modifier("+whole-archive,-bundle").compile("poolwright_aio");
}

/// Signatures that differ between the releases that build: header, function, an argument of the later form, and the define for
/// that form.
const SIGNATURES: &[(&str, &str, &str, &str)] = &[
    ("sys/zfs_file.h", "zfs_file_open(", "cred_t", "PW_FILE_OPEN_HAS_CRED"),
    ("sys/zfs_file.h", "zfs_file_pwrite(", "ashift", "PW_FILE_PWRITE_HAS_ASHIFT"),
    ("sys/dmu.h", "dmu_tx_hold_clone_by_dnode(", "blksz", "PW_HOLD_CLONE_HAS_BLKSZ"),
    ("sys/dsl_dataset.h", "dsl_dataset_clone(", "origin", "PW_HAS_DSL_DATASET_CLONE"),
    ("sys/dmu.h", "dmu_write_by_dnode(", "flags", "PW_DMU_WRITE_HAS_FLAGS"),
    ("sys/dmu.h", "dmu_read_by_dnode(", "dmu_flags_t", "PW_HAS_UNCACHED_IO"),
    ("sys/zil.h", "zil_itx_destroy(", "err", "PW_ITX_DESTROY_HAS_ERROR"),
    ("sys/zfs_context.h", "taskq_cancel_id(", "boolean_t", "PW_TASKQ_CANCEL_WAITS"),
];

/// Returns the defines for the signatures in the headers.
fn signatures(headers: &Path) -> Vec<&'static str> {
    let later = |(header, function, argument, _): &&(&str, &str, &str, &str)| {
        let text = std::fs::read_to_string(headers.join(header)).unwrap_or_default();
        let tail = text.split_once(function).map_or("", |(_, tail)| tail);
        tail.split_once(';').is_some_and(|(declaration, _)| declaration.contains(argument))
    };
    SIGNATURES.iter().filter(later).map(|(_, _, _, define)| *define).collect()
}
