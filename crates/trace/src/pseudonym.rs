//! Pseudonyms for the names in a trace, so that it can be shown to others.
//!
//! A trace contains names and no contents of files. What a database's layout recognizes in a name stays (`pg_wal`, `.ibd`), and so do digits, because
//! readers derive roles and page sizes from them. The rest of each component of a path is replaced by a keyed hash: equal names have equal
//! pseudonyms, and only the owner of the key can test which name has a pseudonym.

use sha2::{Digest as _, Sha256};

use crate::layout::free_parts;
use crate::{File, Meta, path_text};

/// Bytes of a pseudonym's hash. With 100,000 names, two have the same one with a probability of 2·10⁻⁵.
const HASH_BYTES: usize = 6;
/// The first character of a pseudonym.
const PREFIX: char = 'x';
/// Precedes each number of a name in its pseudonym. No layout's pattern contains it.
const BEFORE_NUMBER: char = '~';

/// Replaces names by pseudonyms.
pub struct Pseudonyms {
    key: [u8; Pseudonyms::KEY_BYTES],
}

impl Pseudonyms {
    /// Length of a key.
    pub const KEY_BYTES: usize = 32;

    /// The pseudonyms under a secret and random key.
    pub fn new(key: [u8; Pseudonyms::KEY_BYTES]) -> Pseudonyms {
        Pseudonyms { key }
    }

    /// The file with pseudonyms in its path. Its role stays.
    pub(crate) fn file(&self, file: &File) -> File {
        File { path: self.path(&file.path), ..file.clone() }
    }

    /// The metadata with pseudonyms in the subject, and without what follows a colon in the kinds of unseen operations: it can be a path.
    pub(crate) fn meta(&self, meta: &Meta) -> Meta {
        let subject = match meta.subject.split_once(':') {
            Some(("pid", id)) if id.bytes().all(|byte| byte.is_ascii_digit()) => meta.subject.clone(),
            Some((kind @ ("dir" | "import" | "zvol"), path)) => format!("{kind}:{}", self.path(path)),
            _ => self.path(&meta.subject),
        };
        let kind = |what: &str| what.split_once(':').map_or(what, |(kind, _)| kind).to_owned();
        let unseen = meta.unseen.iter().map(|(what, count)| (kind(what), *count)).collect();
        Meta { subject, unseen, ..meta.clone() }
    }

    /// The path in the notation of [`path_text`](crate::path_text) with a pseudonym for each component.
    fn path(&self, path: &str) -> String {
        let mut hidden: Vec<String> = Vec::new();
        for name in path.split('/') {
            // The directories of ClickHouse's tables, of which the layout knows only the length.
            let is_prefix =
                name.len() == 3 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let stays = is_prefix && hidden.last().is_some_and(|parent| parent == "store");
            hidden.push(if stays { name.to_owned() } else { self.component(name) });
        }
        hidden.join("/")
    }

    fn component(&self, name: &str) -> String {
        let (mut hidden, mut done) = (String::new(), 0);
        for part in free_parts(name) {
            hidden += &name[done..part.start];
            hidden += &self.pseudonym(&name[part.clone()]);
            done = part.end;
        }
        hidden + &name[done..]
    }

