//! The three tables. Each knows its slots and the chains in them, and nothing of the others.

pub(crate) mod address;
pub(crate) mod port;
#[cfg(feature = "hash4")]
pub(crate) mod tuple;

/// List numbers, see [`crate::sockets::Socket::links`].
pub(crate) const BY_PORT: usize = 0;
pub(crate) const BY_ADDRESS: usize = 1;
#[cfg(feature = "hash4")]
pub(crate) const BY_TUPLE: usize = 2;
