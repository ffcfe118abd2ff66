//! Replication streams: the arguments of `zfs send` and `zfs receive`, sizes, and resume tokens.

use super::error::{CommandError, MalformedOutput};
use super::property;
use super::remote::command_line;
use super::runner::{Invocation, ZFS, ZfsCommands, check, check_name, none_if_missing};
use super::snapshot::{self, HistoryPoint};

/// How the blocks of a stream are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// As they are on disk: large, compressed, and embedded in block pointers.
    Stored,
    /// The same without embedded blocks, which an encrypted dataset does not accept.
    StoredForEncrypted,
    /// As they are on disk, encrypted: the target does not need the key.
    Raw,
}

/// The snapshot that a stream contains, and what the target has before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamContent {
    /// All of a snapshot.
    Full {
        /// `DATASET@SNAPSHOT`.
        snapshot: String,
    },
    /// The difference between a snapshot or a bookmark and a snapshot.
    Incremental {
        /// `DATASET@SNAPSHOT` or `DATASET#BOOKMARK`.
        from: String,
        /// `DATASET@SNAPSHOT`.
        snapshot: String,
    },
    /// The rest of a stream that was interrupted, in the format of that stream.
    Resumed {
        /// The target's `receive_resume_token`.
        token: String,
    },
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendStream {
    /// Its contents.
    pub content: StreamContent,
    /// How its blocks are written.
    pub format: StreamFormat,
}

impl SendStream {
    /// The arguments of `zfs`. `options` follow `send`.
    fn arguments<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let format: &[&str] = match (&self.content, self.format) {
            (StreamContent::Resumed { .. }, _) => &[],
            (_, StreamFormat::Stored) => &["-L", "-e", "-c"],
            (_, StreamFormat::StoredForEncrypted) => &["-L", "-c"],
            (_, StreamFormat::Raw) => &["-w"],
        };
        let mut arguments = [&["send"], options, format].concat();
        match &self.content {
            StreamContent::Full { snapshot } => arguments.push(snapshot),
            StreamContent::Incremental { from, snapshot } => arguments.extend(["-i", from, snapshot]),
            StreamContent::Resumed { token } => arguments.extend(["-t", token]),
        }
        arguments
    }
}

/// How a stream is received: never with a rollback, never mounted, and so that an interrupted one can be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// The dataset.
    pub dataset: String,
    /// Properties that are set on it, in the spelling of `zfs set`.
    pub settings: Vec<(&'static str, &'static str)>,
}

impl ReceiveRequest {
    /// The arguments of `zfs`.
    fn arguments(&self) -> Vec<String> {
        let options = ["receive", "-s", "-u"].map(str::to_owned).into_iter();
        let settings = self.settings.iter();
        let settings =
            settings.flat_map(|(property, value)| ["-o".to_owned(), format!("{property}={value}")]);
        options.chain(settings).chain([self.dataset.clone()]).collect()
    }
}

/// The contents of a resume token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeToken {
    /// The GUID of the snapshot that was being sent.
    pub to_guid: u64,
    /// Its name when it was sent.
    pub to_name: String,
    /// Whether the stream is raw.
    pub is_raw: bool,
    /// The bytes that are left to send, about.
    pub rest_bytes: Option<u64>,
    /// Why the stream cannot be continued, in the words of `zfs`.
    pub problem: Option<String>,
}

/// The number of bytes in the output of `zfs send -nvP`, about.
pub fn parse_stream_size(text: &str) -> Option<u64> {
    let last_number = |line: &str| line.rsplit('\t').next()?.trim().parse().ok();
    let total = text.lines().find(|line| line.starts_with("size\t")).and_then(last_number);
    // Old versions print no total for a resumed stream.
    let is_stream = |line: &&str| line.starts_with("full\t") || line.starts_with("incremental\t");
    total.or_else(|| text.lines().find(is_stream).and_then(last_number))
}

/// Parses the output of `zfs send -nvP -t TOKEN`.
///
/// # Errors
/// If it names no snapshot, or a GUID is malformed.
pub fn parse_resume_token(text: &str) -> Result<ResumeToken, MalformedOutput> {
    let mut token = ResumeToken { rest_bytes: parse_stream_size(text), ..ResumeToken::default() };
    let mut has_guid = false;
    for (at, line) in text.lines().enumerate() {
        let Some((name, value)) = line.trim_start().split_once(" = ") else { continue };
        let guid = || {
            let digits = value.trim().strip_prefix("0x").unwrap_or_default();
            let malformed = |_| MalformedOutput::new(at + 1, format!("{value:?} is not a GUID"));
            u64::from_str_radix(digits, 16).map_err(malformed)
        };
        match name {
            "toguid" => (token.to_guid, has_guid) = (guid()?, true),
            "toname" => value.clone_into(&mut token.to_name),
            "rawok" => token.is_raw = true,
            _ => {}
        }
    }
    match has_guid && !token.to_name.is_empty() {
        true => Ok(token),
        false => Err(MalformedOutput::new(1, "the token names no snapshot")),
    }
}

