//! Time, memory and distance.

use super::*;

#[test]
fn time_is_up_after_the_first_fragment() {
    let whole = datagram(96);
    for (v6, seconds) in [(false, 30), (true, 60)] {
        let cut = |from, to| Cut { v6, id: 7, from, to, more: to < 96 }.packet(&whole);
        let limit = AT + Span::from_secs(seconds);
        let before = Instant::from_nanos(limit.as_nanos() - 1);
        let mut r = Reassembler::default();
        push(&mut r, AT, &cut(0, 32));
        push(&mut r, before, &cut(32, 64));
        assert!(matches!(push(&mut r, before, &cut(64, 96)), Outcome::Complete(_)));
        push(&mut r, AT, &cut(0, 32));
        push(&mut r, before, &cut(32, 64));
        assert_eq!(push(&mut r, limit, &cut(64, 96)), Outcome::Waiting);
        assert_eq!(r.counters().expired, 1);
        let left: Vec<_> = r.incomplete().collect();
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].fragments, left[0].have, left[0].total), (1, 32, Some(96)));
        assert_eq!(r.expire(limit + Span::from_secs(seconds)), 1);
        assert_eq!((r.memory(), r.incomplete().count()), ((0, 0), 0));
    }
}

#[test]
fn memory_is_charged_as_the_kernel_charges_it() {
    // Payload, and the growth of "FRAG: memory" in /proc/net/sockstat for a first and a second fragment.
    for (len, first, second) in [
        (8, 1032, 832),
        (128, 1032, 832),
        (256, 1480, 1280),
        (512, 1480, 1280),
        (768, 2504, 2304),
        (1480, 2504, 2304),
    ] {
        let whole = vec![0; 2 * len];
        let mut r = Reassembler::default();
        push(&mut r, AT, &Cut { v6: false, id: 1, from: 0, to: len, more: true }.packet(&whole));
        assert_eq!(r.memory().0, first, "{len}");
        push(
            &mut r,
            AT,
            &Cut { v6: false, id: 1, from: len, to: 2 * len, more: true }.packet(&whole),
        );
        assert_eq!(r.memory().0, first + second, "{len}");
    }
}

#[test]
fn a_flood_of_first_fragments_stays_below_the_mark() {
    let whole = datagram(96);
    let limits = Limits { v4_high_thresh: 100_000, v6_high_thresh: 100_000, ..Limits::default() };
    for v6 in [false, true] {
        let mut r = Reassembler::new(limits);
        let mut refused = 0;
        for id in 0..10_000 {
            let p = Cut { v6, id, from: 0, to: 32, more: true }.packet(&whole);
            if let Outcome::Dropped(FragmentError::Memory { used, limit }) = push(&mut r, AT, &p) {
                assert!(used > limit);
                refused += 1;
            }
            let (a, b) = r.memory();
            assert!(a + b <= 100_000 + 1032, "{a} {b}");
        }
        assert!(refused > 9_000);
        assert_eq!(r.counters().over_memory, refused);
        // Not even a fragment that would complete a datagram is taken.
        let last = Cut { v6, id: 0, from: 32, to: 96, more: false }.packet(&whole);
        assert!(matches!(push(&mut r, AT, &last), Outcome::Dropped(FragmentError::Memory { .. })));
        // Time makes room.
        let later = AT + Span::from_secs(60);
        assert_eq!(push(&mut r, later, &last), Outcome::Waiting);
    }
    let none = Limits { v4_high_thresh: 0, ..limits };
    let p = Cut { v6: false, id: 0, from: 0, to: 32, more: true }.packet(&whole);
    assert!(matches!(
        push(&mut Reassembler::new(none), AT, &p),
        Outcome::Dropped(FragmentError::Memory { used: 0, limit: 0 })
    ));
}

#[test]
fn too_many_fragments_of_others_start_a_datagram_anew() {
    let whole = datagram(96);
    let cut = |id, from, to| Cut { v6: false, id, from, to, more: to < 96 }.packet(&whole);
    for (others, completes) in [(63, true), (64, false)] {
        let mut r = Reassembler::default();
        push(&mut r, AT, &cut(1, 0, 48));
        for id in 0..others {
            push(&mut r, AT, &cut(100 + id, 0, 48));
        }
        let done = matches!(push(&mut r, AT, &cut(1, 48, 96)), Outcome::Complete(_));
        assert_eq!(done, completes, "{others}");
        let mut r = Reassembler::default().max_dist(0);
        push(&mut r, AT, &cut(1, 0, 48));
        for id in 0..others {
            push(&mut r, AT, &cut(100 + id, 0, 48));
        }
        assert!(matches!(push(&mut r, AT, &cut(1, 48, 96)), Outcome::Complete(_)));
    }
}
