//! Plans: a plan that can be read is unchanged after writing and reading it again, and one without problems sets tuned properties only, and
//! makes links only in its database's directory.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use poolwright_openzfs::property;
use poolwright_plan::Plan;

fuzz_target!(|bytes: &[u8]| {
    let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return };
    if plan.problems().is_empty() {
        check(&plan);
    }
    let text = serde_json::to_string(&plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&text).expect("read the written plan");
    assert_eq!(serde_json::to_string(&again).expect("a plan is JSON"), text);
});

fn check(plan: &Plan) {
    let directory = Path::new(&plan.subject.directory);
    for role in &plan.roles {
        for (name, value) in &role.recommended {
            assert!(property::is_tuned(name), "{name}");
            assert!(property::check(name, value).is_ok() && property::risk(name, value).is_none(), "{name}={value}");
        }
        if let Some(link) = role.location.link.as_deref().map(Path::new) {
            let is_up = |component: Component<'_>| component == Component::ParentDir;
            assert!(link.starts_with(directory) && link != directory && !link.components().any(is_up), "{link:?}");
        }
    }
}
