//! UDP sockets and the search for the one a datagram belongs to, as Linux 6.18 does it.
//!
//! A [`UdpTable`] holds the sockets of one or several network namespaces in three tables: by port, by
//! port and local address, and by 4-tuple. A counter in each slot of the second says whether a look-up
//! in the third can succeed, so that servers with unconnected sockets pay nothing for it, and the
//! socket of a connected server is found in constant time.
//!
//! [`Profile::Linux`] follows the kernel, defects included; [`Profile::Strict`], the default, differs
//! at the points listed by [`Rule`].
//!
//! ```
//! use fourtuple_udp::{Config, Datagram, Family, SockAddr, SocketOptions, Tuple, UdpTable};
//!
//! let table = UdpTable::new(&Config::default());
//! let server = table.create(&SocketOptions::new(Family::V4))?;
//! table.bind(server, SockAddr::new([127, 0, 0, 1].into(), 5300))?;
//! let from = "127.0.0.1:9000".parse().unwrap();
//! let to = "127.0.0.1:5300".parse().unwrap();
//! let found = table.lookup(&Datagram::new(Tuple::new(from, to).unwrap())).unwrap();
//! assert_eq!(found.socket, server);
//! # Ok::<(), fourtuple_udp::Errno>(())
//! ```
#![forbid(unsafe_code)]

mod addr;
mod bind;
mod chain;
mod claims;
mod connect;
mod datagram;
mod devices;
mod entry;
mod ephemeral;
mod errno;
mod groups;
mod hash;
mod icmp;
mod lookup;
mod lookup4;
mod lookup6;
mod memberships;
mod multicast;
mod net;
mod options;
mod profile;
mod receive;
mod rehash;
mod reuseport;
mod route;
#[cfg(feature = "scenario")]
pub mod scenario;
mod segments;
mod selector;
mod sockets;
mod store;
mod sync;
mod table;
mod tables;
mod trace;
mod writer;

pub use addr::SockAddr;
pub use datagram::{Datagram, Tuple};
pub use devices::{Device, DeviceRoutes};
pub use errno::Errno;
pub use icmp::{IcmpDelivery, IcmpError, IcmpReport, icmp4_errno, icmp6_errno};
pub use lookup::{Found, Via};
pub use net::{NetConfig, NetId};
pub use options::{Family, SetOption, SocketOptions, SourceChange};
pub use profile::{Profile, Rule};
pub use receive::{Delivery, DropReason};
pub use route::{AddressKind, DeviceId, Route, RouteQuery, Router};
pub use selector::{GroupSelector, LookupProgram, ProgramInput, ProgramVerdict, Selection};
pub use sockets::SocketId;
pub use table::{Config, SocketInfo, UdpTable, Usage};
pub use trace::{Event, Mismatch, NoTrace, Table, Trace};
