//! File contents as seen through the kernel, in all three caching modes.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use common::{Fixture, pattern};
use poolwright_mount::proto::Opcode;
use poolwright_mount::{Caching, Options};
use poolwright_openzfs::property::Settings;
use rustix::fs::{FallocateFlags, SeekFrom};

const MODES: [Caching; 3] = [Caching::Through, Caching::Pages, Caching::Writeback];

fn mounted(test: &str, caching: Caching) -> Option<Fixture> {
    Fixture::new(&format!("{test}-{caching:?}").to_lowercase(), Options { caching, ..Options::default() })
}

fn rw(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Random writes, truncations, holes and reads, compared with a vector in memory.
#[test]
fn random_operations_match_a_vector() {
    use rand::{RngExt, SeedableRng};
    for (seed, caching) in MODES.into_iter().enumerate() {
        let Some(mut t) = mounted("vector", caching) else { return };
        let file = rw(&t.at("f"));
        let mut model: Vec<u8> = Vec::new();
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed as u64);
        for step in 0..600u64 {
            let at = rng.random_range(0..600_000usize);
            let len = rng.random_range(1..if step % 10 == 0 { 300_000 } else { 9000 });
            match rng.random_range(0..10) {
                0..5 => {
                    let bytes = pattern(len, step);
                    file.write_all_at(&bytes, at as u64).unwrap();
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&bytes);
                }
                5 => {
                    file.set_len(at as u64).unwrap();
                    model.resize(at, 0);
                }
                6 => {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&file, flags, at as u64, len as u64).unwrap();
                    let end = (at + len).min(model.len());
                    model.get_mut(at..end).into_iter().for_each(|s| s.fill(0));
                }
                7 => file.sync_data().unwrap(),
                _ => {
                    let mut buf = vec![1; len];
                    let n = file.read_at(&mut buf, at as u64).unwrap();
                    let expected = model.get(at..(at + len).min(model.len())).unwrap_or(&[]);
                    assert!(buf[..n] == *expected, "{caching:?} step {step}: {n} bytes at {at}");
                }
            }
            assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "{caching:?} step {step}");
        }
        drop(file);
        t.again();
        assert!(fs::read(t.at("f")).unwrap() == model, "{caching:?}");
        t.end();
    }
}

/// `copy_file_range` copies the right bytes in every caching mode, and shares the space.
#[test]
fn copies() {
    for caching in MODES {
        let Some(mut t) = mounted("copies", caching) else { return };
        let bytes = pattern(5 << 20, 9);
        fs::write(t.at("a"), &bytes).unwrap();
        let (a, b) = (rw(&t.at("a")), rw(&t.at("b")));
        // The kernel has pages of both files: dirty ones of the source, and ones of the target that it must drop.
        b.write_all_at(&[7; 300_000], 0).unwrap();
        a.write_all_at(b"as late as can be", 4096).unwrap();
        let mut bytes = bytes;
        bytes[4096..4113].copy_from_slice(b"as late as can be");
        let copy = |from: &File, mut at: u64, to: &File, mut to_at: u64, mut left: usize| {
            while left > 0 {
                let n = rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), left).unwrap();
                if n == 0 {
                    break;
                }
                left -= n;
            }
            left
        };
        assert_eq!(copy(&a, 0, &b, 0, 8 << 20), 3 << 20, "to the end of the source");
        assert_eq!(b.metadata().unwrap().len(), 5 << 20);
        assert!(fs::read(t.at("b")).unwrap() == bytes, "{caching:?}");
        t.pool().sync().unwrap();
        let saved = t.pool().stats().unwrap().bclone_saved;
        assert!(saved >= 5 << 20, "{caching:?}: {saved} bytes are shared");

        // Not aligned to records.
        assert_eq!(copy(&a, 100, &b, 9_999, 700_000), 0);
        assert!(fs::read(t.at("b")).unwrap()[9_999..709_999] == bytes[100..700_100], "{caching:?}");
        let mut expected = bytes.clone();
        expected[9_999..709_999].copy_from_slice(&bytes[100..700_100]);
        // As programs copy.
        let done = std::process::Command::new("cp").args([t.at("b"), t.at("c")]).status().unwrap();
        assert!(done.success());
        assert!(t.mount().counters().ops(Opcode::CopyFileRange) >= 3, "{caching:?}");
        drop((a, b));
        t.again();
        for name in ["b", "c"] {
            assert!(fs::read(t.at(name)).unwrap() == expected, "{caching:?}: {name}");
        }
        t.end();
    }
}

