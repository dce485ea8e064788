//! A progress bar for what takes longer than a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::setup::{Setup, is_stdin};

/// Packets between two looks at the clock.
const STRIDE: u32 = 1 << 13;
const PATIENCE: Duration = Duration::from_secs(1);

/// Progress through the captures, on standard error if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    enabled: bool,
    started: Instant,
    /// Bytes of all captures; `None` if that is unknown.
    total: Option<u64>,
    /// Bytes of the captures before this one.
    before: u64,
    count: u32,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For a command that prints lines as it reads if `prints`: then a terminal is enough of a progress bar itself.
    pub(crate) fn new(setup: &Setup, prints: bool) -> Self {
        let enabled =
            std::io::stderr().is_terminal() && !(prints && std::io::stdout().is_terminal());
        let size = |path: &std::path::PathBuf| {
            let meta = std::fs::metadata(path).ok().filter(|m| m.is_file() && !is_stdin(path));
            meta.map(|m| m.len())
        };
        let total = setup.captures.iter().map(size).sum();
        Self { enabled, started: Instant::now(), total, before: 0, count: 0, bar: None }
    }

    /// A further capture begins.
    pub(crate) fn capture(&mut self, compressed: bool) {
        // Offsets count the decompressed stream, sizes are of files.
        if compressed {
            self.total = None;
        }
    }

    /// A packet at `offset` in its capture.
    #[inline]
    pub(crate) fn packet(&mut self, offset: u64) {
        self.count += 1;
        if self.count >= STRIDE {
            self.count = 0;
            if self.enabled {
                self.show(offset);
            }
        }
    }

    #[cold]
    fn show(&mut self, offset: u64) {
        if self.started.elapsed() < PATIENCE {
            return;
        }
        let total = self.total;
        let bar = self.bar.get_or_insert_with(|| bar(total));
        bar.set_position(self.before + offset);
    }

    /// A capture of `bytes` is done.
    pub(crate) fn passed(&mut self, bytes: u64) {
        self.before += bytes;
    }

    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {binary_bytes_per_sec}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
