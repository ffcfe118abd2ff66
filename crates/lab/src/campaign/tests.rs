use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::order::{self, conditions};

const GOOD: &str = r#"name = "x"
title = "A title"
needs = ["fio"]
space = { full = "20G" }
[scale.small]
entries = 1_000
[scale.full]
entries = 3_000_000
[pool]
arc = "256M"
tunables = { dbuf_cache_max_bytes = 0 }
[figures]
entries_per_s = { title = "entries", unit = "1/s", better = "higher" }
[operations]
get = "read of an entry"
[datasets.ldif]
recordsize = "128K"
[datasets.db]
copies = 2
[[study]]
name = "cache"
title = "primarycache"
driver = "ldap"
repeats = 4
parameters = { server = "opendj" }
space = { small = "5G" }
datasets = { ldif.recordsize = "1M" }
pool = { ashift = 9 }
measures = ["entries_per_s", "import/allocated.db"]
[study.scale.full]
threads = 8
[[study.factor]]
name = "primarycache"
path = ["ldif.primarycache", "db.primarycache"]
levels = ["all", "none"]
[[study.factor]]
name = "how"
levels = [
  { name = "one by one", set = { "workload.batch" = 1 } },
  { name = "batched", set = { workload.batch = 1000, db.recordsize = "64K", pool.tunables.dbuf_cache_max_bytes = 3, "pool.arc" = "1G" } },
]
[[study.factor]]
name = "entries"
path = "workload.entries"
levels = [10, 20]
[[study.exclude]]
primarycache = "none"
entries = 20
[[study.phase]]
name = "load"
measure = false
[[study.phase]]
name = "import"
title = "The import"
cold = true
limit = "30m"
at = [{ progress = 0.5, set = { "ldif.primarycache" = "all" } }, { seconds = 3, set = { db.logbias = "throughput" } }]
[[study.claim]]
text = "all is faster"
measure = "entries_per_s"
source = "Table 2"
decide = { most = 8, equal = 0.05 }
better = { primarycache = "all" }
than = { primarycache = "none" }
report = [6000, 1400.5]
[[study.recommend]]
question = "Cache of the LDIF"
dataset = "ldif"
goal = "throughput"
metrics = { work_rate = "wall_s", cpu_ns_per_op = "engine_s" }
properties = ["primarycache"]
original = { primarycache = "none" }
only = { how = ["batched"], entries = 10 }
"#;

fn parse(text: &str) -> Result<Campaign> {
    Campaign::parse(Path::new("campaigns/x.toml"), text)
}

#[test]
fn a_whole_campaign_is_read() {
    let campaign = parse(GOOD).unwrap();
    let study = &campaign.studies[0];
    assert_eq!((study.space("full"), study.space("small")), (20 << 30, 5 << 30));
    assert_eq!(study.datasets["ldif"]["recordsize"], "1M");
    assert_eq!(campaign.datasets["ldif"]["recordsize"], "128K");
    assert_eq!((study.datasets["db"]["copies"].as_str(), study.pool.ashift), ("2", 9));
    assert_eq!(study.phases[1].limit_ns, 1800 * 1_000_000_000);
    assert_eq!(study.phases[1].at[1].set["db.logbias"], "throughput");
    assert!(study.needs_pool() && !study.phases[0].measure);
    let cases = order::cases(study);
    assert_eq!(cases.len(), 6);
    let case = cases.iter().find(|c| c["how"] == "batched" && c["primarycache"] == "none").unwrap();
    let of = conditions(&campaign, study, "full", case);
    assert_eq!(of.parameters["entries"], 10, "a factor over the scale");
    assert_eq!((&of.parameters["batch"], &of.parameters["threads"]), (&1000.into(), &8.into()));
    assert_eq!(of.parameters["server"], "opendj");
    assert_eq!(
        (of.datasets["db"]["primarycache"].as_str(), of.datasets["db"]["recordsize"].as_str()),
        ("none", "64K")
    );
    assert_eq!((of.pool.arc.as_str(), of.pool.tunables["dbuf_cache_max_bytes"].as_str()), ("1G", "3"));
    assert_eq!(study.pool.tunables["dbuf_cache_max_bytes"], "0");
    assert!(!conditions(&campaign, study, "small", case).parameters.contains_key("threads"));
}

