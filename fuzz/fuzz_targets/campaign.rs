//! Parses campaigns and derives the trials of each study.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use poolwright_lab::campaign::SMALL;
use poolwright_lab::{Campaign, Error, order};

fuzz_target!(|text: &str| {
    let campaign = match Campaign::parse(Path::new("fuzz.toml"), text) {
        Ok(campaign) => campaign,
        Err(Error::Campaign { line, why, .. }) => {
            assert!(line >= 1 && line <= text.lines().count() + 1 && !why.is_empty());
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    for study in &campaign.studies {
        let _ = study.space(SMALL);
        let cases = order::block(study, 1, 0);
        assert!(!cases.is_empty());
        for case in cases.iter().take(100) {
            let conditions = order::conditions(&campaign, study, SMALL, case);
            assert!(!conditions.datasets.is_empty());
        }
        let _ = study.needs_pool();
    }
});
