//! Secret keys: where they come from, and that they do not show themselves.

use core::fmt;
use core::str::FromStr;

use crate::SipHash24;

/// A 128-bit secret for [`SipHash`](crate::SipHash).
///
/// Prints as `Key(..)` only. There is no `Display`, no serialisation and no `==`: a key gets out of
/// the type by [`words`](Self::words) and no other way.
#[derive(Clone, Copy)]
pub struct Key {
    k0: u64,
    k1: u64,
}

/// A 64-bit secret for [`HalfSipHash`](crate::HalfSipHash).
///
/// As secret as [`Key`]; prints as `HalfKey(..)` only. Take it from a [`Key`] by
/// [`Key::derive_half`].
#[derive(Clone, Copy)]
pub struct HalfKey {
    k0: u32,
    k1: u32,
}

/// Domain words of the derived keys, so that no two outputs are hashes of the same input. ASCII,
/// first letter in the lowest byte.
const DERIVE_K0: u64 = u64::from_le_bytes(*b"4tuple k");
const DERIVE_K1: u64 = u64::from_le_bytes(*b"4tuple K");
const DERIVE_HALF: u64 = u64::from_le_bytes(*b"4tuple h");

impl Key {
    /// The key of these 16 bytes: `k0` is the first eight, `k1` the others, each little-endian.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { k0: both as u64, k1: (both >> 64) as u64 }
    }

    /// The key of these two words.
    #[must_use]
    pub const fn from_words(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// A new key from the operating system's random source.
    ///
    /// # Errors
    ///
    /// [`KeyError::Os`] if the system gives no random bytes.
    #[cfg(feature = "std")]
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        match getrandom::fill(&mut bytes) {
            Ok(()) => Ok(Self::from_bytes(bytes)),
            Err(error) => Err(KeyError::Os { code: error.raw_os_error() }),
        }
    }

    /// The key of this process: drawn from the operating system at the first call, the same at every
    /// later one, as Linux draws the key of its connection table once and keeps it until reboot.
    ///
    /// # Panics
    ///
    /// If the system gives no random bytes at the first call: every way to go on would be a key that
    /// others can guess. [`random`](Self::random) reports it instead.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn process() -> &'static Self {
        static KEY: std::sync::OnceLock<Key> = std::sync::OnceLock::new();
        KEY.get_or_init(|| match Self::random() {
            Ok(key) => key,
            Err(error) => panic!("no key for this process: {error}"),
        })
    }

    /// The two words `(k0, k1)`. They are the secret: not for logs or reports.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> (u64, u64) {
        (self.k0, self.k1)
    }

    /// The key for number `id` under this secret, for instance for one network id.
    ///
    /// `k0` is SipHash-2-4 under this key of the two words (`"4tuple k"`, `id`), `k1` that of
    /// (`"4tuple K"`, `id`); the strings are eight ASCII bytes, i.e. 16 bytes of input each time.
    /// Keys of different ids tell nothing of each other or of the secret, which an XOR of the id into
    /// the key would not give: two keys with a known difference are a *related-key* situation, about
    /// which SipHash promises nothing.
    ///
    /// A secret that keys are derived from should not itself be used to hash what others can choose
    /// and whose hashes they can see: input of those same 16 bytes would give half a derived key.
    #[must_use]
    pub fn derive(&self, id: u64) -> Self {
        Self {
            k0: SipHash24::u64x2(self, DERIVE_K0, id),
            k1: SipHash24::u64x2(self, DERIVE_K1, id),
        }
    }

    /// The 64-bit key for number `id` under this secret.
    ///
    /// SipHash-2-4 under this key of the two words (`"4tuple h"`, `id`); its low half is the first
    /// word. Independent of [`derive`](Self::derive) with the same `id`.
    #[must_use]
    pub fn derive_half(&self, id: u64) -> HalfKey {
        HalfKey::from_bytes(SipHash24::u64x2(self, DERIVE_HALF, id).to_le_bytes())
    }
}

impl HalfKey {
    /// The key of these 8 bytes: the first word is the first four, each word little-endian.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { k0: both as u32, k1: (both >> 32) as u32 }
    }

    /// The key of these two words.
    #[must_use]
    pub const fn from_words(k0: u32, k1: u32) -> Self {
        Self { k0, k1 }
    }

    /// The two words `(k0, k1)`. They are the secret: not for logs or reports.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> (u32, u32) {
        (self.k0, self.k1)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl fmt::Debug for HalfKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HalfKey(..)")
    }
}

/// Reads 32 hexadecimal digits of either case: the 16 bytes of [`Key::from_bytes`] in order. No
/// prefix, no spaces.
impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut bytes = [0u8; 16];
        let mut digits = 0;
        for (offset, found) in text.char_indices() {
            let Some(value) = found.to_digit(16) else {
                return Err(KeyError::Digit { offset, found });
            };
            // Beyond the key digits are only counted, for the message.
            if let Some(byte) = bytes.get_mut(digits / 2) {
                *byte = *byte << 4 | value as u8;
            }
            digits += 1;
        }
        if digits != 32 {
            return Err(KeyError::Length { digits });
        }
        Ok(Self::from_bytes(bytes))
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text holds hexadecimal digits only, but not 32 of them.
    Length {
        /// How many there are.
        digits: usize,
    },
    /// The text holds something that is no hexadecimal digit.
    Digit {
        /// Where, in bytes from the start of the text.
        offset: usize,
        /// What stands there. It is no part of any key, so the message may show it.
        found: char,
    },
    /// The operating system gave no random bytes.
    #[cfg(feature = "std")]
    Os {
        /// The system's error number, if it gave one.
        code: Option<i32>,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { digits } => {
                write!(f, "a key has 32 hexadecimal digits, this text has {digits}")
            }
            Self::Digit { offset, found } => {
                write!(
                    f,
                    "a key has 32 hexadecimal digits, but at offset {offset} stands {found:?}"
                )
            }
            #[cfg(feature = "std")]
            Self::Os { code: Some(code) } => {
                write!(f, "the operating system gave no random bytes (error number {code})")
            }
            #[cfg(feature = "std")]
            Self::Os { code: None } => f.write_str("the operating system gave no random bytes"),
        }
    }
}

impl core::error::Error for KeyError {}
