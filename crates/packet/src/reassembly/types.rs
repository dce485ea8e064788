//! What reassembly is told and what it answers.

use crate::ip::{Address, Family};
use crate::time::{Instant, Span};
use thiserror::Error;

/// Bounds of reassembly, Linux's settings and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `net.ipv4.ipfrag_time`: how long after its first fragment an IPv4 datagram may complete. 30 s.
    pub v4_timeout: Span,
    /// `net.ipv4.ipfrag_high_thresh`: bytes of IPv4 fragments above which no more are taken. 4,194,304; 0: none at all.
    pub v4_high_thresh: usize,
    /// `net.netfilter.nf_conntrack_frag6_timeout`: the same for IPv6. 60 s.
    pub v6_timeout: Span,
    /// `net.netfilter.nf_conntrack_frag6_high_thresh`: the same for IPv6. 4,194,304.
    pub v6_high_thresh: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            v4_timeout: Span::from_secs(30),
            v4_high_thresh: 4 << 20,
            v6_timeout: Span::from_secs(60),
            v6_high_thresh: 4 << 20,
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Not a fragment: nothing was done.
    NotFragment,
    /// Kept; its datagram is not complete yet.
    Waiting,
    /// The last missing piece.
    Complete(Datagram<'a>),
    /// The packet is gone (and what was collected of its datagram may be: see the error).
    Dropped(FragmentError),
    /// An IPv6 fragment that goes on as it is: judge [`crate::Packet::unassembled`].
    PassThrough(PassThrough),
}

/// A whole datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The packet from its IP header on, as if it had never been cut: the headers are the first fragment's, with the
    /// length right, no trace of fragmentation, and the IPv4 header checksum right. If the capture cut a fragment, it
    /// ends where the first byte is missing.
    pub bytes: &'a [u8],
    /// Length of the packet on the wire: at least `bytes.len()`. Give both to [`crate::Packet::parse`].
    pub len: u32,
    /// True iff the capture cut a fragment, so that `bytes` is shorter than `len`.
    pub cut: bool,
    /// How many fragments it came in.
    pub fragments: u32,
}

/// Why an IPv6 fragment was not collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassThrough {
    /// The payload length is zero: a jumbogram (RFC 2675 forbids to fragment it).
    #[error("a payload length of zero and a fragment header")]
    Jumbo,
    /// A first fragment that does not hold all headers (RFC 8200, section 4.5; RFC 7112).
    #[error("the first fragment ends at byte {there}, its headers at {need} or later")]
    HeadersTruncated {
        /// Where the headers end at the earliest, from the start of the packet.
        need: u32,
        /// Where the packet ends.
        there: u32,
    },
    /// More fragments follow, and this one does not end at a multiple of 8 bytes. What was collected of its datagram
    /// is dropped.
    #[error(
        "the fragment ends at byte {end} of its datagram, not a multiple of 8, and more follow"
    )]
    NotMultipleOfEight {
        /// Where it ends.
        end: u32,
    },
}

/// Why a fragment was dropped. Offsets are bytes of the datagram's payload (IPv6: of its fragmentable part).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentError {
    /// All of it is there already, within one run of fragments that came in order; the bytes are not compared. The
    /// datagram goes on.
    #[error("bytes {offset} to {end} are there already")]
    Duplicate {
        /// Where the fragment starts.
        offset: u32,
        /// Where it ends.
        end: u32,
    },
    /// It overlaps another (RFC 5722). The datagram is dropped.
    #[error("bytes {offset} to {end} overlap bytes {with_offset} to {with_end} that came before")]
    Overlap {
        /// Where the fragment starts.
        offset: u32,
        /// Where it ends.
        end: u32,
        /// Where what it overlaps starts.
        with_offset: u32,
        /// Where that ends.
        with_end: u32,
    },
    /// It ends beyond the end that the last fragment gave. IPv4: the datagram is dropped; IPv6: it goes on.
    #[error("the fragment ends at byte {end}, its datagram at {known}")]
    BeyondEnd {
        /// Where the fragment ends.
        end: u32,
        /// Where the datagram ends.
        known: u32,
    },
    /// A last fragment that ends elsewhere than another last one, or before bytes that are there. IPv4: the datagram
    /// is dropped; IPv6: it goes on.
    #[error("a last fragment ends at byte {end}, but {known} are known of")]
    OtherEnd {
        /// Where the fragment ends.
        end: u32,
        /// Bytes known of.
        known: u32,
    },
    /// It carries no bytes (IPv4 with more to follow: fewer than 8). IPv4: the datagram is dropped; IPv6: it goes on.
    #[error("an empty fragment at byte {offset}")]
    Empty {
        /// Where it starts.
        offset: u32,
    },
    /// IPv6: it ends beyond the largest payload. The datagram goes on.
    #[error("the fragment ends at byte {end}, beyond the largest payload of 65535")]
    Offset {
        /// Where it ends.
        end: u32,
    },
    /// The datagram is complete and larger than IP allows, so it is dropped.
    #[error("the datagram has {len} bytes, 65535 are the most")]
    TooLong {
        /// Its length: with the IPv4 header, or the IPv6 payload length.
        len: u32,
    },
    /// The datagram is complete and dropped, since some fragments say "not ECN-capable" and some otherwise
    /// (RFC 3168, section 5.3).
    #[error("fragments that are ECN-capable and fragments that are not")]
    Ecn,
    /// IPv6: the fragment header itself is not all there.
    #[error("the IPv6 fragment header is cut")]
    HeaderCut,
    /// Fragments hold more memory than the high mark allows. What was collected stays.
    #[error("fragments hold {used} bytes, the mark is {limit}")]
    Memory {
        /// Bytes in use, counted as Linux counts them.
        used: usize,
        /// The mark.
        limit: usize,
    },
}

/// A datagram that waits for fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Family.
    pub family: Family,
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Identification.
    pub id: u32,
    /// Fragments there.
    pub fragments: u32,
    /// Payload bytes there.
    pub have: u32,
    /// Payload bytes in all, if the last fragment is there.
    pub total: Option<u32>,
    /// When it will be dropped.
    pub deadline: Instant,
}

/// What a [`crate::Reassembler`] has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// Fragments taken in.
    pub fragments: u64,
    /// Datagrams completed.
    pub completed: u64,
    /// Datagrams dropped for what a fragment of theirs said.
    pub failed: u64,
    /// Of these, for an overlap.
    pub overlaps: u64,
    /// Datagrams dropped for their time.
    pub expired: u64,
    /// Fragments dropped as duplicates.
    pub duplicates: u64,
    /// Fragments dropped for memory.
    pub over_memory: u64,
    /// Fragments dropped alone, for another reason.
    pub refused: u64,
    /// IPv6 fragments let through.
    pub passed: u64,
}
