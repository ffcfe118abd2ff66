//! Name-value lists as stored in vdev labels: XDR, big-endian, everything padded to four bytes.
//!
//! A list is a version, flags, then pairs: encoded size, decoded size, name, type, number of elements, value. A pair with
//! two zero sizes ends the list. Only numbers, arrays of numbers, strings and lists are decoded; other values are skipped by
//! their encoded size. The input may be damaged, so no length is trusted.

use std::collections::BTreeMap;

const XDR: u8 = 1;
const UINT64: u32 = 8;
const STRING: u32 = 9;
const UINT64_ARRAY: u32 = 16;
const NVLIST: u32 = 19;
const NVLIST_ARRAY: u32 = 20;
/// The deepest nesting accepted. Labels have four levels: list, vdev_tree, children, their children.
const DEEPEST: u32 = 16;

/// Pairs by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List(BTreeMap<String, Value>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Numbers(Vec<u64>),
    Text(String),
    List(List),
    Lists(Vec<List>),
}

impl List {
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        if let Value::Number(number) = self.0.get(name)? { Some(*number) } else { None }
    }

    pub(crate) fn numbers(&self, name: &str) -> &[u64] {
        if let Some(Value::Numbers(numbers)) = self.0.get(name) { numbers } else { &[] }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text(text) = self.0.get(name)? { Some(text) } else { None }
    }

    pub(crate) fn list(&self, name: &str) -> Option<&List> {
        if let Value::List(list) = self.0.get(name)? { Some(list) } else { None }
    }

    pub(crate) fn lists(&self, name: &str) -> &[List] {
        if let Some(Value::Lists(lists)) = self.0.get(name) { lists } else { &[] }
    }
}

/// Decodes the list at the start of these bytes, after its four-byte header; `None` if it is not valid.
pub(crate) fn decode(bytes: &[u8]) -> Option<List> {
    let (header, rest) = bytes.split_at_checked(4)?;
    if header[0] != XDR {
        return None;
    }
    Reader(rest).list(0)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        let text = String::from_utf8_lossy(self.take(len)?).into_owned();
        self.take(len.next_multiple_of(4) - len)?;
        Some(text)
    }

    fn list(&mut self, depth: u32) -> Option<List> {
        if depth > DEEPEST {
            return None;
        }
        let (_version, _flags) = (self.u32()?, self.u32()?);
        let mut list = List::default();
        loop {
            let before = self.0;
            let (encoded, decoded) = (self.u32()? as usize, self.u32()?);
            if encoded == 0 && decoded == 0 {
                return Some(list);
            }
            // The encoded size includes the two sizes.
            let mut pair = Reader(before.get(8..encoded)?);
            self.0 = before.get(encoded..)?;
            let name = pair.text()?;
            if let Some(value) = pair.value(depth)? {
                list.0.insert(name, value);
            }
        }
    }

    /// Reads a value. The outer `None` means truncated, the inner one a type that is not decoded.
    fn value(&mut self, depth: u32) -> Option<Option<Value>> {
        let (kind, count) = (self.u32()?, self.u32()?);
        Some(Some(match kind {
            UINT64 => Value::Number(self.u64()?),
            STRING => Value::Text(self.text()?),
            // XDR repeats the number of elements before them.
            UINT64_ARRAY => {
                let len = self.u32()?;
                Value::Numbers((0..len).map(|_| self.u64()).collect::<Option<Vec<u64>>>()?)
            }
            NVLIST => Value::List(self.list(depth + 1)?),
            NVLIST_ARRAY => {
                Value::Lists((0..count).map(|_| self.list(depth + 1)).collect::<Option<Vec<List>>>()?)
            }
            _ => return Some(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u32).to_be_bytes());
        out.extend(text.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    }

    fn pair(out: &mut Vec<u8>, name: &str, kind: u32, count: u32, value: &[u8]) {
        let mut body = Vec::new();
        text(&mut body, name);
        body.extend(kind.to_be_bytes());
        body.extend(count.to_be_bytes());
        body.extend(value);
        out.extend((body.len() as u32 + 8).to_be_bytes());
        out.extend(48u32.to_be_bytes());
        out.extend(body);
    }

    fn list(pairs: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![0, 0, 0, 0, 0, 0, 0, 1];
        pairs(&mut out);
        out.extend([0; 8]);
        out
    }

    fn sample() -> Vec<u8> {
        let child = list(|out| pair(out, "guid", UINT64, 1, &7u64.to_be_bytes()));
        let mut name = Vec::new();
        text(&mut name, "tank");
        let body = list(|out| {
            pair(out, "name", STRING, 1, &name);
            pair(out, "flag", 1, 0, &[]);
            let numbers = [&2u32.to_be_bytes()[..], &3u64.to_be_bytes(), &5u64.to_be_bytes()].concat();
            pair(out, "hole_array", UINT64_ARRAY, 2, &numbers);
            pair(out, "tree", NVLIST, 1, &child);
            pair(out, "children", NVLIST_ARRAY, 2, &[&child[..], &child[..]].concat());
            pair(out, "txg", UINT64, 1, &u64::MAX.to_be_bytes());
        });
        [&[XDR, 1, 0, 0], &body[..]].concat()
    }

    #[test]
    fn a_list_is_read() {
        let list = decode(&sample()).unwrap();
        assert_eq!((list.text("name"), list.number("txg")), (Some("tank"), Some(u64::MAX)));
        assert_eq!(list.list("tree").unwrap().number("guid"), Some(7));
        assert_eq!(list.lists("children").len(), 2);
        assert_eq!((list.number("name"), list.number("flag")), (None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_damaged_list_does_no_harm(at in 0usize..200, to: u8, cut in 0usize..400) {
            let mut bytes = sample();
            let at = at % bytes.len();
            bytes[at] = to;
            bytes.truncate(cut);
            let _ = decode(&bytes);
        }
    }
}
