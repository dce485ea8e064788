//! The rules of Linux's UDP socket tables, one test a rule, with results seen on a live 6.18 kernel.

mod bind;
mod bind_ports;
mod connect;
mod host;
mod icmp;
mod lookup;
mod multicast;
mod reuseport;
mod rules;
