//! Compiles the C side against the installed OpenZFS 2.3 development package and links libzpool dynamically.

use std::process::exit;

/// The packaged library is a debug build: without `ZFS_DEBUG` the layouts of its structures differ.
const DEFINES: &[(&str, &str)] = &[
    ("_GNU_SOURCE", "1"),
    ("_REENTRANT", "1"),
    ("_FILE_OFFSET_BITS", "64"),
    ("_LARGEFILE64_SOURCE", "1"),
    ("DEBUG", "1"),
    ("ZFS_DEBUG", "1"),
];
const SOURCES: &[&str] = &["engine", "seam", "pool", "dataset", "node", "file", "log", "codec"];

fn main() {
    let zfs = match pkg_config::Config::new().cargo_metadata(false).atleast_version("2.3").probe("libzfs") {
        Ok(found) => found,
        Err(why) => {
            eprintln!(
                "poolwright-openzfs needs the OpenZFS 2.3 development package (libzfslinux-dev; on Debian 12 from \
                 backports/contrib, 2.1 will not do). `scripts/install.sh` installs it.\npkg-config said: {why}"
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
    build.define("PW_OPENZFS_VERSION", format!("\"{}\"", zfs.version).as_str());
    for source in SOURCES {
        build.file(format!("csrc/{source}.c"));
    }
    build.compile("poolwright_engine");
    println!("cargo:rustc-link-lib=dylib=zpool");
    println!("cargo:rustc-link-lib=dylib=nvpair");
    println!("cargo:rustc-link-lib=dylib=m");
    println!("cargo:rerun-if-changed=csrc");
}
