//! Names that people know for numbers of link layers.

use super::LinkType;
use core::fmt;

impl LinkType {
    /// The name in the LINKTYPE_ registry without its prefix, for the types that one meets.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "NULL",
            1 => "ETHERNET",
            3 => "AX25",
            6 => "IEEE802_5",
            7 => "ARCNET_BSD",
            8 => "SLIP",
            9 => "PPP",
            10 => "FDDI",
            12 | 14 | 101 => "RAW",
            50 => "PPP_HDLC",
            51 => "PPP_ETHER",
            99 => "SYMANTEC_FIREWALL",
            100 => "ATM_RFC1483",
            104 => "C_HDLC",
            105 => "IEEE802_11",
            107 => "FRELAY",
            108 => "LOOP",
            113 => "LINUX_SLL",
            114 => "LTALK",
            117 => "PFLOG",
            119 => "IEEE802_11_PRISM",
            122 => "IP_OVER_FC",
            123 => "SUNATM",
            127 => "IEEE802_11_RADIOTAP",
            129 => "ARCNET_LINUX",
            138 => "APPLE_IP_OVER_IEEE1394",
            140 => "MTP2",
            141 => "MTP3",
            142 => "SCCP",
            143 => "DOCSIS",
            144 => "LINUX_IRDA",
            147..=162 => "USER (private use)",
            163 => "IEEE802_11_AVS",
            166 => "PPP_PPPD",
            169 => "GPRS_LLC",
            177 => "LINUX_LAPD",
            182 => "MFR",
            187 => "BLUETOOTH_HCI_H4",
            189 => "USB_LINUX",
            192 => "PPI",
            195 => "IEEE802_15_4_WITHFCS",
            197 => "ERF",
            201 => "BLUETOOTH_HCI_H4_WITH_PHDR",
            203 => "LAPD",
            204 => "PPP_WITH_DIR",
            205 => "C_HDLC_WITH_DIR",
            206 => "FRELAY_WITH_DIR",
            209 => "IPMB_LINUX",
            215 => "IEEE802_15_4_NONASK_PHY",
            219 => "MPLS",
            220 => "USB_LINUX_MMAPPED",
            224 => "FC_2",
            226 => "IPNET",
            227 => "CAN_SOCKETCAN",
            228 => "IPV4",
            229 => "IPV6",
            230 => "IEEE802_15_4_NOFCS",
            231 => "DBUS",
            235 => "DVB_CI",
            239 => "NFLOG",
            240 => "NETANALYZER",
            241 => "NETANALYZER_TRANSPARENT",
            242 => "IPOIB",
            243 => "MPEG_2_TS",
            247 => "INFINIBAND",
            248 => "SCTP",
            249 => "USBPCAP",
            251 => "BLUETOOTH_LE_LL",
            252 => "WIRESHARK_UPPER_PDU",
            253 => "NETLINK",
            254 => "BLUETOOTH_LINUX_MONITOR",
            256 => "BLUETOOTH_LE_LL_WITH_PHDR",
            258 => "PKTAP",
            259 => "EPON",
            264 => "ISO_14443",
            266 => "USB_DARWIN",
            271 => "VSOCK",
            272 => "NORDIC_BLE",
            274 => "ETHERNET_MPACKET",
            276 => "LINUX_SLL2",
            283 => "IEEE802_15_4_TAP",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    /// The number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

pub(super) const fn ether_type(ty: u16) -> Option<&'static str> {
    Some(match ty {
        0x0001 => "Novell 802.3",
        0x000c => "CAN",
        0x000d => "CAN FD",
        0x00f6 => "IEEE 802.15.4",
        0x0806 => "ARP",
        0x0842 => "Wake-on-LAN",
        0x22ea => "stream reservation (SRP)",
        0x22f0 => "audio/video transport (AVTP)",
        0x22f3 => "TRILL",
        0x6002..=0x6007 => "DECnet",
        0x6558 => "transparent Ethernet bridging",
        0x8035 => "RARP",
        0x809b => "AppleTalk",
        0x80f3 => "AppleTalk ARP",
        0x8137 | 0x8138 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "slow protocols (LACP)",
        0x8819 => "CobraNet",
        0x887b => "HomePlug",
        0x888e => "EAPOL (802.1X)",
        0x8892 => "PROFINET",
        0x889a => "HyperSCSI",
        0x88a2 => "ATA over Ethernet",
        0x88a4 => "EtherCAT",
        0x88ab => "Ethernet Powerlink",
        0x88b8 => "GOOSE",
        0x88b9 => "GSE",
        0x88ba => "sampled values (SV)",
        0x88cc => "LLDP",
        0x88cd => "SERCOS III",
        0x88e1 => "HomePlug AV",
        0x88e5 => "MACsec (802.1AE)",
        0x88e7 => "provider backbone bridging (802.1ah)",
        0x88f5 => "MVRP",
        0x88f7 => "PTP",
        0x88fb => "PRP",
        0x8902 => "connectivity fault management (802.1ag)",
        0x8906 => "FCoE",
        0x8914 => "FCoE initialisation",
        0x8915 => "RoCE",
        0x892f => "HSR",
        0x894f => "network service header (NSH)",
        0x9000 => "loopback test",
        0xf1c1 => "redundancy tag (802.1CB)",
        _ => return None,
    })
}

pub(super) const fn ppp(ty: u16) -> Option<&'static str> {
    Some(match ty {
        0x002d => "PPP with compressed TCP/IP header",
        0x002f => "PPP with Van Jacobson uncompressed TCP/IP header",
        0x002b => "PPP IPX",
        0x003d => "PPP multilink",
        0x0053 => "PPP encryption",
        0x00fd => "PPP compressed datagram",
        0x8021 => "PPP IPCP",
        0x8053 => "PPP ECP",
        0x8057 => "PPP IPV6CP",
        0x80fd => "PPP CCP",
        0x8281 => "PPP MPLSCP",
        0xc021 => "PPP LCP",
        0xc023 => "PPP PAP",
        0xc025 => "PPP link quality report",
        0xc223 => "PPP CHAP",
        0xc227 => "PPP EAP",
        _ => return None,
    })
}

pub(super) const fn llc(dsap: u8) -> Option<&'static str> {
    Some(match dsap {
        0x42 => "spanning tree (802.1D)",
        0xe0 => "IPX over 802.2",
        0xf0 => "NetBEUI",
        0xfe => "ISO network layer (IS-IS)",
        0xff => "Novell 802.3",
        _ => return None,
    })
}

pub(super) const fn snap(oui: u32, ty: u16) -> Option<&'static str> {
    match (oui, ty) {
        (0 | 0xf8, ty) => ether_type(ty),
        (0x00_000c, 0x2000) => Some("CDP"),
        (0x00_000c, 0x2003) => Some("VTP"),
        (0x00_000c, 0x2004) => Some("DTP"),
        (0x00_000c, 0x010b) => Some("PVST+ spanning tree"),
        (0x00_000c, 0x0111) => Some("UDLD"),
        (0x08_0007, 0x809b) => Some("AppleTalk"),
        _ => None,
    }
}
