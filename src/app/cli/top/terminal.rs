//! The terminal of `top`: the alternate screen, and keys that arrive one by one and are not shown.

use std::{
    future::pending,
    io::{self, IsTerminal as _, Read as _, Write},
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

/// To the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back to the screen as it was.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Keys that wait to be handled; a terminal sends no more until they are.
const KEYS: usize = 32;

/// The terminal while it is drawn on. Put back as it was when the value is dropped.
pub(super) struct Terminal {
    /// How it was; `None` if keys do not come from a terminal.
    before: Option<Termios>,
    keys: Receiver<u8>,
}

impl Terminal {
    pub(super) fn enter() -> Terminal {
        let _ = io::stdout().lock().write_all(ENTER.as_bytes());
        let input = io::stdin();
        let before = if input.is_terminal() { tcgetattr(&input).ok() } else { None };
        let (sender, keys) = channel(KEYS);
        if let Some(before) = &before {
            let mut raw = before.clone();
            // Ctrl-C stays a signal.
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(&input, OptionalActions::Now, &raw);
            // Ends with the process, or with the terminal.
            thread::spawn(move || {
                let mut bytes = io::stdin().lock().bytes();
                while let Some(Ok(byte)) = bytes.next() {
                    if sender.blocking_send(byte).is_err() {
                        return;
                    }
                }
            });
        }
        Terminal { before, keys }
    }

    /// The next key. Waits for ever where there are none.
    pub(super) async fn key(&mut self) -> u8 {
        match self.keys.recv().await {
            Some(key) => key,
            None => pending().await,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        let mut output = io::stdout().lock();
        let _ = output.write_all(LEAVE.as_bytes()).and_then(|()| output.flush());
    }
}

/// Columns and rows of the terminal, as far as it says.
pub(super) fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 48), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
