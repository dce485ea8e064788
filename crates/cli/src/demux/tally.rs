//! Counts, and what had to be assumed.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use super::answer::{Answer, Goes, Question};
use super::capture::Learnt;
use super::host::Host;

/// Destinations without a socket that are counted one by one; others are counted together.
const MAX_MISSED: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) packets: u64,
    /// Datagrams that were put to the sockets.
    pub(super) datagrams: u64,
    /// Sent by the host.
    pub(super) sent: u64,
    /// Fragments behind the first.
    pub(super) fragments: u64,
    /// No UDP.
    pub(super) others: u64,
    /// Datagrams of each socket, by number less one; copies count for each.
    pub(super) by_socket: Vec<u64>,
    /// Datagrams that went to one of several.
    pub(super) by_group: BTreeMap<Vec<usize>, u64>,
    pub(super) nowhere: u64,
    pub(super) dropped: BTreeMap<&'static str, u64>,
    missed: HashMap<SocketAddr, u64>,
    /// Whether a device was concluded and mattered.
    guessed_device: bool,
}

impl Tally {
    pub(super) fn new(host: &Host) -> Self {
        Self { by_socket: vec![0; host.sockets.len()], ..Self::default() }
    }

    pub(super) fn count(&mut self, host: &Host, question: &Question<'_>, answer: &Answer) {
        self.datagrams += 1;
        let mut one = |number: usize| {
            if let Some(count) = number.checked_sub(1).and_then(|i| self.by_socket.get_mut(i)) {
                *count += 1;
            }
        };
        let nobody = match &answer.goes {
            Goes::To(number) => {
                one(*number);
                false
            }
            Goes::Copies(numbers) => {
                numbers.iter().copied().for_each(one);
                false
            }
            Goes::OneOf(members) => {
                match self.by_group.get_mut(members) {
                    Some(count) => *count += 1,
                    None => {
                        self.by_group.insert(members.clone(), 1);
                    }
                }
                false
            }
            Goes::Nowhere => {
                self.nowhere += 1;
                true
            }
            Goes::Dropped(reason) => {
                *self.dropped.entry(reason).or_default() += 1;
                true
            }
        };
        if nobody {
            let to = question.destination;
            if self.missed.len() < MAX_MISSED || self.missed.contains_key(&to) {
                *self.missed.entry(to).or_default() += 1;
            }
        }
        if host.usual_is_guess && answer.device == host.usual && question.device.is_none() {
            let bound = |n: &usize| host.socket(*n).is_some_and(|s| s.device.is_some());
            self.guessed_device |= host.on_port(question.destination.port()).iter().any(bound);
        }
    }

    /// Destinations that no socket was found for, the most frequent first.
    pub(super) fn missed(&self) -> Vec<(SocketAddr, u64)> {
        let mut all: Vec<_> = self.missed.iter().map(|(&to, &n)| (to, n)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }

    /// Sockets and groups that got something, the most frequent first.
    pub(super) fn receivers(&self) -> Vec<(Vec<usize>, u64)> {
        let single = self.by_socket.iter().enumerate().filter(|(_, n)| **n > 0);
        let mut all: Vec<_> = single.map(|(i, &n)| (vec![i + 1], n)).collect();
        all.extend(self.by_group.iter().map(|(members, &n)| (members.clone(), n)));
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }
}

/// The first few of many, with commas.
fn some<T: ToString>(all: &[T]) -> String {
    const SHOWN: usize = 8;
    let mut text = all.iter().take(SHOWN).map(T::to_string).collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN {
        text.push_str(&format!(" and {} more", all.len() - SHOWN));
    }
    text
}

impl Host {
    /// What ss and the capture do not tell, and what was taken for true.
    pub(super) fn assumed(&self, learnt: &Learnt, tally: &Tally) -> Vec<String> {
        let mut out = self.assumed_of_sockets();
        let router = self.table.router();
        let mut learnt_own: Vec<IpAddr> = learnt.own.iter().copied().collect();
        learnt_own.sort_unstable();
        if !learnt_own.is_empty() {
            let given = router.has_given();
            out.push(format!(
                "{} {} this host's too, as datagrams were sent there{}",
                some(&learnt_own),
                if learnt_own.len() == 1 { "is" } else { "are" },
                if given {
                    ", although --address does not have it"
                } else {
                    " (--address tells which are)"
                }
            ));
        }
        if tally.guessed_device
            && let Some(device) = self.usual
        {
            let name = self.device_name(device);
            out.push(format!("datagrams come in by {name}, the only device that is named (--device tells another)"));
        }
        if learnt.multicast {
            out.push(
                "every socket of the port hears all multicast groups: ss does not show memberships"
                    .to_owned(),
            );
        }
        out
    }

    /// What was assumed to place the sockets.
    pub(super) fn assumed_of_sockets(&self) -> Vec<String> {
        const SHOWN: usize = 5;
        let mut out = Vec::new();
        for shared in self.shared.iter().take(SHOWN) {
            let numbers = some(&shared.numbers);
            out.push(if shared.one_owner {
                format!("sockets {numbers} have one address and port: they are a SO_REUSEPORT group")
            } else {
                format!(
                    "sockets {numbers} have one address and port, but different owners: they set SO_REUSEADDR, and \
                     the one listed first is the newest and gets all"
                )
            });
        }
        if self.shared.len() > SHOWN {
            out.push(format!("and so for {} more addresses and ports", self.shared.len() - SHOWN));
        }
        out
    }
}
