//! Parses the file's top level, which applies to all studies.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;

use super::entry::{dataset, known_scale};
use super::text::{Fields, Source};
use super::{Campaign, Parameters, PoolSpec, SMALL, study, values};
use crate::Result;

/// Parses and checks the whole file.
pub(super) fn campaign(source: &Source<'_>) -> Result<Campaign> {
    let tree = source.tree()?;
    let fields = Fields::of_file(source, tree.get_ref());
    let name = fields.need("name")?;
    let file = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if name.word()? != file {
        return Err(name.error(format!("the campaign is named {:?}, but its file {file:?}", name.word()?)));
    }
    let mut campaign = Campaign {
        name: name.word()?,
        title: fields.need("title")?.line()?,
        about: fields.get("about").map_or(Ok(String::new()), |n| n.text())?,
        source: fields.get("source").map_or(Ok(String::new()), |n| n.text())?,
        needs: fields.get("needs").map_or(Ok(Vec::new()), |n| n.lines())?,
        scale: scales(&fields)?,
        space: BTreeMap::new(),
        pool: PoolSpec::default(),
        datasets: BTreeMap::new(),
        studies: Vec::new(),
    };
    if let Some(node) = fields.get("space") {
        for entry in node.entries()? {
            known_scale(&entry, entry.key(), &campaign.scale)?;
            campaign.space.insert(entry.key().to_owned(), values::size(&entry)?);
        }
    }
    if let Some(node) = fields.get("pool") {
        campaign.pool = values::pool(node.fields("the pool")?, &campaign.pool)?;
    }
    campaign.datasets = datasets(&fields)?;
    let studies = fields.need("study")?;
    for node in studies.list()? {
        let study = study::study(&node, &campaign, &fields)?;
        if campaign.study(&study.name).is_some() {
            return Err(node.error(format!("duplicate study {:?}", study.name)));
        }
        campaign.studies.push(study);
    }
    if campaign.studies.is_empty() {
        return Err(studies.error("the campaign has no study; add [[study]]"));
    }
    fields.end()?;
    Ok(campaign)
}

fn scales(fields: &Fields<'_>) -> Result<BTreeMap<String, Parameters>> {
    let mut scales = BTreeMap::new();
    let Some(node) = fields.get("scale") else {
        return Ok(BTreeMap::from([(SMALL.to_owned(), Parameters::new())]));
    };
    for entry in node.entries()? {
        scales.insert(entry.key().to_owned(), entry.object()?);
    }
    if !scales.contains_key(SMALL) {
        return Err(node.error(format!("missing [scale.{SMALL}], the default scale")));
    }
    Ok(scales)
}

/// Parses the campaign's datasets. They are optional: each study may name its own.
fn datasets(fields: &Fields<'_>) -> Result<BTreeMap<String, Settings>> {
    let mut datasets = BTreeMap::new();
    if let Some(node) = fields.get("datasets") {
        for entry in node.entries()? {
            dataset(&entry, &mut datasets)?;
        }
    }
    Ok(datasets)
}
