//! The table of metrics as JSON: `/api/v1/families`.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use crate::family::{FAMILIES, MetricFamily, RESOURCES};

/// The definitions of all metrics and of the resources that have them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiDefinitions {
    /// The metric families, in the order of the documentation.
    pub families: Vec<ApiFamily>,
    /// The types of resources, in the order of the documentation.
    pub resources: Vec<ApiResourceType>,
}

/// A metric family.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiFamily {
    /// The full name.
    pub name: &'static str,
    /// `gauge`, `counter` or `histogram`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `bytes`, `seconds`, `ratio`, or empty for numbers and conditions.
    pub unit: &'static str,
    /// The type of the resources that have the metric.
    pub resource: &'static str,
    /// The names of their labels.
    pub labels: &'static [&'static str],
    /// The meaning, as one or more sentences.
    pub help: &'static str,
}

/// A type of resource.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiResourceType {
    /// The name, as in the readings.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The meaning, as one or more sentences.
    pub help: &'static str,
}

impl ApiDefinitions {
    /// The definitions in the table of metrics.
    pub fn of_table() -> ApiDefinitions {
        let resource = |of: &&crate::family::ResourceType| ApiResourceType {
            kind: of.name,
            labels: of.labels,
            help: of.help,
        };
        ApiDefinitions {
            families: FAMILIES.iter().map(|family| ApiFamily::from(*family)).collect(),
            resources: RESOURCES.iter().map(resource).collect(),
        }
    }
}

impl From<&MetricFamily> for ApiFamily {
    fn from(family: &MetricFamily) -> ApiFamily {
        ApiFamily {
            name: family.name,
            kind: family.kind.name(),
            unit: family.unit.suffix(),
            resource: family.resource.name,
            labels: family.resource.labels,
            help: family.help,
        }
    }
}

/// Answers a request with the definitions.
pub async fn definitions() -> Json<ApiDefinitions> {
    Json(ApiDefinitions::of_table())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_listed_with_its_help() {
        let json = serde_json::to_value(ApiDefinitions::of_table()).unwrap();
        let families = json["families"].as_array().unwrap();
        assert_eq!(families.len(), FAMILIES.len());
        let written =
            families.iter().find(|family| family["name"] == "poolwright_vdev_written_bytes_total").unwrap();
        let expected = serde_json::json!({
            "name": "poolwright_vdev_written_bytes_total",
            "type": "counter",
            "unit": "bytes",
            "resource": "vdev",
            "labels": ["engine", "pool", "vdev", "class"],
            "help": "Bytes written.",
        });
        assert_eq!(*written, expected);
        let resources = json["resources"].as_array().unwrap();
        for family in families {
            assert!(resources.iter().any(|of| of["type"] == family["resource"]), "{family}");
        }
    }
}
