//! The caller's choice: of a member of a reuseport group, and of a socket for a datagram that no
//! connected socket matched. In the kernel both are BPF programs.

use std::net::IpAddr;

use crate::net::NetId;
use crate::sockets::SocketId;

/// What a program is shown of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramInput {
    /// The namespace.
    pub net: NetId,
    /// The sender.
    pub source: (IpAddr, u16),
    /// The address the datagram is sent to.
    pub destination: (IpAddr, u16),
    /// Index of the arrival device, 0 for unknown.
    pub device: u32,
    /// The 4-tuple hash by which the group would choose.
    pub hash: u32,
}

/// A group selector's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The member at this place; beyond the last the choice is left to the hash.
    Member(usize),
    /// The choice is left to the hash.
    Hash,
    /// No member shall have the datagram: it is treated as unmatched.
    Drop,
}

/// Chooses a member of a reuseport group (`SO_ATTACH_REUSEPORT_EBPF`).
pub trait GroupSelector: Send + Sync {
    /// One of `members`, in the order of the group.
    fn select(&self, input: &ProgramInput, members: &[SocketId]) -> Selection;
}

impl<F> GroupSelector for F
where
    F: Fn(&ProgramInput, &[SocketId]) -> Selection + Send + Sync,
{
    fn select(&self, input: &ProgramInput, members: &[SocketId]) -> Selection {
        self(input, members)
    }
}

/// A look-up program's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramVerdict {
    /// Nothing to say.
    Pass,
    /// The datagram is treated as unmatched, unless a program selects a socket.
    Drop,
    /// This socket; `expand` lets its reuseport group choose among its members.
    Select {
        /// The socket. One that is closed, or of a family that cannot take the datagram, is as a pass.
        socket: SocketId,
        /// Whether the socket's group chooses.
        expand: bool,
    },
}

/// Runs between the search for connected sockets and the one for unconnected ones (`sk_lookup`).
pub trait LookupProgram: Send + Sync {
    /// The program's verdict on one datagram.
    fn run(&self, input: &ProgramInput) -> ProgramVerdict;
}

impl<F> LookupProgram for F
where
    F: Fn(&ProgramInput) -> ProgramVerdict + Send + Sync,
{
    fn run(&self, input: &ProgramInput) -> ProgramVerdict {
        self(input)
    }
}
