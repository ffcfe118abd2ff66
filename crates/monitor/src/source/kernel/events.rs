//! Events of the kernel module as counters.

use std::collections::BTreeMap;

use poolwright_zfs::kernel::command::version::InstalledVersion;
use poolwright_zfs::kernel::{CommandError, ZfsCommands};

use super::ENGINE;
use crate::family::*;
use crate::source::SourceName;
use crate::{Error, Readings, Result, Source};

/// Counts the events that appear in the module's log. The log keeps the last `zfs_zevent_len_max` events, so that events are
/// missed if more arrive between two reads.
#[derive(Debug)]
pub struct ModuleEvents {
    commands: ZfsCommands,
    /// Number of events by pool and class.
    counts: BTreeMap<(String, String), u64>,
    /// The number of the last event.
    last: u64,
    version: Option<InstalledVersion>,
}

impl ModuleEvents {
    pub fn new(commands: ZfsCommands) -> ModuleEvents {
        ModuleEvents { commands, counts: BTreeMap::new(), last: 0, version: None }
    }

    fn count_new(&mut self) -> Result<()> {
        let events = self.commands.events()?;
        let newest = events.iter().map(|event| event.eid).max().unwrap_or(self.last);
        if newest < self.last {
            // The module was loaded again, and counts from 1.
            self.last = 0;
        }
        for event in events.into_iter().filter(|event| event.eid > self.last) {
            *self.counts.entry((event.pool.unwrap_or_default(), event.class)).or_default() += 1;
        }
        self.last = newest;
        Ok(())
    }
}

impl Source for ModuleEvents {
    fn name(&self) -> SourceName {
        SourceName { source: "kernel-events", pool: String::new() }
    }

    fn read(&mut self) -> Result<Readings> {
        if self.version.is_none() {
            self.version = Some(self.commands.version()?);
        }
        match self.count_new() {
            // Only root may read the events. The source does not fail for other users, who can read everything else.
            Err(Error::Command(CommandError::PermissionDenied { .. })) => {}
            other => other?,
        }
        let mut readings = Readings::default();
        if let Some(version) = &self.version {
            let kernel = version.kernel.as_ref().map_or("", |release| &release.text);
            readings.add(&MODULE_RELEASE, [ENGINE, kernel, &version.userland.text]).flag(&MODULE_INFO, true);
        }
        for ((pool, class), count) in &self.counts {
            readings.add(&EVENT, [ENGINE, pool, class]).count(&EVENTS, *count);
        }
        Ok(readings)
    }
}