#[test]
fn appenders() {
    for caching in MODES {
        let Some(t) = mounted("append", caching) else { return };
        const EACH: usize = 400;
        let path = t.at("log");
        std::thread::scope(|s| {
            for n in 0..4 {
                let path = &path;
                s.spawn(move || {
                    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
                    for i in 0..EACH {
                        let line = format!("{}\n", format!("{n}:{i}:").repeat(20 + i % 50));
                        file.write_all(line.as_bytes()).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let mut next = [0; 4];
        for line in text.lines() {
            let mut parts = line.split(':');
            let n: usize = parts.next().unwrap().parse().unwrap();
            let i: usize = parts.next().unwrap().parse().unwrap();
            assert_eq!((i, line), (next[n], format!("{n}:{i}:").repeat(20 + i % 50).as_str()));
            next[n] += 1;
        }
        assert_eq!(next, [EACH; 4]);
    }
}

#[test]
fn holes_and_length() {
    let Some(mut t) = mounted("holes", Caching::Through) else { return };
    let path = t.at("sparse");
    let file = rw(&path);
    const FAR: u64 = 5 << 30;
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", FAR).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), FAR + 3);
    let mut buf = [9; 8];
    file.read_exact_at(&mut buf, 3 << 30).unwrap();
    assert_eq!(buf, [0; 8]);
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((5..=1 << 20).contains(&hole), "{hole}");
    let data = rustix::fs::seek(&file, SeekFrom::Data(hole)).unwrap();
    assert!(data <= FAR && data > FAR - (1 << 20), "{data}");
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(FAR)).unwrap(), FAR + 3);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(FAR + 3)).unwrap_err().raw_os_error(), libc::ENXIO);

    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FAR + 100).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FAR + 100);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, FAR + 4096).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FAR + 100);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 1, 3).unwrap();
    let mut buf = [9; 5];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"s\0\0\0t");
    let too_much = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 50).unwrap_err();
    assert_eq!(too_much.raw_os_error(), libc::ENOSPC);
    let other = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).unwrap_err();
    assert_eq!(other.raw_os_error(), libc::EOPNOTSUPP);
    drop(file);
    t.again();
    assert_eq!(fs::metadata(t.at("sparse")).unwrap().len(), FAR + 100);
    assert!(fs::metadata(t.at("sparse")).unwrap().blocks() * 512 < 4 << 20, "it is still sparse");

    // A copy through the kernel, and O_TRUNC.
    fs::copy(t.at("sparse"), t.at("sparse2")).map(drop).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(fs::metadata(t.at("sparse2")).unwrap().len(), FAR + 100);
    File::create(t.at("sparse")).unwrap();
    assert_eq!(fs::metadata(t.at("sparse")).unwrap().len(), 0);
}

#[test]
fn direct_and_synchronous() {
    for caching in MODES {
        let Some(t) = mounted("direct", caching) else { return };
        let flags = libc::O_DIRECT | libc::O_SYNC;
        let open = |flags| {
            let mut o = OpenOptions::new();
            o.read(true).write(true).create(true).custom_flags(flags).open(t.at("f")).unwrap()
        };
        let (direct, plain) = (open(flags), open(0));
        let block = pattern(16_384, 3);
        // Memory aligned for O_DIRECT.
        let mut memory = vec![0u8; 16_384 + 4096];
        let start = memory.as_ptr().align_offset(4096);
        memory[start..start + 16_384].copy_from_slice(&block);
        let before = t.dataset().zil_stats();
        direct.write_all_at(&memory[start..start + 16_384], 32_768).unwrap();
        assert_ne!(t.dataset().zil_stats(), before, "O_SYNC goes through the intent log");
        let mut read = vec![0; 16_384];
        plain.read_exact_at(&mut read, 32_768).unwrap();
        assert!(read == block, "{caching:?}");
        plain.write_all_at(b"changed", 32_768).unwrap();
        direct.read_exact_at(&mut memory[start..start + 16_384], 32_768).unwrap();
        assert_eq!(&memory[start..start + 7], b"changed", "{caching:?}");
    }
}

/// The same program with and without `O_DIRECT`, as with a kernel's OpenZFS.
#[test]
fn direct_requests_bypass_the_arc() {
    const RECORD: usize = 128 << 10;
    const PIECE: usize = 16 << 10;
    for caching in MODES {
        let Some(mut t) = mounted("bypass", caching) else { return };
        let content = pattern(4 * RECORD, 5);
        fs::write(t.at("f"), &content).unwrap();
        t.again();
        let open =
            |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(t.at("f")).unwrap();
        let (direct, plain) = (open(libc::O_DIRECT), open(0));
        let mut memory = vec![0u8; 2 * RECORD + 4096];
        let start = memory.as_ptr().align_offset(4096);
        let memory = &mut memory[start..start + 2 * RECORD];

        let before = t.pool().io_stats().unwrap();
        for at in (0..content.len()).step_by(PIECE) {
            direct.read_exact_at(&mut memory[..PIECE], at as u64).unwrap();
            assert!(memory[..PIECE] == content[at..at + PIECE]);
        }
        let read = t.pool().io_stats().unwrap().since(&before);
        assert_eq!(
            read.direct_read_bytes,
            (8 * content.len()) as u64,
            "{caching:?}: each piece reads its record"
        );

        memory.copy_from_slice(&pattern(2 * RECORD, 6));
        direct.write_all_at(memory, RECORD as u64).unwrap();
        direct.write_all_at(&memory[..PIECE], 0).unwrap();
        let wrote = t.pool().io_stats().unwrap().since(&before);
        assert_eq!(wrote.direct_write_bytes, 2 * RECORD as u64, "{caching:?}: only whole records");
        let mut is = vec![0; content.len()];
        plain.read_exact_at(&mut is, 0).unwrap();
        let should = [&memory[..PIECE], &content[PIECE..RECORD], memory, &content[3 * RECORD..]].concat();
        assert!(is == should, "{caching:?}");

        let odd = direct.read_at(&mut memory[..512], 512);
        if poolwright_openzfs::Engine::version().starts_with("2.3") {
            assert_eq!(odd.unwrap_err().raw_os_error(), Some(libc::EINVAL), "{caching:?}");
        } else {
            assert_eq!(odd.unwrap(), 512, "{caching:?}");
        }
        t.dataset().set("direct", "disabled").unwrap();
        let before = t.pool().io_stats().unwrap();
        assert_eq!(direct.read_at(&mut memory[..PIECE], 0).unwrap(), PIECE);
        assert_eq!(t.pool().io_stats().unwrap().since(&before).direct_read_count, 0, "{caching:?}");
    }
}

