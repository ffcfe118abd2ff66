//! Parses a campaign's file and checks its top level.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use toml::Spanned;

use super::fault::{Fault, Result, fault};
use super::file::{CampaignFile, FigureEntry};
use super::setting::{datasets, space};
use super::value::{DriverParameters, Word};
use super::{Campaign, DriverFigure, DriverMeasures, Parameters, PoolSpec, SMALL, study};

/// Parses and checks the whole file; `stem` is its name without the extension.
/// `stored`: the text is that of an earlier run, whose measures may be undeclared.
pub(super) fn campaign(stem: &str, text: &str, stored: bool) -> Result<Campaign> {
    let file = toml::Deserializer::parse(text).map_err(|error| {
        let why = format!("invalid TOML: {}", error.message());
        Fault { why, ..error.into() }
    })?;
    let file = CampaignFile::deserialize(file)?;
    let name = &file.name.get_ref().0;
    if name != stem {
        return Err(fault(&file.name, format!("the campaign is named {name:?}, but its file {stem:?}")));
    }
    let scale = scales(&file)?;
    let space = space(&file.space, &scale)?;
    let mut campaign = Campaign {
        name: name.clone(),
        title: file.title.0.clone(),
        about: file.about.clone(),
        source: file.source.clone(),
        needs: file.needs.iter().map(|package| package.0.clone()).collect(),
        scale,
        space,
        pool: file.pool.over(&PoolSpec::default()),
        datasets: BTreeMap::new(),
        driver: driver_measures(&file),
        studies: Vec::new(),
    };
    datasets(&file.datasets, &mut campaign.datasets)?;
    for entry in file.study.get_ref() {
        let study = study::study(entry, &file, &campaign, stored)?;
        if campaign.study(&study.name).is_some() {
            return Err(fault(entry, format!("duplicate study {:?}", study.name)));
        }
        campaign.studies.push(study);
    }
    if campaign.studies.is_empty() {
        return Err(fault(&file.study, "the campaign has no [[study]]"));
    }
    Ok(campaign)
}

fn driver_measures(file: &CampaignFile) -> DriverMeasures {
    let figure = |(name, entry): (&Spanned<Word>, &FigureEntry)| {
        let (title, unit) = (entry.title.0.clone(), entry.unit.0.clone());
        (name.get_ref().0.clone(), DriverFigure { title, unit, better: entry.better })
    };
    DriverMeasures {
        figures: file.figures.iter().map(figure).collect(),
        operations: file.operations.iter().map(|(name, title)| (name.0.clone(), title.0.clone())).collect(),
    }
}

fn scales(file: &CampaignFile) -> Result<BTreeMap<String, Parameters>> {
    let Some(entries) = &file.scale else {
        return Ok(BTreeMap::from([(SMALL.to_owned(), Parameters::new())]));
    };
    let scale = |(name, parameters): (&String, &DriverParameters)| (name.clone(), parameters.0.clone());
    let scales: BTreeMap<_, _> = entries.get_ref().iter().map(scale).collect();
    if !scales.contains_key(SMALL) {
        return Err(fault(entries, format!("missing [scale.{SMALL}], the default scale")));
    }
    Ok(scales)
}
