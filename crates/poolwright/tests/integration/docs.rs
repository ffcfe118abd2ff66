//! Compares the generated parts of the documentation with the program's output. `REWRITE=1` rewrites them.

use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A directory with the output of `poolwright generate`.
fn generated() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
        .arg("generate")
        .arg(dir.path())
        .assert()
        .success();
    dir
}

/// Compares a page with the expected text, or rewrites it.
fn check(path: &Path, expected: &str) {
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let actual = std::fs::read_to_string(path).unwrap_or_default();
    assert!(actual == expected, "{} is out of date; run this test with REWRITE=1", path.display());
}

#[test]
fn the_page_of_commands_is_the_generated_one() {
    let dir = generated();
    let expected = std::fs::read_to_string(dir.path().join("docs/commands.md")).unwrap();
    check(&docs().join("commands.md"), &expected);
}

#[test]
fn tables_of_the_reference_are_the_generated_ones() {
    let dir = generated();
    for (page, tables) in [
        ("reference.md", ["verbs", "exit-codes", "devices", "goals"].as_slice()),
        ("inspect.md", &["inspection-rules"]),
    ] {
        check_tables(dir.path(), &docs().join(page), tables);
    }
}

/// Compares the tables between markers in a page with the generated ones.
fn check_tables(generated: &Path, path: &Path, tables: &[&str]) {
    let mut page = std::fs::read_to_string(path).unwrap();
    for name in tables {
        let table = std::fs::read_to_string(generated.join(format!("docs/{name}.md"))).unwrap();
        let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end of generated -->\n");
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no marker of {name}"));
        let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("no end of {name}"));
        page = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    check(path, &page);
}

/// The names of the files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_schemas_are_the_generated_ones() {
    let dir = generated();
    let (made, kept) = (dir.path().join("schema"), docs().join("schema"));
    let made_names = names(&made);
    for name in &made_names {
        check(&kept.join(name), &std::fs::read_to_string(made.join(name)).unwrap());
    }
    let index = std::fs::read_to_string(docs().join("schema.md")).unwrap();
    for name in &made_names {
        assert!(index.contains(&format!("](schema/{name})")), "docs/schema.md does not link {name}");
    }
    assert_eq!(names(&kept), made_names, "remove the schemas that are not generated");
}

#[test]
fn every_field_of_a_schema_has_a_description() {
    let dir = generated();
    for name in names(&dir.path().join("schema")) {
        let text = std::fs::read_to_string(dir.path().join("schema").join(&name)).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut missing = Vec::new();
        undescribed(&schema, "", &mut missing);
        assert!(missing.is_empty(), "{name}: no description of {}", missing.join(", "));
    }
}

/// Adds the fields without a description. Those of the variants of an enum have none: the only field of a variant, whose description
/// is that of the variant, and the constant that names a variant.
fn undescribed(schema: &serde_json::Value, path: &str, missing: &mut Vec<String>) {
    let is_variant = path.ends_with("/oneOf") && schema["description"].is_string();
    match schema {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}/{key}");
                let Some(properties) = value.as_object().filter(|_| key == "properties") else {
                    undescribed(value, &path, missing);
                    continue;
                };
                for (name, property) in properties {
                    let is_exempt = is_variant && (properties.len() == 1 || property["const"].is_string());
                    if !is_exempt && !property["description"].is_string() {
                        missing.push(format!("{path}/{name}"));
                    }
                    undescribed(property, &format!("{path}/{name}"), missing);
                }
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|one| undescribed(one, path, missing)),
        _ => {}
    }
}
