//! The three tables. Each knows its slots and the chains in them, and nothing of the others.

pub(crate) mod address;
pub(crate) mod port;
#[cfg(feature = "hash4")]
pub(crate) mod tuple;
