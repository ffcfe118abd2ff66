//! The metrics of captured pools of the kernel against golden files. `REWRITE=1` writes the files.
//!
//! The whole output of each capture is parsed. A golden file has the whole output of a few captures, and of the others the part that
//! depends on the state of the pools.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_monitor::exposition::{self, TextFormat};
use poolwright_monitor::source::kernel::KernelPools;
use poolwright_monitor::{Poller, SourceReadings};
use poolwright_zfs::kernel::{CommandOptions, Kstats};

use crate::parsed_exposition::{self, ParsedFamily};
use crate::state_text::{self, STATES};

/// Far more than a read of a capture takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Programs `zpool` and `zfs` in `dir` that run this line of shell.
fn programs(dir: &Path, line: impl Fn(&str) -> String) -> CommandOptions {
    let program = |name: &str| {
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{}\n", line(name))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Some(path)
    };
    let (zpool, zfs) = (program("zpool"), program("zfs"));
    CommandOptions { zpool, zfs, device: None, deadline: PATIENCE, ..CommandOptions::default() }
}

/// The line of shell that answers as in a capture.
fn replay(program: &str, capture: &Path) -> String {
    let replay = manifest("../zfs/tests/fake/replay");
    format!("exec '{}' '{}' {program} \"$@\"", replay.display(), capture.display())
}

fn poller(capture: &Path, options: CommandOptions) -> Poller {
    let pools = KernelPools::new(Kstats::new(capture.join("kstat")), options);
    Poller::new(vec![Box::new(pools)])
}

fn metrics(sources: &[SourceReadings], format: TextFormat) -> String {
    exposition::text(sources.iter().filter_map(|source| source.readings.clone()).collect(), format)
}

