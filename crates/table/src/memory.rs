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

/// Memory below this size is left alone: huge pages are for tables that the address cache cannot hold.
const WORTHWHILE: usize = 4 << 20;

/// Asks the operating system to back the memory of `vec`, filled or not, with huge pages, so that a look-up in a large
/// table does not also miss the cache of addresses. Only a wish: nothing depends on it.
pub(crate) fn ask_for_huge_pages<T>(vec: &alloc::vec::Vec<T>) {
    let bytes = vec.capacity() * size_of::<T>();
    if bytes < WORTHWHILE {
        return;
    }
    #[cfg(all(target_os = "linux", feature = "huge-pages"))]
    {
        const PAGE: usize = 4096;
        let start = vec.as_ptr().cast::<u8>();
        let skip = start.align_offset(PAGE);
        let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
        // SAFETY: `skip + whole` is at most the capacity of the vector, so the range is part of its allocation; this
        // advice changes which pages back the range, never what is in it.
        #[allow(unsafe_code)]
        unsafe {
            let range = start.add(skip).cast_mut().cast();
            // Refused where the kernel has no transparent huge pages: then the usual ones serve.
            let _ = rustix::mm::madvise(range, whole, rustix::mm::Advice::LinuxHugepage);
        }
    }
}