#[test]
fn caching_through_bypasses_the_page_cache() {
    for (caching, each) in [(Caching::Through, true), (Caching::Pages, false)] {
        let Some(t) = mounted("reads", caching) else { return };
        fs::write(t.at("f"), pattern(65_536, 1)).unwrap();
        let file = File::open(t.at("f")).unwrap();
        let mut buf = [0; 4096];
        file.read_exact_at(&mut buf, 0).unwrap();
        let before = t.mount().counters();
        for _ in 0..100 {
            file.read_exact_at(&mut buf, 8192).unwrap();
        }
        let after = t.mount().counters();
        let reads = after.ops(Opcode::Read) - before.ops(Opcode::Read);
        assert_eq!(reads >= 100, each, "{caching:?}: {reads}");
        if each {
            assert_eq!(after.read_bytes - before.read_bytes, 100 * 4096);
        }
    }
}

#[test]
fn shared_mapping() {
    for caching in MODES {
        let Some(mut t) = mounted("map", caching) else { return };
        const LEN: usize = 300_000;
        let file = rw(&t.at("f"));
        file.write_all_at(&pattern(LEN, 1), 0).unwrap();
        common::map::shared(&file, LEN, |map| {
            assert!(*map == pattern(LEN, 1), "{caching:?}");
            map[100_000..200_000].copy_from_slice(&pattern(100_000, 2));
        });
        let mut read = vec![0; 100_000];
        file.read_exact_at(&mut read, 100_000).unwrap();
        assert!(read == pattern(100_000, 2), "{caching:?}: what a mapping wrote can be read");
        drop(file);
        t.again();
        let all = fs::read(t.at("f")).unwrap();
        assert!(all[100_000..200_000] == pattern(100_000, 2) && all[..100_000] == pattern(LEN, 1)[..100_000]);
        t.end();
    }
}

#[test]
fn full() {
    let none: Settings = [("compression".to_owned(), "off".to_owned())].into();
    let Some(mut t) = Fixture::sized("full", Options::default(), 128 << 20, &none) else { return };
    let mut written = 0u64;
    let why = loop {
        match fs::write(t.at(&format!("f{written}")), pattern(1 << 20, written)) {
            Ok(()) => written += 1,
            Err(why) => break why.raw_os_error().unwrap(),
        }
        assert!(written < 200, "128 MiB took {written} MiB");
    };
    assert_eq!(why, libc::ENOSPC);
    assert!(written > 50, "{written}");
    // A full pool can be read and emptied.
    assert!(fs::read(t.at("f7")).unwrap() == pattern(1 << 20, 7));
    for n in 0..written {
        fs::remove_file(t.at(&format!("f{n}"))).unwrap_or_else(|why| panic!("f{n} of {written}: {why}"));
    }
    // The last file: there was no space for its data, and perhaps not for its name.
    let _ = fs::remove_file(t.at(&format!("f{written}")));
    t.again();
    fs::write(t.at("again"), pattern(10 << 20, 0)).unwrap();
    assert!(fs::read(t.at("again")).unwrap() == pattern(10 << 20, 0));
}

/// A write by an unprivileged process clears set-id bits.
#[test]
fn set_ids_go() {
    let Some(t) = mounted("setid", Caching::Through) else { return };
    if !common::root("set_ids_go") {
        return;
    }
    let nobody = |script: &str| {
        use std::os::unix::process::CommandExt;
        let mut sh = std::process::Command::new("sh");
        let status = sh.args(["-c", script]).uid(65_534).gid(65_534).current_dir(t.root()).status().unwrap();
        assert!(status.success(), "{script}");
    };
    fs::set_permissions(t.root().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    for (script, left) in [
        ("echo more >> f", 0o777),
        (": > f", 0o777),
        ("truncate -s 3 f", 0o777),
        ("cat f > /dev/null", 0o6777),
    ] {
        fs::write(t.at("f"), b"program").unwrap();
        fs::set_permissions(t.at("f"), fs::Permissions::from_mode(0o6777)).unwrap();
        nobody(script);
        assert_eq!(fs::metadata(t.at("f")).unwrap().mode() & 0o7777, left, "{script}");
    }
}
