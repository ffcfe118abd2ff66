use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn copied(from: &Path, to: &Path) -> TreeContents {
    if !to.exists() {
        fs::create_dir(to).unwrap();
    }
    TreeCopier::new(|_| Ok(())).copy(&opened(from), &opened(to)).unwrap()
}

fn compared(from: &Path, to: &Path) -> Result<()> {
    TreeCopier::new(|_| Ok(())).compare(&opened(from), &opened(to))
}

fn opened(path: &Path) -> Directory {
    Directory::open(path).unwrap()
}

/// A change of a tree.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8, u32),
    Remove(u8),
    Directory(u8),
    Link(u8, u8),
    Symlink(u8, u8),
    Mode(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0_u8..9;
    prop_oneof![
        4 => (node.clone(), any::<u8>(), 0_u32..3_000_000).prop_map(|(n, byte, at)| Step::Write(n, byte, at)),
        2 => node.clone().prop_map(Step::Remove),
        1 => node.clone().prop_map(Step::Directory),
        2 => (node.clone(), node.clone()).prop_map(|(a, b)| Step::Link(a, b)),
        1 => (node.clone(), any::<u8>()).prop_map(|(a, b)| Step::Symlink(a, b)),
        1 => (node, 0_u8..8).prop_map(|(n, mode)| Step::Mode(n, mode)),
    ]
}

/// Node 0 to 2 are in the root, 3 to 8 in the nodes 0 and 1, if these are directories.
fn path(root: &Path, node: u8) -> PathBuf {
    if node < 3 {
        root.join(node.to_string())
    } else {
        root.join((node % 2).to_string()).join(node.to_string())
    }
}

/// A step that is impossible changes nothing.
fn make(root: &Path, step: &Step) {
    match step {
        Step::Write(node, byte, at) => {
            let path = path(root, *node);
            let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
            if let (Ok(file), false) =
                (File::options().create(true).truncate(false).write(true).open(path), is_link)
            {
                file.write_all_at(&[*byte; 100], u64::from(*at)).unwrap();
            }
        }
        Step::Remove(node) => {
            let (path, top) = (path(root, *node), opened(root));
            if let Ok((parent, name)) = parent_of(&top, &path) {
                let _ = parent.remove_all(name);
            }
        }
        Step::Directory(node) => {
            let _ = fs::create_dir(path(root, *node));
        }
        Step::Link(a, b) => {
            let _ = fs::hard_link(path(root, *a), path(root, *b));
        }
        Step::Symlink(node, target) => {
            let _ = symlink(format!("/nonexistent/{target}"), path(root, *node));
        }
        Step::Mode(node, mode) => {
            let path = path(root, *node);
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
                let mode = 0o600 | u32::from(*mode);
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

use std::fs::Permissions;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the target was before, it equals the source afterwards, and a second copy changes nothing.
    #[test]
    fn a_copy_equals_its_source(
        first in prop::collection::vec(step(), 0..25),
        second in prop::collection::vec(step(), 0..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        first.iter().for_each(|step| make(&from, step));
        let contents = copied(&from, &to);
        compared(&from, &to).unwrap();
        second.iter().for_each(|step| make(&from, step));
        copied(&from, &to);
        compared(&from, &to).unwrap();
        // Changes of the target are found or repaired.
        first.iter().chain(&second).for_each(|step| make(&to, step));
        copied(&from, &to);
        compared(&from, &to).unwrap();
        prop_assert!(contents.files <= 9);
    }
}

#[test]
fn differences_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::write(from.join("sub/a"), vec![1; 2_000_000]).unwrap();
    fs::hard_link(from.join("sub/a"), from.join("sub/b")).unwrap();
    fs::write(from.join("c"), "c").unwrap();
    symlink("c", from.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    let contents = copied(&from, &to);
    assert_eq!((contents.files, contents.bytes, contents.skipped.len()), (2, 2_000_001, 1));
    compared(&from, &to).unwrap();
    type Change = (&'static str, fn(&Path));
    let changes: [Change; 7] = [
        ("is missing", |to| fs::remove_file(to.join("c")).unwrap()),
        ("only the copy has", |to| fs::write(to.join("more"), "").unwrap()),
        ("another kind", |to| {
            fs::remove_file(to.join("c")).unwrap();
            fs::create_dir(to.join("c")).unwrap();
        }),
        ("hard links", |to| {
            let bytes = fs::read(to.join("sub/b")).unwrap();
            fs::remove_file(to.join("sub/b")).unwrap();
            fs::write(to.join("sub/b"), bytes).unwrap();
        }),
        ("in its target", |to| {
            fs::remove_file(to.join("link")).unwrap();
            symlink("d", to.join("link")).unwrap();
        }),
        ("at byte 1999999", |to| {
            let meta = fs::metadata(to.join("sub/a")).unwrap();
            let file = File::options().write(true).open(to.join("sub/a")).unwrap();
            file.write_all_at(&[2], 1_999_999).unwrap();
            file.set_times(attributes::times(&meta)).unwrap();
        }),
        ("mode", |to| fs::set_permissions(to.join("sub"), Permissions::from_mode(0o711)).unwrap()),
    ];
    for (words, change) in changes {
        change(&to);
        let why = compared(&from, &to).unwrap_err().to_string();
        assert!(why.contains(words), "{words}: {why}");
        copied(&from, &to);
        compared(&from, &to).unwrap();
    }
    let stopped =
        TreeCopier::new(|_| Err(Error::Interrupted)).copy(&opened(&from), &opened(&to)).unwrap_err();
    assert!(matches!(stopped, Error::Interrupted));
}

#[test]
fn a_directory_that_is_left_alone_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("a/empty")).unwrap();
    fs::write(from.join("a/file"), "x").unwrap();
    fs::set_permissions(&from, Permissions::from_mode(0o751)).unwrap();
    fs::create_dir_all(to.join("a/empty")).unwrap();
    fs::set_permissions(&to, Permissions::from_mode(0o700)).unwrap();
    fs::write(to.join("a/empty/other"), "stays").unwrap();
    fs::set_permissions(to.join("a/empty"), Permissions::from_mode(0o711)).unwrap();
    let copier = || TreeCopier::new(|_| Ok(())).except([to.join("./a/empty")]);
    copier().copy_contents(&opened(&from), &opened(&to)).unwrap();
    copier().compare_contents(&opened(&from), &opened(&to)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&to), mode(&to.join("a/empty"))), (0o700, 0o711));
    assert_eq!(fs::read_to_string(to.join("a/empty/other")).unwrap(), "stays");
    assert!(copier().compare(&opened(&from), &opened(&to)).is_err(), "the mode of the directory differs");
    super::copy_directory_attributes(&opened(&from), &opened(&to)).unwrap();
    assert_eq!(mode(&to), 0o751);
    copier().compare(&opened(&from), &opened(&to)).unwrap();
    assert!(compared(&from, &to).is_err());
}

