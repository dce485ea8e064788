//! Standard output: locked once, buffered, flushed by the line only where a person watches.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

const BUFFER: usize = 1 << 16;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Out {
    to: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { to: BufWriter::with_capacity(BUFFER, stdout.lock()), terminal }
    }

    /// Ends a line.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n")?;
        if self.terminal { self.to.flush() } else { Ok(()) }
    }

    /// Writes an object on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, value)?;
        self.end_line()
    }

    /// Writes everything and takes nothing more: what is left in the buffer when writing has failed is not tried again.
    pub(crate) fn close(self) -> io::Result<()> {
        let (mut to, rest) = self.to.into_parts();
        to.write_all(rest.as_deref().unwrap_or_default())?;
        to.flush()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
