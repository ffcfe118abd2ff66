//! The page of an `mrc` run.

use poolwright_host::machine::MachineInfo;
use poolwright_openzfs::Engine;

use super::analysis::Explanation;
use super::result::MrcResult;
use super::show;
use crate::mrc_page::{self, Report};

/// The whole page.
pub fn html(found: &MrcResult, explanation: &Explanation) -> String {
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
        source: &found.source,
        creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")),
        about: &show::about(found),
        machine: &machine,
        curves: &explanation.curves,
        host: explanation.given.host,
        split: explanation.split.as_ref(),
        warnings: &show::warnings(found),
        json: &format!("{:#}", show::json(found, explanation)),
    })
}
