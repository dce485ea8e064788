//! The nftables rules that make the kernel's opinion of a packet readable.
//!
//! One chain at prerouting priority 0, behind tracking (-200). It changes nothing that tracking
//! looks at; the packet's own mark is used as a 32-bit mailbox into NFLOG:
//!
//! 1. mark := entry id, then one NFLOG rule a state and direction, told apart by prefix;
//! 2. mark := status bits, then one NFLOG rule for all.
//!
//! Packets without an entry leave the rules that ask for id, direction or status (the expression
//! breaks), so they give one message only. Expression numbers: `linux/netfilter/nf_tables.h`.

use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_ACK};

use crate::netlink::{Netlink, attr, be32, encode, message, nest, nfgen, text};

/// The NFLOG group that the rules write to.
pub(crate) const GROUP: u16 = 1;
/// Prefix of the message whose mark holds status bits.
pub(crate) const STATUS: &str = "status";

const NFPROTO_INET: u8 = 1;
const NFT: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const CREATE_APPEND: u16 = 0xc00;
const TABLE: &str = "fourtuple-oracle";
const CHAIN: &str = "judge";

// `enum nft_ct_keys`.
const CT_STATE: u32 = 0;
const CT_DIRECTION: u32 = 1;
const CT_STATUS: u32 = 2;
const CT_ID: u32 = 23;
const META_MARK: u32 = 3;
const REG32_00: u32 = 8;

/// State bits of rule sets, with the prefix that reports them and whether a direction exists.
const STATES: [(u32, &str, bool); 5] = [
    (2, "established", true),
    (8, "new", true),
    (1, "invalid", false),
    (4, "related", true),
    (64, "untracked", false),
];

/// Loads table, chain and rules into the namespace of `socket`.
pub(crate) fn load(socket: &mut Netlink) -> io::Result<()> {
    let mut batch = message(BATCH_BEGIN, 0, &nfgen(0, 10));
    let mut count = 0;
    let mut push = |kind: u16, attributes: &[DefaultNla]| {
        let mut body = nfgen(NFPROTO_INET, 0).to_vec();
        body.extend(encode(attributes));
        batch.extend(message(NFT | kind, CREATE_APPEND | NLM_F_ACK, &body));
        count += 1;
    };
    push(0, &[text(1, TABLE)]);
    let hook = nest(4, &[be32(1, 0), be32(2, 0)]);
    push(3, &[text(1, TABLE), text(3, CHAIN), hook, text(7, "filter")]);
    let mut rule = |expressions: &[DefaultNla]| {
        push(6, &[text(1, TABLE), text(2, CHAIN), nest(4, expressions)]);
    };
    rule(&[ct(CT_ID), set_mark()]);
    for (bit, name, directed) in STATES {
        if directed {
            for (direction, way) in [(0, "original"), (1, "reply")] {
                rule(&[
                    ct(CT_STATE),
                    equals(&bit.to_ne_bytes()),
                    ct(CT_DIRECTION),
                    equals(&[direction]),
                    log(&format!("{name} {way}")),
                ]);
            }
        } else {
            rule(&[ct(CT_STATE), equals(&bit.to_ne_bytes()), log(name)]);
        }
    }
    rule(&[ct(CT_STATUS), set_mark(), log(STATUS)]);
    batch.extend(message(BATCH_END, 0, &nfgen(0, 10)));
    socket.transact(&batch, count)
}

fn expression(name: &str, data: &[DefaultNla]) -> DefaultNla {
    nest(1, &[text(1, name), nest(2, data)])
}

fn ct(key: u32) -> DefaultNla {
    expression("ct", &[be32(2, key), be32(1, REG32_00)])
}

fn set_mark() -> DefaultNla {
    expression("meta", &[be32(2, META_MARK), be32(3, REG32_00)])
}

fn equals(value: &[u8]) -> DefaultNla {
    expression("cmp", &[be32(1, REG32_00), be32(2, 0), nest(3, &[attr(1, value)])])
}

fn log(prefix: &str) -> DefaultNla {
    expression(
        "log",
        &[
            attr(1, &GROUP.to_be_bytes()),
            text(2, prefix),
            // No payload and no batching: the reader waits for nothing.
            attr(4, &1_u16.to_be_bytes()),
        ],
    )
}
