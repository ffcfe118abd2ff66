//! Wildcards of file patterns.
//!
//! A pattern is a path. In its components, `*` matches any run of characters, `?` one character, and `#` one or more
//! digits; `\#` is a literal number sign. The component `**` matches one or more components.

use std::ops::Range;

/// Whether the pattern matches the whole `path`.
pub(crate) fn matches(pattern: &[&str], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&"**", rest)) => (1..=path.len()).any(|taken| matches(rest, &path[taken..])),
        Some((first, rest)) => path
            .split_first()
            .is_some_and(|(name, tail)| component(first.as_bytes(), name.as_bytes()) && matches(rest, tail)),
    }
}

/// Whether the pattern matches the last components of `path`.
pub(crate) fn matches_end(pattern: &str, path: &[&str]) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    (0..path.len()).any(|start| matches(&pattern, &path[start..]))
}

fn component(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'\\', literal, rest @ ..] => {
            name.split_first().is_some_and(|(c, n)| c == literal && component(rest, n))
        }
        [b'*', rest @ ..] => (0..=name.len()).any(|taken| component(rest, &name[taken..])),
        [b'?', rest @ ..] => name.split_first().is_some_and(|(_, n)| component(rest, n)),
        [b'#', rest @ ..] => {
            let digits = name.iter().take_while(|c| c.is_ascii_digit()).count();
            (1..=digits).any(|taken| component(rest, &name[taken..]))
        }
        [literal, rest @ ..] => name.split_first().is_some_and(|(c, n)| c == literal && component(rest, n)),
    }
}

/// The parts of a path's component that the `*` of a component of a pattern match, each as short as possible, in order. What a `?` matches must be a
/// hexadecimal digit. Returns `None` if the pattern does not match.
pub(crate) fn starred(pattern: &str, name: &str) -> Option<Vec<Range<usize>>> {
    let is_hex = |(wildcard, byte): (u8, u8)| wildcard != b'?' || byte.is_ascii_hexdigit();
    if !component(pattern.as_bytes(), name.as_bytes()) || !pattern.bytes().zip(name.bytes()).all(is_hex) {
        return None;
    }
    let (mut parts, mut pattern, mut from) = (Vec::new(), pattern, 0);
    while let Some(at) = pattern.find('*') {
        let (before, rest) = (&pattern[..at], &pattern[at..]);
        let fits =
            |pattern: &str, range: Range<usize>| component(pattern.as_bytes(), &name.as_bytes()[range]);
        let borders = |from: usize| (from..=name.len()).filter(|at| name.is_char_boundary(*at));
        let is_start = |start: &usize| fits(before, from..*start) && fits(rest, *start..name.len());
        let start = borders(from).rfind(is_start)?;
        let end = borders(start).find(|end| fits(&rest[1..], *end..name.len()))?;
        parts.push(start..end);
        (pattern, from) = (&rest[1..], end);
    }
    Some(parts)
}

/// The length of all parts.
pub(crate) fn total(parts: &[Range<usize>]) -> usize {
    parts.iter().map(Range::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(pattern: &str, path: &str) -> bool {
        matches_end(pattern, &path.split('/').filter(|p| !p.is_empty()).collect::<Vec<_>>())
    }

    #[test]
    fn wildcards_do_what_they_say() {
        assert!(ends("*.ibd", "/var/lib/mysql/db/t#p#p0.ibd"));
        assert!(!ends("*.ibd", "/db.ibd/t.frm"));
        assert!(ends("pg_wal/**", "data/pg_wal/archive_status/x.done"));
        assert!(!ends("pg_wal/**", "data/pg_wal"));
        assert!(ends("base/#/t#_#", "base/16384/t3_16390"));
        assert!(!ends("base/#/t#_#", "base/16384/t3_"));
        assert!(ends("\\#sql*", "/tmp/#sql-1.MAD"));
        assert!(ends("binlog.#", "binlog.000001"));
        assert!(!ends("binlog.#", "binlog.index"));
        assert!(ends("0??", "01f") && !ends("0??", "01") && !ends("0??", "01ff"));
        assert!(ends("**/indexdb/**", "x/indexdb/y/z"));
    }

    #[test]
    fn the_starred_parts_are_found() {
        let parts = |pattern, name: &'static str| {
            let parts = starred(pattern, name)?;
            Some(parts.into_iter().map(|part| &name[part]).collect::<Vec<_>>())
        };
        for (pattern, name, found) in [
            ("*.ibd", "orders.ibd", Some(vec!["orders"])),
            ("*-bin.#", "shop-bin.000012", Some(vec!["shop"])),
            ("ib_logfile*", "ib_logfile0", Some(vec!["0"])),
            ("#*", "2619_fsm", Some(vec!["_fsm"])),
            ("pg_wal", "pg_wal", Some(vec![])),
            ("*.ibd", "orders.frm", None),
            ("\\#sql*", "#sql-ä", Some(vec!["-ä"])),
            ("*mrk*", "price.cmrk3", Some(vec!["price.c", "3"])),
            ("0??", "0a1", Some(vec![])),
            ("0??", "0tt", None),
        ] {
            assert_eq!(parts(pattern, name), found, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_and_path_end(pattern in "[a-c*?#/\\\\]{0,12}", path in "[a-c0-9/]{0,16}") {
            ends(&pattern, &path);
        }
    }
}
