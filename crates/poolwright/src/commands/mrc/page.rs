//! The HTML report.

use poolwright_base::machine::MachineInfo;
use poolwright_openzfs::Engine;
use poolwright_render::mrc_page::{self, Report};
use poolwright_render::mrc_text::{self, Run};

/// Renders the page.
pub fn html(run: &Run<'_>) -> String {
    let mut fields = MachineInfo::read().fields();
    fields.insert("openzfs".to_owned(), Engine::version());
    fields.insert("poolwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let machine: Vec<(String, String)> = fields
        .into_iter()
        .map(|(name, value)| match (name.as_str(), value.parse()) {
            ("memory_bytes", Ok(bytes)) => ("memory".to_owned(), poolwright_base::units::bytes(bytes)),
            _ => (name, value),
        })
        .collect();
    let explanation = run.explanation;
    mrc_page::html(&Report {
        source: &run.result.source,
        creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")),
        about: &mrc_text::about(run),
        machine: &machine,
        curves: &explanation.curves,
        host: explanation.given.host,
        split: explanation.split.as_ref(),
        warnings: &mrc_text::warnings(run),
        json: &format!("{:#}", mrc_text::json(run)),
    })
}
