//! The settings of a standby.

use std::path::Path;

use poolwright_dbms::postgresql::private;

use super::primary::Primary;

/// Further settings of the standby, which override those of the primary's configuration.
const SETTINGS: [&str; 18] = [
    "unix_socket_group=",
    "hot_standby=on",
    "max_standby_streaming_delay=0",
    "archive_cleanup_command=",
    "recovery_end_command=",
    "recovery_min_apply_delay=0",
    "recovery_target=",
    "recovery_target_timeline=latest",
    "recovery_target_lsn=",
    "recovery_target_name=",
    "recovery_target_time=",
    "recovery_target_xid=",
    "primary_slot_name=",
    "wal_receiver_create_temp_slot=on",
    "synchronous_standby_names=",
    "fsync=on",
    "dynamic_shared_memory_type=posix",
    // It writes a file into the data directory.
    "pg_prewarm.autoprewarm=off",
];
/// Settings that later versions do not have: the first such version, and the setting.
const FORMER: [(u32, &str); 2] =
    [(150_000, "stats_temp_directory=pg_stat_tmp"), (160_000, "promote_trigger_file=")];
/// Settings that earlier versions do not have: the first version with it, and the setting.
const LATER: [(u32, &str); 2] = [(140_000, "min_dynamic_shared_memory=0"), (170_000, "event_triggers=off")];

/// All settings of a standby of this primary, whose data directory is `root`.
pub(super) fn of(primary: &Primary, root: &Path, scratch: &Path) -> Vec<String> {
    let mut settings: Vec<String> =
        private::SETTINGS.iter().chain(&SETTINGS).map(|setting| (*setting).to_owned()).collect();
    settings.extend(FORMER.iter().filter(|(end, _)| primary.version < *end).map(|(_, of)| (*of).to_owned()));
    settings
        .extend(LATER.iter().filter(|(first, _)| primary.version >= *first).map(|(_, of)| (*of).to_owned()));
    settings.extend(primary.settings.iter().map(|(name, value)| format!("{name}={value}")));
    settings.extend(private::path_settings(scratch));
    settings.extend([
        format!("config_file={}", primary.config_file.display()),
        format!("data_directory={}", root.display()),
        format!("primary_conninfo={}", primary_conninfo(primary)),
    ]);
    settings
}

fn primary_conninfo(primary: &Primary) -> String {
    let quote = |value: &str| format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    let Primary { server, user, .. } = primary;
    format!(
        "host={} port={} user={} application_name=poolwright",
        quote(primary.host()),
        quote(&server.port),
        quote(user)
    )
}
