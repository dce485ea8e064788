//! A progress bar for what takes longer than a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

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
        Self::over(&setup.captures, prints)
    }

    /// As [`new`](Self::new), of captures alone.
    pub(crate) fn over(captures: &[std::path::PathBuf], prints: bool) -> Self {
        let enabled =
            std::io::stderr().is_terminal() && !(prints && std::io::stdout().is_terminal());
        let size = |path: &std::path::PathBuf| {
            let meta = std::fs::metadata(path).ok().filter(|m| m.is_file() && !is_stdin(path));
            meta.map(|m| m.len())
        };
        let total = captures.iter().map(size).sum();
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
        let elapsed = self.started.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        let (total, done) = (self.total, self.before + offset);
        let bar = self.bar.get_or_insert_with(|| bar(total));
        bar.set_message(message(elapsed, done, total));
        bar.set_position(done);
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
        Some(total) => (ProgressBar::new(total), "{bar:30} {bytes} of {total_bytes}, {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Speed and time left, by the mean so far: the bar is not there from the start, so it cannot tell.
fn message(elapsed: Duration, done: u64, total: Option<u64>) -> String {
    let speed = done as f64 / elapsed.as_secs_f64();
    let per_second = HumanBytes(speed as u64);
    match total {
        Some(total) => {
            let left = total.saturating_sub(done) as f64 / speed.max(1.0);
            format!("{per_second}/s, {left:.0} s left")
        }
        None => format!("{per_second}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_time_left() {
        let two = Duration::from_secs(2);
        assert_eq!(message(two, 2048, Some(10_240)), "1.00 KiB/s, 8 s left");
        assert_eq!(message(two, 2048, None), "1.00 KiB/s");
        // The file grew, or nothing was read yet.
        assert_eq!(message(two, 4096, Some(2048)), "2.00 KiB/s, 0 s left");
        assert_eq!(message(two, 0, Some(10)), "0 B/s, 10 s left");
    }
}
