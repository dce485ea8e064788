//! Network namespaces that share one table: their hash keys and entry counts.

use fourtuple_hash::Key;

use crate::hash::TupleHash;
use crate::tuple::Tuple;

#[derive(Debug)]
pub(crate) struct Net {
    id: u32,
    key: Key,
    /// Entries of this net, unconfirmed ones included: what `nf_conntrack_max` limits.
    pub(crate) count: u32,
}

/// The nets seen so far. Ids come from the embedding program, not from packets.
#[derive(Debug)]
pub(crate) struct Nets {
    layout: TupleHash,
    secret: Key,
    /// Sorted by id.
    list: Vec<Net>,
    /// Index of the net asked for last: nearly always the next one, too.
    last: usize,
}

impl Nets {
    pub(crate) fn new(layout: TupleHash, secret: Key) -> Self {
        let key = layout.net_key(&secret, 0);
        let list = vec![Net { id: 0, key, count: 0 }];
        Self { layout, secret, list, last: 0 }
    }

    /// The net with this id, made if it is new.
    #[inline]
    pub(crate) fn get(&mut self, id: u32) -> &mut Net {
        if self.list[self.last].id != id {
            self.last = self.find_or_make(id);
        }
        &mut self.list[self.last]
    }

    #[cold]
    fn find_or_make(&mut self, id: u32) -> usize {
        self.list.binary_search_by_key(&id, |n| n.id).unwrap_or_else(|at| {
            let key = self.layout.net_key(&self.secret, id);
            self.list.insert(at, Net { id, key, count: 0 });
            at
        })
    }

    /// The hash of a tuple in zone id `zone` of net `id`.
    #[inline(always)]
    pub(crate) fn hash(&mut self, id: u32, tuple: &Tuple, zone: u16) -> u32 {
        let layout = self.layout;
        layout.hash(&self.get(id).key, tuple, zone, id)
    }

    /// [`hash`](Self::hash) for many tuples of one zone and net.
    pub(crate) fn hasher(&mut self, net: u32, zone: u16) -> Hasher {
        let (layout, key) = (self.layout, self.get(net).key);
        Hasher { layout, key, zone, net }
    }
}

/// The hash of the tuples of one zone and net.
#[derive(Debug)]
pub(crate) struct Hasher {
    layout: TupleHash,
    key: Key,
    zone: u16,
    net: u32,
}

impl Hasher {
    #[inline(always)]
    pub(crate) fn hash(&self, tuple: &Tuple) -> u32 {
        self.layout.hash(&self.key, tuple, self.zone, self.net)
    }
}
