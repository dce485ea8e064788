//! Hints to the memory system.

/// Asks for all cache lines of `value`, so that they are on their way when it is read. Changes nothing else, and costs
/// next to nothing if they are there already. On machines without such a hint it does nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        const LINE: usize = 64;
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = core::ptr::from_ref(value).cast::<i8>();
        for at in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: `at` is within `value`, so the sum is in bounds; a prefetch reads nothing that a program could
            // notice, whatever the address, and SSE, which it needs, is part of every x86-64.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.add(at));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
