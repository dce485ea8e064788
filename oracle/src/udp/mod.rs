//! The live kernel as judge of UDP lookup.
//!
//! Random scenarios run on real sockets, in a namespace of their own with two devices that frames are
//! sent into, and on [`fourtuple_udp::UdpTable`] with [`fourtuple_udp::Profile::Linux`]; every answer
//! must be equal. What the kernel decides by chance is treated so that it can be compared all the
//! same:
//!
//! - A port that the kernel chose must be within the range and not reserved, and then the table must
//!   take it too when it is the only one to choose.
//! - Which member of a reuseport group gets a flow hangs on a secret. It is measured once for each flow,
//!   with a group of 64 members, and from then on tells the place in any group, so that the order of
//!   a group's members is compared as well.

mod campaign;
mod compare;
mod frame;
mod generate;
mod real;
mod sandbox;
mod sys;

pub use campaign::{UdpLimits, UdpSummary, udp_campaign, udp_compare};
pub use compare::UdpDifference;
pub use generate::{Focus, Scenario};
pub use real::Real;
