//! Reuseport groups as such: members, their order, and the choice among them.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::net::NetId;
use crate::segments::Segments;
use crate::selector::GroupSelector;
use crate::sockets::{NONE, SocketId};
use crate::sync::{AtomicU32, Ordering};

/// The kernel's limit: the array starts with 128 places and doubles while it stays under 65536.
pub(crate) const MAX_MEMBERS: u32 = 32768;

/// Sockets that share one address and port, and the datagrams sent there. Look-ups read it while a
/// writer changes it: they test each member they come to, so an old answer does no harm.
pub(crate) struct Group {
    /// Indices of the members. A leaving member's place is taken by the last one.
    members: Segments<AtomicU32, 2, 14>,
    count: AtomicU32,
    /// Members with a value of `SO_INCOMING_CPU`.
    with_cpu: AtomicU32,
    /// [`Self::HAS_CONNS`], [`Self::SELECTS`].
    flags: AtomicU32,
    selector: ArcSwapOption<Selecting>,
}

/// A selector, and the members it is shown.
pub(crate) struct Selecting {
    pub(crate) selector: Arc<dyn GroupSelector>,
    pub(crate) members: Vec<SocketId>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("count", &self.count)
            .field("with_cpu", &self.with_cpu)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl Group {
    /// A member connected; never cleared while the group lasts.
    const HAS_CONNS: u32 = 1;
    const SELECTS: u32 = 2;

    fn new() -> Self {
        Self {
            members: Segments::default(),
            count: AtomicU32::new(0),
            with_cpu: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            selector: ArcSwapOption::empty(),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// The index of the member at a place.
    #[inline]
    pub(crate) fn member(&self, place: u32) -> u32 {
        self.members.get(place).map_or(NONE, |m| m.load(Ordering::Acquire))
    }

    pub(crate) fn with_cpu(&self) -> u32 {
        self.with_cpu.load(Ordering::Relaxed)
    }

    pub(crate) fn has_conns(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & Self::HAS_CONNS != 0
    }

    pub(crate) fn set_has_conns(&self) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags | Self::HAS_CONNS, Ordering::Relaxed);
    }

    pub(crate) fn selecting(&self) -> Option<Arc<Selecting>> {
        if self.flags.load(Ordering::Relaxed) & Self::SELECTS == 0 {
            return None;
        }
        self.selector.load_full()
    }

    pub(crate) fn set_selector(&self, selector: Arc<dyn GroupSelector>, members: Vec<SocketId>) {
        self.selector.store(Some(Arc::new(Selecting { selector, members })));
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags | Self::SELECTS, Ordering::Release);
    }

    /// Writer: one more with a CPU, or one less.
    pub(crate) fn add_with_cpu(&self, n: i32) {
        let with_cpu = self.with_cpu.load(Ordering::Relaxed).wrapping_add_signed(n);
        self.with_cpu.store(with_cpu, Ordering::Relaxed);
    }

    /// Writer: a new member; gives its place.
    pub(crate) fn push(&self, member: u32) -> u32 {
        let place = self.count.load(Ordering::Relaxed);
        if let Some(m) = self.members.ensure(place, || AtomicU32::new(NONE)) {
            m.store(member, Ordering::Release);
            self.count.store(place + 1, Ordering::Release);
        }
        place
    }

    /// Writer: takes out the member at a place; gives the one that stands there now.
    pub(crate) fn swap_remove(&self, place: u32) -> Option<u32> {
        let last = self.count.load(Ordering::Relaxed).checked_sub(1)?;
        let moved = self.member(last);
        if let Some(m) = self.members.get(place) {
            m.store(moved, Ordering::Release);
        }
        self.count.store(last, Ordering::Release);
        (place != last).then_some(moved)
    }
}

/// What the members of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) net: NetId,
    pub(crate) port: u16,
    pub(crate) six: bool,
    pub(crate) v6only: bool,
    pub(crate) device: u32,
    pub(crate) uid: u32,
    pub(crate) r6: u128,
    pub(crate) r4: u32,
}

/// All groups of a table, for everybody.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Segments<Group>,
}

impl Groups {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Group> {
        self.groups.get(index)
    }

    /// Bytes, the members' arrays counted as full.
    pub(crate) fn bytes(&self) -> usize {
        let groups = (0u32..).map_while(|i| self.groups.get(i));
        self.groups.bytes() + groups.map(|g| g.members.bytes()).sum::<usize>()
    }
}

/// The writer's half of the groups.
#[derive(Debug, Default)]
pub(crate) struct GroupKeys {
    free: Vec<u32>,
    /// Under which key each group is found, in [`Profile::Strict`](crate::Profile::Strict).
    keys: Vec<Option<GroupKey>>,
    by_key: HashMap<GroupKey, u32>,
}

impl GroupKeys {
    pub(crate) fn insert(&mut self, groups: &Groups, key: Option<GroupKey>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.keys.len() as u32 - 1
        });
        groups.groups.ensure(index, Group::new);
        self.keys[index as usize] = key;
        if let Some(key) = key {
            self.by_key.insert(key, index);
        }
        index
    }

    /// The group has no member any more.
    pub(crate) fn remove(&mut self, groups: &Groups, index: u32) {
        if let Some(group) = groups.get(index) {
            group.flags.store(0, Ordering::Relaxed);
            group.selector.store(None);
        }
        if let Some(key) = self.keys[index as usize].take() {
            self.by_key.remove(&key);
        }
        self.free.push(index);
    }

    pub(crate) fn set_key(&mut self, index: u32, key: GroupKey) {
        self.keys[index as usize] = Some(key);
        self.by_key.insert(key, index);
    }

    pub(crate) fn by_key(&self, key: &GroupKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }
}
