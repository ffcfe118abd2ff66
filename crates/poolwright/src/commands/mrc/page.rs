//! The outcome of an `mrc` run, in the form that is rendered.

use poolwright_host::machine::MachineInfo;
use poolwright_openzfs::Engine;
use poolwright_render::mrc_page::{self, Report};
use poolwright_render::mrc_text::{self, Run};

use super::analysis::Explanation;
use super::result::{Ended, MrcResult};

/// Borrows the outcome of a run for rendering.
pub fn to_run<'a>(found: &'a MrcResult, explanation: &'a Explanation) -> Run<'a> {
    Run {
        source: &found.source,
        format: found.format,
        ended: match found.ended {
            Ended::Done => mrc_text::Ended::Done,
            Ended::Interrupted => mrc_text::Ended::Interrupted,
            Ended::Empty => mrc_text::Ended::Empty,
        },
        duration_ns: found.duration_ns,
        skipped: &found.skipped,
        lost_events: found.lost_events,
        unseen: &found.unseen,
        notes: &found.notes,
        share: found.share,
        memory_bytes: found.memory,
        seconds: found.seconds,
        curves: &explanation.curves,
        given: &explanation.given,
        split: explanation.split.as_ref(),
    }
}

/// Renders the page.
pub fn html(run: &Run<'_>) -> String {
    let mut fields = MachineInfo::read().fields();
    fields.insert("openzfs".to_owned(), Engine::version());
    fields.insert("poolwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let machine: Vec<(String, String)> = fields
        .into_iter()
        .map(|(name, value)| match (name.as_str(), value.parse()) {
            ("memory_bytes", Ok(bytes)) => ("memory".to_owned(), mrc_page::format::bytes(bytes)),
            _ => (name, value),
        })
        .collect();
    mrc_page::html(&Report {
        source: run.source,
        creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")),
        about: &mrc_text::about(run),
        machine: &machine,
        curves: run.curves,
        host: run.given.host,
        split: run.split,
        warnings: &mrc_text::warnings(run),
        json: &format!("{:#}", mrc_text::json(run)),
    })
}
