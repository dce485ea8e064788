//! From a frame and its link type to the facts that connection tracking needs.
#![forbid(unsafe_code)]

mod link;
mod time;

pub use link::LinkType;
pub use time::{Instant, Span};
