//! Reuseport groups as such: members, their order, and the choice among them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::net::NetId;
use crate::selector::GroupSelector;
use crate::sockets::SocketId;

/// The kernel's limit: the array starts with 128 places and doubles while it stays under 65536.
pub(crate) const MAX_MEMBERS: usize = 32768;

/// Sockets that share one address and port, and the datagrams sent there.
#[derive(Default)]
pub(crate) struct Group {
    /// A leaving member's place is taken by the last one.
    pub(crate) members: Vec<SocketId>,
    /// Set when a member connects, never cleared.
    pub(crate) has_conns: bool,
    /// Members with a value of `SO_INCOMING_CPU`.
    pub(crate) with_cpu: u32,
    pub(crate) selector: Option<Arc<dyn GroupSelector>>,
    /// Under which key the group is found, in [`Profile::Strict`](crate::Profile::Strict).
    pub(crate) key: Option<GroupKey>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("members", &self.members)
            .field("has_conns", &self.has_conns)
            .field("with_cpu", &self.with_cpu)
            .field("selector", &self.selector.is_some())
            .finish_non_exhaustive()
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

/// All groups of a table.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
    by_key: HashMap<GroupKey, u32>,
}

impl Groups {
    pub(crate) fn insert(&mut self, key: Option<GroupKey>) -> u32 {
        let group = Group { key, ..Group::default() };
        let index = match self.free.pop() {
            Some(index) => {
                self.groups[index as usize] = group;
                index
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        if let Some(key) = key {
            self.by_key.insert(key, index);
        }
        index
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let group = std::mem::take(&mut self.groups[index as usize]);
        if let Some(key) = group.key {
            self.by_key.remove(&key);
        }
        self.free.push(index);
    }

    pub(crate) fn set_key(&mut self, index: u32, key: GroupKey) {
        self.groups[index as usize].key = Some(key);
        self.by_key.insert(key, index);
    }

    pub(crate) fn by_key(&self, key: &GroupKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }
}

impl std::ops::Index<u32> for Groups {
    type Output = Group;

    #[inline]
    fn index(&self, index: u32) -> &Group {
        &self.groups[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Groups {
    fn index_mut(&mut self, index: u32) -> &mut Group {
        &mut self.groups[index as usize]
    }
}