    /// The pseudonym of a part of a name: a hash in letters of the part without its numbers, and the numbers. So names that differ only in
    /// their numbers, which have the same role, still differ only in these.
    fn pseudonym(&self, part: &str) -> String {
        let is_digit = |c: char| c.is_ascii_digit();
        if part.chars().all(is_digit) {
            return part.to_owned();
        }
        let numbers = part.split(|c| !is_digit(c)).filter(|number| !number.is_empty());
        let text = path_text::with_numbers_as('\0', part); // no name contains it
        let hash = Sha256::new().chain_update(self.key).chain_update(text).finalize();
        let letter = |nibble: u8| char::from(b'a' + nibble);
        let letters = hash[..HASH_BYTES].iter().flat_map(|byte| [letter(byte >> 4), letter(byte & 15)]);
        let hidden: String = std::iter::once(PREFIX).chain(letters).collect();
        numbers.fold(hidden, |hidden, number| format!("{hidden}{BEFORE_NUMBER}{number}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::{LAYOUTS, detect_paths};

    fn pseudonyms() -> Pseudonyms {
        Pseudonyms::new([7; Pseudonyms::KEY_BYTES])
    }

    /// A path that matches a layout's pattern.
    fn example(pattern: &str) -> String {
        let name = pattern.replace("**", "shop/orders").replace("\\#", "\0");
        name.replace('*', "invoices").replace('#', "17").replace('?', "a").replace('\0', "#")
    }

    #[test]
    fn layouts_recognize_the_pseudonyms_of_their_files() {
        for layout in LAYOUTS {
            let paths: Vec<String> = layout
                .files
                .iter()
                .map(|(pattern, _)| format!("/srv/customer/{}", example(pattern)))
                .collect();
            let hidden: Vec<String> = paths.iter().map(|path| pseudonyms().path(path)).collect();
            for (path, hidden) in paths.iter().zip(&hidden) {
                assert_eq!(
                    layout.role_of(hidden.as_ref()),
                    layout.role_of(path.as_ref()),
                    "{path}: {hidden}"
                );
                for word in ["customer", "shop", "orders", "invoices"] {
                    assert!(!hidden.contains(word), "{path}: {hidden}");
                }
            }
            let name =
                |paths: &[String]| detect_paths(paths.iter().map(String::as_str)).map(|found| found.name);
            assert_eq!(name(&hidden), name(&paths), "{hidden:?}");
        }
    }

    #[test]
    fn names_that_only_have_the_length_of_a_pattern_are_hidden() {
        for name in [
            "acme-corporation-customer-orders1.wal",
            "0000-customers-of-berlin.log",
            "ada",
            "0000customersinhamburg99",
        ] {
            let path = format!("/srv/{name}");
            assert!(!pseudonyms().path(&path).contains(&name[..3]) || name.starts_with("0000"), "{name}");
            assert!(!pseudonyms().path(&path).contains("customer"), "{name}");
        }
        assert!(pseudonyms().path("/x/store/ada/t").contains("/store/ada/"));
    }

    #[test]
    fn names_have_these_pseudonyms() {
        let path = |path: &str| pseudonyms().path(path);
        assert_eq!(path("base/16384/2619"), "base/16384/2619");
        let table = path("/srv/shop/orders.ibd");
        assert!(table.starts_with("/x") && table.ends_with(".ibd"), "{table}");
        assert_eq!(table.split('/').count(), 4);
        assert_ne!(table, Pseudonyms::new([8; 32]).path("/srv/shop/orders.ibd"));
        let stem =
            |name: &str| path(name).split_once('~').map(|(stem, rest)| (stem.to_owned(), rest.to_owned()));
        let (one, two) = (stem("orders1-2.dat").unwrap(), stem("orders10-20.dat").unwrap());
        assert_eq!((&*one.1, &*two.1), ("1~2", "10~20"));
        assert_eq!(one.0, two.0, "names that differ in numbers");
        assert_ne!(one.0, stem("bills1-2.dat").unwrap().0);
    }

    #[test]
    fn the_metadata_have_no_names() {
        let meta = |subject: &str| {
            let unseen = vec![("links, not followed: /srv/shop".to_owned(), 2)];
            pseudonyms().meta(&Meta {
                subject: subject.into(),
                host: "Linux".into(),
                unseen,
                ..Meta::default()
            })
        };
        assert_eq!(meta("pid:123").subject, "pid:123");
        for (kind, path) in [("dir", "/srv/shop"), ("zvol", "/dev/zvol/shop/vm")] {
            assert_eq!(
                meta(&format!("{kind}:{path}")).subject,
                format!("{kind}:{}", pseudonyms().path(path))
            );
        }
        for subject in ["import:shop.log", "unit:shop.service", "shop", "pid:shop"] {
            assert!(!meta(subject).subject.contains("shop"), "{subject}");
        }
        assert_eq!(
            (meta("").host, meta("").unseen),
            ("Linux".into(), vec![("links, not followed".into(), 2)])
        );
    }

    proptest! {
        #[test]
        fn equal_paths_and_only_they_are_equal(one in "(/[ab1.]{0,2}){0,2}", two in "(/[ab1.]{0,2}){0,2}") {
            prop_assert_eq!(pseudonyms().path(&one) == pseudonyms().path(&two), one == two);
        }

        #[test]
        fn any_path_has_one(path in "[a-c*?#/~\\\\0-9ä.-]{0,300}") {
            prop_assert_eq!(pseudonyms().path(&path).split('/').count(), path.split('/').count());
        }
    }
}
