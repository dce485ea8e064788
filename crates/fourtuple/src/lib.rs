//! The flow half of a host's receive path, in user space: for a packet, **which connection does it belong to, and which
//! socket gets it**, exactly as Linux answers it.
//!
//! - [`conntrack`]: connection tracking, packet by packet, with a reason for every verdict.
//! - [`udp`]: UDP sockets and the three tables that find them.
//! - [`table`]: the tuple index, slab and timer wheel beneath.
//! - [`packet`]: from a frame to the facts that tracking asks for.
//! - [`hash`]: SipHash over fixed words; keys.
//! - [`capture`]: pcap and pcapng, in and out.
//!
//! No clock is read and nothing is sent or received (but by [`capture`], which reads and writes files): time is an
//! argument, packets are bytes.
//!
//! # A capture, packet by packet
//!
//! ```
//! use fourtuple::{CaptureReader, Conntrack, Key, PathOptions, ReceivePath, Settings, TupleHash};
//!
//! # fn explain(path: &std::path::Path) -> Result<usize, Box<dyn std::error::Error>> {
//! let conntrack = Conntrack::new(Settings::default(), TupleHash::default(), Key::random()?);
//! let mut host = ReceivePath::new(conntrack, PathOptions::default());
//! let mut capture = CaptureReader::open(path)?;
//! while let Some(record) = capture.next() {
//!     let record = record?;
//!     let now = record.time.unwrap_or_default();
//!     let verdict = host.frame(now, record.link_type, record.data, record.wire_len);
//!     println!("{} {} {} {}", record.number, verdict.kind, verdict.reason, verdict.detail);
//! }
//! println!("{} connections", host.conntrack().connections().count());
//! # Ok(host.conntrack().connections().count())
//! # }
//! # use fourtuple::{PcapWriter, Precision, LinkType, Instant};
//! # // A ping: echo request from 10.0.0.1 to 10.0.0.2.
//! # let ping = *b"\x45\0\0\x1c\0\0\0\0\x40\x01\x66\xdf\x0a\0\0\x01\x0a\0\0\x02\x08\0\xf7\xfd\0\x01\0\x01";
//! # let path = std::env::temp_dir().join(format!("fourtuple-doc-{}.pcap", std::process::id()));
//! # let mut file = PcapWriter::new(std::fs::File::create(&path)?, LinkType::RAW, 0, Precision::Nanos)?;
//! # file.write(Instant::from_nanos(1_700_000_000_000_000_000), 28, &ping)?;
//! # file.into_inner()?;
//! # assert_eq!(explain(&path)?, 1);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without a capture, [`Conntrack::track`] takes a [`Packet`] and the time; [`Conntrack::receive`] and
//! [`Conntrack::confirm`] are its two halves, for rules that may drop the packet in between.
#![forbid(unsafe_code)]

pub use fourtuple_capture as capture;
pub use fourtuple_conntrack as conntrack;
pub use fourtuple_hash as hash;
pub use fourtuple_packet as packet;
pub use fourtuple_table as table;
pub use fourtuple_udp as udp;

pub use fourtuple_capture::{
    CaptureError, CaptureReader, PcapWriter, PcapngWriter, Precision, Record,
};
pub use fourtuple_conntrack::{
    Change, ConnId, Connection, Conntrack, Context, CutPackets, Detail, Direction, EndReason,
    Event, EventKind, PathOptions, Reason, ReceivePath, SettingError, Settings, Status, TcpState,
    Tuple, TupleHash, Verdict, VerdictKind, Zone,
};
pub use fourtuple_hash::Key;
pub use fourtuple_packet::{Instant, LinkType, Packet, Span};
