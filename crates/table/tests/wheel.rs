//! The wheel against a map from slot to deadline.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use fourtuple_table::{Progress, SlotOutOfRange, TickError, TimerWheel};
use proptest::prelude::*;

const DAY: u64 = 86_400_000_000_000;

#[derive(Debug, Clone)]
enum Op {
    Arm(u32, Time),
    Disarm(u32),
    Advance(Time, usize),
}

/// Times are drawn around the present, where the faults are, and far off.
#[derive(Debug, Clone, Copy)]
enum Time {
    After(u64),
    Before(u64),
    At(u64),
}

impl Time {
    fn ns(self, now: u64) -> u64 {
        match self {
            Self::After(ns) => now.saturating_add(ns),
            Self::Before(ns) => now.saturating_sub(ns),
            Self::At(ns) => ns,
        }
    }
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![
        // From one to 2^63 ns, every order of magnitude alike.
        12 => (0u32..63, any::<u64>()).prop_map(|(bits, ns)| Time::After(ns % (2 << bits))),
        4 => (0u64..2000).prop_map(Time::After),
        2 => (0u32..40, any::<u64>()).prop_map(|(bits, ns)| Time::Before(ns % (2 << bits))),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()].prop_map(Time::At),
    ]
}

/// Steps that stay short enough for many of them to happen before time ends.
fn step() -> impl Strategy<Value = Time> {
    prop_oneof![
        10 => (0u32..50, any::<u64>()).prop_map(|(bits, ns)| Time::After(ns % (2 << bits))),
        6 => (0u64..300).prop_map(Time::After),
        2 => (0u64..30).prop_map(|days| Time::After(days * DAY)),
        2 => (0u32..40, any::<u64>()).prop_map(|(bits, ns)| Time::Before(ns % (2 << bits))),
        1 => prop_oneof![Just(u64::MAX), any::<u64>()].prop_map(Time::At),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let slot = || prop_oneof![20 => 0u32..40, 1 => 4090u32..4100, 1 => Just(1_000_000)];
    prop_oneof![
        10 => (slot(), time()).prop_map(|(s, t)| Op::Arm(s, t)),
        2 => slot().prop_map(Op::Disarm),
        5 => (step(), prop_oneof![Just(usize::MAX), 0usize..5]).prop_map(|(t, b)| Op::Advance(t, b)),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Armed {
    deadline: u64,
    /// Tick by which order is judged: of the deadline, or of the moment of arming if that was
    /// later.
    order: u128,
    overdue: bool,
    /// The call of `advance` in which `fire` armed it without letting time go on.
    deferred: Option<usize>,
}

struct Model {
    shift: u32,
    armed: BTreeMap<u32, Armed>,
    calls: usize,
}

impl Model {
    /// In ticks, by the definition: the first tick boundary at or after the deadline.
    fn due(&self, deadline: u64) -> u128 {
        u128::from(deadline).div_ceil(1 << self.shift)
    }

    fn reached(&self, now: u64) -> u128 {
        if now == u64::MAX { self.due(now) } else { u128::from(now) >> self.shift }
    }

    fn arm(&mut self, slot: u32, deadline: u64, present: u128, in_call: Option<usize>) {
        let due = self.due(deadline);
        let overdue = due <= present;
        let deferred = in_call.filter(|_| overdue);
        self.armed.insert(slot, Armed { deadline, order: due.max(present), overdue, deferred });
    }
}

/// One call, checked while it goes on. `rearm` gives what `fire` answers.
fn advance(
    wheel: &mut TimerWheel,
    model: &mut Model,
    now: u64,
    budget: usize,
    rearm: impl Fn(u32, u64) -> Option<u64>,
) -> Progress {
    let target = model.reached(now);
    let before = model.reached(wheel.now_ns());
    let hint = wheel.next_deadline_hint();
    model.calls += 1;
    let (call, mut order, mut fired) = (model.calls, 0, 0);
    let progress = wheel.advance(now, budget, |slot| {
        fired += 1;
        let armed = model.armed.remove(&slot).expect("fired a slot that was not armed");
        assert!(armed.deadline <= now, "slot {slot} fired {} ns early", armed.deadline - now);
        assert!(hint.is_some_and(|hint| hint <= now), "fired at {now} in spite of hint {hint:?}");
        assert!(armed.order >= order, "slot {slot} of tick {} after {order}", armed.order);
        assert_ne!(armed.deferred, Some(call), "slot {slot} fired twice without time going on");
        order = armed.order;
        let next = rearm(slot, armed.deadline);
        if let Some(deadline) = next {
            let present = if armed.overdue { before } else { armed.order };
            model.arm(slot, deadline, present, Some(call));
        }
        next
    });
    assert_eq!(progress.fired, fired);
    assert!(fired <= budget);
    if target < before {
        assert_eq!(progress, Progress::default());
    } else if !progress.backlog {
        for (slot, armed) in &model.armed {
            let late = model.due(armed.deadline) <= target && armed.deferred != Some(call);
            assert!(!late, "slot {slot} of {} did not fire at {now}", armed.deadline);
        }
    }
    assert_eq!(wheel.len(), model.armed.len());
    progress
}

fn run(shift: u32, ops: &[Op], rearm: impl Fn(u32, u64) -> Option<u64> + Copy) {
    let mut wheel = TimerWheel::new(1 << shift).unwrap();
    let mut model = Model { shift, armed: BTreeMap::new(), calls: 0 };
    let mut now = 0;
    for op in ops {
        match *op {
            Op::Arm(slot, time) => {
                let present = model.reached(wheel.now_ns());
                wheel.arm(slot, time.ns(now)).unwrap();
                model.arm(slot, time.ns(now), present, None);
            }
            Op::Disarm(slot) => {
                assert_eq!(wheel.disarm(slot), model.armed.remove(&slot).is_some());
            }
            Op::Advance(time, budget) => {
                advance(&mut wheel, &mut model, time.ns(now), budget, rearm);
                now = now.max(time.ns(now));
            }
        }
        for slot in (0..40).chain(4090..4100).chain([1_000_000, u32::MAX]) {
            assert_eq!(wheel.is_armed(slot), model.armed.contains_key(&slot));
        }
    }
    // What is left comes out in little pieces, each of them progress.
    let most = 3 * model.armed.len() * 13 + 3;
    let mut calls = 0;
    while advance(&mut wheel, &mut model, u64::MAX, 1, |_, _| None).backlog {
        calls += 1;
        assert!(calls <= most, "no end after {calls} calls");
    }
    advance(&mut wheel, &mut model, u64::MAX, usize::MAX, |_, _| None);
    assert!(wheel.is_empty() && wheel.next_deadline_hint().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn agrees_with_a_map(
        shift in prop_oneof![Just(0u32), Just(1), Just(4), Just(20), Just(24), 0u32..64],
        ops in prop::collection::vec(op(), 0..150),
    ) {
        run(shift, &ops, |_, _| None);
    }

    #[test]
    fn agrees_with_a_map_when_fire_arms_again(
        shift in prop_oneof![Just(0u32), Just(4), Just(24)],
        gap in (0u32..45).prop_map(|bits| 1u64 << bits),
        ops in prop::collection::vec(op(), 0..100),
    ) {
        // Each slot has its own habit: the past, the same moment, later, the end of time, never.
        // Deadlines double, or a jump over years would take a call for every gap.
        run(shift, &ops, |slot, deadline| match slot % 6 {
            0 => Some(deadline.saturating_sub(gap)),
            1 => Some(deadline),
            2 => Some(deadline.saturating_mul(2).saturating_add(gap)),
            3 => Some(u64::MAX),
            _ => None,
        });
    }
}

#[test]
fn tick_lengths_that_are_no_power_of_two_are_refused() {
    for tick_ns in [0, 3, u64::MAX] {
        assert_eq!(TimerWheel::new(tick_ns).unwrap_err(), TickError { tick_ns });
    }
    for shift in 0..64 {
        assert_eq!(TimerWheel::new(1 << shift).unwrap().tick_ns(), 1 << shift);
    }
}

#[test]
fn never_early_and_less_than_a_tick_late() {
    let tick = 1u64 << 24;
    for deadline in [1, tick - 1, tick, tick + 1, 64 * tick, 64 * tick + 1, 5 * DAY, 5 * DAY + 7] {
        let mut wheel = TimerWheel::new(tick).unwrap();
        wheel.arm(1, deadline).unwrap();
        assert_eq!(wheel.advance(deadline - 1, usize::MAX, |_| None).fired, 0);
        assert_eq!(wheel.advance(deadline + tick - 1, usize::MAX, |_| None).fired, 1);
    }
}

#[test]
fn a_gap_of_years_costs_a_step_for_each_level() {
    let mut wheel = TimerWheel::new(1).unwrap();
    for (slot, days) in [(1, 1), (2, 400), (3, 40_000)] {
        wheel.arm(slot, days * DAY + 1).unwrap();
    }
    let mut fired = Vec::new();
    let progress = wheel.advance(100_000 * DAY, 3 * 11, |slot| {
        fired.push(slot);
        None
    });
    assert_eq!((progress.backlog, fired), (false, vec![1, 2, 3]));
}

#[test]
fn time_going_back_does_nothing() {
    let mut wheel = TimerWheel::new(1 << 20).unwrap();
    wheel.advance(10 * DAY, 9, |_| None);
    wheel.arm(1, 9 * DAY).unwrap();
    wheel.arm(2, 11 * DAY).unwrap();
    assert_eq!(wheel.advance(9 * DAY, 9, |_| None), Progress::default());
    assert_eq!(wheel.advance(0, 9, |_| None), Progress::default());
    assert!(wheel.is_armed(1) && wheel.is_armed(2));
    assert_eq!(wheel.advance(10 * DAY, 9, |_| None).fired, 1);
    assert_eq!(wheel.advance(12 * DAY, 9, |_| None).fired, 1);
}

#[test]
fn a_slot_that_always_wants_the_past_fires_once_a_call() {
    let mut wheel = TimerWheel::new(1 << 20).unwrap();
    wheel.arm(1, 5).unwrap();
    for _ in 0..3 {
        let progress = wheel.advance(DAY, usize::MAX, |_| Some(0));
        assert_eq!(progress, Progress { fired: 1, backlog: false });
    }
}

#[test]
fn deadlines_at_the_end_of_time() {
    for shift in [0, 1, 24, 63] {
        let mut wheel = TimerWheel::new(1 << shift).unwrap();
        wheel.arm(1, u64::MAX).unwrap();
        wheel.arm(2, u64::MAX - 1).unwrap();
        assert_eq!(wheel.advance(u64::MAX - 2, 99, |_| None).fired, 0);
        assert_eq!(wheel.advance(u64::MAX, 99, |_| None).fired, 2);
        wheel.arm(1, u64::MAX).unwrap();
        assert_eq!(wheel.advance(u64::MAX, 99, |_| None).fired, 1);
    }
}

#[test]
fn any_slot_but_the_last_at_bounded_memory() {
    let mut wheel = TimerWheel::new(1 << 24).unwrap();
    assert_eq!(wheel.arm(u32::MAX, 1), Err(SlotOutOfRange));
    assert!(!wheel.disarm(u32::MAX) && !wheel.is_armed(u32::MAX));
    wheel.arm(u32::MAX - 1, 1).unwrap();
    assert!(wheel.is_armed(u32::MAX - 1));
    assert!(wheel.memory() < 40 << 20, "{}", wheel.memory());
}

/// The order of deadlines survives a budget of one, also where levels are joined.
#[test]
fn small_budgets_keep_order() {
    let mut wheel = TimerWheel::new(1).unwrap();
    let deadline = |slot: u32| u64::from(slot.wrapping_mul(0x9e37_79b9) >> 12);
    (0..2000).for_each(|slot| wheel.arm(slot, deadline(slot)).unwrap());
    let mut fired = Vec::new();
    while wheel
        .advance(1 << 21, 1, |slot| {
            fired.push(deadline(slot));
            None
        })
        .backlog
    {}
    assert_eq!(fired.len(), 2000);
    assert!(fired.is_sorted());
}
