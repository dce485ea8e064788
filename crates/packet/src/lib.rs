//! From a frame and its link type to the facts that connection tracking needs.
//!
//! No I/O, no clock, no allocation per packet.
#![forbid(unsafe_code)]

mod checksum;
mod ip;
mod l4;
mod link;
mod quoted;
mod reassembly;
#[cfg(test)]
mod testing;
mod time;

pub use checksum::{Checksum, ChecksumRule, Unverifiable};
pub use ip::{Address, Family, Fragment, IpError, Packet, protocol};
pub use l4::{Gre, Icmp, L4, L4Error, Sctp, Tcp, Udp, tcp_flags};
pub use link::{Inner, LinkError, LinkType, NotIp, decapsulate};
pub use quoted::{QuoteError, Quoted, QuotedL4, RedirectError, quoted, redirect_quoted};
pub use reassembly::{
    Datagram, FragmentError, Incomplete, Limits, Outcome, PassThrough, Reassembler,
    ReassemblyCounters,
};
pub use time::{Instant, Span};
