//! The fragments of one datagram.

use super::types::{FragmentError, PassThrough};
use crate::checksum;

/// Which family's rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    V4,
    V6,
}

/// A fragment as it comes in.
pub(super) struct Piece<'a> {
    /// Its first byte's place in the datagram.
    pub(super) offset: u32,
    /// Where it ends there, by its length on the wire.
    pub(super) end: u32,
    pub(super) more: bool,
    /// IPv4: the header; IPv6: what comes before the fragment header.
    pub(super) header: &'a [u8],
    /// Payload as far as the capture kept it.
    pub(super) payload: &'a [u8],
    /// IPv6: offset in `header` of the byte that names the fragment header.
    pub(super) chain_at: usize,
    /// The protocol (IPv6: the header) that the payload starts with.
    pub(super) next: u8,
    /// Length of the packet on the wire.
    pub(super) packet_len: u32,
}

/// What became of a fragment.
pub(super) enum Added {
    Waiting,
    Complete,
    /// Dropped; the datagram goes on.
    Refused(FragmentError),
    /// Dropped, and the datagram with it.
    Kill(FragmentError),
    /// The datagram is dropped, the fragment goes on.
    KillAndPass(PassThrough),
}

/// Facts about a finished datagram.
pub(super) struct Facts {
    pub(super) len: u32,
    pub(super) fragments: u32,
}

/// A stored fragment: `kept` bytes at `at` in the data, which stand for `offset..end` of the datagram.
#[derive(Clone, Copy, Debug)]
struct Stored {
    offset: u32,
    end: u32,
    at: u32,
    kept: u32,
}

/// Fragments that came one behind the other. A fragment within a run is a duplicate, any other that touches it an
/// overlap; runs grow at the end of the last one only, so two runs may lie side by side (as in Linux).
#[derive(Clone, Copy, Debug)]
struct Run {
    offset: u32,
    end: u32,
}

/// The unfragmentable part of the first fragment, in the data.
#[derive(Clone, Copy, Debug)]
struct Header {
    at: u32,
    len: u32,
    chain_at: u32,
    next: u8,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Headers and payloads in the order of their coming: if that is the datagram's order, this is the datagram.
    data: Vec<u8>,
    stored: Vec<Stored>,
    runs: Vec<Run>,
    header: Option<Header>,
    /// The highest end seen.
    end: u32,
    /// Bytes there.
    have: u32,
    /// True iff a last fragment was seen.
    last_in: bool,
    /// Which values the ECN bits of the fragments had, a bit each.
    ecn: u8,
    /// Largest fragment, headers included; largest among those with "don't fragment" set.
    max_size: u32,
    max_df_size: u32,
    /// Memory as Linux counts it.
    charge: usize,
}

/// What a queue is charged before it holds anything (6.18 on x86-64, by /proc/net/sockstat).
const QUEUE_CHARGE: usize = 200;

/// What a fragment of `packet_len` bytes is charged: head room, shared info and the size classes of Linux's packet
/// buffers (6.18 on x86-64, by /proc/net/sockstat; network drivers with buffers of their own may charge more).
const fn fragment_charge(packet_len: u32) -> usize {
    const SMALL_HEAD: usize = 576;
    const DESCRIPTOR: usize = 256;
    let head = packet_len as usize + 400;
    let class = if head <= SMALL_HEAD { SMALL_HEAD } else { head.next_power_of_two() };
    class + DESCRIPTOR
}

impl Queue {
    pub(super) const fn charge(&self) -> usize {
        QUEUE_CHARGE + self.charge
    }

    pub(super) fn fragments(&self) -> u32 {
        self.stored.len() as u32
    }

    pub(super) const fn have(&self) -> u32 {
        self.have
    }

