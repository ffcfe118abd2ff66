//! The names of the models.

use clap::ValueEnum;

/// As `--model` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// The least recently used record leaves
    Lru,
    /// The textbook's adaptive replacement cache (Megiddo and Modha, FAST '03)
    Arc,
    /// OpenZFS's own ARC, as it is since 2.2
    Openzfs,
}

impl ModelName {
    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ModelName::Lru => "lru",
            ModelName::Arc => "arc",
            ModelName::Openzfs => "openzfs",
        }
    }
}
