//! The formats of output files, and the option that replaces a user's file.

pub use poolwright_base::Output;
use poolwright_base::output::{Format, Overwrite};
use poolwright_base::private;
use poolwright_plan::{BesidePlan as _, Confirmation, Verification};

/// The format of an output file, by which Poolwright recognizes files that it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plan of `tune`: JSON with the format's name.
    Plan,
    /// A confirmation of a plan.
    Confirmation,
    /// A verification of a plan.
    Verification,
    /// An HTML page with Poolwright as its generator.
    Page,
    /// Another program's format, which does not name its writer.
    Export,
}

impl From<Kind> for Format {
    /// Plans and pages are meant to be shown and contain no pages of a database, so the umask applies. An export is as private as
    /// the trace from which it was made.
    fn from(kind: Kind) -> Format {
        let shared =
            |is_ours| Format { is_ours: Some(is_ours), mode: private::SHARED_FILE, keeps_previous: true };
        match kind {
            Kind::Plan => shared(|head| is_json(head, poolwright_plan::FORMAT)),
            Kind::Confirmation => shared(|head| is_json(head, Confirmation::FORMAT)),
            Kind::Verification => shared(|head| is_json(head, Verification::FORMAT)),
            Kind::Page => shared(|head| head.contains(poolwright_report::GENERATOR)),
            Kind::Export => Format { is_ours: None, mode: private::FILE, keeps_previous: false },
        }
    }
}

/// Whether the text begins a JSON object of this format.
fn is_json(head: &str, format: &str) -> bool {
    head.split_whitespace().collect::<String>().starts_with(&format!(r#"{{"format":"{format}""#))
}

/// The option of each verb that writes an output file.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Force {
    /// Overwrite an output file that Poolwright did not write
    #[arg(long)]
    pub force: bool,
}

impl From<Force> for Overwrite {
    fn from(force: Force) -> Overwrite {
        if force.force { Overwrite::AllFiles } else { Overwrite::OwnFiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_pages_are_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let plan = "{\n  \"format\": \"poolwright-plan\"\n}\n";
        let page = format!("<!doctype html>\n<head>{}</head>", poolwright_report::GENERATOR);
        let confirmation = "{\"format\":\"poolwright-confirmation\",\"version\":1}\n";
        for (text, own) in [
            (plan, Some(Kind::Plan)),
            (confirmation, Some(Kind::Confirmation)),
            (page.as_str(), Some(Kind::Page)),
            ("notes", None),
        ] {
            std::fs::write(&path, text).unwrap();
            for kind in [Kind::Plan, Kind::Confirmation, Kind::Verification, Kind::Page, Kind::Export] {
                let opened = Output::open(&path, kind, Force { force: false });
                assert_eq!(opened.is_ok(), own == Some(kind), "{kind:?} {text}");
            }
        }
    }
}