/// Whether a text can be a resume token, which comes from another host and becomes an argument.
fn is_resume_token(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

impl ZfsCommands {
    /// The snapshots and bookmarks of one dataset, oldest first; of the same transaction group, snapshots first. Empty if the dataset
    /// does not exist.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn history_of(&self, dataset: &str) -> Result<Vec<HistoryPoint>, CommandError> {
        check_name(dataset)?;
        let columns = snapshot::HISTORY_COLUMNS;
        let arguments = ["list", "-Hp", "-d", "1", "-t", "snapshot,bookmark", "-o", columns, dataset];
        let points = self.parsed(&self.invocation(ZFS, &arguments)?, snapshot::parse_history);
        let mut points = none_if_missing(points)?;
        points.sort_by_key(|of| (of.created_txg, of.is_bookmark()));
        Ok(points)
    }

    /// The values of properties of a dataset or a snapshot, as `zfs get -p` prints them, in this order. `None` stands for a property
    /// that it does not have; the result is `None` if it does not exist.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn values_of<const N: usize>(
        &self,
        name: &str,
        properties: [&str; N],
    ) -> Result<Option<[Option<String>; N]>, CommandError> {
        check_name(name)?;
        let listed = properties.join(",");
        let arguments = ["get", "-Hp", "-o", "name,property,value,source", &listed, name];
        let found = match self.parsed(&self.invocation(ZFS, &arguments)?, property::parse_properties) {
            Err(CommandError::NoSuchPool { .. }) => return Ok(None),
            found => found?,
        };
        let mut values = found.into_iter().next().map(|of| of.properties).unwrap_or_default();
        Ok(Some(properties.map(|property| values.remove(property).map(|of| of.value))))
    }

    /// The approximate number of bytes in a stream. `None` if `zfs` does not report it.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time or fails.
    pub fn stream_size(&self, stream: &SendStream) -> Result<Option<u64>, CommandError> {
        let invocation = self.invocation(ZFS, &stream.arguments(&["-nvP"]))?;
        self.parsed(&invocation, |text| Ok(parse_stream_size(text)))
    }

    /// Decodes a resume token. A stream that cannot be resumed is not an error: [`ResumeToken::problem`] has the reason.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, or does not understand the token.
    pub fn resume_token(&self, token: &str) -> Result<ResumeToken, CommandError> {
        let invocation = self.invocation(ZFS, &["send", "-nvP", "-t", token])?;
        let command = || invocation.text.clone();
        if !is_resume_token(token) {
            let cause = MalformedOutput::new(1, "it is not a resume token");
            return Err(CommandError::Malformed { command: command(), cause });
        }
        let (output, end) = self.output(&invocation)?;
        // `zfs` prints the contents before it looks for the snapshots.
        match parse_resume_token(&output) {
            Ok(contents) if end.status.success() => Ok(contents),
            Ok(contents) => Ok(ResumeToken { problem: Some(end.message), ..contents }),
            Err(cause) => {
                check(&invocation, &end)?;
                Err(CommandError::Malformed { command: command(), cause })
            }
        }
    }

    /// The command line that sends a stream, for a shell.
    pub fn send_line(&self, stream: &SendStream) -> String {
        self.shown(&stream.arguments(&[]))
    }

    /// The command line that receives a stream, for a shell.
    pub fn receive_line(&self, request: &ReceiveRequest) -> String {
        self.shown(&references(&request.arguments()))
    }

    /// The command that sends a stream.
    pub(super) fn sending(&self, stream: &SendStream) -> Result<Invocation, CommandError> {
        self.check_device()?;
        self.invocation(ZFS, &stream.arguments(&[]))
    }

    /// The command that receives a stream.
    pub(super) fn receiving(&self, request: &ReceiveRequest) -> Result<Invocation, CommandError> {
        self.check_device()?;
        check_name(&request.dataset)?;
        self.invocation(ZFS, &references(&request.arguments()))
    }

    fn shown(&self, arguments: &[&str]) -> String {
        let Some(host) = &self.options().remote else {
            return command_line(std::iter::once(ZFS).chain(arguments.iter().copied()));
        };
        let (program, arguments) = host.command(ZFS, arguments);
        let program = program.to_string_lossy();
        command_line(std::iter::once(&*program).chain(references(&arguments)))
    }
}

