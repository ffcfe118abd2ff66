//! The decoder accepts any bytes without panicking, and decodes the kernel's requests.

use poolwright_mount::proto::wire::{InHeader, InitIn, InitInExt, Rename2In, SetxattrIn, WriteIn, init};
use poolwright_mount::proto::{Dirents, Op, Opcode, Parts, Request, decode};
#[cfg(not(miri))]
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn request(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let len = size_of::<InHeader>() + parts.iter().map(|p| p.len()).sum::<usize>();
    let header = InHeader {
        len: len as u32,
        opcode: opcode as u32,
        unique: 7,
        nodeid: 1,
        uid: 1000,
        ..InHeader::default()
    };
    let mut bytes = header.as_bytes().to_vec();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

#[test]
fn requests_of_every_shape() {
    let bytes = request(Opcode::Lookup, &[b"name\0"]);
    let (header, parsed) = Request::parse(&bytes).unwrap();
    assert_eq!((header.unique, header.uid), (7, 1000));
    assert!(matches!(parsed.unwrap().op, Op::Lookup(name) if name == c"name"));

    let to = Rename2In { newdir: 9, flags: 2, padding: 0 };
    let bytes = request(Opcode::Rename2, &[to.as_bytes(), b"a\0b b\0"]);
    let parsed = Request::parse(&bytes).unwrap().1.unwrap();
    assert!(
        matches!(parsed.op, Op::Rename { to: 9, flags: 2, name, new_name } if name == c"a" && new_name == c"b b")
    );

    let write = WriteIn { fh: 3, offset: 4096, size: 5, ..WriteIn::default() };
    let bytes = request(Opcode::Write, &[write.as_bytes(), b"hello"]);
    assert!(matches!(Request::parse(&bytes).unwrap().1.unwrap().op, Op::Write(w, b"hello") if w == write));
    let cut = Request::parse(&bytes[..bytes.len() - 1]).unwrap().1.unwrap_err();
    assert_eq!(cut.opcode, Opcode::Write);

    // io_uring delivers the structure and what follows it separately.
    let set = SetxattrIn { size: 3, flags: 1 };
    let parts = Parts { head: Some(set.as_bytes()), rest: b"user.a\0xyz" };
    let apart = decode(InHeader { opcode: Opcode::Setxattr as u32, ..header }, parts).unwrap();
    assert!(matches!(apart.op, Op::Setxattr(s) if s.name == c"user.a" && s.value == b"xyz" && s.flags == 1));

    let fixed = InitIn { major: 7, minor: 45, flags: init::INIT_EXT as u32, ..InitIn::default() };
    let ext = InitInExt { flags2: 16, ..InitInExt::default() };
    let bytes = request(Opcode::Init, &[fixed.as_bytes(), ext.as_bytes()]);
    assert!(matches!(Request::parse(&bytes).unwrap().1.unwrap().op, Op::Init(_, 16)));

    let unknown = InHeader { opcode: 9999, ..header };
    assert!(matches!(decode(unknown, Parts { head: None, rest: &[] }).unwrap().op, Op::Unserved));
}

/// Every operation, truncated at each length, in one buffer and in io_uring's two parts. Miri runs this test with every
/// seventh length, because random cases are too slow for it.
#[test]
fn every_operation_cut_anywhere() {
    let body: Vec<u8> = (0..140).map(|n| if n % 9 == 8 { 0 } else { n as u8 }).collect();
    for opcode in Opcode::ALL {
        let header = InHeader { opcode: *opcode as u32, ..InHeader::default() };
        let mut fitted = 0;
        for len in (0..=body.len()).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let whole = request(*opcode, &[&body[..len]]);
            let (_, parsed) = Request::parse(&whole).unwrap();
            fitted += usize::from(parsed.is_ok());
            let (head, rest) = body[..len].split_at(len / 2);
            let apart = decode(header, Parts { head: Some(head), rest });
            for found in [parsed, apart].into_iter().flatten() {
                assert_eq!(found.opcode, Some(*opcode));
                match found.op {
                    Op::Write(write, data) => assert_eq!(write.size as usize, data.len()),
                    Op::BatchForget(pairs) => assert_eq!(Op::forgets(pairs).count() * 16, pairs.len()),
                    Op::Setxattr(set) => assert!(set.value.len() < len),
                    _ => {}
                }
            }
        }
        // In these, the body is shorter than its length field says.
        let counted = [Opcode::Write, Opcode::BatchForget, Opcode::Setxattr];
        assert!(fitted > 0 || counted.contains(opcode), "{opcode:?} never fitted");
    }
}

/// A listing in buffers of every size.
#[test]
fn listings_in_any_room() {
    for room in 0..200 {
        let mut out = vec![0xaa; room];
        let mut list = Dirents::new(&mut out);
        let fitted = [b"a".as_slice(), b"bc", b"a longer name", b""]
            .into_iter()
            .take_while(|name| list.push(name, 5, 8, 9, None))
            .map(|name| Dirents::length(name.len(), false));
        let fitted: usize = fitted.sum();
        assert_eq!(list.used(), fitted);
        assert!(list.used() <= room && out[fitted..].iter().all(|byte| *byte == 0xaa));
    }
}

#[cfg(not(miri))]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let parsed = Request::parse(&bytes);
        prop_assert_eq!(parsed.is_some(), bytes.len() >= size_of::<InHeader>());
    }

    /// An opcode followed by any bytes, in one buffer and in two parts.
    #[test]
    fn any_body(
        opcode in 0u32..60,
        extensions in 0u16..20,
        head in prop::collection::vec(any::<u8>(), 0..130),
        rest in prop::collection::vec(prop_oneof![3 => Just(0u8), 3 => any::<u8>(), 1 => Just(255u8)], 0..300),
    ) {
        let header = InHeader { opcode, total_extlen: extensions, ..InHeader::default() };
        let whole = [header.as_bytes(), &rest].concat();
        let (_, together) = Request::parse(&whole).unwrap();
        let apart = decode(header, Parts { head: Some(&head), rest: &rest });
        for request in [together, apart].into_iter().flatten() {
            match request.op {
                Op::Write(w, data) => prop_assert_eq!(w.size as usize, data.len()),
                Op::BatchForget(bytes) => prop_assert_eq!(Op::forgets(bytes).count() * 16, bytes.len()),
                Op::Lookup(name) => prop_assert!(name.count_bytes() < rest.len()),
                _ => {}
            }
        }
    }

    /// A listing never exceeds its buffer, and can be decoded.
    #[test]
    fn listings(
        names in prop::collection::vec("[a-z]{1,255}", 0..40),
        room in 0usize..4096,
        plus in any::<bool>(),
    ) {
        use poolwright_mount::proto::wire::{Dirent, EntryOut};
        use zerocopy::FromBytes;
        let mut out = vec![0xaa; room];
        let mut list = Dirents::new(&mut out);
        let entry = EntryOut::default();
        let fitted = names.iter().take_while(|n| list.push(n.as_bytes(), 5, 8, 9, plus.then_some(&entry))).count();
        let used = list.used();
        prop_assert!(used <= room);
        let mut rest = &out[..used];
        for name in &names[..fitted] {
            let head = if plus { size_of::<EntryOut>() } else { 0 };
            let (dirent, text) = Dirent::read_from_prefix(&rest[head..]).unwrap();
            prop_assert_eq!((dirent.ino, dirent.off, dirent.kind), (5, 9, 8));
            prop_assert_eq!(&text[..dirent.namelen as usize], name.as_bytes());
            rest = &rest[Dirents::length(name.len(), plus)..];
        }
        prop_assert!(rest.is_empty());
    }
}
