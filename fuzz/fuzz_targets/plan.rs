//! Plans: a plan that can be read is unchanged after writing and reading it again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_tune::plan::Plan;

fuzz_target!(|bytes: &[u8]| {
    let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return };
    let _ = plan.problems();
    let text = serde_json::to_string(&plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&text).expect("read the written plan");
    assert_eq!(serde_json::to_string(&again).expect("a plan is JSON"), text);
});