/// A campaign names measures once, and every output takes the words from there.
#[test]
fn measures_have_titles_and_units() {
    let campaign = parse(GOOD).unwrap();
    let study = &campaign.studies[0];
    let info = study.info("entries_per_s");
    assert_eq!(
        (info.title.as_str(), info.unit.as_str(), info.better),
        ("Entries", "1/s", Some(Improvement::Higher))
    );
    // One measured phase needs no title; two datasets need the role.
    assert_eq!(study.info("import/allocated.db").title, "Space on the pool (db)");
    let both = parse(&GOOD.replace("measure = false", "measure = true")).unwrap();
    assert_eq!(both.studies[0].info("import/allocated.db").title, "The import: space on the pool (db)");
    let latency = parse(&GOOD.replace("\"import/allocated.db\"", "\"import/get_p999\"")).unwrap();
    assert_eq!(latency.studies[0].info("import/get_p999").title, "Read of an entry, p99.9");
    let recommend = &study.recommend[0];
    assert_eq!((recommend.goal.as_str(), recommend.question.as_str()), ("throughput", "Cache of the LDIF"));
    let criteria: Vec<_> = recommend.criteria.iter().map(|c| (&c.metric, c.inverse)).collect();
    assert_eq!(
        criteria,
        [(&MetricName::WorkRate, true), (&MetricName::CpuNsPerOp, false)],
        "a time is the reciprocal of a rate"
    );
}

#[test]
fn tables_divide_the_columns() {
    let measures = "measures = [\"entries_per_s\", \"import/allocated.db\"]\n";
    let table = |question: &str, of: &str| {
        format!("[[study.table]]\nquestion = \"{question}\"\nmeasures = [\"{of}\"]\n")
    };
    let two =
        table("How fast?", "entries_per_s") + &table("How large?", "allocated.db") + "[study.scale.full]";
    let split = GOOD.replace(measures, "").replacen("[study.scale.full]", &two, 1);
    let study = &parse(&split).unwrap().studies[0];
    assert_eq!(study.measures, ["entries_per_s", "allocated.db"]);
    assert_eq!((study.tables.len(), study.tables[1].question.as_str()), (2, "How large?"));
    let both = GOOD.replacen("[study.scale.full]", &two, 1);
    assert!(parse(&both).unwrap_err().to_string().contains("either measures or tables"));
    let twice = split.replace("\"allocated.db\"", "\"entries_per_s\"");
    assert!(parse(&twice).unwrap_err().to_string().contains("duplicate measure"));
}

/// The results of a run hold the text of its campaign, which may be older than the declarations.
#[test]
fn a_stored_campaign_may_have_undeclared_measures() {
    let old =
        GOOD.replace("entries_per_s = {", "other = {").replace("goal = \"throughput\"", "by = \"wall_s\"");
    let old = old.replace(METRICS, "");
    assert!(parse(&old).is_err());
    let campaign = Campaign::parse_stored(Path::new("campaigns/x.toml"), &old).unwrap();
    let study = &campaign.studies[0];
    assert_eq!(study.info("entries_per_s").title, "entries_per_s");
    assert_eq!(study.recommend[0].criteria[0].measure, "wall_s");
    assert!(study.recommend[0].criteria[0].inverse, "a lower wall time is better");
}

const TWO_POOLS: &str = r#"name = "x"
title = "T"
measures = ["rate"]
[pool]
arc = "128M"
snapshots = "2s,keep=3"
[pools.log]
device = "sas-15k"
[datasets.data]
[datasets.wal]
pool = "log"
[[study]]
name = "a"
title = "T"
driver = "files"
pool = { ashift = 9 }
pools = { log = { arc = "64M" }, other = { device = "ssd" } }
[[study.factor]]
name = "pool"
path = "data.pool"
levels = ["pool", "other"]
[[study.phase]]
name = "import"
"#;

