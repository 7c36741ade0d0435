//! Eviction policies of the L2 cache.

use super::Access;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{in_global, is_global, load_instruction, store_instruction};

/// How the L2 cache treats what an access brings in, for a part of the accesses. `sm_80` and later.
///
/// One instruction makes it, once for many accesses.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    encoded: u64,
}

impl Policy {
    /// A `fraction` of the accesses, more than 0 and at most 1, is the first to go from the cache.
    #[gpu_only]
    #[inline(always)]
    pub fn evict_first(fraction: f32) -> Self {
        policy!("evict_first", fraction)
    }

    /// A `fraction` of the accesses, more than 0 and at most 1, is the last to go from the cache.
    #[gpu_only]
    #[inline(always)]
    pub fn evict_last(fraction: f32) -> Self {
        policy!("evict_last", fraction)
    }

    /// A `fraction` of the accesses, more than 0 and at most 1, leaves the order of the cache as it
    /// is.
    #[gpu_only]
    #[inline(always)]
    pub fn evict_unchanged(fraction: f32) -> Self {
        policy!("evict_unchanged", fraction)
    }
}

/// The policy of a name. The instruction's result for a fraction outside (0, 1] is not defined, so
/// that is clamped.
#[cfg(target_os = "cuda")]
macro_rules! policy {
    ($name:literal, $fraction:ident) => {{
        let encoded: u64;
        // SAFETY: the instruction makes a number.
        unsafe {
            core::arch::asm!(
                concat!("createpolicy.fractional.L2::", $name, ".b64 {0}, {1};"),
                out(reg64) encoded,
                in(reg32) $fraction.max(1.0 / 16.0).min(1.0),
                options(pure, nomem, nostack),
            );
        }
        Self { encoded }
    }};
}
#[cfg(target_os = "cuda")]
use policy;

/// Loads `*value` under a policy of the L2 cache.
#[gpu_only]
#[inline(always)]
pub fn load_by<T: Access>(value: &T, policy: Policy) -> T {
    if !is_global(value) {
        return *value;
    }
    // SAFETY: a reference to global memory; the value is plain, of the size that is loaded; only the
    // functions of `Policy` make one.
    unsafe {
        load_instruction!(
            T, ".global.L2::cache_hint", ", {policy}", in_global(value),
            (policy = in(reg64) policy.encoded, options(pure, readonly, nostack))
        )
    }
}

/// Stores `value` to `*to` under a policy of the L2 cache.
#[gpu_only]
#[inline(always)]
pub fn store_by<T: Access>(to: &mut T, value: T, policy: Policy) {
    if !is_global(to) {
        *to = value;
        return;
    }
    // SAFETY: an exclusive reference to global memory, of the size that is stored; only the functions
    // of `Policy` make one.
    unsafe {
        store_instruction!(
            T, ".global.L2::cache_hint", ", {policy}", in_global(to), value,
            (policy = in(reg64) policy.encoded, options(nostack))
        )
    }
}
