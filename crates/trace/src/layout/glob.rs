//! Wildcards of file patterns.
//!
//! A pattern is a path. In its components, `*` matches any run of characters, `?` one character, and `#` one or more
//! digits; `\#` is a literal number sign. The component `**` matches one or more components.

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

    proptest! {
        #[test]
        fn any_pattern_and_path_end(pattern in "[a-c*?#/\\\\]{0,12}", path in "[a-c0-9/]{0,16}") {
            ends(&pattern, &path);
        }
    }
}
