//! The live kernel as judge of connection tracking.
//!
//! [`Judge`] sends packets one by one through a network namespace of its own and reports what the
//! running Linux made of each: what a rule would see, which entries changed and how, and why a
//! packet was dropped. [`generate`] makes packets worth asking about.

mod campaign;
mod capture;
mod compare;
mod describe;
mod drops;
mod entry;
mod error;
pub mod generate;
mod judge;
mod netlink;
mod replay;
mod rules;
mod sandbox;
pub mod script;
mod settings;
mod shrink;
pub mod udp;

pub use campaign::{Campaign, Limits, Seeds, Summary, kernel_version};
pub use capture::{Capture, Record};
pub use compare::{Answer, Compared, Comparer, Difference, KNOWN, Known, save};
pub use describe::describe;
pub use entry::{ASSURED, CONFIRMED, DYING, Entry, Key, SEEN_REPLY, Sctp, Tcp, Tuple, status_list};
pub use error::{Error, Result, Unavailable, required};
pub use judge::{Direction, Judge, Observation, Stats, Verdict};
pub use replay::replay;
pub use sandbox::Sandbox;
pub use settings::{LENGTHENED, Settings};
pub use shrink::shrink;
