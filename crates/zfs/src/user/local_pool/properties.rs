//! Properties of datasets.

use poolwright_openzfs::Dataset;
use poolwright_openzfs::property::{self, Settings};

use super::{Answer, LocalPool};
use crate::user::{Fault, FaultKind, Kind, Value, name};

impl LocalPool {
    /// The read-only properties.
    pub(super) fn figures(&self, full: &str) -> Answer<Vec<Value>> {
        let info = self.info(full);
        let stats = info.stats.ok_or_else(|| Fault::new(libc::EIO, info.trouble.unwrap_or_default()))?;
        let value = |property: &str, value: String, size| Value {
            dataset: full.to_owned(),
            property: property.to_owned(),
            value,
            size,
            source: "-".to_owned(),
        };
        let ratio = |x100: u64| format!("{}.{:02}", x100 / 100, x100 % 100);
        let dirs: Vec<_> = info.mounted_on.iter().map(|dir| dir.display().to_string()).collect();
        let mut all = vec![
            value("type", if info.kind == Kind::Snapshot { "snapshot" } else { "filesystem" }.into(), false),
            value("used", stats.used.to_string(), true),
            value("referenced", stats.referenced.to_string(), true),
            value("logicalused", stats.logicalused.to_string(), true),
            value("logicalreferenced", stats.logicalreferenced.to_string(), true),
            value("compressratio", ratio(stats.compressratio_x100), false),
            value("refcompressratio", ratio(stats.refcompressratio_x100), false),
            value("mounted", if dirs.is_empty() { "no" } else { "yes" }.into(), false),
            value("mountpoint", if dirs.is_empty() { "-".into() } else { dirs.join(",") }, false),
        ];
        if info.kind == Kind::Filesystem {
            let origin = self.pool.origin(name::inside(full))?;
            all.push(value("origin", origin.unwrap_or_else(|| "-".into()), false));
        }
        if let Some(available) = info.available {
            all.insert(1, value("available", available.to_string(), true));
        }
        Ok(all)
    }

    pub(super) fn settings_of(&self, full: &str) -> Answer<Vec<Value>> {
        let dataset = self.open(full)?;
        let one = |p: &property::Property| {
            let (value, source) = dataset.get_with_source(p.name)?;
            Ok(Value { dataset: full.to_owned(), property: p.name.to_owned(), value, size: p.size, source })
        };
        property::PROPERTIES.iter().chain(property::LIMITS).map(one).collect()
    }

    /// Sets all properties. If one fails, restores those that were set before it.
    pub(super) fn set_all(dataset: &Dataset, settings: &Settings) -> Answer<()> {
        let mut before: Vec<(&str, String)> = Vec::new();
        for (property, value) in settings {
            let old = dataset.get(property)?;
            if let Err(why) = dataset.set(property, value) {
                for (property, old) in before.iter().rev() {
                    dataset.set(property, old)?;
                }
                return Err(why.into());
            }
            before.push((property, old));
        }
        Ok(())
    }

    /// Makes a dataset, and with `recursive` all datasets below it, inherit a property. Returns the changed datasets.
    pub(super) fn inherit(&self, root: &str, property: &str, recursive: bool) -> Answer<Vec<String>> {
        let _tree = self.lock();
        self.check_mine(root)?;
        self.must_exist(root)?;
        self.refuse_unwritable()?;
        let known = property::find_settable(property)?;
        if property::is_limit(known) {
            let message = format!("{property} cannot be inherited: it belongs to one dataset");
            let kind = FaultKind::NotInheritable { property: property.to_owned(), dataset: root.to_owned() };
            return Err(Fault::invalid(message).of_kind(kind));
        }
        let all = self.subtree(root, recursive)?;
        all.iter().try_for_each(|name| Ok::<_, Fault>(self.open(name)?.inherit(known.name)?))?;
        Ok(all)
    }
}
