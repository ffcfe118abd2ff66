//! A dashboard as Grafana reads it (the schema of dashboards before version 2, which all releases since 10 read).

mod fields;
mod options;

use serde_json::{Value, json};

use crate::board::{Board, TAG, Variable, VariableValues};
use crate::metric::QueryMetric;
use crate::panel::{Panel, PanelKind, PanelQuery};
use crate::query::{Context, Scope};

/// The version of the schema: that of Grafana 10.4 and later. Grafana migrates it when it loads the file.
const SCHEMA_VERSION: u32 = 39;
/// Columns of a dashboard.
const COLUMNS: u32 = 24;

/// The data source that the user chooses.
fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// The dashboard as JSON.
pub fn dashboard(board: &Board) -> Value {
    json!({
        "uid": board.uid,
        "title": board.title,
        "description": board.help,
        "tags": [TAG],
        "editable": true,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "timezone": "browser",
        "refresh": "1m",
        "time": { "from": "now-6h", "to": "now" },
        "annotations": { "list": [] },
        "links": [{
            "type": "dashboards",
            "title": "Poolwright",
            "tooltip": "The other dashboards, with the same time range and variables",
            "icon": "dashboard",
            "tags": [TAG],
            "url": "",
            "asDropdown": true,
            "includeVars": true,
            "keepTime": true,
            "targetBlank": false,
        }],
        "templating": { "list": variables(board) },
        "panels": panels(board),
    })
}

fn variables(board: &Board) -> Vec<Value> {
    let source = Variable {
        name: "datasource",
        title: "Data source",
        help: "The Prometheus that scrapes the exporters",
        choice: VariableValues::Datasource,
        scope: None,
    };
    let first = variable(&source, &Scope::default());
    let others = board.variables.iter().enumerate();
    [first].into_iter().chain(others.map(|(at, other)| variable(other, &board.scope(at)))).collect()
}

/// One variable. Its values depend on those of the variables before it.
fn variable(variable: &Variable, scope: &Scope) -> Value {
    let mut json = json!({
        "name": variable.name,
        "label": variable.title,
        "description": variable.help,
        "hide": 0,
        "skipUrlSync": false,
    });
    let rest = match variable.choice {
        VariableValues::Datasource => {
            json!({ "type": "datasource", "query": "prometheus", "refresh": 1, "regex": "" })
        }
        VariableValues::Label { metric, label, is_multiple } => {
            label_values(metric, label, is_multiple, scope)
        }
        VariableValues::List(values) => {
            let option =
                |value: &&str| json!({ "text": value, "value": value, "selected": *value == values[0] });
            json!({
                "type": "custom",
                "query": values.join(","),
                "options": values.iter().map(option).collect::<Vec<_>>(),
                "current": option(&values[0]),
                "multi": false,
                "includeAll": false,
            })
        }
        VariableValues::Pattern => {
            let option = json!({ "text": ".*", "value": ".*", "selected": true });
            json!({ "type": "textbox", "query": ".*", "current": option, "options": [option] })
        }
    };
    merge(&mut json, rest);
    json
}

fn label_values(metric: QueryMetric, label: &'static str, is_multiple: bool, scope: &Scope) -> Value {
    assert!(metric.labels().any(|known| known == label), "{} has no label {label}", metric.name());
    let series = crate::query::of(metric).text(Context::new(scope, true));
    let query = format!("label_values({series}, {label})");
    let mut json = json!({
        "type": "query",
        "datasource": datasource(),
        "query": { "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery" },
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "multi": is_multiple,
        "includeAll": is_multiple,
    });
    if is_multiple {
        let all = json!({ "text": ["All"], "value": ["$__all"], "selected": true });
        merge(&mut json, json!({ "current": all }));
    }
    // Without `allValue`, all jobs are those that have exporters of Poolwright. Other labels have too many values to list them
    // in each query; the pattern also selects series without the label, such as the kernel's ARC, which has no pool.
    if is_multiple && label != "job" {
        merge(&mut json, json!({ "allValue": ".*" }));
    }
    json
}

/// Adds the fields of an object to another.
fn merge(to: &mut Value, from: Value) {
    let (Value::Object(to), Value::Object(from)) = (to, from) else { panic!("only objects are merged") };
    to.extend(from);
}

/// All panels with their places: from left to right, each row of panels below the one before.
fn panels(board: &Board) -> Vec<Value> {
    let scope = board.scope(board.variables.len());
    let (mut list, mut y) = (Vec::new(), 0);
    for row in &board.rows {
        list.push(json!({
            "type": "row",
            "id": list.len() + 1,
            "title": row.title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": y, "w": COLUMNS, "h": 1 },
            "panels": [],
        }));
        y += 1;
        let (mut x, mut height) = (0, 0);
        for shown in &row.panels {
            let (w, h) = shown.size;
            if x + w > COLUMNS {
                (x, y, height) = (0, y + height, 0);
            }
            let mut json = panel(shown, &scope);
            let place = json!({ "id": list.len() + 1, "gridPos": { "x": x, "y": y, "w": w, "h": h } });
            merge(&mut json, place);
            list.push(json);
            x += w;
            height = height.max(h);
        }
        y += height;
    }
    list
}

fn panel(shown: &Panel, scope: &Scope) -> Value {
    let queries = shown.queries.iter().enumerate();
    let mut json = json!({
        "type": options::type_name(shown.kind),
        "title": shown.title,
        "description": shown.description(),
        "datasource": datasource(),
        "targets": queries.map(|(at, query)| target(shown, at, query, scope)).collect::<Vec<_>>(),
        "fieldConfig": fields::field_config(shown),
        "options": options::options(shown),
        "transparent": false,
    });
    if shown.kind == PanelKind::Table {
        merge(&mut json, json!({ "transformations": options::table_transformations(shown) }));
    }
    if let Some(variable) = shown.repeat {
        merge(&mut json, json!({ "repeat": variable, "repeatDirection": "h", "maxPerRow": 2 }));
    }
    json
}

/// The id of the query at a position: A, B, …
fn ref_id(at: usize) -> String {
    char::from(b'A' + u8::try_from(at).expect("a panel has few queries")).to_string()
}

fn target(shown: &Panel, at: usize, query: &PanelQuery, scope: &Scope) -> Value {
    let is_instant = shown.kind.is_instant();
    let format = match shown.kind {
        PanelKind::Table => "table",
        PanelKind::Heatmap => "heatmap",
        _ => "time_series",
    };
    json!({
        "refId": ref_id(at),
        "datasource": datasource(),
        "expr": query.query.text(Context::new(scope, is_instant)),
        "legendFormat": if shown.kind == PanelKind::Table { "__auto" } else { query.legend },
        "format": format,
        "instant": is_instant,
        "range": !is_instant,
        "editorMode": "code",
    })
}
