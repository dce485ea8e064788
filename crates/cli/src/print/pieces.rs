//! Text put together from pieces.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::out::Text;

/// A line in the making. For what is printed once for each connection: [`std::fmt`] takes several times as long for lines
/// that are mostly numbers.
#[derive(Debug)]
pub(crate) struct Pieces<'a>(pub(crate) &'a mut Vec<u8>);

impl Pieces<'_> {
    /// Adds `text`.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds `text`, padded with spaces to `width` bytes.
    pub(crate) fn padded(&mut self, text: &str, width: usize) -> &mut Self {
        let end = self.0.len() + width;
        self.text(text);
        self.0.resize(self.0.len().max(end), b' ');
        self
    }

    /// Adds a number in decimal.
    #[inline]
    pub(crate) fn number(&mut self, number: impl itoa::Integer) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// Adds `name`, the number, and a space.
    #[inline]
    pub(crate) fn field(&mut self, name: &str, number: impl itoa::Integer) -> &mut Self {
        self.text(name).number(number).text(" ")
    }

    /// Adds an address.
    #[inline]
    pub(crate) fn address(&mut self, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                self.number(a).text(".").number(b).text(".").number(c).text(".").number(d)
            }
            // Zeros are left out by rules (RFC 5952) that the standard library knows.
            IpAddr::V6(v6) => self.formatted(format_args!("{v6}")),
        }
    }

    /// Adds what has no faster way.
    pub(crate) fn formatted(&mut self, what: std::fmt::Arguments<'_>) -> &mut Self {
        // The buffer takes everything, and nothing that is given here fails.
        let _ = Text(self.0).write_fmt(what);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_standard_library_formats(a: IpAddr, n: u64, m: u8, width in 0usize..12, text in "[a-z]{0,9}") {
            let mut bytes = Vec::new();
            let mut pieces = Pieces(&mut bytes);
            pieces.padded(&text, width).field("n=", n).number(m).address(a);
            prop_assert_eq!(String::from_utf8(bytes).unwrap(), format!("{text:<width$}n={n} {m}{a}"));
        }
    }
}
