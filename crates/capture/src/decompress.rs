//! gzip and zstd as plain streams that give out everything before a fault.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::Compression;

const BUFFER: usize = 64 << 10;

/// The compression that `start`, the first bytes of a file, shows.
pub(crate) fn recognise(start: &[u8]) -> Option<Compression> {
    match start {
        [0x1f, 0x8b, ..] => Some(Compression::Gzip),
        // A frame, or a skippable frame (RFC 8878 section 3.1.2), which may come first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Some(Compression::Zstd)
        }
        _ => None,
    }
}

pub(crate) fn reader(how: Compression, source: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    let source = BufReader::with_capacity(BUFFER, source);
    match how {
        Compression::Gzip => Box::new(Gzip(MultiGzDecoder::new(source))),
        Compression::Zstd => Box::new(Zstd::new(source)),
    }
}

/// Asks for little at a time: what the decoder has produced in a call that fails is lost.
struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        const STEP: usize = 4 << 10;
        let len = buf.len().min(STEP);
        self.0.read(&mut buf[..len])
    }
}

/// Frames one after the other, skippable ones passed over, checksums compared.
///
/// The decoder keeps back a window of output until its frame ends, so a frame that is cut or damaged would lose up
/// to a window of good data. Blocks are therefore handed to it whole, and after a fault it gets an empty last block
/// instead, which makes it give out what it has; the fault is reported after that.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// One block with its header: at most 2 MiB by the width of the length field.
    block: Vec<u8>,
    in_frame: bool,
    fault: Option<io::Error>,
}

/// An empty raw block, marked as the last of its frame (RFC 8878 section 3.1.1.2), and a checksum that nobody checks.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            block: Vec::new(),
            in_frame: false,
            fault: None,
        }
    }

    /// Starts the next frame. False if there is none.
    fn start(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(cut());
                    }
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(false)
    }

    /// Reads the next block into `block`, whole.
    fn read_block(&mut self) -> io::Result<()> {
        self.block.clear();
        (&mut self.source).take(3).read_to_end(&mut self.block)?;
        let [a, b, c] = *self.block.as_slice() else {
            return Err(cut());
        };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let len = match (header >> 1) & 3 {
            // RLE: the length counts the output. Reserved: the decoder will refuse it by its header.
            1 => 1,
            3 => 0,
            _ => u64::from(header >> 3),
        };
        let read = (&mut self.source).take(len).read_to_end(&mut self.block)?;
        if (read as u64) < len { Err(cut()) } else { Ok(()) }
    }

    fn decode_block(&mut self) -> io::Result<()> {
        self.read_block()?;
        // The checksum, if there is one, follows the last block.
        let source = self.block.as_slice().chain(&mut self.source);
        match self.decoder.decode_blocks(source, BlockDecodingStrategy::UptoBlocks(1)) {
            Ok(_) => Ok(()),
            Err(e) => Err(io::Error::other(e)),
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(says), Some(is)) if says != is => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the checksum of a frame is {says:08x}, that of its data {is:08x}"),
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.start()? {
                    return Ok(0);
                }
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(buf);
            } else if self.decoder.is_finished() {
                self.end_frame()?;
            } else if let Err(fault) = self.decode_block() {
                let end = END_OF_FRAME.as_slice();
                if self.decoder.decode_blocks(end, BlockDecodingStrategy::UptoBlocks(1)).is_err() {
                    return Err(fault);
                }
                self.fault = Some(fault);
            }
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends within a frame")
}
