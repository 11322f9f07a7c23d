//! Processes that end when we do, however we do.
//!
//! Each holds the reading end of a pipe from us as its standard input. The pipe closes when we drop the handle, and
//! also when we are killed; whoever reads its end leaves. Programs that do not read theirs run under a [`guard`].

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

/// Between two looks at whether a process has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// A process of ours.
pub struct Process {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program with other arguments.
    pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().map(BufReader::new);
        Ok(Process { child, output })
    }

    /// Reads lines until one of them holds what is looked for, and gives back what comes after it. Blocks.
    pub fn wait_for(&mut self, mark: &str) -> io::Result<String> {
        let mut line = String::new();
        let Some(output) = &mut self.output else { return Err(io::Error::other("nobody listens to it")) };
        while output.read_line(&mut line)? > 0 {
            if let Some((_, rest)) = line.split_once(mark) {
                return Ok(rest.trim().to_owned());
            }
            line.clear();
        }
        Err(io::Error::other(format!("a process ended before it said '{}'", mark.trim())))
    }

    /// Writes a line to it.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"))
    }

    /// Has it end by itself and reads what it says then. Blocks.
    pub fn finish(mut self) -> io::Result<String> {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.as_mut().map_or(Ok(0), |output| output.read_to_string(&mut said))?;
        Ok(said)
    }

    /// Reads and forgets the rest of what it says, so that it never waits for us.
    pub fn ignore(&mut self) {
        if let Some(mut output) = self.output.take() {
            thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A guard kills what it guards before it goes; a second is plenty for that.
        drop(self.child.stdin.take());
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        // It may have ended by itself meanwhile.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs a program until it ends or our own standard input does, then removes the directory that was made for it.
/// The directory comes first, then the program and its arguments.
///
/// # Errors
/// A program that cannot be started.
pub fn guard(command: &[OsString]) -> io::Result<()> {
    let [directory, program, arguments @ ..] = command else { return Err(io::Error::other("nothing to guard")) };
    let ran = run(program, arguments);
    // It may be gone already.
    _ = std::fs::remove_dir_all(directory);
    ran
}

fn run(program: &OsString, arguments: &[OsString]) -> io::Result<()> {
    // What providers do here is meant: no log needs to tell it.
    let mut child = Command::new(program).args(arguments).env("RUST_LOG", "error").stdin(Stdio::null()).spawn()?;
    let ended = thread::spawn(|| io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop));
    while child.try_wait()?.is_none() && !ended.is_finished() {
        thread::sleep(PAUSE);
    }
    _ = child.kill();
    child.wait().map(drop)
}
