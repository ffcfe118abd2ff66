//! A panic restores the terminal before it is reported.

#[allow(dead_code)] // it has more than this test uses
#[path = "../../../poolwright/tests/integration/common/pty.rs"]
mod pty;

use std::process::Command;

use poolwright_monitor::terminal::terminal_modes::TerminalModes;
use pty::PtyProgram;

#[test]
fn a_panic_restores_the_terminal_and_is_reported_on_the_usual_screen() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "panic::the_program", "--ignored", "--nocapture"]);
    command.env("RUST_BACKTRACE", "0"); // a backtrace would move the message off the screen
    let mut program = PtyProgram::start(&command, (80, 24));
    assert_eq!(program.ended(), 101);
    program.until_shows(&["the screen is wrong"]);
    assert!(!program.shown().contains("the source is wrong"), "{}", program.shown());
}

#[test]
#[ignore = "the other test runs it in a terminal"]
fn the_program() {
    let _modes = TerminalModes::enter().unwrap();
    // The panic of a source's thread neither leaves the screen nor writes to it.
    std::thread::spawn(|| panic!("the source is wrong")).join().unwrap_err();
    assert!(crossterm::terminal::is_raw_mode_enabled().unwrap());
    panic!("the screen is wrong");
}
