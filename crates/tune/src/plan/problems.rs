//! Reasons why a plan must not be applied.

use std::collections::BTreeMap;

use super::{FORMAT, Plan, Role, VERSION, Verdict};

/// Property values that can lose or corrupt data, and so require [`Role::safe_because`].
const UNSAFE: [(&str, &str); 3] = [("sync", "disabled"), ("checksum", "off"), ("redundant_metadata", "none")];

impl Plan {
    /// Returns the reasons why this plan must not be applied; none for a valid plan.
    pub fn problems(&self) -> Vec<String> {
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
        let mut places: BTreeMap<&str, &Role> = BTreeMap::new();
        for role in &self.roles {
            let other = places.entry(&role.location.mountpoint).or_insert(role);
            if other.recommended != role.recommended {
                found.push(format!(
                    "{} and {} share {}, but have different recommended properties",
                    other.role, role.role, role.location.mountpoint
                ));
            }
            for (property, value) in UNSAFE {
                let set = role.recommended.get(property).is_some_and(|v| v == value);
                if set && !role.safe_because.contains_key(property) {
                    found.push(format!(
                        "{}: {property}={value} is unsafe, and safe_because gives no reason",
                        role.path
                    ));
                }
            }
        }
        found
    }
}
