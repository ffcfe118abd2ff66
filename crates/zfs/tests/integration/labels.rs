//! Reading the labels of pools that the engine created.

use std::path::{Path, PathBuf};

use poolwright_openzfs::{Config, Engine, Pool, Spec};
use poolwright_zfs::user::label::{self, Label, State};

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap()
}

fn create(dir: &Path, name: &str, vdevs: &str, ashift: u32) -> Pool {
    let word = |w: &str| match w {
        "mirror" | "log" | "cache" | "spare" => w.to_owned(),
        w if w.starts_with("raidz") => w.to_owned(),
        w => format!("{}:128M", dir.join(w).display()),
    };
    let words: Vec<String> = vdevs.split(' ').map(word).collect();
    let groups = Spec::parse_vdevs(&words).unwrap();
    Pool::create(engine(), &Spec { name: name.into(), ashift, groups }).unwrap()
}

#[test]
fn the_whole_layout_is_in_the_labels() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create(dir.path(), "labels", "raidz2 a b c d log mirror l m cache x spare s", 13);
    let open = label::scan(dir.path()).unwrap();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!((open[0].pool.as_str(), open[0].state), ("labels", State::Active));
    pool.export().unwrap();

    let found = label::scan(dir.path()).unwrap().remove(0);
    assert_eq!(found.state, State::Exported);
    assert!(found.missing.is_empty() && found.missing_tops == 0, "{found:?}");
    assert_eq!((&found.spares, &found.cache), (&vec![dir.path().join("s")], &vec![dir.path().join("x")]));
    assert_eq!((found.files.len(), &found.files[6]), (8, &dir.path().join("s")), "auxiliary vdevs come last");
    let spare = Label::read(&dir.path().join("s")).unwrap().unwrap();
    assert_eq!((spare.state, spare.is_auxiliary(), spare.pool), (State::Spare, true, None));
    assert_eq!(found.file_of(found.guid_of(&dir.path().join("s"))), Some(dir.path().join("s").as_path()));
    let titles: Vec<String> = found.vdevs.iter().map(label::Vdev::title).collect();
    assert_eq!(titles, ["raidz2-0", "mirror-1"]);
    assert_eq!((found.vdevs[0].parity, found.vdevs[0].ashift), (2, 13));
    assert!(found.vdevs[1].is_log && !found.vdevs[0].is_log);
    assert_eq!(found.vdevs[0].leaves().count(), 4);
}

#[test]
fn removed_vdevs_are_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create(dir.path(), "shrunk", "a log mirror l m cache x spare s", 12);
    for name in ["l", "x", "s"] {
        pool.remove_vdev(&dir.path().join(name)).unwrap();
    }
    pool.export().unwrap();
    // The files of the removed vdevs are in the directory too.
    let found = label::scan(dir.path()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].missing, found[0].missing_tops), (&Vec::new(), 0), "{found:?}");
    assert_eq!(found[0].files, [dir.path().join("a")]);
}

#[test]
fn files_that_moved_or_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), "moved", "mirror a b", 12).export().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::rename(at("a"), at("elsewhere")).unwrap();
    let found = label::scan(dir.path()).unwrap().remove(0);
    assert!(found.missing.is_empty());
    let leaves: Vec<PathBuf> = found.vdevs[0].leaves().filter_map(|l| l.path.clone()).collect();
    assert_eq!(leaves, [at("elsewhere"), at("b")], "the current paths, not those in the labels");
    std::fs::remove_file(at("b")).unwrap();
    let found = label::scan(dir.path()).unwrap().remove(0);
    assert_eq!(found.missing, [at("b")]);
}

#[test]
fn damaged_labels_are_passed_over_and_other_files_have_none() {
    use std::os::unix::fs::FileExt as _;
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), "damaged", "a", 12).export().unwrap();
    let path = dir.path().join("a");
    let whole = Label::read(&path).unwrap().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let size = file.metadata().unwrap().len();
    for start in [0, 256 << 10, size - (512 << 10)] {
        file.write_all_at(&[0xff; 64 << 10], start).unwrap();
    }
    assert_eq!(Label::read(&path).unwrap().unwrap(), whole, "one label is enough");
    file.write_all_at(&[0xff; 64 << 10], size - (256 << 10)).unwrap();
    assert_eq!(Label::read(&path).unwrap(), None);
    std::fs::write(dir.path().join("text"), "no pool").unwrap();
    assert_eq!(Label::read(&dir.path().join("text")).unwrap(), None);
    assert!(Label::read(&dir.path().join("gone")).is_err());
    assert!(label::scan(dir.path()).unwrap().is_empty());
}
