//! A database's command-line client as a child process: one session, to which statements are written through a pipe.
//!
//! If this process ends, however it ends, the pipe is closed, the client exits, the session ends, and the database releases what the
//! session held.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use poolwright_base::{end_of, memory_file};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::Error;

/// How often an interruption is looked for.
const POLL: Duration = Duration::from_millis(100);
/// How long a client may take to end.
const END_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer that are kept at most.
const MAX_ANSWER: usize = 64 << 20;
/// Bytes of a program's messages that an error shows.
const SHOWN: u64 = 2000;

/// Why a client did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientFailure {
    /// It ended, or could not be started; with its messages.
    #[error("{0}")]
    Ended(String),
    /// It did not answer in time.
    #[error("no answer within {:.0} s", .0.as_secs_f64())]
    Late(Duration),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl From<Error> for ClientFailure {
    fn from(cause: Error) -> ClientFailure {
        match cause {
            Error::Interrupted => ClientFailure::Interrupted,
            cause => ClientFailure::Ended(cause.to_string()),
        }
    }
}

/// A running client.
#[derive(Debug)]
pub struct ClientSession {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    messages: File,
    program: String,
    marks: u32,
    /// Whether it is left running, when this is dropped, if it does not end soon.
    is_left: bool,
}

impl ClientSession {
    /// Starts a client. It is in a separate process group, so that Ctrl-C at the terminal does not end it.
    ///
    /// # Errors
    /// [`ClientFailure::Ended`] if it cannot be started.
    pub fn start(mut command: Command) -> Result<ClientSession, ClientFailure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |why: std::io::Error| ClientFailure::Ended(format!("{program}: {why}"));
        let messages = memory_file().map_err(failed)?;
        let stderr = messages.try_clone().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                }
            });
        }
        let input = child.stdin.take();
        Ok(ClientSession { child, input, lines, messages, program, marks: 0, is_left: false })
    }

    /// Writes a statement, then one that prints a mark (`print`, with `MARK` in place of it), and returns the lines before the mark.
    ///
    /// # Errors
    /// [`ClientFailure`].
    pub fn ask(
        &mut self,
        statement: &str,
        print: &str,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, ClientFailure> {
        self.marks += 1;
        let mark = format!("poolwright-mark-{}", self.marks);
        self.write(&format!("{statement}\n{}", print.replace("MARK", &mark)))?;
        self.lines_until(|line| line == mark, limit, is_interrupted).map(|(lines, _)| lines)
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`ClientFailure::Ended`].
    pub fn write(&mut self, text: &str) -> Result<(), ClientFailure> {
        let written = match &mut self.input {
            Some(input) => input.write_all(format!("{text}\n").as_bytes()).and_then(|()| input.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|_| self.ended())
    }

    /// Waits for a line that begins with these words, and returns the rest of it.
    ///
    /// # Errors
    /// [`ClientFailure`].
    pub fn wait_for(
        &mut self,
        words: &str,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<String, ClientFailure> {
        let (_, line) = self.lines_until(|line| line.starts_with(words), limit, is_interrupted)?;
        Ok(line[words.len()..].to_owned())
    }

    /// Never kills it: it has to do something after its pipe is closed.
    pub fn never_kill(mut self) -> ClientSession {
        self.is_left = true;
        self
    }

    /// A line that it has printed, if there is one.
    pub fn printed(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// The messages so far, in one line.
    pub fn messages(&self) -> String {
        read_end(&self.messages)
    }

    /// The lines before the one that is wanted, and that line.
    fn lines_until(
        &mut self,
        is_wanted: impl Fn(&str) -> bool,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(Vec<String>, String), ClientFailure> {
        let end = Instant::now() + limit;
        let (mut before, mut bytes) = (Vec::new(), 0);
        loop {
            match self.lines.recv_timeout(POLL) {
                Ok(line) if is_wanted(&line) => return Ok((before, line)),
                Ok(line) => {
                    bytes += line.len();
                    before.push(line);
                    if bytes > MAX_ANSWER {
                        return Err(ClientFailure::Ended(format!(
                            "{}: the answer is too long",
                            self.program
                        )));
                    }
                    if Instant::now() >= end {
                        return Err(ClientFailure::Late(limit));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if is_interrupted() => return Err(ClientFailure::Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                    return Err(ClientFailure::Late(limit));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends the session.
    pub fn end(mut self) {
        self.close();
    }

    fn ended(&mut self) -> ClientFailure {
        self.close();
        let said = read_end(&self.messages);
        let status = self.child.try_wait().ok().flatten();
        let status =
            status.map_or_else(String::new, |status| format!("{} ended with {status}", self.program));
        ClientFailure::Ended(if said.is_empty() { status } else { said })
    }

    /// Closes the pipe, and waits for the end of the client; a client that does not end is killed.
    fn close(&mut self) {
        drop(self.input.take());
        let end = Instant::now() + END_TIME;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.is_left {
            return;
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.close();
    }
}

/// The end of a program's messages, in one line.
pub(crate) fn read_end(messages: &File) -> String {
    end_of(messages, SHOWN).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell() -> ClientSession {
        ClientSession::start(Command::new("/bin/sh")).unwrap()
    }

    #[test]
    fn statements_are_answered() {
        let mut session = shell();
        let mut ask = |text: &str| session.ask(text, "echo MARK", LIMIT, &|| false);
        assert_eq!(ask("echo one; echo two"), Ok(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(ask("true"), Ok(vec![]));
        assert_eq!(ask("echo cause >&2; exit 3"), Err(ClientFailure::Ended("cause".to_owned())));
        assert!(matches!(ask("true"), Err(ClientFailure::Ended(_))), "it stays ended");
    }

    #[test]
    fn waits_have_an_end() {
        let mut session = shell();
        let limit = Duration::from_millis(200);
        assert_eq!(session.ask("sleep 2", "echo MARK", limit, &|| false), Err(ClientFailure::Late(limit)));
        let mut session = shell();
        assert_eq!(session.ask("sleep 2", "echo MARK", LIMIT, &|| true), Err(ClientFailure::Interrupted));
        let none = ClientSession::start(Command::new("/nonexistent/client")).unwrap_err();
        assert!(none.to_string().contains("/nonexistent/client"), "{none:?}");
    }
}
