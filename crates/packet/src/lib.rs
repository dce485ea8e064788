//! From a frame and its link type to the facts that connection tracking needs.
//!
//! No I/O, no clock, no allocation per packet.
#![forbid(unsafe_code)]

mod checksum;
mod ip;
mod l4;
mod link;
mod time;

pub use ip::{Address, Family, Fragment, IpError, Packet, protocol};
pub use l4::{Gre, Icmp, L4, L4Error, Sctp, Tcp, Udp, tcp_flags};
pub use link::LinkType;
pub use time::{Instant, Span};
