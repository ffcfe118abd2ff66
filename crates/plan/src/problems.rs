//! Reasons why a plan must not be applied.

use std::collections::BTreeMap;

use poolwright_base::quoted;
use poolwright_openzfs::property;

use super::{FORMAT, Plan, Role, RolePlan, VERSION, Verdict, places};

/// The risk of `copies=1`, which changes only datasets that have more.
const ONE_COPY: &str = "copies=1: what is written afterwards is stored once, and a damaged block cannot be repaired from a second copy";

/// The properties that have values which can lose data ([`Plan::risks`]).
pub const RISKY_PROPERTIES: [&str; 4] = ["checksum", "copies", "redundant_metadata", "sync"];

/// A recommended value that can lose data. `tune` recommends none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRisk {
    /// The directory of the role.
    pub path: String,
    /// The property.
    pub property: String,
    /// The value, and what it risks.
    pub why: &'static str,
}

impl std::fmt::Display for PlanRisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", quoted(&self.path), self.why)
    }
}

impl Plan {
    /// Returns the reasons why this plan must not be applied, its risks among them; none for a plan as `tune` makes it.
    pub fn problems(&self) -> Vec<String> {
        let risks = self.risks().into_iter().map(|risk| risk.to_string());
        self.defects().into_iter().chain(risks).collect()
    }

    /// Returns the recommended values that can lose data, whatever reason the plan gives for them.
    pub fn risks(&self) -> Vec<PlanRisk> {
        let mut found = Vec::new();
        for role in &self.roles {
            for (name, value) in &role.recommended {
                let one_copy = (name == "copies" && value == "1").then_some(ONE_COPY);
                if let Some(why) = property::risk(name, value).or(one_copy) {
                    found.push(PlanRisk { path: role.path.clone(), property: name.clone(), why });
                }
            }
        }
        found
    }

    /// The problems that no option accepts.
    pub(super) fn defects(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.format != FORMAT {
            found.push(format!("invalid plan: the format is {:?}, expected {FORMAT:?}", self.format));
        }
        if self.version > VERSION {
            found.push(format!(
                    "the plan has format version {}; this release reads versions up to {VERSION}: use the release that wrote the plan \
                     ({})",
                self.version, self.creator
            ));
        }
        let changes = self.roles.iter().any(|r| !r.recommended.is_empty());
        if changes != (self.verdict == Verdict::Change) {
            found.push(format!("the verdict is {:?}, but the roles contradict it", self.verdict));
        }
        let mut by_place: BTreeMap<&str, &RolePlan> = BTreeMap::new();
        for role in &self.roles {
            let other = by_place.entry(&role.location.mountpoint).or_insert(role);
            if other.recommended != role.recommended {
                found.push(format!(
                    "{} and {} share {}, but have different recommended properties",
                    other.role, role.role, role.location.mountpoint
                ));
            }
            let invalid = role.recommended.iter().filter_map(|(name, value)| invalid(role.role, name, value));
            found.extend(invalid.map(|why| format!("{}: {why}", quoted(&role.path))));
            found.extend(places::problem(&self.subject.directory, role));
        }
        found.extend(self.unprintable());
        found
    }

    /// The texts that `apply` prints must not move the cursor: they could hide what it prints about the plan.
    fn unprintable(&self) -> Option<String> {
        let roles = self.roles.iter().filter_map(|role| role.location.how.clone());
        let database = self.database.iter().flat_map(|of| [of.setting.clone(), of.value.clone()]);
        let texts = [self.why.clone(), self.pool.why.clone(), self.creator.clone()];
        let mut texts = roles.chain(database).chain(texts);
        texts
            .find(|text| text.contains(char::is_control))
            .map(|text| format!("a text has control characters: {text:?}"))
    }
}

/// The message about a property or a value that no trial can have.
fn invalid(role: Role, name: &str, value: &str) -> Option<String> {
    if let Some(why) = property::misplaced(name, role == Role::Volume) {
        return Some(why);
    }
    match property::is_tuned(name) {
        true => property::check(name, value).err().map(|why| why.to_string()),
        false => Some(format!("a plan cannot set {:?}", format!("{name}={value}"))),
    }
}

/// The properties that a plan can set, for messages.
pub(super) fn tuned_properties() -> String {
    let names = property::all().map(|of| of.name).filter(|name| property::is_tuned(name));
    names.collect::<Vec<_>>().join(", ")
}
