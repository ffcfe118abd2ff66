//! Properties that child datasets would inherit, and that are set on them to keep their present values.

use std::collections::BTreeMap;

use poolwright_zfs::datasets::DatasetAdmin;
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};

use crate::Result;
use crate::work::{DatasetWork, PropertyChange};

/// The datasets below another one, with their properties.
pub(super) type PropertiesBelow = Vec<(String, BTreeMap<String, SourcedValue>)>;

pub(super) fn properties_below(admin: &dyn DatasetAdmin, dataset: &str) -> Result<PropertiesBelow> {
    let below = admin.tree(dataset)?.into_iter().skip(1);
    below.map(|of| Ok((of.name.clone(), admin.properties(&of.name)?))).collect()
}

/// The changes that keep the values of datasets below, which inherit the property.
pub(super) fn pinned(below: &PropertiesBelow, dataset: &str, property: &str) -> Vec<PropertyChange> {
    let is_inherited = |source: &PropertySource| match source {
        PropertySource::Inherited(from) => from == dataset || is_above(from, dataset),
        source => *source == PropertySource::Default,
    };
    let inheriting = below.iter().filter_map(|(name, properties)| {
        let before = properties.get(property).filter(|before| is_inherited(&before.source))?;
        Some((name, before))
    });
    let inheriting: Vec<_> = inheriting.collect();
    // A dataset below another one that is pinned inherits from it.
    let topmost =
        inheriting.iter().filter(|(name, _)| !inheriting.iter().any(|(other, _)| is_above(other, name)));
    let keep = |(name, before): &(&String, &SourcedValue)| PropertyChange {
        dataset: (*name).clone(),
        property: property.to_owned(),
        before: (*before).clone(),
        value: before.value.clone(),
    };
    topmost.map(keep).collect()
}

/// Removes the changes that keep a value of a dataset which another part of the plan changes.
pub(super) fn drop_pins(datasets: &mut [DatasetWork]) {
    let own: Vec<(String, String)> = datasets
        .iter()
        .flat_map(|of| of.changes.iter().filter(|change| change.dataset == of.dataset))
        .map(|change| (change.dataset.clone(), change.property.clone()))
        .collect();
    for of in datasets {
        let dataset = of.dataset.clone();
        of.changes.retain(|change| {
            change.dataset == dataset
                || !own.iter().any(|(a, b)| (a, b) == (&change.dataset, &change.property))
        });
    }
}

/// Whether dataset `a` contains dataset `b`.
pub(super) fn is_above(a: &str, b: &str) -> bool {
    b.strip_prefix(a).is_some_and(|rest| rest.starts_with('/'))
}
