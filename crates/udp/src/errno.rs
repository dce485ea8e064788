//! The errors of socket operations, under the kernel's names.

use std::fmt;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// Why an operation failed, by the name and number Linux gives it (x86-64 numbering).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Errno {
            $($(#[$doc])* $name,)*
        }

        impl Errno {
            /// Every error this crate can report, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name as it stands in `errno.h`, for example `"EADDRINUSE"`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The number on Linux, x86-64.
            #[must_use]
            pub const fn number(self) -> i32 {
                match self { $(Self::$name => $number,)* }
            }
        }
    };
}

errnos! {
    /// The caller lacks a capability.
    EPERM = 1,
    /// The socket is closed, or never was.
    EBADF = 9,
    /// No free port at an implicit bind.
    EAGAIN = 11,
    /// No memory for a table entry.
    ENOMEM = 12,
    /// A privileged port, or a broadcast destination without `SO_BROADCAST`.
    EACCES = 13,
    /// No such device.
    ENODEV = 19,
    /// An argument that cannot be, or a socket in the wrong state.
    EINVAL = 22,
    /// A parameter problem was reported by ICMP.
    EPROTO = 71,
    /// The message does not fit the path.
    EMSGSIZE = 90,
    /// No such option at this level for this socket.
    ENOPROTOOPT = 92,
    /// The operation does not exist for this kind of socket.
    EOPNOTSUPP = 95,
    /// The address is of a family the socket does not speak.
    EAFNOSUPPORT = 97,
    /// The port or the 4-tuple belongs to another socket.
    EADDRINUSE = 98,
    /// The address is not one of this host.
    EADDRNOTAVAIL = 99,
    /// No route to the network.
    ENETUNREACH = 101,
    /// No room for one more membership.
    ENOBUFS = 105,
    /// The socket has no peer.
    ENOTCONN = 107,
    /// The peer's port is closed, as ICMP said.
    ECONNREFUSED = 111,
    /// The host is down, as ICMP said.
    EHOSTDOWN = 112,
    /// No route to the host.
    EHOSTUNREACH = 113,
    /// The host is isolated, as ICMP said.
    ENONET = 64,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_linux_ones() {
        assert_eq!(Errno::EADDRINUSE.name(), "EADDRINUSE");
        assert_eq!(Errno::EADDRINUSE.number(), 98);
        assert_eq!(Errno::ENONET.to_string(), "ENONET");
        for (i, a) in Errno::ALL.iter().enumerate() {
            for b in &Errno::ALL[i + 1..] {
                assert_ne!(a.number(), b.number(), "{a} and {b}");
            }
        }
    }
}
