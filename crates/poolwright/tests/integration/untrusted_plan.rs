//! A plan that another person wrote, or changed: what `apply` and `backup run` take from it, and what they show.

use std::fs;
use std::path::PathBuf;

use crate::common::mounted::Mounted;
use crate::common::second_pool::{FastPool, add_fast, write_plan};
use crate::common::skip_without_fuse;
use serde_json::{Value, json};

/// A database on `tank/db`, and another program's files on `tank/other`.
struct Datasets {
    // Its mounts are removed with those of the second pool, after this one's process was killed.
    fast: FastPool,
    mounted: Mounted,
}

impl std::ops::Deref for Datasets {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.mounted
    }
}

impl Datasets {
    fn new() -> Datasets {
        let datasets = Datasets { fast: FastPool(0), mounted: Mounted::on("a.img:1G") };
        for (name, file) in [("db", "db/wal/1"), ("other", "other/sub/precious")] {
            fs::create_dir(datasets.at(name)).unwrap();
            datasets.run(&format!("dataset create tank/{name}"));
            datasets.run(&format!("mount tank/{name} {name}"));
            fs::create_dir(datasets.at(file).parent().unwrap()).unwrap();
            fs::write(datasets.at(file), "x").unwrap();
        }
        datasets
    }

    fn with_second_pool() -> Datasets {
        let mut datasets = Datasets::new();
        datasets.fast = FastPool(add_fast(&datasets));
        datasets
    }