/// Files that are the same in the snapshot that was copied before are neither read nor compared; all others are.
#[test]
fn only_what_has_changed_since_a_copied_snapshot_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (earlier, later, to) = (at("earlier"), at("later"), at("to"));
    fs::create_dir(&earlier).unwrap();
    for name in ["same", "changed", "recent", "damaged"] {
        fs::write(earlier.join(name), name.repeat(1000)).unwrap();
    }
    copied(&earlier, &to);
    // As in a later snapshot of the same dataset, an unchanged file is the same file.
    fs::create_dir(&later).unwrap();
    for name in ["same", "recent", "damaged"] {
        fs::hard_link(earlier.join(name), later.join(name)).unwrap();
    }
    fs::write(later.join("changed"), "other").unwrap();
    // The copies are changed so that it shows which ones are copied again, with the times of their files.
    let spoil = |name: &str| {
        let meta = fs::metadata(to.join(name)).unwrap();
        fs::write(to.join(name), vec![b'x'; meta.len() as usize]).unwrap();
        let time = if name == "damaged" { attributes::time(7, 7) } else { meta.modified().unwrap() };
        File::options().write(true).open(to.join(name)).unwrap().set_modified(time).unwrap();
    };
    ["same", "recent", "damaged"].into_iter().for_each(spoil);
    let changed_ns = |name: &str| FileIdentity::of(&fs::metadata(later.join(name)).unwrap()).changed_ns;
    let newest = ["same", "damaged"].into_iter().map(changed_ns).max().unwrap();
    // Linking has changed it after the time before which files count as unchanged.
    while changed_ns("recent") <= newest {
        fs::remove_file(later.join("recent")).unwrap();
        fs::hard_link(earlier.join("recent"), later.join("recent")).unwrap();
    }
    let earlier = opened(&earlier);
    let of = CopiedSnapshot { earlier: &earlier, before_ns: newest + 1 };
    let mut read = 0;
    let mut copier = TreeCopier::new(|bytes| {
        read += bytes;
        Ok(())
    })
    .since(of);
    copier.copy(&opened(&later), &opened(&to)).unwrap();
    copier.compare(&opened(&later), &opened(&to)).unwrap();
    drop(copier);
    assert!(read > 0, "some files are read");
    let text = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    assert!(text("same").starts_with("xx"), "it counts as copied");
    assert_eq!(
        (text("changed"), text("recent"), text("damaged")),
        ("other".to_owned(), "recent".repeat(1000), "damaged".repeat(1000))
    );
}

#[test]
fn links_keep_their_extended_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    symlink("somewhere", from.join("link")).unwrap();
    let set =
        |path: &Path| rustix::fs::lsetxattr(path, "trusted.one", b"value", rustix::fs::XattrFlags::empty());
    if let Err(why) = set(&from.join("link")) {
        println!("skipped: {why}");
        return;
    }
    copied(&from, &to);
    compared(&from, &to).unwrap();
    assert_eq!(attributes::extended_of_link(EntryAt::new(&opened(&to), "link")).unwrap().len(), 1);
    rustix::fs::lremovexattr(from.join("link"), "trusted.one").unwrap();
    assert!(compared(&from, &to).is_err());
    copied(&from, &to);
    compared(&from, &to).unwrap();
}
