//! The identifier by which other files name a plan.

use sha2::{Digest as _, Sha256};

use super::Plan;

impl Plan {
    /// Returns the identifier: 16 hexadecimal digits of a SHA-256 over the time, the directory and the recommendations. The journal of
    /// `apply` and the files of `confirm` and `verify` name the plan by it.
    pub fn id(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(&self.created);
        add(&self.subject.directory);
        for role in &self.roles {
            add(role.role.name());
            add(&role.location.mountpoint);
            for (property, value) in &role.recommended {
                add(property);
                add(value);
            }
        }
        hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
