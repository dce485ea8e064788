//! The two sets of rules, and the named differences between them.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $linux:literal / $strict:literal,)*) => {
        /// One point where Linux 6.18 does something that a server would not want, and where
        /// [`Profile::Strict`] does otherwise.
        ///
        /// The documentation of each variant names what Linux does; [`Rule::strict`] what the other
        /// profile does in its place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($(#[$doc])* #[doc = concat!("\n\nLinux: ", $linux, "\n\nStrict: ", $strict)] $name,)*
        }

        impl Rule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The rule's name in kebab-free form, as the variant is written.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What Linux 6.18 does, in one sentence.
            #[must_use]
            pub const fn linux(self) -> &'static str {
                match self { $(Self::$name => $linux,)* }
            }

            /// What [`Profile::Strict`] does in its place, in one sentence.
            #[must_use]
            pub const fn strict(self) -> &'static str {
                match self { $(Self::$name => $strict,)* }
            }
        }
    };
}

rules! {
    /// IPv6 disconnect.
    V6PeerKept:
        "Disconnecting an IPv6 socket clears the peer's port and keeps its address, so the socket hears only the old peer."
        / "Disconnect clears the whole peer.",
    /// Reconnect and disconnect of a socket in the 4-tuple table.
    StaleTuple:
        "A socket that connects again without disconnecting, or that was bound to an address and disconnects, stays in the 4-tuple table under its first peer; it is found by score."
        / "The 4-tuple table always holds a connected socket under its present peer, and no other socket.",
    /// The third table and the second.
    ConnectedScored:
        "A connected socket stays in the port-and-address table, where every look-up scores it."
        / "A socket in the 4-tuple table is in no scored table, so unmatched datagrams do not pay for it.",
    /// SO_REUSEPORT groups at disconnect and after SO_BINDTODEVICE.
    GroupNotRejoined:
        "A member that connects or changes its device leaves its group for good, and then competes with it."
        / "A bound socket that is not connected is always in the group of its address and device.",
    /// SO_REUSEPORT groups at bind.
    GroupSplit:
        "A bind looks at the newest socket only: if that one is connected, a second group is made beside the first."
        / "A bind joins the group of its address and device, and connected sockets never form one.",
    /// SO_REUSEPORT groups in the scored look-up.
    GroupReturnsEarly:
        "A group that never had a connected member answers at once; a better socket further down the chain is not looked at."
        / "The best score wins, wherever it stands.",
    /// SO_BINDTODEVICE.
    DeviceLostAtDisconnect:
        "Disconnect clears the device the socket was bound to."
        / "The device stays.",
    /// A scope id in an operation that fails.
    DeviceKeptAfterFailure:
        "A bind or connect to a link-local address that fails leaves the socket bound to the device that the scope id named."
        / "What fails changes nothing.",
    /// The port at disconnect.
    BoundPortLost:
        "Disconnect takes the port away when bind chose it (port 0), and leaves the address."
        / "Only a port that connect or send chose is taken away.",
    /// Address and device that become wider after bind.
    WideningUnchecked:
        "A disconnect that widens the address to any, and an unbinding from a device, do not look for conflicts."
        / "They are refused with EADDRINUSE, and nothing changes.",
    /// The conflict scan of bind.
    FirstOverlapDecides:
        "The first overlapping socket decides, so the result depends on the order of earlier binds."
        / "Every overlapping socket must agree to share.",
    /// The choice of a port.
    PortChosenTwice:
        "An automatic bind with SO_REUSEADDR or SO_REUSEPORT may choose a port that another such socket holds."
        / "A port that is chosen automatically is free of overlapping sockets.",
    /// Two sockets on one 4-tuple.
    DuplicateTuple:
        "Any number of sockets may connect to one 4-tuple; the last one to connect hides the others."
        / "The second connect fails with EADDRINUSE and changes nothing.",
    /// Device preference in the 4-tuple table.
    TupleIgnoresDevice:
        "Among equal 4-tuples the last to connect wins, even over a socket that is bound to the device."
        / "The socket that is bound to the arrival device wins.",
    /// Which sysctl lets an unbound socket see a VRF's datagrams.
    TupleUsesTcpSetting:
        "The 4-tuple table and early demultiplexing obey tcp_l3mdev_accept."
        / "They obey udp_l3mdev_accept, as every other look-up does.",
    /// The source address at a second connect.
    SourceKeptAtReconnect:
        "A socket bound to no address keeps the source of its first connect."
        / "Every connect chooses the source anew, unless bind chose it.",
    /// Weights of the IPv6 score.
    V6WeightsEqual:
        "For IPv6 a bound device weighs no more than a matching CPU."
        / "The device weighs more, as for IPv4.",
    /// Order of IPv6 SO_REUSEPORT sockets.
    V6ReuseportAppended:
        "Among equals the newest socket wins, but the oldest among IPv6 sockets with SO_REUSEPORT."
        / "The newest wins.",
    /// The placeholder address of IPv6 sockets.
    PlaceholderReachable:
        "A dual-stack socket connected to an IPv6 peer answers at 127.0.0.6 for datagrams from the peer's port."
        / "It does not.",
    /// SO_INCOMING_CPU of connected sockets.
    CpuOverwritten:
        "Every datagram writes the CPU it came in on over SO_INCOMING_CPU of the connected socket it goes to."
        / "The option is the caller's.",
    /// Early demultiplexing.
    EarlyDemuxFirst:
        "Early demultiplexing tests the first socket of a chain only, and so may disagree with the look-up."
        / "It gives what the 4-tuple table gives.",
    /// Early demultiplexing of IPv4 multicast.
    EarlyDemuxAsksGroup:
        "An IPv4 multicast datagram that one socket alone would get goes to any member of that socket's reuseport group, by hash, while early demultiplexing is on and the port's chain is short."
        / "It goes to the socket that wants it.",
}

/// Whose rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// As Linux 6.18, defects included.
    Linux,
    /// As Linux, except at every [`Rule`].
    #[default]
    Strict,
}

impl Profile {
    /// Whether the kernel's behaviour holds for `rule`.
    #[must_use]
    #[inline]
    pub const fn has(self, _rule: Rule) -> bool {
        matches!(self, Self::Linux)
    }
}
