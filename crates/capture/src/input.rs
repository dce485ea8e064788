//! The buffer between a source of bytes and the parsers.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::decompress;
use crate::{CaptureError, Cause, Compression};

/// Large enough that a system call costs nothing per record, small enough to stay in the second-level cache.
const BUFFER: usize = 128 << 10;
/// What is looked at to tell formats apart.
const PEEK: usize = 8;

/// A window onto the (decompressed) stream: `buf[pos..end]` are the bytes read but not taken.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buf: Vec<u8>,
    pos: usize,
    end: usize,
    /// Offset in the stream of `buf[0]`.
    base: u64,
    ended: bool,
    compression: Option<Compression>,
    /// True once the bytes below the decompressor could not be read: then an error is not the data's fault.
    source_failed: Arc<AtomicBool>,
    name: String,
}

impl Input {
    /// Looks at the first bytes and puts the right decompressor between.
    pub(crate) fn new(name: String, source: Box<dyn Read + Send>) -> Result<Self, CaptureError> {
        let source_failed = Arc::new(AtomicBool::new(false));
        let mut source = Tap { source, failed: Arc::clone(&source_failed) };
        let mut peek = [0; PEEK];
        let mut have = 0;
        while have < PEEK {
            match read_some(&mut source, &mut peek[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) => return Err(CaptureError::new(&name, have as u64, None, Cause::Io(e))),
            }
        }
        let compression = decompress::recognise(&peek[..have]);
        let mut input = Self {
            source: Box::new(io::empty()),
            buf: vec![0; BUFFER],
            pos: 0,
            end: 0,
            base: 0,
            ended: false,
            compression,
            source_failed,
            name,
        };
        if let Some(how) = compression {
            let whole = io::Cursor::new(peek[..have].to_vec()).chain(source);
            input.source = decompress::reader(how, whole);
        } else {
            input.source = Box::new(source);
            input.buf[..have].copy_from_slice(&peek[..have]);
            input.end = have;
        }
        Ok(input)
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Offset in the stream of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// How many bytes are in the buffer.
    pub(crate) fn available(&self) -> usize {
        self.end - self.pos
    }

    /// The bytes in the buffer.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buf[self.pos..self.end]
    }

    /// Offset in the stream of what is at `at` in the buffer.
    #[inline]
    pub(crate) fn offset_of(&self, at: usize) -> u64 {
        self.base + at as u64
    }

    /// Takes `n` bytes that are in the buffer and returns where they are, for [`Self::at`].
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> usize {
        debug_assert!(n <= self.available());
        let at = self.pos;
        self.pos += n;
        at
    }

    /// Bytes that were taken; valid until the next call that changes `self`.
    #[inline]
    pub(crate) fn at(&self, at: usize, len: usize) -> &[u8] {
        &self.buf[at..at + len]
    }

    /// Makes at least `need` bytes available. False if the stream ends before; then all that is left is available.
    #[inline]
    pub(crate) fn ensure(&mut self, need: usize) -> Result<bool, CaptureError> {
        if self.available() >= need { Ok(true) } else { self.fill(need) }
    }

    /// Moves what is left to the front and reads. The buffer doubles only when it is full of bytes that were read, so
    /// that a length in a header cannot make it larger than twice the data.
    #[cold]
    fn fill(&mut self, need: usize) -> Result<bool, CaptureError> {
        self.buf.copy_within(self.pos..self.end, 0);
        self.base += self.pos as u64;
        self.end -= self.pos;
        self.pos = 0;
        while self.end < need && !self.ended {
            if self.end == self.buf.len() {
                self.buf.resize(self.buf.len() * 2, 0);
            }
            match read_some(&mut self.source, &mut self.buf[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(e) => return Err(self.read_error(e)),
            }
        }
        Ok(self.end >= need)
    }

    /// Passes over `n` bytes without holding them. Returns how many there were.
    pub(crate) fn skip(&mut self, n: u64) -> Result<u64, CaptureError> {
        let mut left = n;
        while left > 0 && self.ensure(1)? {
            let step = self.available().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.pos += step;
            left -= step as u64;
        }
        Ok(n - left)
    }

    fn read_error(&self, source: io::Error) -> CaptureError {
        let cause = match self.compression {
            Some(how) if !self.source_failed.load(Ordering::Relaxed) => {
                Cause::Damaged { how, source }
            }
            _ => Cause::Io(source),
        };
        self.error(self.base + self.end as u64, cause)
    }

    /// An error at `offset`.
    #[cold]
    pub(crate) fn error(&self, offset: u64, cause: Cause) -> CaptureError {
        CaptureError::new(&self.name, offset, self.compression, cause)
    }
}

fn read_some(source: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buf) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Remembers whether the source itself failed.
struct Tap {
    source: Box<dyn Read + Send>,
    failed: Arc<AtomicBool>,
}

impl Read for Tap {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let result = self.source.read(buf);
        if let Err(e) = &result
            && e.kind() != io::ErrorKind::Interrupted
        {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }
}