#[test]
fn datasets_are_on_several_pools() {
    let campaign = parse(TWO_POOLS).unwrap();
    let study = &campaign.studies[0];
    assert!(study.has_several_pools() && study.varies_pool());
    let (log, other) = (&study.pools["log"], &study.pools["other"]);
    assert_eq!((log.device.as_str(), log.arc.as_str(), log.ashift), ("sas-15k", "64M", 9));
    assert_eq!((other.device.as_str(), other.arc.as_str(), other.ashift), ("ssd", "128M", 9));
    // Snapshots are the trial's, not once for each pool.
    assert_eq!((study.pool.snapshots.as_str(), other.snapshots.as_str()), ("2s,keep=3", "none"));
    let cases = order::cases(study);
    let of = |case: &Case| {
        let of = conditions(&campaign, study, "small", case);
        (of.pools.into_keys().collect::<Vec<_>>(), of.pool_of.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(
        of(&cases[0]),
        (vec!["log".into()], vec!["wal".into()]),
        "a pool without datasets is not created"
    );
    assert_eq!(of(&cases[1]), (vec!["log".into(), "other".into()], vec!["data".into(), "wal".into()]));
    for (line, other, message) in [
        ("pool = \"log\"", "pool = \"logs\"", "unknown pool \"logs\": expected one of log, other, pool"),
        ("levels = [\"pool\", \"other\"]", "levels = [\"others\"]", "unknown pool \"others\""),
        ("device = \"sas-15k\"", "memory = \"1G\"", "memory applies to the whole trial: write it in [pool]"),
        ("device = \"sas-15k\"", "snapshots = \"1s\"", "snapshots applies to the whole trial"),
        ("[pools.log]", "[pools.workload]", "invalid pool name \"workload\""),
        ("snapshots = \"2s,keep=3\"", "snapshots = \"often\"", "expected none, an interval such as 2s"),
    ] {
        let why = parse(&TWO_POOLS.replacen(line, other, 1)).expect_err(other).to_string();
        assert!(why.contains(message), "{other}: {why}");
    }
}

#[test]
fn snapshots_have_an_interval_and_perhaps_a_number() {
    let rule = |every, keep| Some(SnapshotRule { every: Duration::from_millis(every), keep });
    assert_eq!(SnapshotRule::parse("none").unwrap(), None);
    assert_eq!(SnapshotRule::parse("2s").unwrap(), rule(2000, None));
    assert_eq!(SnapshotRule::parse("500ms,keep=3").unwrap(), rule(500, Some(3)));
    for wrong in ["", "2", "2s,keep=0", "2s,keep=", "2s, keep=3", "0s", "never"] {
        assert!(SnapshotRule::parse(wrong).unwrap_err().contains("expected none"), "{wrong}");
    }
}

const METRICS: &str = "metrics = { work_rate = \"wall_s\", cpu_ns_per_op = \"engine_s\" }";

/// A line of the valid campaign, its replacement, and a part of the resulting error.
const INVALID: &[(&str, &str, &str)] = &[
    ("name = \"x\"", "name = \"y\"", "its file \"x\""),
    ("title = \"A title\"", "titel = \"A title\"", "unknown field `titel`"),
    ("title = \"A title\"", "about = \"A title\"", "missing field `title`"),
    ("needs = [\"fio\"]", "need = [\"fio\"]", "unknown field `need`, expected one of `name`, `title`"),
    ("arc = \"256M\"", "arc = \"1M\"", "at least 64M"),
    ("arc = \"256M\"", "arcs = \"1M\"", "expected one of `vdevs`, `ashift`, `arc`"),
    ("arc = \"256M\"", "device = \"hdd,d0=floppy\"", "unknown device \"floppy\""),
    ("recordsize = \"128K\"", "recordsize = \"3K\"", "a power of two"),
    ("recordsize = \"128K\"", "colour = \"red\"", "known: recordsize"),
    ("repeats = 4", "repeats = \"three\"", "expected a whole number from 1 to 1000, not the text \"three\""),
    ("repeats = 4", "repeats = 9", "from 9 to 1000"),
    ("parameters = { server = \"opendj\" }", "parameters = 3", "invalid type: integer `3`, expected a map"),
    (
        "datasets = { ldif.recordsize = \"1M\" }",
        "datasets = { lidf.recordsize = \"1M\" }",
        "expected one of db, ldif",
    ),
    (
        "measures = [\"entries_per_s\", \"import/allocated.db\"]",
        "measures = [\"load/wall_s\"]",
        "expected one of import",
    ),
    (
        "measures = [\"entries_per_s\", \"import/allocated.db\"]",
        "measures = [\"allocated.dbs\"]",
        "expected one of db, ldif",
    ),
    (
        "measures = [\"entries_per_s\", \"import/allocated.db\"]",
        "measures = [\"wall_s.db\"]",
        "does not exist for a single role",
    ),
    ("levels = [\"all\", \"none\"]", "levels = [\"all\", \"nothing\"]", "expected all, metadata, none"),
    ("levels = [\"all\", \"none\"]", "levels = [\"all\", \"all\"]", "duplicate level"),
    ("levels = [10, 20]", "levels = [10, \"many\"]", "has another type"),
    ("path = \"workload.entries\"", "path = \"pool.colour\"", "expected one of vdevs"),
    ("path = \"workload.entries\"", "path = \"entries\"", "invalid path"),
    ("primarycache = \"none\"", "primarycache = \"metadata\"", "expected one of all, none"),
    ("primarycache = \"none\"", "cache = \"none\"", "expected one of primarycache, how, entries"),
    (
        "only = { how = [\"batched\"], entries = 10 }",
        "only = { how = [\"fast\"] }",
        "\"how\": unknown level \"fast\"",
    ),
    ("only = { how = [\"batched\"], entries = 10 }", "only = { how = \"fast\" }", "unknown level \"fast\""),
    ("better = { primarycache = \"all\" }", "better = { how = \"batched\" }", "the same factors"),
    ("limit = \"30m\"", "limit = \"soon\"", "30s, 5m or 1h"),
    ("cold = true", "cold = \"yes\"", "expected a boolean"),
    ("report = [6000, 1400.5]", "report = [6000]", "two numbers"),
    ("dataset = \"ldif\"", "dataset = \"wal\"", "expected one of db, ldif"),
    ("decide = { most = 8, equal = 0.05 }", "decide = { most = 2, equal = 0.05 }", "from 4 to 1000"),
    ("tunables = { dbuf_cache_max_bytes = 0 }", "tunables = { speed = 0 }", "unknown tunable \"speed\""),
    ("space = { full = \"20G\" }", "space = { huge = \"20G\" }", "expected one of full, small"),
    ("[scale.small]", "[scale.tiny]", "missing [scale.small]"),
    (
        "measures = [\"entries_per_s\", \"import/allocated.db\"]",
        "measures = [\"entries_pers_s\"]",
        "unknown measure \"entries_pers_s\": declare it in [figures] or [operations]",
    ),
    ("measures = [\"entries_per_s\", \"import/allocated.db\"]", "measures = [\"put_p99\"]", "get_p50 …"),
    (
        "entries_per_s = { title = \"entries\", unit = \"1/s\", better = \"higher\" }",
        "entries_per_s = { title = \"entries\", unit = \"minutes\" }",
        "unknown unit \"minutes\"",
    ),
    ("goal = \"throughput\"", "goal = \"speed\"", "expected one of balanced, space"),
    ("goal = \"throughput\"", "by = \"wall_s\"", "a recommendation has a goal and metrics"),
    (METRICS, "metrics = { speed = \"wall_s\" }", "unknown metric \"speed\""),
    (METRICS, "metrics = { work_rate = \"run_queue\" }", "neither a lower nor a higher value is better"),
    (METRICS, "metrics = { arc_hit_ratio = \"arc_hit_ratio\" }", "no metric of the goal \"throughput\""),
    (
        "original = { primarycache = \"none\" }",
        "original = { primarycache = \"no\" }",
        "unknown level \"no\"",
    ),
    (
        "only = { how = [\"batched\"], entries = 10 }",
        "only = { entries = 10 }",
        "the cases with how \"one by one\" and \"batched\" have the same primarycache",
    ),
    ("copies = 2", "copies = ", "invalid TOML"),
    ("copies = 2", "copies = nan", "expected text or a number, not NaN"),
];

#[test]
fn errors_name_the_line_and_what_is_allowed() {
    for (line, other, message) in INVALID {
        let at = GOOD.lines().position(|l| l == *line).unwrap_or_else(|| panic!("no line {line}"));
        let lines = GOOD.lines().enumerate().map(|(i, l)| if i == at { *other } else { l });
        let text = lines.collect::<Vec<_>>().join("\n");
        let why = parse(&text).expect_err(other).to_string();
        assert!(why.starts_with("campaigns/x.toml:") && why.contains(message), "{other}: {why}");
        // A missing or conflicting key is reported at the line of another element.
        let elsewhere =
            ["missing field `title`", "the same factors"].contains(message) || *other == "repeats = 9";
        let own = format!("campaigns/x.toml:{}:", at + 1);
        assert!(elsewhere || why.starts_with(&own), "{other}: not line {}: {why}", at + 1);
    }
    let none = GOOD.replace("levels = [10, 20]", "levels = [10]").replace("entries = 20", "entries = 10");
    let none = none.replace("primarycache = \"none\"\nentries = 10", "entries = 10");
    assert!(parse(&none).unwrap_err().to_string().contains("every case is excluded"));
}

/// The column counts characters, not bytes.
#[test]
fn errors_name_the_column() {
    let cases = [
        ("title = \"A title\"", "title = \"é\" colour = 1", "2:13: invalid TOML: "),
        ("title = \"A title\"", "title = \"é\"; x", "2:12: invalid TOML: "),
        ("needs = [\"fio\"]", "needs = [\"é\", 3]", "3:15: invalid type: integer `3`, expected a string"),
        ("space = { full = \"20G\" }", "space = { small = \"1G\", huge = 1 }", "4:25: unknown scale"),
        ("arc = \"256M\"", "colour = \"red\"", "10:1: unknown field `colour`"),
        ("levels = [\"all\", \"none\"]", "levels = [\"all\", \"é\"]", "35:18: "),
        ("primarycache = \"none\"", "primarycache = \"é\"", "47:16: \"primarycache\": unknown level"),
    ];
    for (line, other, message) in cases {
        let why = parse(&GOOD.replacen(&format!("\n{line}\n"), &format!("\n{other}\n"), 1)).unwrap_err();
        assert!(why.to_string().starts_with(&format!("campaigns/x.toml:{message}")), "{other}: {why}");
    }
}

/// Measures, factors and phases of the file's top level apply to studies without their own.
#[test]
fn studies_share_what_the_campaign_has() {
    let study = |name: &str, own: &str| {
        format!("[[study]]\nname = \"{name}\"\ntitle = \"T\"\ndriver = \"files\"\n{own}")
    };
    let shared = "name = \"x\"\ntitle = \"T\"\nmeasures = [\"rate\"]\n[datasets.data]\n\
                  [[factor]]\nname = \"recordsize\"\npath = \"data.recordsize\"\nlevels = [\"16K\", \"1M\"]\n\
                  [[phase]]\nname = \"load\"\n";
    let own = "measures = [\"wall_s\"]\n[[study.factor]]\nname = \"n\"\npath = \"workload.n\"\nlevels = [1]\n\
               [[study.phase]]\nname = \"import\"\n";
    let campaign = parse(&format!("{shared}{}{}", study("a", ""), study("b", own))).unwrap();
    let (a, b) = (&campaign.studies[0], &campaign.studies[1]);
    assert_eq!((&a.factors[0].name[..], a.factors.len(), a.factors[0].levels.len()), ("recordsize", 1, 2));
    assert_eq!((&a.measures[0][..], &a.phases[0].name[..]), ("rate", "load"));
    assert_eq!((&b.factors[0].name[..], b.factors.len()), ("n", 1));
    assert_eq!((&b.measures[0][..], &b.phases[0].name[..], b.phases.len()), ("wall_s", "import", 1));
    // Each key is named once in an error.
    let why = parse(&format!("colour = 1\n{shared}{}", study("b", own))).unwrap_err().to_string();
    assert!(why.contains("unknown field `colour`") && why.matches("factor").count() == 1, "{why}");
    let why = parse(
        &study("a", "").replace("[[study]]", "name = \"x\"\ntitle = \"T\"\n[datasets.data]\n[[study]]"),
    );
    assert!(why.unwrap_err().to_string().contains("missing field `phase`"));
}

/// Cases are the product of the factors' levels: those of 64 factors would not fit into memory.
#[test]
fn too_many_cases_are_refused() {
    let with = |factors: usize| {
        let factor = |n: usize| {
            format!("[[study.factor]]\nname = \"f{n}\"\npath = \"workload.f{n}\"\nlevels = [1, 2]\n")
        };
        let more: String = (0..factors).map(factor).collect();
        let (good, _) = GOOD.split_once("[[study.recommend]]").unwrap();
        good.replace("[[study.exclude]]", &format!("{more}[[study.exclude]]"))
    };
    assert_eq!(order::cases(&parse(&with(3)).unwrap().studies[0]).len(), 6 * 8);
    let why = parse(&with(11)).unwrap_err().to_string();
    assert!(why.contains("16384 combinations; the limit is 10000"), "{why}");
    assert!(parse(&with(64)).unwrap_err().to_string().contains("the limit is"));
}

#[test]
fn all_shipped_campaigns_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = crate::Assets::at(&root).campaign_files();
    files.push(root.join("crates/poolwright/tests/fixtures/smoke.toml"));
    for path in files {
        let (campaign, _) = Campaign::load(&path).unwrap_or_else(|why| panic!("{why}"));
        let claims = || campaign.studies.iter().flat_map(|study| &study.claims);
        let with_source = claims().filter(|claim| !claim.source.is_empty()).count();
        let of_a_report = !["snapshots", "smoke"].contains(&&*campaign.name);
        let expected = if of_a_report { claims().count() } else { 0 };
        assert_eq!(with_source, expected, "{}: a claim of a report names its place there", campaign.name);
        for study in &campaign.studies {
            assert!(
                root.join("workloads/lab").join(&study.driver).is_file(),
                "{}: {}",
                campaign.name,
                study.driver
            );
            for scale in campaign.scale.keys() {
                for case in order::cases(study) {
                    conditions(&campaign, study, scale, &case);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_a_campaign_or_an_error(text in ".{0,200}") {
        let _ = parse(&text);
    }

    /// Lines of a valid campaign in another order, with one value replaced.
    #[test]
    fn a_mangled_campaign_is_a_campaign_or_an_error(
        from in 0usize..GOOD.lines().count(),
        to in 0usize..GOOD.lines().count(),
        value in "(\"[a-z./]{0,6}\"|-?[0-9]{1,20}|[0-9]e400|nan|inf|true|\\[\\]|\\{\\}|\\[1, \"a\"\\]|\\{ a\\.b = 1 \\}|1979-05-27)",
    ) {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        if let Some((key, _)) = lines[from].clone().split_once(" = ") {
            lines[from] = format!("{key} = {value}");
        }
        let _ = parse(&lines.join("\n"));
        lines.swap(from, to);
        let _ = parse(&lines.join("\n"));
        lines.truncate(to);
        let _ = parse(&lines.join("\n"));
    }
}