    pub(super) const fn total(&self) -> Option<u32> {
        if self.last_in { Some(self.end) } else { None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Empties it but keeps its buffers.
    pub(super) fn clear(&mut self) {
        let Self { mut data, mut stored, mut runs, .. } = core::mem::take(self);
        data.clear();
        stored.clear();
        runs.clear();
        (self.data, self.stored, self.runs) = (data, stored, runs);
    }

    /// True iff its buffers are small enough to keep for the next datagram.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.data.capacity() <= 1 << 16
            && self.stored.capacity().max(self.runs.capacity()) <= 1 << 8
    }

    /// Adds a fragment: `ip_frag_queue` and `nf_ct_frag6_queue`, whose order of steps is kept, since a fragment that
    /// is refused late has already told the end of the datagram.
    pub(super) fn add(&mut self, rules: Rules, piece: &Piece<'_>) -> Added {
        let mut end = piece.end;
        let (offset, known) = (piece.offset, self.end);
        // What a contradiction costs: IPv4 gives the datagram up, IPv6 only the fragment.
        let refuse = match rules {
            Rules::V4 => Added::Kill,
            Rules::V6 => Added::Refused,
        };
        if rules == Rules::V6 && end > 65_535 {
            return Added::Refused(FragmentError::Offset { end });
        }
        if !piece.more {
            if end < known || (self.last_in && end != known) {
                return refuse(FragmentError::OtherEnd { end, known });
            }
            self.last_in = true;
            self.end = end;
        } else {
            if end & 7 != 0 {
                match rules {
                    // The odd bytes are cut off: the next fragment brings them again.
                    Rules::V4 => end &= !7,
                    Rules::V6 => {
                        return Added::KillAndPass(PassThrough::NotMultipleOfEight { end });
                    }
                }
            }
            if end > known {
                if self.last_in {
                    return refuse(FragmentError::BeyondEnd { end, known });
                }
                self.end = end;
            }
        }
        if end == offset {
            return refuse(FragmentError::Empty { offset });
        }
        match self.insert(offset, end) {
            Ok(()) => {}
            Err(e @ FragmentError::Duplicate { .. }) => return Added::Refused(e),
            Err(e) => return Added::Kill(e),
        }
        self.store(rules, piece, end);
        if self.header.is_some() && self.last_in && self.have == self.end {
            Added::Complete
        } else {
            Added::Waiting
        }
    }

    /// Enters `offset..end` among the runs (`inet_frag_queue_insert`).
    fn insert(&mut self, offset: u32, end: u32) -> Result<(), FragmentError> {
        let new = Run { offset, end };
        let overlap = |with: Run| FragmentError::Overlap {
            offset,
            end,
            with_offset: with.offset,
            with_end: with.end,
        };
        match self.runs.last_mut() {
            None => self.runs.push(new),
            Some(last) if last.end < end => {
                if offset < last.end {
                    return Err(overlap(*last));
                }
                if offset == last.end {
                    last.end = end;
                } else {
                    self.runs.push(new);
                }
            }
            Some(_) => {
                // The first run that ends behind the new one's start: the only one that may hold it whole, and
                // the first that it may touch.
                let at = self.runs.partition_point(|run| run.end <= offset);
                let with = self.runs[at];
                if with.offset <= offset && end <= with.end {
                    return Err(FragmentError::Duplicate { offset, end });
                }
                if with.offset < end {
                    return Err(overlap(with));
                }
                self.runs.insert(at, new);
            }
        }
        Ok(())
    }

    fn store(&mut self, rules: Rules, piece: &Piece<'_>, end: u32) {
        let size = end - piece.offset;
        if piece.offset == 0 {
            self.header = Some(Header {
                at: self.data.len() as u32,
                len: piece.header.len() as u32,
                chain_at: piece.chain_at as u32,
                next: piece.next,
            });
            self.data.extend_from_slice(piece.header);
        }
        let payload = &piece.payload[..piece.payload.len().min(size as usize)];
        self.stored.push(Stored {
            offset: piece.offset,
            end,
            at: self.data.len() as u32,
            kept: payload.len() as u32,
        });
        self.data.extend_from_slice(payload);
        self.have += size;
        self.charge += fragment_charge(piece.packet_len);
        let h = piece.header;
        match rules {
            Rules::V4 => {
                self.ecn |= 1 << (h[1] & 3);
                let size = size + h.len() as u32;
                self.max_size = self.max_size.max(size);
                if h[6] & 0x40 != 0 {
                    self.max_df_size = self.max_df_size.max(size);
                }
            }
            Rules::V6 => self.ecn |= 1 << (h[1] >> 4 & 3),
        }
    }

    /// Writes the whole datagram to `out`. It must be complete.
    pub(super) fn finish(
        &mut self,
        rules: Rules,
        out: &mut Vec<u8>,
    ) -> Result<Facts, FragmentError> {
        const NOT_CAPABLE: u8 = 1 << 0;
        const CONGESTION: u8 = 1 << 3;
        if self.ecn & NOT_CAPABLE != 0 && self.ecn != NOT_CAPABLE {
            return Err(FragmentError::Ecn);
        }
        let header = self.header.expect("complete: the first fragment is there");
        let len = header.len + self.end;
        let limited = match rules {
            Rules::V4 => len,
            Rules::V6 => len - 40,
        };
        if limited > 65_535 {
            return Err(FragmentError::TooLong { len: limited });
        }
        self.assemble(header, out);
        // One fragment with a mark of congestion marks the datagram.
        let mark = if self.ecn & CONGESTION != 0 { 3 } else { 0 };
        let limited = (limited as u16).to_be_bytes();
        match rules {
            Rules::V4 => {
                out[1] |= mark;
                out[2..4].copy_from_slice(&limited);
                // "Don't fragment" stays if the largest fragment had it.
                let flags = if self.max_df_size == self.max_size { 0x40 } else { 0 };
                out[6..8].copy_from_slice(&[flags, 0]);
                out[10..12].fill(0);
                let sum = !checksum::sum(&out[..header.len as usize]);
                out[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            Rules::V6 => {
                out[1] |= mark << 4;
                out[4..6].copy_from_slice(&limited);
                out[header.chain_at as usize] = header.next;
            }
        }
        Ok(Facts { len, fragments: self.fragments() })
    }

    fn assemble(&mut self, header: Header, out: &mut Vec<u8>) {
        let mut next = 0;
        let in_order = header.at == 0
            && self.stored.iter().all(|s| {
                let fits =
                    s.offset == next && s.at == header.len + next && s.kept == s.end - s.offset;
                next = s.end;
                fits
            });
        if in_order {
            core::mem::swap(&mut self.data, out);
            return;
        }
        self.stored.sort_unstable_by_key(|s| s.offset);
        out.clear();
        let range = |at: u32, len: u32| at as usize..(at + len) as usize;
        out.extend_from_slice(&self.data[range(header.at, header.len)]);
        for s in &self.stored {
            out.extend_from_slice(&self.data[range(s.at, s.kept)]);
            if s.kept < s.end - s.offset {
                break;
            }
        }
    }
}
