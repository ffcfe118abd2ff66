//! Checks the measures that a study names: its columns, and those of claims and recommendations.

use toml::Spanned;

use super::fault::{Result, fault};
use super::file::{MeasureEntries, StudyEntry};
use super::measure::DriverMeasures;
use super::setting::check_measure;
use super::value::Line;
use super::{Study, StudyTable};

/// The measures that a study may name.
pub(super) struct Columns<'a> {
    /// The measures of the drivers.
    pub driver: &'a DriverMeasures,
    /// Whether undeclared ones are permitted, because the text is that of an earlier run.
    pub stored: bool,
}

impl Columns<'_> {
    /// Adds the study's own tables, its own measures, or those of the campaign.
    pub fn add(
        &self,
        at: &Spanned<StudyEntry>,
        shared: Option<&MeasureEntries>,
        study: &mut Study,
    ) -> Result<()> {
        let entry = at.get_ref();
        match (&entry.measures, &entry.table[..]) {
            (Some(measures), []) => self.table("", measures, study),
            (None, []) => {
                let why = "missing field `measures` or a [[study.table]], in the study or the campaign";
                self.table("", shared.ok_or_else(|| fault(at, why))?, study)
            }
            (None, tables) => tables.iter().try_for_each(|table| {
                let table = table.get_ref();
                self.table(&table.question.0, &table.measures, study)
            }),
            (Some(measures), _) => Err(fault(measures, "a study has either measures or tables")),
        }
    }

    fn table(&self, question: &str, entries: &MeasureEntries, study: &mut Study) -> Result<()> {
        let mut measures = Vec::new();
        for at in entries.get_ref() {
            let measure = self.measure(at, study)?;
            if study.measures.contains(&measure) {
                return Err(fault(at, format!("duplicate measure {measure:?}")));
            }
            study.measures.push(measure.clone());
            measures.push(measure);
        }
        if measures.is_empty() {
            return Err(fault(entries, "no measure is named; at least the leading measure is required"));
        }
        study.tables.push(StudyTable { question: question.to_owned(), measures });
        Ok(())
    }

    /// Checks the name of a measure, and adds its words to the study.
    pub fn measure(&self, at: &Spanned<Line>, study: &mut Study) -> Result<String> {
        let whole = &at.get_ref().0;
        check_measure(whole, &study.phases, &study.datasets)
            .map_err(|why| fault(at, format!("{whole:?}: {why}")))?;
        let info = match self.driver.find(study, whole) {
            Some(info) => info,
            None if self.stored => DriverMeasures::undeclared(whole),
            None => {
                let known = self.driver.known();
                return Err(fault(
                    at,
                    format!(
                        "unknown measure {whole:?}: declare it in [figures] or [operations]; known are {known}"
                    ),
                ));
            }
        };
        if !study.infos.contains(&info) {
            study.infos.push(info);
        }
        Ok(whole.clone())
    }
}
