//! The memory of a flow table, in three parts that know nothing of packets:
//!
//! - [`Index`]: keyed hash in, slot number out; eight entries a cache line, grows online.
//! - [`Slab`]: type-stable slots with generations, where the entries themselves live.
//! - [`TimerWheel`]: deadlines of slots, O(1) to arm and to disarm, bounded work per step.
//!
//! Slot numbers (`u32`, below [`u32::MAX`]) tie the three together. There is no I/O, no clock and
//! no hasher inside: hashes and times are arguments.
//!
//! ```
//! use fourtuple_table::{Index, Slab, TimerWheel};
//!
//! struct Flow { key: u64 }
//! let hash = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32; // use a keyed one
//!
//! let (mut index, mut slab) = (Index::with_capacity(0), Slab::new());
//! let mut wheel = TimerWheel::new(1 << 24)?; // ticks of 16.8 ms
//!
//! let id = slab.insert(Flow { key: 7 })?;
//! index.insert(hash(7), id.index)?;
//! wheel.arm(id.index, 30_000_000_000)?;
//!
//! let is_it = |slot| slab.get(slot).is_some_and(|flow: &Flow| flow.key == 7);
//! assert_eq!(index.find(hash(7), is_it), Some(id.index));
//!
//! wheel.advance(31_000_000_000, 64, |slot| {
//!     if let Some(flow) = slab.remove(slot) {
//!         index.remove(hash(flow.key), slot);
//!     }
//!     None
//! });
//! assert!(index.is_empty() && slab.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod index;
mod memory;
mod slab;
mod wheel;

pub use index::{Index, InsertError, Iter as IndexIter, MAX_PROBE, ProbeStats};
pub use slab::{Full, Iter as SlabIter, Slab, SlotId};
pub use wheel::{Progress, SlotOutOfRange, TickError, TimerWheel};
