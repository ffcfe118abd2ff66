//! Running `zpool` and `zfs`: programs that hang, flood, fail or are missing, and programs that answer as in a capture.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_zfs::kernel::command::histogram::HistogramKind;
use poolwright_zfs::kernel::{CommandError, CommandOptions, HealthState, ZfsCommands};

/// The programs in a directory of `tests/fake`.
fn fake(name: &str, deadline: Duration) -> ZfsCommands {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake").join(name);
    let options = CommandOptions {
        zpool: Some(dir.join("zpool")),
        zfs: Some(dir.join("zfs")),
        device: None,
        deadline,
        max_stuck: 2,
        ..CommandOptions::default()
    };
    ZfsCommands::new(options)
}

/// Far more than any of the programs needs.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_program_that_hangs_times_out() {
    let deadline = Duration::from_millis(300);
    let commands = fake("sleeps", deadline);
    let start = Instant::now();
    let error = commands.list().unwrap_err();
    assert!(start.elapsed() >= deadline && start.elapsed() < Duration::from_secs(30));
    assert!(matches!(error, CommandError::TimedOut { deadline: limit, .. } if limit == deadline), "{error}");
    assert!(error.to_string().starts_with("zpool list -Hp -o name,"), "{error}");
    assert!(error.to_string().ends_with(" did not end within 0.3 s"), "{error}");
    let end = Instant::now() + LONG;
    while commands.stuck() > 0 {
        assert!(Instant::now() < end, "the killed program was not reaped");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn stuck_programs_keep_others_from_starting() {
    let commands = fake("escapes", Duration::from_millis(300));
    for count in 1..=2 {
        assert!(matches!(commands.list(), Err(CommandError::TimedOut { .. })));
        assert_eq!(commands.stuck(), count);
    }
    let error = commands.list().unwrap_err();
    assert!(matches!(error, CommandError::Stuck { count: 2, .. }), "{error}");
}

#[test]
fn output_has_a_limit() {
    let mut options = fake("floods", LONG).options().clone();
    options.max_output = 1 << 20;
    let error = ZfsCommands::new(options).list().unwrap_err();
    assert!(matches!(error, CommandError::TooLarge { limit: 1_048_576, .. }), "{error}");
}

#[test]
fn a_program_that_fails() {
    let commands = fake("fails", LONG);
    let error = commands.events().unwrap_err();
    assert!(matches!(&error, CommandError::Failed { code: Some(1), .. }), "{error}");
    assert!(error.to_string().ends_with(" failed (exit status 1): permanent failure"), "{error}");
    let gone = commands.list().unwrap_err();
    assert!(matches!(&gone, CommandError::NoSuchPool { pool } if pool == "tank"), "{gone}");
    let gone = commands.vdev_counters("tank").unwrap_err();
    assert!(matches!(&gone, CommandError::NoSuchPool { pool } if pool == "tank"), "{gone}");
    let option = commands.vdev_counters("-x").unwrap_err();
    assert!(matches!(&option, CommandError::NoSuchPool { pool } if pool == "-x"), "{option}");
}

#[test]
fn programs_that_cannot_be_used() {
    let denied = fake("denied", LONG).list().unwrap_err();
    assert!(matches!(&denied, CommandError::PermissionDenied { .. }), "{denied}");
    let not_root = fake("not-root", LONG).list().unwrap_err();
    assert!(matches!(&not_root, CommandError::PermissionDenied { .. }), "{not_root}");
    assert!(not_root.to_string().ends_with("must be run as root."), "{not_root}");
    let missing = fake("missing", LONG).list().unwrap_err();
    assert!(matches!(&missing, CommandError::NotInstalled(program) if program.ends_with("missing/zpool")));
}

#[test]
fn nothing_is_run_without_the_kernel_module() {
    let mut options = fake("floods", LONG).options().clone();
    options.device = Some(PathBuf::from("/missing/zfs"));
    let error = ZfsCommands::new(options).list().unwrap_err();
    assert!(matches!(error, CommandError::ModuleNotLoaded(_)), "{error}");
}

/// The numbers of datasets whose space and whose properties are printed.
fn datasets(commands: &ZfsCommands) -> (usize, usize) {
    let (mut spaces, mut properties) = (0, 0);
    commands.for_each_dataset(|_| spaces += 1).unwrap();
    commands.for_each_properties(|_| properties += 1).unwrap();
    (spaces, properties)
}

/// Whether the properties of the first dataset have this one.
fn has_property(commands: &ZfsCommands, property: &str) -> bool {
    let mut found = Vec::new();
    commands.for_each_properties(|of| found.push(of.properties.contains_key(property))).unwrap();
    found[0]
}

#[test]
fn all_commands_of_2_3() {
    let options = fake("healthy", LONG).options().clone();
    let all = ZfsCommands::new(options.clone());
    assert_eq!(all.version().unwrap().userland.minor, 3);
    for commands in [all, ZfsCommands::of_pool(options.clone(), "tank")] {
        let pools = commands.status().unwrap();
        assert_eq!((pools.len(), pools[0].walk().count()), (1, 11));
        assert_eq!(commands.list().unwrap()[0].name, "tank");
        assert_eq!(commands.vdev_counters("tank").unwrap().unwrap().len(), 9);
        assert_eq!(commands.histograms(HistogramKind::Latency).unwrap().len(), 10);
        assert_eq!(commands.histograms(HistogramKind::RequestSize).unwrap().len(), 10);
        assert_eq!(datasets(&commands), (6, 6));
        assert_eq!(commands.snapshots().unwrap().len(), 5);
        assert!(!commands.events().unwrap().is_empty());
    }
    for name in ["-v", "", "1", "/tank"] {
        let refused = ZfsCommands::of_pool(options.clone(), name).list().unwrap_err();
        assert!(matches!(&refused, CommandError::NoSuchPool { pool } if pool == name), "{refused}");
    }
}

#[test]
fn a_suspended_pool_and_no_pool() {
    let suspended = fake("suspended", LONG);
    assert_eq!(suspended.status().unwrap()[0].state, HealthState::Suspended);
    let none = fake("none", LONG);
    assert_eq!(none.status().unwrap(), []);
    assert_eq!(none.list().unwrap(), []);
    assert_eq!(none.histograms(HistogramKind::Latency).unwrap(), []);
    assert_eq!(datasets(&none).0, 0);
    assert_eq!(none.snapshots().unwrap(), []);
}

#[test]
fn the_text_output_of_2_1() {
    let commands = fake("old", LONG);
    let pools = commands.status().unwrap();
    assert_eq!((pools.len(), &pools[0].state), (1, &HealthState::Degraded));
    assert!(pools[0].walk().skip(1).all(|(_, vdev)| vdev.guid.is_some()));
    assert_eq!(commands.vdev_counters("tank").unwrap(), None);
}

#[test]
fn properties_that_2_1_does_not_know_are_left_out() {
    assert!(has_property(&fake("healthy", LONG), "prefetch"));
    let old = fake("old", LONG);
    // The second time, it is not asked for any more.
    for _ in 0..2 {
        assert!(!has_property(&old, "prefetch"));
        assert!(has_property(&old, "dedup"));
    }
}
