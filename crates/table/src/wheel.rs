//! Deadlines of slots: a hierarchical wheel (Varghese and Lauck, "Hashed and Hierarchical Timing
//! Wheels", SOSP 1987), with a bitmap of occupied positions for each level.
//!
//! Level `l` stands for digit `l` of the tick number to base 64. An entry lies at the highest digit
//! in which its due tick differs from the wheel's present tick, at the position of that digit. So
//! all entries of a level share the higher digits with the present, the lowest occupied level holds
//! the earliest entry, and there are as many levels as tick numbers have digits: no time is too
//! far.

use alloc::vec::Vec;
use alloc::{boxed::Box, vec};
use core::{error, fmt};

/// Positions of a level: one bit each of a `u64`.
const POSITIONS: u64 = 64;
const DIGIT_BITS: u32 = 6;
/// No slot. The one slot number that cannot be armed.
const NONE: u32 = u32::MAX;
/// No list: not armed.
const IDLE: u16 = u16::MAX;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;

#[derive(Debug, Clone, Copy)]
struct Link {
    /// Due tick.
    tick: u64,
    prev: u32,
    next: u32,
    /// Level * 64 + position, or one beyond these for the overdue, or [`IDLE`].
    list: u16,
}

const UNLINKED: Link = Link { tick: 0, prev: NONE, next: NONE, list: IDLE };

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE };

/// The tick length is not a power of two (in nanoseconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickError {
    /// The length that was given.
    pub tick_ns: u64,
}

impl fmt::Display for TickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tick of {} ns: the length must be a power of two", self.tick_ns)
    }
}

impl error::Error for TickError {}

/// Slot [`u32::MAX`] cannot be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOutOfRange;

impl fmt::Display for SlotOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot numbers end before {}", u32::MAX)
    }
}

impl error::Error for SlotOutOfRange {}

/// What a call of [`TimerWheel::advance`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Calls of `fire`.
    pub fired: usize,
    /// True if the budget ran out while entries may be due still: call again.
    pub backlog: bool,
}

/// Timers of slots, by number. Times are nanoseconds of any monotonic clock.
///
/// Arming and disarming are O(1). A slot fires when time has reached the first tick boundary at or
/// after its deadline: never early, and less than a tick late (if `advance` is called in time).
/// Every deadline up to [`u64::MAX`] can be told from every other at tick granularity.
///
/// 24 bytes for each slot in chunks of 4096 slots; chunks are made when one of their slots is
/// armed.
///
/// ```
/// use fourtuple_table::TimerWheel;
///
/// let mut wheel = TimerWheel::new(1 << 20)?; // ticks of about a millisecond
/// wheel.arm(3, 50_000_000)?;
/// wheel.arm(4, 20_000_000)?;
/// assert_eq!(wheel.advance(19_000_000, 100, |_| None).fired, 0);
///
/// // Slot 4 was used meanwhile: its entry knows a later deadline, and goes back into the wheel.
/// let mut fired = Vec::new();
/// wheel.advance(60_000_000, 100, |slot| {
///     fired.push(slot);
///     (slot == 4).then_some(80_000_000)
/// });
/// assert_eq!(fired, [4, 3]);
/// assert!(wheel.is_armed(4) && !wheel.is_armed(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TimerWheel {
    /// Level by level, then the overdue: entries whose tick was not after the present when armed.
    lists: Box<[List]>,
    occupied: Box<[u64]>,
    chunks: Vec<Box<[Link]>>,
    /// The present: all ticks before it are done; this one too, if no list says otherwise.
    now: u64,
    shift: u32,
    len: usize,
}

/// The next thing to do in a wheel: list and its first tick.
#[derive(Clone, Copy)]
struct Event {
    level: usize,
    list: u16,
    tick: u64,
}

impl TimerWheel {
    /// A wheel whose ticks are `tick_ns` long, and whose time is 0.
    ///
    /// # Errors
    /// [`TickError`] if `tick_ns` is not a power of two.
    pub fn new(tick_ns: u64) -> Result<Self, TickError> {
        if !tick_ns.is_power_of_two() {
            return Err(TickError { tick_ns });
        }
        let shift = tick_ns.trailing_zeros();
        // Rounding up can carry into one more bit.
        let bits = if shift == 0 { 64 } else { 65 - shift };
        let levels = bits.div_ceil(DIGIT_BITS) as usize;
        Ok(Self {
            lists: vec![EMPTY; levels * POSITIONS as usize + 1].into_boxed_slice(),
            occupied: vec![0; levels].into_boxed_slice(),
            chunks: Vec::new(),
            now: 0,
            shift,
            len: 0,
        })
    }

