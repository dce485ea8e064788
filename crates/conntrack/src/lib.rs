//! Linux connection tracking in user space: what `nf_conntrack` would say of each packet, and why.
//!
//! [`Conntrack`] is the tracker: [`Conntrack::receive`] looks a packet up or makes an unconfirmed connection,
//! [`Conntrack::confirm`] puts it into the table, [`Conntrack::track`] does both. [`ReceivePath`] puts the rest of a
//! host's receive path in front of it: link layer, IP header checks, reassembly. No I/O, no clock: time is an argument.
//!
//! The model is Linux 6.18. Where a live kernel and its documentation differ, the kernel is followed.
#![forbid(unsafe_code)]

mod connection;
mod events;
mod hash;
mod icmp;
mod nets;
mod path;
mod protocol;
mod reason;
mod settings;
mod store;
mod tcp;
mod track;
mod tuple;
mod udp;
mod verdict;

pub use connection::{ConnId, Connection, Counters, EventBits, Proto, Status};
pub use events::{EndReason, Event, EventKind};
pub use hash::TupleHash;
pub use path::{CutPackets, Frame, PathOptions, ReceivePath};
pub use reason::{Reason, VerdictKind};
pub use settings::{Seconds, SettingError, SettingInfo, Settings};
pub use tcp::{Kind, Side, SideFlags, TcpState, TcpTrack};
pub use track::{Conntrack, Context, Received, Stats};
pub use tuple::{Direction, Tuple, Zone, ZoneDirs, ip, protocol_name};
pub use verdict::{Change, Detail, Verdict};