    /// The real path of a directory, which need not exist.
    fn real(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Writes a plan that recommends these properties for the database.
    fn plan(&self, recommended: Value) {
        let is_empty = recommended.as_object().unwrap().is_empty();
        let db = self.real("db");
        write_plan(self, None, &db, &db, recommended);
        self.edit_plan(|plan| {
            plan["roles"][0]["current"] = json!({});
            if is_empty {
                plan["verdict"] = json!("keep");
            }
        });
    }

    /// Adds a role to the plan that recommends `recommended` for a dataset in this place.
    fn add_role(&self, role: &str, place: Value, recommended: Value) {
        self.edit_plan(|plan| {
            let mut added = plan["roles"][0].clone();
            added["role"] = json!(role);
            (added["place"], added["recommended"]) = (place, recommended);
            plan["roles"].as_array_mut().unwrap().push(added);
            plan["verdict"] = json!("change");
        });
    }

    fn edit_plan(&self, edit: impl FnOnce(&mut Value)) {
        let mut plan = serde_json::from_slice(&fs::read(self.at("plan.json")).unwrap()).unwrap();
        edit(&mut plan);
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
    }

    fn property(&self, property: &str, dataset: &str) -> String {
        let found = self.json(&format!("dataset get {property} {dataset}"));
        found["values"][0]["value"].as_str().unwrap().to_owned()
    }

    /// The assessment that a dry run prints.
    fn assessment(&self, line: &str) -> Value {
        let (text, _) = self.output(&format!("{line} --json"));
        serde_json::from_str::<Value>(&text).unwrap()["assessment"].take()
    }

    /// Standard output and standard error of a run that succeeds.
    fn output(&self, line: &str) -> (String, String) {
        let done = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{line}: {}", text(&done.stderr));
        (text(&done.stdout), text(&done.stderr))
    }
}

const BACKUP: &str = "backup run db --to tank/bk --mountpoint bk --plan plan.json --database none";

#[test]
fn only_tuned_properties_are_set() {
    skip_without_fuse!();
    let datasets = Datasets::with_second_pool();
    for (name, value, expected) in [
        ("sharenfs", "rw=*", "a plan cannot set \"sharenfs=rw=*\""),
        ("setuid", "on", "a plan cannot set \"setuid=on\""),
        ("devices", "on", "a plan cannot set \"devices=on\""),
        ("mountpoint", "/etc/x", "a plan cannot set \"mountpoint=/etc/x\""),
        ("quota", "1M", "a plan cannot set \"quota=1M\""),
        ("snapdir", "visible", "a plan cannot set \"snapdir=visible\""),
        ("redund_md", "none", "a plan cannot set \"redund_md=none\""),
        ("checksum", "noparity", "checksum=noparity: expected on, off"),
        ("recordsize", "3K", "recordsize"),
    ] {
        let expected: &[&str] =
            &["refused: plan.json must not be followed", expected, "hint: use the plan as"];
        datasets.plan(json!({name: value}));
        datasets.fails("apply plan.json --dry-run", 3, expected);
        datasets.fails("apply plan.json --yes --allow-unsafe checksum", 3, expected);
        datasets.fails("apply plan.json --new-pool fast --yes", 3, expected);
        // In a role whose dataset would be created.
        datasets.plan(json!({}));
        let place = json!({"mountpoint": datasets.real("db-wal"), "separable": true, "how": "a link", "link": datasets.real("db/wal")});
        datasets.add_role("wal", place, json!({name: value}));
        datasets.fails("apply plan.json --yes", 3, expected);
        datasets.plan(json!({}));
        datasets.add_role("backup", json!({"mountpoint": "/x", "separable": true}), json!({name: value}));
        datasets.fails(BACKUP, 3, expected);
    }
    assert!(!datasets.at("db-wal").exists() && !datasets.at("bk").exists());
    let names = datasets.json("dataset list -r tank");
    assert_eq!(names["datasets"].as_array().unwrap().len(), 3, "{names}");
}

#[test]
fn unsafe_values_need_the_users_word() {
    skip_without_fuse!();
    let datasets = Datasets::with_second_pool();
    for (name, value) in
        [("sync", "disabled"), ("checksum", "off"), ("redundant_metadata", "none"), ("copies", "1")]
    {
        let setting = format!("{name}={value}");
        let option = format!("--allow-unsafe {name}");
        let expected: &[&str] = &["refused: plan.json can lose data", &setting, "hint: ", &option];
        datasets.plan(json!({name: value}));
        datasets.edit_plan(|plan| plan["roles"][0]["safe_because"] = json!({name: "trust me"}));
        datasets.fails("apply plan.json --yes", 3, expected);
        datasets.fails("apply plan.json --new-pool fast --yes", 3, expected);
        let other = if name == "sync" { "checksum" } else { "sync" };
        datasets.fails(&format!("apply plan.json --dry-run --allow-unsafe {other}"), 3, expected);
        datasets.plan(json!({}));
        datasets.add_role("backup", json!({"mountpoint": "/x", "separable": true}), json!({name: value}));
        datasets.fails(BACKUP, 3, expected);
    }
    datasets.fails("apply plan.json --allow-unsafe recordsize", 2, &["invalid value", "sync"]);

    datasets.plan(json!({"sync": "disabled"}));
    let (text, warning) = datasets.output("apply plan.json --dry-run --allow-unsafe sync");
    assert!(text.contains("sync      standard (default) → disabled"), "{text}");
    assert!(warning.contains("warning: ") && warning.contains("sync=disabled: fsync returns"), "{warning}");
    datasets.run("apply plan.json --yes --allow-unsafe sync");
    assert_eq!(datasets.property("sync", "tank/db"), "disabled");
    // Going back needs no option.
    datasets.run("undo plan.json --yes");
    assert_eq!(datasets.property("sync", "tank/db"), "standard");
}

#[test]
fn a_plan_cannot_reach_outside_of_its_database() {
    skip_without_fuse!();
    let datasets = Datasets::new();
    let refused = |mountpoint: PathBuf, link: Option<PathBuf>, expected: &str| {
        datasets.plan(json!({}));
        let mut place = json!({"mountpoint": mountpoint, "separable": true, "how": "a link"});
        if let Some(link) = link {
            place["link"] = json!(link);
        }
        datasets.add_role("wal", place, json!({"recordsize": "16K"}));
        datasets.fails("apply plan.json --dry-run", 3, &["refused: ", expected, "hint: "]);
        datasets.fails("apply plan.json --yes", 3, &["refused: ", expected, "hint: "]);
    };
    let real = |name: &str| datasets.real(name);
    let hole = PathBuf::from("/etc/poolwright-hole.service.d");
    refused(hole.clone(), Some(real("other/sub")), "not below the database's directory");
    refused(hole.clone(), Some(real("db/wal")), "not beside the directory that has it");
    refused(real("db-wal"), Some(real("other/sub")), "not below the database's directory");
    refused(real("db-wal"), Some(real("db/../other/sub")), "is not a plain path");
    refused(real("x/../db-wal"), Some(real("db/wal")), "is not a plain path");
    refused(real("other-wal"), Some(real("db/wal")), "not beside the directory that has it");
    // A directory deeper in the database, and its dataset beside it.
    fs::create_dir(datasets.at("db/wal/deep")).unwrap();
    refused(real("db/wal-x"), Some(real("db/wal/deep")), "not in the database's directory");
    // The dataset of other files, by its own path and by a link.
    refused(real("other"), None, "where the database in");
    std::os::unix::fs::symlink(datasets.at("other"), datasets.at("db/elsewhere")).unwrap();
    refused(real("db/elsewhere"), None, "where the database in");
    assert!(!hole.exists() && !datasets.at("db-wal").exists());
    assert_eq!(datasets.property("recordsize", "tank/other"), "131072");
    assert!(fs::symlink_metadata(datasets.at("other/sub")).unwrap().is_dir());
}

#[test]
fn texts_of_a_plan_do_not_hide_what_it_does() {
    skip_without_fuse!();
    let datasets = Datasets::new();
    datasets.plan(json!({"recordsize": "16K"}));
    datasets.edit_plan(|plan| plan["database"][0]["value"] = json!("1\u{1b}[2J\r"));
    datasets.fails("apply plan.json --dry-run", 3, &["control characters", "\\u{1b}", "hint: "]);
}

#[test]
fn a_plan_that_was_applied_can_be_undone_whatever_is_refused_now() {
    skip_without_fuse!();
    let datasets = Datasets::new();
    datasets.plan(json!({"recordsize": "16K"}));
    datasets.run("apply plan.json --yes");
    assert_eq!(datasets.property("recordsize", "tank/db"), "16384");
    // What an older release has accepted. It is still the same plan.
    datasets.edit_plan(|plan| plan["roles"][0]["place"]["link"] = json!("/elsewhere"));
    datasets.fails("apply plan.json --dry-run", 3, &["not below the database's directory"]);
    datasets.run("undo plan.json --yes");
    assert_eq!(datasets.property("recordsize", "tank/db"), "131072");
}

/// That the text names each property with its value.
fn shows(text: &str, settings: &Value) {
    let settings = settings.as_object().unwrap();
    assert!(!settings.is_empty());
    for (name, value) in settings {
        let value = poolwright_plan::spelled_setting(name, value.as_str().unwrap());
        let is_shown = text.lines().any(|line| {
            let changes =
                line.trim_start().starts_with(name.as_str()) && line.ends_with(&format!("→ {value}"));
            changes || line.split([' ', ',', ';']).any(|word| word == format!("{name}={value}"))
        });
        assert!(is_shown, "{name}={value} is not in\n{text}");
    }
}

#[test]
fn a_dry_run_shows_every_property_of_a_new_dataset() {
    skip_without_fuse!();
    let datasets = Datasets::with_second_pool();
    datasets.run("dataset set refquota=500M tank/db");
    datasets.plan(json!({"recordsize": "16K", "compression": "zstd-3"}));
    let found = datasets.assessment("apply plan.json --new-pool fast --dry-run");
    let settings = &found["datasets"][0]["settings"];
    assert_eq!(settings["recordsize"], "16K");
    shows(&datasets.output("apply plan.json --new-pool fast --dry-run").0, settings);

    let place = json!({"mountpoint": datasets.real("db-wal"), "separable": true, "how": "a link", "link": datasets.real("db/wal")});
    datasets.add_role("wal", place, json!({"recordsize": "64K", "logbias": "throughput"}));
    let found = datasets.assessment("apply plan.json --dry-run");
    let settings = &found["datasets"][0]["relocations"][0]["settings"];
    assert_eq!(settings.as_object().unwrap().len(), 3, "{settings}");
    shows(&datasets.output("apply plan.json --dry-run").0, settings);

    datasets.plan(json!({}));
    datasets.add_role(
        "backup",
        json!({"mountpoint": "/x", "separable": true}),
        json!({"recordsize": "512K"}),
    );
    let line = format!("{BACKUP} --dry-run");
    let settings = &datasets.assessment(&line)["created_with"];
    assert_eq!(settings["recordsize"], "512K");
    shows(&datasets.output(&line).0, settings);
}
