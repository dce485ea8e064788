//! Standard output: locked once, buffered, flushed by the line only where a person watches.

use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::print::Pieces;

const BUFFER: usize = 1 << 16;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Out {
    buffer: Vec<u8>,
    to: StdoutLock<'static>,
    terminal: bool,
}

/// Formats without the detour over [`io::Write`]: half of the time of `explain` goes into formatting.
pub(crate) struct Text<'a>(pub(crate) &'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { buffer: Vec::with_capacity(2 * BUFFER), to: stdout.lock(), terminal }
    }

    /// Writes `what` and ends the line.
    pub(crate) fn line(&mut self, what: impl Display) -> io::Result<()> {
        // The buffer takes everything, and no `Display` here fails.
        let _ = write!(Text(&mut self.buffer), "{what}");
        self.end_line()
    }

    /// Writes a line that `print` puts together.
    pub(crate) fn pieces(&mut self, print: impl FnOnce(&mut Pieces<'_>)) -> io::Result<()> {
        print(&mut Pieces(&mut self.buffer));
        self.end_line()
    }

    /// Writes an object on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, value)?;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.buffer.push(b'\n');
        if self.terminal || self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// What could not be written is not tried again.
    fn flush(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.buffer);
        self.buffer.clear();
        written?;
        self.to.flush()
    }
}
