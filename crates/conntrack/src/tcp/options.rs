//! TCP options, as far as the window check needs them.

use super::SideFlags;

const END: u8 = 0;
const NOP: u8 = 1;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;
/// Largest legal shift (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;

/// Walks options: kind and the bytes behind kind and length. Stops at END and at the first malformed one.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [NOP, ref rest @ ..] => self.0 = rest,
                [END, ..] | [] | [_] => return None,
                [kind, length, ..] => {
                    let option = self.0.get(2..usize::from(length))?;
                    self.0 = &self.0[usize::from(length)..];
                    return Some((kind, option));
                }
            }
        }
    }
}

/// Window scale and flags that a SYN's options announce. Without any option bytes nothing is announced and nothing
/// changes; otherwise the scale starts from zero and of the flags only `BE_LIBERAL` stays.
pub(super) fn announced(options: &[u8], scale: &mut u8, flags: &mut SideFlags) {
    if options.is_empty() {
        return;
    }
    *scale = 0;
    flags.0 &= SideFlags::BE_LIBERAL.0;
    for (kind, option) in Options(options) {
        match (kind, option) {
            (SACK_PERMITTED, []) => flags.set(SideFlags::SACK_PERM),
            (WINDOW_SCALE, &[shift]) => {
                *scale = shift.min(MAX_SCALE);
                flags.set(SideFlags::WINDOW_SCALE);
            }
            _ => {}
        }
    }
}

/// The highest right edge of a SACK option's blocks that is after `ack` (RFC 2018, section 3), or `ack`.
pub(super) fn highest_sack(options: &[u8], ack: u32) -> u32 {
    // The usual option area of a segment without SACK: nothing but a time stamp.
    if let [NOP, NOP, TIMESTAMP, 10, ..] = options
        && options.len() == 12
    {
        return ack;
    }
    let blocks = Options(options)
        .find(|(kind, option)| *kind == SACK && option.len() >= 8 && option.len() % 8 == 0);
    let mut sack = ack;
    for block in blocks.map_or(&[][..], |(_, b)| b).chunks_exact(8) {
        let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
        if super::after(right, sack) {
            sack = right;
        }
    }
    sack
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale_and_flags(options: &[u8]) -> (u8, SideFlags) {
        let (mut scale, mut flags) = (9, SideFlags(0xff));
        announced(options, &mut scale, &mut flags);
        (scale, flags)
    }

    #[test]
    fn syn_options() {
        let liberal = SideFlags::BE_LIBERAL.0;
        assert_eq!(scale_and_flags(&[]), (9, SideFlags(0xff)));
        assert_eq!(scale_and_flags(&[2, 4, 5, 0xb4]), (0, SideFlags(liberal)));
        let both = liberal | SideFlags::WINDOW_SCALE.0 | SideFlags::SACK_PERM.0;
        assert_eq!(scale_and_flags(&[4, 2, 1, 3, 3, 7]), (7, SideFlags(both)));
        let scaled = SideFlags(liberal | SideFlags::WINDOW_SCALE.0);
        assert_eq!(scale_and_flags(&[3, 3, 200, 0]), (14, scaled));
        // An option that reaches beyond the area, or is shorter than itself, ends the walk.
        assert_eq!(scale_and_flags(&[5, 30, 3, 3, 7]), (0, SideFlags(liberal)));
        assert_eq!(scale_and_flags(&[9, 1, 3, 3, 7]), (0, SideFlags(liberal)));
        assert_eq!(scale_and_flags(&[0, 3, 3, 7]), (0, SideFlags(liberal)));
    }

    #[test]
    fn sack_edges() {
        let mut o = vec![NOP, NOP, SACK, 18];
        for edge in [100u32, 200, 300, 400] {
            o.extend(edge.to_be_bytes());
        }
        assert_eq!(highest_sack(&o, 50), 400);
        assert_eq!(highest_sack(&o, 1000), 1000);
        assert_eq!(highest_sack(&o, 399), 400);
        let mut stamp = vec![NOP, NOP, TIMESTAMP, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(highest_sack(&stamp, 7), 7);
        stamp.extend(&o);
        assert_eq!(highest_sack(&stamp, 50), 400);
        assert_eq!(highest_sack(&[SACK, 4, 0, 0], 7), 7);
        // Wraps at 2^32.
        let mut o = vec![SACK, 10];
        o.extend([0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 16]);
        assert_eq!(highest_sack(&o, 0xffff_fff0), 16);
    }
}