/// The captures of a whole system, as `VERSION/STATE`.
fn captures() -> Vec<String> {
    let root = manifest("../zfs/tests/captures");
    let mut captures = Vec::new();
    for version in
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for state in fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path()) {
            if state.join("commands").exists() && state.join("kstat").exists() {
                captures.push(state.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    captures.sort();
    captures
}

/// The captures of which the golden file is the whole output. The formats differ in their comments and in the number of
/// observations of histograms only; one small capture is enough for the second.
const WHOLE: [(&str, TextFormat); 3] = [
    ("openzfs-2.3.2/healthy", TextFormat::Prometheus),
    ("openzfs-2.1/degraded", TextFormat::Prometheus),
    ("openzfs-2.3.2/full", TextFormat::OpenMetrics),
];

#[test]
fn outputs_of_all_captures() {
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut different = Vec::new();
    for name in captures() {
        let capture = manifest("../zfs/tests/captures").join(&name);
        let dir = tempfile::tempdir().unwrap();
        let options = programs(dir.path(), |program| replay(program, &capture));
        let sources = poller(&capture, options).refresh(PATIENCE).unwrap();
        for source in &sources {
            assert!(source.is_up(), "{name}: {source:?}");
        }
        println!("{name}");
        let plain = metrics(&sources, TextFormat::Prometheus);
        let open = metrics(&sources, TextFormat::OpenMetrics);
        let families = parsed_exposition::parse(&plain, TextFormat::Prometheus);
        check_same_samples(&families, &parsed_exposition::parse(&open, TextFormat::OpenMetrics));
        check_states(&families);
        let is_whole = |format| WHOLE.contains(&(name.as_str(), format));
        let prometheus = match is_whole(TextFormat::Prometheus) {
            true => ("prom", plain.clone()),
            false => ("state", state_text::text(&sources, &families)),
        };
        let open = is_whole(TextFormat::OpenMetrics).then_some(("openmetrics", open));
        for (suffix, text) in [prometheus].into_iter().chain(open) {
            let golden = manifest("tests/golden").join(format!("{}.{suffix}", name.replace('/', "-")));
            if rewrite {
                fs::create_dir_all(golden.parent().unwrap()).unwrap();
                fs::write(&golden, &text).unwrap();
            } else if fs::read_to_string(&golden).unwrap_or_default() != text {
                different.push(golden);
            }
        }
    }
    assert!(different.is_empty(), "REWRITE=1 writes the files: {different:?}");
}

/// OpenMetrics has the samples of Prometheus's format, except the numbers of observations of histograms.
fn check_same_samples(prometheus: &[ParsedFamily<'_>], open_metrics: &[ParsedFamily<'_>]) {
    fn lines<'a>(families: &'a [ParsedFamily<'_>]) -> impl Iterator<Item = &'a str> {
        let samples = families.iter().flat_map(|family| &family.samples);
        samples.filter(|sample| !sample.name.ends_with("_count")).map(|sample| sample.line)
    }
    assert!(lines(prometheus).eq(lines(open_metrics)));
}

/// Each pool and each vdev is in one state.
fn check_states(families: &[ParsedFamily<'_>]) {
    for family in families.iter().filter(|of| STATES.contains(&of.family)) {
        for states in family
            .samples
            .chunk_by(|one, next| one.labels[..one.labels.len() - 1] == next.labels[..next.labels.len() - 1])
        {
            let present = states.iter().filter(|state| state.value == 1.0).count();
            let others = states.iter().filter(|state| state.value == 0.0).count();
            assert!(present == 1 && others == states.len() - 1 && others > 3, "{states:?}");
        }
    }
}

#[test]
fn commands_that_hang_stop_only_their_sources() {
    let capture = manifest("../zfs/tests/captures/openzfs-2.3.2/healthy");
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("hang");
    let line = |program: &str| {
        let answers = replay(program, &capture);
        format!("[ {program} = zfs ] || [ ! -e '{}' ] || exec sleep 1000\n{answers}", flag.display())
    };
    let deadline = Duration::from_millis(500);
    let poller = poller(&capture, CommandOptions { deadline, ..programs(dir.path(), line) });
    // On a busy machine, a command can exceed even its deadline; it then runs again.
    let all_up = || {
        let end = Instant::now() + PATIENCE;
        loop {
            let sources = poller.refresh(PATIENCE).unwrap();
            if sources.iter().all(SourceReadings::is_up) {
                return sources;
            }
            assert!(Instant::now() < end, "{sources:?}");
        }
    };
    let before = metrics(&all_up(), TextFormat::Prometheus);
    fs::write(&flag, "").unwrap();
    for _ in 0..3 {
        let sources = poller.refresh(Duration::from_millis(100)).unwrap();
        let source = |name: &str| sources.iter().find(|source| source.name.source == name).unwrap();
        for hung in ["kernel-status", "kernel-events"] {
            assert!(!source(hung).is_up(), "{:?}", source(hung));
        }
        assert!(source("kernel-counters").error.is_none(), "{sources:?}");
        assert_eq!(metrics(&sources, TextFormat::Prometheus), before, "the last values stay");
    }
    fs::remove_file(&flag).unwrap();
    all_up();
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_that_the_pool_is_suspended() {
    let capture = manifest("../zfs/tests/captures/openzfs-2.3.2/healthy/kstat");
    let pool = fs::read_dir(&capture).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("kstat/tank");
    fs::create_dir_all(&dir).unwrap();
    for file in fs::read_dir(pool.unwrap()).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    fs::write(dir.join("state"), "SUSPENDED\n").unwrap();
    let text = fs::read_to_string(dir.join("objset-0x36")).unwrap();
    // A dataset whose file cannot be read, one that has just gone, and a file that is cut.
    fs::create_dir(dir.join("objset-0xfffffd")).unwrap();
    fs::write(dir.join("objset-0xfffffe"), "").unwrap();
    fs::write(dir.join("objset-0xffffff"), &text[..20]).unwrap();
    fs::write(dir.join("txgs"), "cut").unwrap();
    let options = programs(root.path(), |_| "exit 1".to_owned());
    let sources = poller(root.path(), options).refresh(PATIENCE).unwrap();
    let counters = sources.iter().find(|source| source.name.source == "kernel-counters").unwrap();
    assert!(counters.is_up(), "{counters:?}");
    let problems = &counters.readings.as_ref().unwrap().problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    let metrics = metrics(std::slice::from_ref(counters), TextFormat::Prometheus);
    let state = |line: &&str| line.starts_with("poolwright_pool_state{") && line.ends_with(" 1");
    let state = metrics.lines().find(state).unwrap();
    assert!(state.contains("SUSPENDED"), "{state}");
    assert!(metrics.contains("poolwright_dataset_read_bytes"), "{metrics}");
}
