//! Warpgroups: four consecutive warps, the first of which is a multiple of four.

use cuda_std_macros::gpu_only;

/// Threads of a warpgroup.
pub const WARPGROUP: usize = 128;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32"]
    fn setmaxnreg_inc(registers: u32);
    #[link_name = "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32"]
    fn setmaxnreg_dec(registers: u32);
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    fn barrier_sync_count(barrier: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
    fn barrier_arrive_count(barrier: u32, threads: u32);
}

/// The number of this thread's warpgroup in its block.
#[gpu_only]
#[inline(always)]
pub fn warpgroup_id() -> usize {
    crate::thread::index_in_block() as usize / WARPGROUP
}

/// [`warpgroup_id`], of which the assembler sees that all lanes of a warp have the same: what [`warp_specialized!`](crate::warp_specialized) divides a
/// block by.
///
/// # Safety
/// All lanes of the warp call this together.
#[gpu_only]
#[inline(always)]
#[must_use]
pub unsafe fn warpgroup_of_warp() -> usize {
    // SAFETY: the caller's promise.
    unsafe { crate::warp::warp_shuffle_idx(!0, warpgroup_id() as u32, 0, 32).0 as usize }
}

/// This thread's number in its warpgroup, 0 to 127.
#[gpu_only]
#[inline(always)]
pub fn thread_in_warpgroup() -> usize {
    crate::thread::index_in_block() as usize % WARPGROUP
}

/// Waits until every thread of this warpgroup is here, and makes their writes visible to one another. It is barrier
/// `1 + warpgroup_id()` of the block's 16; barrier 0 is that of [`sync_threads`](crate::thread::sync_threads).
///
/// # Safety
/// - All threads of the warpgroup call this together, and it has 128.
/// - The block has at most 15 warpgroups, and uses that barrier for nothing else.
#[gpu_only]
#[inline(always)]
pub unsafe fn sync_warpgroup() {
    // SAFETY: the caller's promise. The call is an LLVM convergent operation.
    unsafe { barrier_sync_count(1 + warpgroup_id() as u32, WARPGROUP as u32) }
}

/// Waits at barrier `barrier` of the block's 16 until `threads` threads have come: those that call this, and those that
/// [arrive](arrive_at_barrier). It makes writes visible as [`sync_threads`](crate::thread::sync_threads) does, of threads that arrived,
/// too.
///
/// # Safety
/// - All threads of a warp call this together, with the same arguments; `threads` is a multiple of 32.
/// - As many threads come in each round, and nothing else uses the barrier meanwhile. Barrier 0 is that of
///   [`sync_threads`](crate::thread::sync_threads), and those from 1 on are the warpgroups' ([`sync_warpgroup`]).
#[gpu_only]
#[inline(always)]
pub unsafe fn sync_at_barrier(barrier: u32, threads: u32) {
    // SAFETY: the caller's promise. The call is an LLVM convergent operation.
    unsafe { barrier_sync_count(barrier, threads) }
}

/// Arrives at a barrier for others that [wait](sync_at_barrier) there, and goes on.
///
/// # Safety
/// As [`sync_at_barrier`].
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive_at_barrier(barrier: u32, threads: u32) {
    // SAFETY: the caller's promise. The call is an LLVM convergent operation.
    unsafe { barrier_arrive_count(barrier, threads) }
}

/// Whether a number of registers is one that a thread can have: 24 to 256, a multiple of 8.
const fn is_register_count(registers: u32) -> bool {
    registers >= 24 && registers <= 256 && registers.is_multiple_of(8)
}

/// Gives each thread of the warpgroup up to `REGISTERS` registers, and waits until other warps have
/// given back enough (`sm_90a`).
///
/// The kernel fixes its registers at entry (`#[kernel(block = …, min_blocks = 1)]` or
/// `max_registers`), else the assembler ignores it and reports that.
///
/// # Safety
/// - All warps of the warpgroup call this together.
/// - `REGISTERS` is not below what the threads have, and with what the other warpgroups have, the
///   block stays within its registers.
#[gpu_only]
#[inline(always)]
pub unsafe fn raise_registers<const REGISTERS: u32>() {
    const { assert!(is_register_count(REGISTERS), "24 to 256 registers, a multiple of 8") };
    // SAFETY: the caller's promise.
    unsafe { setmaxnreg_inc(REGISTERS) }
}

/// Leaves each thread of the warpgroup `REGISTERS` registers, and gives the rest back (`sm_90a`).
///
/// # Safety
/// - All warps of the warpgroup call this together.
/// - `REGISTERS` is not above what the threads have.
#[gpu_only]
#[inline(always)]
pub unsafe fn lower_registers<const REGISTERS: u32>() {
    const { assert!(is_register_count(REGISTERS), "24 to 256 registers, a multiple of 8") };
    // SAFETY: the caller's promise.
    unsafe { setmaxnreg_dec(REGISTERS) }
}

/// Divides a block of warpgroups: the first one, the producer, copies tiles, and the others, the consumers, multiply them. Each takes as many
/// registers as it needs, and has a part of the kernel of its own; behind both, the block meets again.
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::matrix::{warpgroup_of_warp, WARPGROUP};
/// use cuda_std::warp_specialized;
///
/// /// # Safety
/// /// `numbers` has an element for each consumer.
/// #[kernel(block = 3 * WARPGROUP, min_blocks = 1)]
/// pub unsafe fn numbered(mut numbers: DisjointSlice<u32>) {
///     let numbers = numbers.as_mut_ptr();
///     // SAFETY: all lanes of each warp; 40 and twice 232 registers are the block's 168 each at entry.
///     unsafe {
///         let group = warpgroup_of_warp();
///         warp_specialized! {
///             group,
///             producer with 40 registers => {},
///             consumer own with 232 registers => numbers.add(own).write(own as u32),
///         }
///     }
/// }
/// # fn main() {}
/// ```
///
/// `group` is from [`warpgroup_of_warp`](crate::matrix::warpgroup_of_warp); the consumers' part sees its number among the consumers under the name that stands before
/// `with`. After `registers` an `if` may follow, with a constant: where it is false, every warpgroup keeps the registers it has.
///
/// Why a macro: `setmaxnreg` belongs to the branch whose registers it sets (in a function that both branches called, LLVM would merge them, and ptxas
/// ignores it: C7507), and a part that were a closure would be too long to be inlined, so that its accumulators would be in local memory. Where the
/// paths of both kinds of warps do not meet, the assembler has multiplications wait for each other; so there is a barrier of the block at the end.
///
/// # Safety
/// It calls unsafe functions, for which its caller promises:
/// - All threads of the block come here, whole warpgroups of them, and none leaves a part by `return`.
/// - The registers are those of [`lower_registers`](crate::matrix::lower_registers) and [`raise_registers`](crate::matrix::raise_registers).
#[macro_export]
macro_rules! warp_specialized {
    (
        $group:expr,
        producer with $low:literal registers $(if $is_low:expr)? => $producer:expr,
        consumer $own:ident with $high:literal registers $(if $is_high:expr)? => $consumer:expr $(,)?
    ) => {{
        let group: usize = $group;
        if group == 0 {
            if true $(&& $is_low)? {
                $crate::matrix::lower_registers::<$low>();
            }
            $producer
        } else {
            if true $(&& $is_high)? {
                $crate::matrix::raise_registers::<$high>();
            }
            let $own: usize = group - 1;
            $consumer
        }
        $crate::thread::sync_threads();
    }};
}
