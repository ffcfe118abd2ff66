//! A program in a pseudo-terminal, and what its screen shows.

use std::io::{Read as _, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Time limit of waits: long enough for a busy machine, and shorter than the limit of a test, so that a failure shows the screen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Width and height of a terminal.
fn size((cols, rows): (u16, u16)) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn nonzero((columns, rows): (u16, u16)) -> (NonZeroU16, NonZeroU16) {
    (NonZeroU16::new(columns).unwrap(), NonZeroU16::new(rows).unwrap())
}

/// A running program, whose controlling terminal is a pseudo-terminal. Dropping ends it.
pub struct PtyProgram {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    /// The modes of the terminal before the program started, as text.
    modes: String,
}

impl PtyProgram {
    /// Starts a command in a terminal of this width and height.
    pub fn start(command: &Command, dimensions: (u16, u16)) -> PtyProgram {
        let pair = native_pty_system().openpty(size(dimensions)).unwrap();
        let modes = format!("{:?}", pair.master.get_termios().unwrap());
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.cwd(command.get_current_dir().unwrap_or(Path::new(".")));
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            builder.env(name, value.unwrap());
        }
        let child = pair.slave.spawn_command(builder).unwrap();
        let (columns, rows) = nonzero(dimensions);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut output, shown) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        PtyProgram { child, master: pair.master, keys, screen, modes }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    pub fn resize(&mut self, dimensions: (u16, u16)) {
        let (columns, rows) = nonzero(dimensions);
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        self.master.resize(size(dimensions)).unwrap();
    }

    /// The text on the screen.
    pub fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen contains all of these texts.
    pub fn until_shows(&self, texts: &[&str]) {
        let start = Instant::now();
        while !texts.iter().all(|text| self.shown().contains(text)) {
            assert!(start.elapsed() < PATIENCE, "the screen does not show {texts:?}:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Whether a signal has stopped the process.
    pub fn is_stopped(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.child.process_id().unwrap())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    /// Whether the modes of the terminal are those before the program started, and the screen is that of the shell.
    pub fn is_restored(&self) -> bool {
        let screen = self.screen.lock().unwrap();
        let own_screen = screen.screen().alternate_screen() || screen.screen().hide_cursor();
        !own_screen && format!("{:?}", self.master.get_termios().unwrap()) == self.modes
    }

    /// Waits until the program ends and the terminal is restored; the exit code.
    pub fn ended(&mut self) -> u32 {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        };
        // The thread may not have read the last output yet.
        while !self.is_restored() {
            assert!(start.elapsed() < PATIENCE, "the terminal is not restored:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
        status.exit_code()
    }
}

impl Drop for PtyProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
