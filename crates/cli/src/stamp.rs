//! Time stamps as text: RFC 3339, UTC, always nine digits of a second.

use std::fmt;

use fourtuple::packet::Instant;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

const LEN: usize = "2024-01-01T00:00:00.000000000Z".len();
const NANOS_AT: usize = "2024-01-01T00:00:00.".len();

/// A moment, as text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp([u8; LEN]);

impl Stamp {
    pub(crate) fn as_str(&self) -> &str {
        // Only ASCII is ever written.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Makes [`Stamp`]s; the part down to the second is kept, as most packets share it with the one before.
#[derive(Debug)]
pub(crate) struct Stamper {
    second: u64,
    text: Stamp,
}

impl Stamper {
    pub(crate) fn new() -> Self {
        Self { second: 0, text: Stamp(*b"1970-01-01T00:00:00.000000000Z") }
    }

    /// The text of `at`, which counts from the Unix epoch.
    pub(crate) fn stamp(&mut self, at: Instant) -> Stamp {
        let (second, mut nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        if second != self.second {
            self.second = second;
            self.text = whole(second);
        }
        for digit in self.text.0[NANOS_AT..LEN - 1].iter_mut().rev() {
            *digit = b'0' + (nanos % 10) as u8;
            nanos /= 10;
        }
        self.text
    }
}

#[cold]
fn whole(second: u64) -> Stamp {
    // 64 bits of nanoseconds end in the year 2554, jiff's time stamps with 9999.
    let second = i64::try_from(second).ok().and_then(|s| Timestamp::from_second(s).ok());
    let text = format!("{:.9}", second.unwrap_or(Timestamp::UNIX_EPOCH));
    text.as_bytes().try_into().map_or(Stamp(*b"1970-01-01T00:00:00.000000000Z"), Stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        let mut stamper = Stamper::new();
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (123, "1970-01-01T00:00:00.000000123Z"),
            (1_704_067_200_000_000_123, "2024-01-01T00:00:00.000000123Z"),
            (1_704_067_200_999_999_999, "2024-01-01T00:00:00.999999999Z"),
            (1_709_251_199_000_000_000, "2024-02-29T23:59:59.000000000Z"),
            (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
        ] {
            assert_eq!(stamper.stamp(Instant::from_nanos(nanos)).as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn reads_back(moments in prop::collection::vec(any::<u64>(), 1..4), step in 0u64..3_000_000_000) {
            let mut stamper = Stamper::new();
            for at in moments.iter().flat_map(|&m| [m, m.saturating_add(step)]) {
                let text = stamper.stamp(Instant::from_nanos(at));
                let back: Timestamp = text.as_str().parse().expect("RFC 3339");
                prop_assert_eq!(back.as_nanosecond(), i128::from(at));
            }
        }
    }
}