fn references(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::command::CommandOptions;
    use crate::kernel::command::remote::RemoteHost;

    /// The formats are those of OpenZFS: `send_print_verbose` and `zfs_send_resume_impl` in `libzfs_sendrecv.c`.
    const RESUMED: &str = "resume token contents:\nnvlist version: 0\n\tfromguid = 0x52f9c212c71e60cd\n\tobject = 0x2\n\toffset = 0x4c0000\n\t\
                           bytes = 0x4e3ef0\n\ttoguid = 0xcfae0ae671723c16\n\ttoname = tank/my backup@2\n\tlargeblockok = 1\n\t\
                           compressok = 1\n\trawok = 1\nincremental\ttank/my backup@1\ttank/my backup@2\t5383936\nsize\t5383936\n";

    #[test]
    fn sizes_of_streams() {
        let sizes = [
            ("full\ttank/my backup@3\t10518512\nsize\t10518512\n", Some(10_518_512)),
            ("incremental\t1\ttank/a@2\t624\nsize\t624\n", Some(624)),
            ("incremental\ttank/a#1\ttank/a@2\t5383312\n\n", Some(5_383_312)),
            (RESUMED, Some(5_383_936)),
            ("full\ttank/a@3\n", None),
            ("", None),
            ("size\tmany\n", None),
        ];
        for (text, size) in sizes {
            assert_eq!(parse_stream_size(text), size, "{text}");
        }
    }

    #[test]
    fn contents_of_a_token() {
        let token = parse_resume_token(RESUMED).unwrap();
        let expected = ResumeToken {
            to_guid: 0xcfae_0ae6_7172_3c16,
            to_name: "tank/my backup@2".to_owned(),
            is_raw: true,
            rest_bytes: Some(5_383_936),
            problem: None,
        };
        assert_eq!(token, expected);
        let full = "resume token contents:\nnvlist version: 0\n\tobject = 0x1\n\ttoguid = 0x1\n\ttoname = tank/a@1\n";
        let token = parse_resume_token(full).unwrap();
        assert_eq!((token.is_raw, token.rest_bytes), (false, None));
        for wrong in ["", "\ttoguid = 0x1\n", "\ttoname = a@1\n", "\ttoguid = 17\n\ttoname = a@1\n"] {
            assert!(parse_resume_token(wrong).is_err(), "{wrong}");
        }
        assert!(is_resume_token("1-eb46e146b-d0-789c636064000310a5"));
        for wrong in ["", "-", "-1", "none", "1-ä", "1 2", "1-0;x"] {
            assert!(!is_resume_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn command_lines() {
        let stream = |content, format| SendStream { content, format };
        let (from, snapshot) = ("tank/a#1".to_owned(), "tank/a@2".to_owned());
        let full = StreamContent::Full { snapshot: snapshot.clone() };
        let incremental = StreamContent::Incremental { from, snapshot };
        let resumed = StreamContent::Resumed { token: "1-ab-0".to_owned() };
        let here = ZfsCommands::default();
        let lines = [
            (stream(full.clone(), StreamFormat::Stored), "zfs send -L -e -c tank/a@2"),
            (stream(full, StreamFormat::StoredForEncrypted), "zfs send -L -c tank/a@2"),
            (stream(incremental, StreamFormat::Raw), "zfs send -w -i 'tank/a#1' tank/a@2"),
            (stream(resumed, StreamFormat::Raw), "zfs send -t 1-ab-0"),
        ];
        for (stream, line) in lines {
            assert_eq!(here.send_line(&stream), line);
        }
        let remote = RemoteHost::new("root@b", None).unwrap();
        let options = CommandOptions { remote: Some(remote), ..CommandOptions::default() };
        let there = ZfsCommands::new(options);
        let request =
            ReceiveRequest { dataset: "vault/my db".to_owned(), settings: vec![("readonly", "on")] };
        assert_eq!(here.receive_line(&request), "zfs receive -s -u -o readonly=on 'vault/my db'");
        assert_eq!(
            there.receive_line(&request),
            r"ssh -o BatchMode=yes -o ConnectTimeout=60 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -- root@b 'zfs receive -s -u -o readonly=on '\''vault/my db'\'''"
        );
    }
}
