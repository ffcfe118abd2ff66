//! The names of the models.

/// A model that an analysis can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelName {
    /// Evicts the least recently used record.
    Lru,
    /// The textbook ARC (Megiddo and Modha, FAST '03).
    Arc,
    /// The ARC of OpenZFS since 2.2.
    Openzfs,
}

impl ModelName {
    /// Every model.
    pub const ALL: [ModelName; 3] = [ModelName::Lru, ModelName::Arc, ModelName::Openzfs];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ModelName::Lru => "lru",
            ModelName::Arc => "arc",
            ModelName::Openzfs => "openzfs",
        }
    }

    /// The model with this name.
    pub fn from_name(name: &str) -> Option<ModelName> {
        ModelName::ALL.into_iter().find(|model| model.name() == name)
    }
}
