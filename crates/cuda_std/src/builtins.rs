//! Functions that the compiler calls implicitly.

/// Compares `len` bytes: negative, zero or positive as `a` is below, equal to or above `b`.
///
/// LLVM writes copies and fills out as loops on this target, and leaves comparisons a call. The
/// builder drops a weak function that nothing calls.
///
/// # Safety
/// Both are valid for reads of `len` bytes.
#[linkage = "weak_odr"]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: in bounds; the rest is the caller's promise.
        let (a, b) = unsafe { (a.add(i).read(), b.add(i).read()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}
