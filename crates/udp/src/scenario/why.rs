//! A look-up in words.

use std::fmt::Write;

use crate::trace::{Event, Table};
use crate::{Found, SocketId, Via};

/// One step for people. `name` gives the number a socket has in the scenario.
pub(super) fn step(event: &Event, name: &dyn Fn(SocketId) -> String) -> String {
    match event {
        Event::TupleSkipped => {
            "hash4: not looked at, the slot of hash2 counts no socket there".to_owned()
        }
        Event::Search(table, slot) => format!("{}: slot {slot}", table.name()),
        Event::Tuple(s, Ok(())) => format!("socket {}: the 4-tuple matches", name(*s)),
        Event::Tuple(s, Err(m)) => format!("socket {}: no match, {}", name(*s), m.name()),
        Event::Score(s, Ok(score)) => format!("socket {}: score {score}", name(*s)),
        Event::Score(s, Err(m)) => format!("socket {}: no candidate, {}", name(*s), m.name()),
        Event::Group { through, size, chosen: Some(m) } => {
            format!("group of {size} of socket {}: chooses socket {}", name(*through), name(*m))
        }
        Event::Group { through, size, chosen: None } => {
            format!("group of {size} of socket {}: all members are connected", name(*through))
        }
        Event::GroupDrop => "the group's selector refuses the datagram".to_owned(),
        Event::Program(Some(s)) => format!("a program selects socket {}", name(*s)),
        Event::Program(None) => "a program drops the datagram".to_owned(),
    }
}

/// Scores and candidates of the last table that was read.
#[derive(Default)]
struct Tally {
    candidates: usize,
    best: i32,
    equals: usize,
    seen: usize,
}

fn tally(events: &[Event], table: Table) -> Tally {
    let start = events.iter().rposition(|e| matches!(e, Event::Search(t, _) if *t == table));
    let mut tally = Tally::default();
    for event in events.iter().skip(start.map_or(events.len(), |s| s + 1)) {
        match event {
            Event::Score(_, Ok(score)) => {
                tally.seen += 1;
                tally.candidates += 1;
                if tally.candidates == 1 || *score > tally.best {
                    (tally.best, tally.equals) = (*score, 1);
                } else if *score == tally.best {
                    tally.equals += 1;
                }
            }
            Event::Score(_, Err(_)) => tally.seen += 1,
            _ => {}
        }
    }
    tally
}

/// Why a socket got a unicast datagram, in one sentence.
pub(super) fn found(found: &Found, events: &[Event], group: usize) -> String {
    let table = match found.via {
        Via::EarlyDemux => {
            return "early demultiplexing: the first socket of the chain is connected to the sender"
                .to_owned();
        }
        Via::Program => return "a look-up program selected it".to_owned(),
        Via::Table(Table::Hash4) => return "connected to exactly this 4-tuple".to_owned(),
        Via::Table(table) => table,
    };
    let t = tally(events, table);
    let mut text = match table {
        Table::Hash2 => "bound to the destination address".to_owned(),
        Table::Hash2Any => "bound to any address, and nobody to the destination address".to_owned(),
        _ => "found by port alone".to_owned(),
    };
    let _ =
        write!(text, ", score {} ({} of {} sockets in the slot fit", t.best, t.candidates, t.seen);
    if t.equals > 1 && !found.by_group {
        let _ = write!(text, ", the first of {} equals wins", t.equals);
    }
    text.push(')');
    if found.by_group {
        let _ = write!(text, ", chosen in its reuseport group of {group}");
    }
    text
}

/// Why nobody got it.
pub(super) fn nobody(events: &[Event]) -> String {
    let refused = events.iter().any(|e| matches!(e, Event::GroupDrop | Event::Program(None)));
    if refused {
        return "a program refused the datagram".to_owned();
    }
    let seen = events.iter().filter(|e| matches!(e, Event::Score(..))).count();
    match events.iter().rev().find_map(|e| match e {
        Event::Score(_, Err(m)) => Some(m.name()),
        _ => None,
    }) {
        Some(why) => format!("none of {seen} sockets looked at fits (the last: {why})"),
        None => "no socket has this port and address".to_owned(),
    }
}