    /// Slots armed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no slot is armed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The length of a tick in nanoseconds.
    #[must_use]
    pub fn tick_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The wheel's time, in nanoseconds: the start of the tick it has come to. Behind the time of
    /// the last [`advance`](Self::advance) if that left a backlog.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.start_of(self.now)
    }

    /// Bytes allocated.
    #[must_use]
    pub fn memory(&self) -> usize {
        let links: usize = self.chunks.iter().map(|chunk| size_of_val(&**chunk)).sum();
        links
            + self.chunks.capacity() * size_of::<Box<[Link]>>()
            + size_of_val(&*self.lists)
            + size_of_val(&*self.occupied)
    }

    /// True if `slot` waits for a deadline.
    #[must_use]
    pub fn is_armed(&self, slot: u32) -> bool {
        self.link(slot).is_some_and(|link| link.list != IDLE)
    }

    /// Sets the deadline of `slot`, in place of an earlier one if there is one.
    ///
    /// A deadline that lies before the wheel's time fires at the next [`advance`](Self::advance).
    ///
    /// # Errors
    /// [`SlotOutOfRange`] for slot [`u32::MAX`]. Memory for slot numbers in between is not
    /// allocated, but for 16 bytes for each 4096 of them.
    pub fn arm(&mut self, slot: u32, deadline_ns: u64) -> Result<(), SlotOutOfRange> {
        if slot == NONE {
            return Err(SlotOutOfRange);
        }
        let chunk = (slot >> CHUNK_BITS) as usize;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, Box::default);
        }
        if let Some(links) = self.chunks.get_mut(chunk)
            && links.is_empty()
        {
            *links = vec![UNLINKED; CHUNK].into_boxed_slice();
        }
        self.unlink(slot);
        let tick = self.due(deadline_ns);
        self.link_at(slot, tick);
        Ok(())
    }

    /// Forgets the deadline of `slot`. False if there was none.
    pub fn disarm(&mut self, slot: u32) -> bool {
        self.unlink(slot)
    }

    /// Lets time go on to `now_ns`, and calls `fire` for the slots that are due, with the earlier
    /// deadline (in ticks) first. Deadlines that lay in the past already when armed come before
    /// all others. `fire` returns a new deadline if the slot is to stay armed (its entry was used
    /// meanwhile), otherwise the slot is disarmed. A new deadline that is not after the tick
    /// being fired waits for the next call, so that one slot cannot keep a call busy.
    ///
    /// At most `budget` calls of `fire` and moves between levels are made; if that was not enough,
    /// [`Progress::backlog`] is true and the next call goes on at that point. Idle time costs
    /// nothing however long it is. A time before the latest one has no effect.
    pub fn advance(
        &mut self,
        now_ns: u64,
        budget: usize,
        mut fire: impl FnMut(u32) -> Option<u64>,
    ) -> Progress {
        let target = self.reached(now_ns);
        let mut progress = Progress::default();
        if target < self.now {
            return progress;
        }
        let mut left = budget;
        // Those that `fire` adds come after this one, and wait for the next call.
        let last = self.head_tail(self.overdue()).tail;
        let mut done = last == NONE;
        while !done {
            if left == 0 {
                return Progress { backlog: true, ..progress };
            }
            left -= 1;
            let slot = self.head_tail(self.overdue()).head;
            done = slot == last || slot == NONE;
            self.fire_one(slot, &mut fire, &mut progress);
        }
        while let Some(event) = self.next_event()
            && event.tick <= target
        {
            self.now = event.tick;
            loop {
                let slot = self.head_tail(event.list).head;
                if slot == NONE {
                    break;
                }
                if left == 0 {
                    return Progress { backlog: true, ..progress };
                }
                left -= 1;
                if event.level == 0 {
                    self.fire_one(slot, &mut fire, &mut progress);
                } else {
                    self.cascade(slot);
                }
            }
        }
        self.now = target;
        progress
    }

    /// No slot is due before this time in nanoseconds; `None` if none is armed. Advancing to it
    /// makes progress, so a caller may sleep until then. O(levels).
    #[must_use]
    pub fn next_deadline_hint(&self) -> Option<u64> {
        let tick = if self.head_tail(self.overdue()).head != NONE {
            self.now
        } else {
            self.next_event()?.tick
        };
        Some(self.start_of(tick))
    }

    fn start_of(&self, tick: u64) -> u64 {
        u64::try_from(u128::from(tick) << self.shift).unwrap_or(u64::MAX)
    }

    /// First tick at which all of `deadline_ns` is over.
    fn due(&self, deadline_ns: u64) -> u64 {
        let whole = deadline_ns >> self.shift;
        whole + u64::from(whole << self.shift != deadline_ns)
    }

    /// Last tick that has begun at `now_ns`. At the end of time, the tick after it: nothing is left
    /// to wait for.
    fn reached(&self, now_ns: u64) -> u64 {
        if now_ns == u64::MAX { self.due(now_ns) } else { now_ns >> self.shift }
    }

    fn overdue(&self) -> u16 {
        (self.lists.len() - 1) as u16
    }

    fn next_event(&self) -> Option<Event> {
        // A move between levels that ran out of budget goes first: there may be earlier entries in
        // it.
        let here = |level: usize| self.now >> (DIGIT_BITS * level as u32) & (POSITIONS - 1);
        let event = |level: usize, position: u64| {
            let shift = DIGIT_BITS * level as u32;
            let higher = (self.now >> shift) & !(POSITIONS - 1);
            let tick = ((higher | position) << shift).max(self.now);
            Event { level, list: (level as u64 * POSITIONS + position) as u16, tick }
        };
        let unfinished = |(level, bits): (usize, &u64)| {
            (bits >> here(level) & 1 != 0).then(|| event(level, here(level)))
        };
        if let Some(event) = self.occupied.iter().enumerate().skip(1).find_map(unfinished) {
            return Some(event);
        }
        let (level, bits) = self.occupied.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        Some(event(level, u64::from(bits.trailing_zeros())))
    }

    fn fire_one(
        &mut self,
        slot: u32,
        fire: &mut impl FnMut(u32) -> Option<u64>,
        progress: &mut Progress,
    ) {
        if !self.unlink(slot) {
            return;
        }
        progress.fired += 1;
        if let Some(deadline_ns) = fire(slot) {
            let tick = self.due(deadline_ns);
            self.link_at(slot, tick);
        }
    }

    /// Moves a slot to the level that its tick belongs to now.
    fn cascade(&mut self, slot: u32) {
        let Some(tick) = self.link(slot).map(|link| link.tick) else {
            return;
        };
        self.unlink(slot);
        let list = self.list_of(tick);
        self.push(slot, tick, list);
    }

    /// As [`cascade`](Self::cascade) for a tick that is not in the wheel yet.
    fn link_at(&mut self, slot: u32, tick: u64) {
        let list = if tick <= self.now { self.overdue() } else { self.list_of(tick) };
        self.push(slot, tick, list);
    }

    /// The list for a tick that is not before the present.
    fn list_of(&self, tick: u64) -> u16 {
        let differ = (tick ^ self.now) | 1;
        let level = differ.ilog2() / DIGIT_BITS;
        let position = tick >> (level * DIGIT_BITS) & (POSITIONS - 1);
        (u64::from(level) * POSITIONS + position) as u16
    }

    fn push(&mut self, slot: u32, tick: u64, list: u16) {
        let tail = self.head_tail(list).tail;
        let Some(link) = self.link_mut(slot) else {
            return;
        };
        *link = Link { tick, prev: tail, next: NONE, list };
        match self.link_mut(tail) {
            Some(before) => before.next = slot,
            None => self.set_head(list, slot),
        }
        self.set_tail(list, slot);
        if let Some(bits) = self.occupied.get_mut(usize::from(list) / POSITIONS as usize) {
            *bits |= 1 << (u64::from(list) % POSITIONS);
        }
        self.len += 1;
    }

    fn unlink(&mut self, slot: u32) -> bool {
        let Some(link) = self.link_mut(slot) else {
            return false;
        };
        if link.list == IDLE {
            return false;
        }
        let Link { prev, next, list, .. } = core::mem::replace(link, UNLINKED);
        match self.link_mut(prev) {
            Some(before) => before.next = next,
            None => self.set_head(list, next),
        }
        match self.link_mut(next) {
            Some(after) => after.prev = prev,
            None => self.set_tail(list, prev),
        }
        if self.head_tail(list).head == NONE
            && let Some(bits) = self.occupied.get_mut(usize::from(list) / POSITIONS as usize)
        {
            *bits &= !(1 << (u64::from(list) % POSITIONS));
        }
        self.len -= 1;
        true
    }

    fn head_tail(&self, list: u16) -> List {
        self.lists.get(usize::from(list)).copied().unwrap_or(EMPTY)
    }

    fn set_head(&mut self, list: u16, slot: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(list)) {
            list.head = slot;
        }
    }

    fn set_tail(&mut self, list: u16, slot: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(list)) {
            list.tail = slot;
        }
    }

    fn link(&self, slot: u32) -> Option<&Link> {
        if slot == NONE {
            return None;
        }
        self.chunks.get((slot >> CHUNK_BITS) as usize)?.get(slot as usize % CHUNK)
    }

    fn link_mut(&mut self, slot: u32) -> Option<&mut Link> {
        if slot == NONE {
            return None;
        }
        self.chunks.get_mut((slot >> CHUNK_BITS) as usize)?.get_mut(slot as usize % CHUNK)
    }
}
