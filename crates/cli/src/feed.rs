//! Captures, one after another, as one stream of packets and time.

use std::path::PathBuf;

use fourtuple::capture::{Batch, CaptureError, CaptureReader, Record};
use fourtuple::conntrack::{self, ReceivePath, Verdict};
use fourtuple::packet::Instant;

use crate::args::Clock;
use crate::progress::Progress;
use crate::setup::{Setup, is_stdin};

/// One packet of the stream.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// Which capture, from 0.
    pub(crate) file: usize,
    /// Its own time, or that of the packet before if it has none.
    pub(crate) time: Option<Instant>,
    /// What the tracker's clock is to show.
    pub(crate) now: Instant,
    pub(crate) record: Record<'a>,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) packets: u64,
    /// Bytes on the wire.
    pub(crate) bytes: u64,
    pub(crate) earliest: Option<Instant>,
    pub(crate) latest: Option<Instant>,
    pub(crate) without_time: u64,
    /// Captures that could be opened.
    pub(crate) opened: usize,
    /// What was wrong, in the captures' order.
    pub(crate) damage: Vec<CaptureError>,
}

/// Packets that are taken from a capture at once, at the most.
const BATCH: usize = 64;

/// Reads all captures and gives each packet to `each`; stops early only if that fails.
///
/// A capture that is damaged is read up to there and noted; the next one follows.
pub(crate) fn read<E>(
    setup: &Setup,
    progress: Progress,
    mut each: impl FnMut(&Frame<'_>) -> Result<(), E>,
) -> Result<Read, E> {
    all(setup, progress, |stream, file, reader| stream.single(file, reader, &mut each))
}

/// As [`read`], for who needs no more of a packet than its verdict: several at once, which is faster. `between` is called
/// after each few.
pub(crate) fn track<E>(
    setup: &Setup,
    progress: Progress,
    path: &mut ReceivePath,
    mut count: impl FnMut(&Verdict),
    mut between: impl FnMut(&mut ReceivePath) -> Result<(), E>,
) -> Result<Read, E> {
    all(setup, progress, |stream, _, reader| {
        while let Some(batch) = reader.next_batch(BATCH) {
            match batch {
                Ok(batch) => stream.batch(&batch, path, &mut count),
                Err(e) => stream.read.damage.push(e),
            }
            between(path)?;
        }
        Ok(())
    })
}

/// Opens the captures one after the other, and has each read by `read_one`.
fn all<E>(
    setup: &Setup,
    progress: Progress,
    mut read_one: impl FnMut(&mut Stream, usize, &mut CaptureReader) -> Result<(), E>,
) -> Result<Read, E> {
    let mut stream =
        Stream { clock: setup.clock, time: None, frozen: None, read: Read::default(), progress };
    for (file, path) in setup.captures.iter().enumerate() {
        match open(path) {
            Ok(mut reader) => {
                stream.read.opened += 1;
                stream.progress.capture(reader.format().compression.is_some());
                read_one(&mut stream, file, &mut reader)?;
                stream.progress.passed(reader.offset());
            }
            Err(e) => stream.read.damage.push(e),
        }
    }
    stream.progress.finish();
    Ok(stream.read)
}

fn open(path: &PathBuf) -> Result<CaptureReader, CaptureError> {
    if is_stdin(path) { CaptureReader::stdin() } else { CaptureReader::open(path) }
}

struct Stream {
    clock: Clock,
    /// The time of the packet before.
    time: Option<Instant>,
    /// Where the clock stands if it is frozen.
    frozen: Option<Instant>,
    read: Read,
    progress: Progress,
}

impl Stream {
    #[inline]
    fn single<E>(
        &mut self,
        file: usize,
        reader: &mut CaptureReader,
        each: &mut impl FnMut(&Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => {
                    let (time, now) = self.count(&record);
                    each(&Frame { file, time, now, record })?;
                }
                Err(e) => self.read.damage.push(e),
            }
        }
        Ok(())
    }

    fn batch(
        &mut self,
        batch: &Batch<'_>,
        path: &mut ReceivePath,
        count: &mut impl FnMut(&Verdict),
    ) {
        let frames = batch.records().map(|record| {
            let (_, now) = self.count(&record);
            let Record { link_type: link, data, wire_len, .. } = record;
            conntrack::Frame { now, link, data, wire_len }
        });
        path.frames(frames, |_, _, verdict| count(&verdict));
    }

    /// Counts a packet and tells its time.
    #[inline]
    fn count(&mut self, record: &Record<'_>) -> (Option<Instant>, Instant) {
        self.progress.packet(record.offset);
        self.read.packets += 1;
        self.read.bytes += u64::from(record.wire_len);
        self.tell(record.time)
    }

    /// The packet's time, and what the clock shows then.
    #[inline]
    fn tell(&mut self, time: Option<Instant>) -> (Option<Instant>, Instant) {
        match time {
            Some(at) => {
                self.time = Some(at);
                if self.read.earliest.is_none_or(|earliest| at < earliest) {
                    self.read.earliest = Some(at);
                }
                if self.read.latest.is_none_or(|latest| at > latest) {
                    self.read.latest = Some(at);
                }
            }
            None => self.read.without_time += 1,
        }
        let now = self.time.unwrap_or_default();
        let now = match self.clock {
            Clock::Capture => now,
            Clock::Frozen => *self.frozen.get_or_insert(now),
        };
        (self.time, now)
    }
}
