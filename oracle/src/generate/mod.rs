//! Packets worth asking about.
