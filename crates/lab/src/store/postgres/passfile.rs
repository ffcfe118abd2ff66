//! Reads passwords from libpq's password file, `~/.pgpass`.
//!
//! A line is `hostname:port:database:username:password`. `*` matches everything, `\` escapes a `:` or a `\`, and
//! lines that start with `#` are comments.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The connection that needs a password.
pub(super) struct Login<'a> {
    /// Names of the host: a Unix socket is known by its directory and as `localhost`.
    pub(super) hosts: &'a [&'a str],
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Returns the password of the first line that matches, or `None` if the file or such a line does not exist.
/// The error tells why the file is ignored.
pub(super) fn lookup(path: &Path, login: &Login) -> Result<Option<Vec<u8>>, String> {
    let ignored = |why: &str| format!("ignoring the password file '{}': {why}", path.display());
    // Inspects the file before it is opened: opening a FIFO would block.
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ignored(&error.to_string())),
    };
    if !metadata.is_file() {
        return Err(ignored("not a regular file"));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let why = format!("group or others have access to it (mode {mode:04o})");
        return Err(format!("{}\nhint: chmod 0600 '{}'", ignored(&why), path.display()));
    }
    let text = std::fs::read(path).map_err(|e| ignored(&e.to_string()))?;
    Ok(search(&text, login))
}

/// Returns the password of the first line that matches; libpq treats an empty password as none.
fn search(text: &[u8], login: &Login) -> Option<Vec<u8>> {
    let mut lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let password = lines.find_map(|line| password_of(line, login))?;
    Some(password).filter(|password| !password.is_empty())
}

/// Returns the password of the line if the line matches.
fn password_of(line: &[u8], login: &Login) -> Option<Vec<u8>> {
    if line.starts_with(b"#") {
        return None;
    }
    let (host, rest) = split_field(line)?;
    let (port, rest) = split_field(rest)?;
    let (database, rest) = split_field(rest)?;
    let (user, rest) = split_field(rest)?;
    let is_match = login.hosts.iter().any(|name| matches(host, name))
        && matches(port, &login.port.to_string())
        && matches(database, login.database)
        && matches(user, login.user);
    let password = split_field(rest).map_or(rest, |(password, _)| password);
    is_match.then(|| unescape(password))
}

/// Splits at the first `:` that is not escaped.
fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut is_escaped = false;
    let colon = line.iter().position(|&byte| {
        let ends = byte == b':' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })?;
    Some((&line[..colon], &line[colon + 1..]))
}

fn matches(field: &[u8], value: &str) -> bool {
    field == b"*" || unescape(field) == value.as_bytes()
}

/// Removes the escapes. A `\` at the end stands for itself, as in libpq.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = field.iter().copied();
    let mut plain = Vec::with_capacity(field.len());
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'\\' { bytes.next().unwrap_or(byte) } else { byte });
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const LOGIN: Login = Login { hosts: &["db.example"], port: 5432, database: "lab", user: "ann" };

    fn found(text: &str, login: &Login) -> Option<String> {
        search(text.as_bytes(), login).map(|password| String::from_utf8(password).unwrap())
    }

    #[test]
    fn the_first_matching_line_wins() {
        let text = "# db.example:5432:lab:ann:comment\n\
            other:5432:lab:ann:1\ndb.example:5433:lab:ann:2\ndb.example:5432:x:ann:3\ndb.example:5432:lab:bob:4\n\
            db.example:5432:lab:ann:right\n*:*:*:*:late\n";
        assert_eq!(found(text, &LOGIN).as_deref(), Some("right"));
        assert_eq!(found("*:*:*:*:any\r\n", &LOGIN).as_deref(), Some("any"));
        assert_eq!(found("db.example:*:lab:*:some", &LOGIN).as_deref(), Some("some"));
        for text in ["", "\n", "db.example:5432:lab:ann", "DB.example:5432:lab:ann:x", "d*:*:*:*:x", "::::x"]
        {
            assert_eq!(found(text, &LOGIN), None, "{text}");
        }
        assert_eq!(
            found("db.example:5432:lab:ann:\n*:*:*:*:late", &LOGIN),
            None,
            "an empty password is none"
        );
    }

    #[test]
    fn escapes_are_removed() {
        let login = Login { hosts: &["::1"], port: 5432, database: r"a\b", user: "*" };
        assert_eq!(found(r"\:\:1:5432:a\\b:\*:p\:a\\s\s", &login).as_deref(), Some(r"p:a\ss"));
        assert_eq!(found(r"*:*:*:*:end\", &login).as_deref(), Some(r"end\"));
        assert_eq!(
            found(r"*:*:*:*:pass:more", &login).as_deref(),
            Some("pass"),
            "ends at a colon, as in libpq"
        );
        let ann = Login { user: "ann", ..login };
        assert_eq!(found(r"*:*:*:\*:x", &ann), None, "an escaped * is not a wildcard");
    }

    #[test]
    fn a_unix_socket_is_known_by_two_names() {
        let login = Login { hosts: &["/run/postgresql", "localhost"], ..LOGIN };
        assert_eq!(found("localhost:5432:lab:ann:a", &login).as_deref(), Some("a"));
        assert_eq!(found("/run/postgresql:5432:lab:ann:b", &login).as_deref(), Some("b"));
        assert_eq!(found("db.example:5432:lab:ann:b", &login), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        assert_eq!(lookup(&file, &LOGIN), Ok(None), "no file");
        std::fs::write(&file, "*:*:*:*:sesame\n").unwrap();
        for (mode, readable) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            match lookup(&file, &LOGIN) {
                Ok(password) => assert!(readable && password.as_deref() == Some(b"sesame"), "{mode:o}"),
                Err(why) => {
                    assert!(!readable && why.contains(&format!("mode {mode:04o}")), "{why}");
                    assert!(why.contains("\nhint: chmod 0600 ") && !why.contains("sesame"), "{why}");
                }
            }
        }
        let why = lookup(dir.path(), &LOGIN).unwrap_err();
        assert!(why.ends_with("not a regular file"), "{why}");
    }
}
