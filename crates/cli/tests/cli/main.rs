//! The program, run as its users run it.

mod annotate;
mod captures;
mod demux;
mod events;
mod explain;
mod options;
mod others;
mod status;
mod support;
mod track;
