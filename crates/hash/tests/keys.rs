//! Keys: reading, deriving, and that they never print themselves.

use core::fmt::{Binary, Display, LowerHex, UpperHex};
use core::hash::Hash;

use fourtuple_hash::{HalfKey, Key, KeyError};
use proptest::prelude::*;
use siphasher::sip::SipHasher24;

const K0: u64 = 0x0706_0504_0302_0100;
const K1: u64 = 0x0f0e_0d0c_0b0a_0908;

#[test]
fn bytes_and_words_and_text_are_the_same_key() {
    let bytes = core::array::from_fn(|i| i as u8);
    assert_eq!(Key::from_bytes(bytes).words(), (K0, K1));
    assert_eq!(Key::from_words(K0, K1).words(), (K0, K1));
    let lower: Key = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let upper: Key = "000102030405060708090A0B0C0D0E0F".parse().unwrap();
    assert_eq!(lower.words(), (K0, K1));
    assert_eq!(upper.words(), (K0, K1));
    let half = HalfKey::from_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(half.words(), (0x0302_0100, 0x0706_0504));
    assert_eq!(HalfKey::from_words(1, 2).words(), (1, 2));
}

#[test]
fn wrong_text_says_what_is_wrong() {
    let said = |text: &str| text.parse::<Key>().unwrap_err();
    assert_eq!(said(""), KeyError::Length { digits: 0 });
    assert_eq!(said(&"a".repeat(31)), KeyError::Length { digits: 31 });
    assert_eq!(said(&"a".repeat(33)), KeyError::Length { digits: 33 });
    assert_eq!(said(&"0".repeat(100_000)), KeyError::Length { digits: 100_000 });
    let prefixed = format!("0x{}", "0".repeat(30));
    assert_eq!(said(&prefixed), KeyError::Digit { offset: 1, found: 'x' });
    assert_eq!(said("+1"), KeyError::Digit { offset: 0, found: '+' });
    assert_eq!(said("00 "), KeyError::Digit { offset: 2, found: ' ' });
    // Digits of another script count as digits elsewhere; and offsets are bytes, not letters.
    assert_eq!(said("0\u{0661}"), KeyError::Digit { offset: 1, found: '\u{0661}' });
    assert_eq!(said("\u{e9}\u{e9}"), KeyError::Digit { offset: 0, found: '\u{e9}' });
    assert_eq!(said("abc").to_string(), "a key has 32 hexadecimal digits, this text has 3");
    assert_eq!(
        said("ab\n").to_string(),
        r"a key has 32 hexadecimal digits, but at offset 2 stands '\n'"
    );
}

proptest! {
    #[test]
    fn every_key_reads_back(bytes: [u8; 16]) {
        let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let read: Key = text.parse().unwrap();
        prop_assert_eq!(read.words(), Key::from_bytes(bytes).words());
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let good = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        prop_assert_eq!(text.parse::<Key>().is_ok(), good);
    }

    /// The documented construction, by another implementation.
    #[test]
    fn derived_keys_are_as_documented(k0: u64, k1: u64, id: u64) {
        let hash = |domain: &[u8; 8]| {
            let input = [*domain, id.to_le_bytes()].concat();
            SipHasher24::new_with_keys(k0, k1).hash(&input)
        };
        let key = Key::from_words(k0, k1);
        prop_assert_eq!(key.derive(id).words(), (hash(b"4tuple k"), hash(b"4tuple K")));
        let half = hash(b"4tuple h");
        prop_assert_eq!(key.derive_half(id).words(), (half as u32, (half >> 32) as u32));
    }
}

#[test]
fn derived_words_all_differ() {
    let mut seen = std::collections::BTreeSet::new();
    for secret in [Key::from_words(0, 0), Key::from_words(0, 1), Key::from_words(1, 0)] {
        for id in (0..1000).chain([u64::MAX, 1 << 32, 1 << 63]) {
            let (k0, k1) = secret.derive(id).words();
            let (h0, h1) = secret.derive_half(id).words();
            for word in [k0, k1, u64::from(h1) << 32 | u64::from(h0)] {
                assert!(seen.insert(word), "the same word twice, id {id}");
            }
        }
    }
}

#[cfg(feature = "std")]
#[test]
fn the_system_gives_new_keys_and_the_process_has_one() {
    let (a, b) = (Key::random().unwrap(), Key::random().unwrap());
    assert_ne!(a.words(), b.words());
    assert!(a.words().0 != 0 && a.words().1 != 0, "half of the key was not filled");
    let ours = Key::process();
    let theirs = std::thread::spawn(Key::process).join().unwrap();
    assert!(std::ptr::eq(ours, theirs));
    assert_ne!(ours.words(), a.words());
}

#[test]
fn a_key_never_prints_itself() {
    #[derive(Debug)]
    struct Settings {
        #[expect(dead_code, reason = "only printed")]
        secret: Option<Key>,
    }
    let key = Key::from_words(K0, K1);
    let half = HalfKey::from_words(K0 as u32, K1 as u32);
    assert_eq!(format!("{key:?}"), "Key(..)");
    assert_eq!(format!("{half:?}"), "HalfKey(..)");
    // Flags of the format string that would reach the numbers inside.
    assert_eq!(format!("{key:#?} {key:x?} {key:#X?} {key:080?}"), ["Key(..)"; 4].join(" "));
    assert_eq!(format!("{half:#?} {half:x?} {half:#X?} {half:080?}"), ["HalfKey(..)"; 4].join(" "));
    let settings = Settings { secret: Some(key) };
    assert_eq!(format!("{settings:?}"), "Settings { secret: Some(Key(..)) }");
}

/// An error about a key that is nearly right must not carry the rest of it into a log.
#[test]
fn an_error_shows_no_digit_of_the_key() {
    for text in ["deadbeefdeadbeefdeadbeefdeadbee", "deadbeefdeadbeefdeadbeefdeadbee?"] {
        let error = text.parse::<Key>().unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains("dead") && !shown.contains("beef"), "{shown}");
        }
    }
}

/// Does not compile (two candidates for `_`) if one of the types has the trait.
macro_rules! assert_has_not {
    ($name:ident, $of:ty) => {{
        trait Ambiguous<A> {
            const FINE: bool = true;
        }
        struct Other;
        impl<T> Ambiguous<()> for T {}
        impl<T: $name> Ambiguous<Other> for T {}
        const { assert!(<$of as Ambiguous<_>>::FINE) }
    }};
}

#[test]
fn keys_have_no_other_way_to_text() {
    assert_has_not!(Display, Key);
    assert_has_not!(LowerHex, Key);
    assert_has_not!(UpperHex, Key);
    assert_has_not!(Binary, Key);
    assert_has_not!(Hash, Key);
    assert_has_not!(Display, HalfKey);
    assert_has_not!(LowerHex, HalfKey);
    assert_has_not!(UpperHex, HalfKey);
    assert_has_not!(Binary, HalfKey);
    assert_has_not!(Hash, HalfKey);
}
