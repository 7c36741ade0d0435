//! `mbarrier`: a barrier in shared memory that counts arrivals and, for bulk copies, bytes.
//!
//! Unlike [`sync_threads`](crate::thread::sync_threads) it does not stop who arrives: a thread
//! arrives, goes on with other work, and waits later; a copy engine arrives by the bytes that it has
//! brought. It works in *phases*. A phase ends when all expected arrivals and bytes have come, and
//! the next one begins by itself. A waiting thread names the phase by its parity, 0 for the first, 1 for the
//! second, 0 for the third.
//!
//! | | |
//! |---|---|
//! | [`Mbarrier`] | the barrier and every instruction on it |
//! | [`Arrival`] | what an arrival gives back: the phase to wait for, to be used once |
//! | [`Ring`] | which of `STAGES` barriers is next, and at which parity |
//!
//! The parallel to C++ is `cuda::barrier`; [`TilePipeline`](crate::copy::TilePipeline) needs none of
//! this by hand. All of it is for `sm_80` and later, bytes and clusters for `sm_90`.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use crate::shared::SharedArray;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use core::arch::asm;

/// The most arrivals that a phase can expect.
pub const MAX_ARRIVALS: u32 = (1 << 20) - 1;

/// A barrier in shared memory: a handle that can be copied, not the memory.
///
/// # Safety of every unsafe function
///
/// - [`init`](Self::init) has run, with its effect made visible to the threads that use the barrier, by a block or
///   cluster barrier, and [`invalidate`](Self::invalidate) has not.
/// - In each phase there are as many arrivals as `init` said (less those who left), and the bytes
///   that are announced are those that come: at most 2^20 - 1 in a phase.
/// - A thread that waits for a parity is at most one phase behind the barrier.
///
/// ```
/// use cuda_std::mbarrier::Mbarrier;
/// use cuda_std::prelude::*;
///
/// /// Each thread of 64 gets its neighbour's value.
/// #[kernel]
/// pub fn neighbours(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
///     let (tile, memory) = (shared_array![u32; 64], shared_array![u64; 1]);
///     let thread = thread::thread_idx_x() as usize;
///     // SAFETY: a barrier of 64 arrivals, known to all before the first one; each thread writes its
///     // own element, and reads another's when all have arrived.
///     let neighbour = unsafe {
///         let barrier = Mbarrier::new(memory, 0);
///         if thread == 0 {
///             barrier.init(64);
///         }
///         thread::sync_threads();
///         tile.set(thread, x[index.get()]);
///         let arrival = barrier.arrive();
///         // Here is time for work that needs no neighbour.
///         barrier.wait(arrival);
///         tile.get(thread ^ 1)
///     };
///     if let Some(y) = y.get_mut(index) {
///         *y = neighbour;
///     }
/// }
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// The address in the window of shared memory.
    address: u32,
}

/// The phase that an arrival belongs to. [`Mbarrier::wait`] takes it.
#[derive(Debug)]
#[must_use = "an arrival that no thread waits for orders nothing"]
pub struct Arrival {
    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    state: u64,
}

impl Mbarrier {
    /// The barrier in element `index` of `memory`. Panics past the end.
    #[gpu_only]
    #[inline(always)]
    pub fn new<const N: usize, const ALIGN: usize>(
        memory: SharedArray<u64, N, ALIGN>,
        index: usize,
    ) -> Self {
        assert!(index < N);
        Self { address: shared_address(memory.as_mut_ptr().wrapping_add(index)) }
    }

    /// The barrier at an address in the window of shared memory.
    #[inline(always)]
    pub(crate) fn at(address: u32) -> Self {
        Self { address }
    }

    /// The address in the window of shared memory, for instructions of one's own.
    #[inline(always)]
    pub fn address(self) -> u32 {
        self.address
    }

    /// Makes the memory a barrier whose phases each expect `arrivals`, 1 to [`MAX_ARRIVALS`].
    ///
    /// # Safety
    /// - One thread calls this, on memory that is not a barrier, and no thread uses the barrier before
    ///   a block barrier; before a copy or another block of the cluster uses it, that thread also
    ///   calls [`fence_init`].
    /// - `arrivals` is in range.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.init.shared::cta.b64 [{a}], {n};", a = in(reg32) self.address,
                n = in(reg32) arrivals, options(nostack));
        }
    }

    /// Makes the barrier ordinary memory again.
    ///
    /// # Safety
    /// No thread uses the barrier any more.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn invalidate(self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.inval.shared::cta.b64 [{a}];", a = in(reg32) self.address,
                options(nostack));
        }
    }

    /// Arrives: one arrival less to wait for. What the thread wrote before is visible to those who
    /// wait for the phase.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive(self) -> Arrival {
        let state;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.shared::cta.b64 {s}, [{a}];", s = out(reg64) state,
                a = in(reg32) self.address, options(nostack));
        }
        Arrival { state }
    }

    /// Arrives `count` times.
    ///
    /// # Safety
    /// See [`Mbarrier`]. `count` is at least 1.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_many(self, count: u32) -> Arrival {
        let state;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.shared::cta.b64 {s}, [{a}], {n};", s = out(reg64) state,
                a = in(reg32) self.address, n = in(reg32) count, options(nostack));
        }
        Arrival { state }
    }

    /// Arrives, and lets this phase and no later one expect the thread: it leaves.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_and_leave(self) -> Arrival {
        let state;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive_drop.shared::cta.b64 {s}, [{a}];", s = out(reg64) state,
                a = in(reg32) self.address, options(nostack));
        }
        Arrival { state }
    }

    /// Announces `bytes` that copies will bring in this phase, and arrives.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_expecting(self, bytes: u32) -> Arrival {
        let state;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.expect_tx.shared::cta.b64 {s}, [{a}], {n};",
                s = out(reg64) state, a = in(reg32) self.address, n = in(reg32) bytes,
                options(nostack));
        }
        Arrival { state }
    }

    /// Announces `bytes` that copies will bring in this phase, without arriving.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn expect(self, bytes: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{a}], {n};",
                a = in(reg32) self.address, n = in(reg32) bytes, options(nostack));
        }
    }

    /// Arrives once this thread's copies of [`copy_async`](crate::copy::copy_async) so far are done.
    /// The barrier expects this arrival.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_when_copied(self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{a}];",
                a = in(reg32) self.address, options(nostack));
        }
    }

    /// Arrives at the same barrier of the block with that rank in the cluster.
    ///
    /// # Safety
    /// See [`Mbarrier`]; the barrier meant is the other block's, which still runs.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_in(self, rank: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("{{ .reg .b32 remote; mapa.shared::cluster.u32 remote, {a}, {r};",
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }}",
                a = in(reg32) self.address, r = in(reg32) rank, options(nostack));
        }
    }

    /// Whether the phase of `arrival` is over. Does not wait.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn is_over(self, arrival: &Arrival) -> bool {
        let over: u32;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("{{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [{a}], {s};",
                "selp.b32 {o}, 1, 0, p; }}", o = out(reg32) over,
                a = in(reg32) self.address, s = in(reg64) arrival.state, options(nostack));
        }
        over != 0
    }

    /// Waits until the phase of `arrival` is over.
    ///
    /// # Safety
    /// See [`Mbarrier`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn wait(self, arrival: Arrival) {
        wait_until(|| {
            let over: u32;
            // SAFETY: the caller's promise.
            unsafe {
                asm!("{{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [{a}], {s};",
                    "selp.b32 {o}, 1, 0, p; }}", o = out(reg32) over,
                    a = in(reg32) self.address, s = in(reg64) arrival.state, options(nostack));
            }
            over != 0
        });
    }

    /// Whether the phase with that parity is over: the current one has the other parity. Does not
    /// wait.
    ///
    /// # Safety
    /// See [`Mbarrier`]. `parity` is 0 or 1.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn is_parity_over(self, parity: u32) -> bool {
        let over: u32;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("{{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [{a}], {s};",
                "selp.b32 {o}, 1, 0, p; }}", o = out(reg32) over,
                a = in(reg32) self.address, s = in(reg32) parity, options(nostack));
        }
        over != 0
    }

    /// Waits until the phase with that parity is over, and sees what those who arrived had written,
    /// and what the copies brought.
    ///
    /// # Safety
    /// See [`Mbarrier`]. `parity` is 0 or 1.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn wait_parity(self, parity: u32) {
        wait_until(|| {
            let over: u32;
            // SAFETY: the caller's promise.
            unsafe {
                asm!("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{a}], {s};",
                    "selp.b32 {o}, 1, 0, p; }}", o = out(reg32) over,
                    a = in(reg32) self.address, s = in(reg32) parity, options(nostack));
            }
            over != 0
        });
    }

    /// [`wait_parity`](Self::wait_parity) for arrivals that come from the whole cluster.
    ///
    /// # Safety
    /// See [`Mbarrier`]. `parity` is 0 or 1.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn wait_parity_in_cluster(self, parity: u32) {
        wait_until(|| {
            let over: u32;
            // SAFETY: the caller's promise.
            unsafe {
                asm!("{{ .reg .pred p;",
                    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [{a}], {s};",
                    "selp.b32 {o}, 1, 0, p; }}", o = out(reg32) over,
                    a = in(reg32) self.address, s = in(reg32) parity, options(nostack));
            }
            over != 0
        });
    }
}

/// Looks between two at whether another thread panicked: each sleeps a while, unless the phase is over.
#[cfg(target_os = "cuda")]
const LOOKS: u32 = 32;

/// Looks until the phase is over. Who has not arrived may have panicked: then this thread leaves.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn wait_until(is_over: impl Fn() -> bool) {
    let mut looks = 0;
    while !is_over() {
        // From 0 again, so that a wait comes back to where it was: the emulator tells one without an end by that.
        looks = (looks + 1) % LOOKS;
        // Seldom, for it takes as long as memory does, and a phase may be over any moment.
        if looks == 0 {
            crate::panic::leave_after_panic();
        }
    }
}

/// Makes [`Mbarrier::init`] of this thread known to copies and to the blocks of the cluster, once a
/// block or cluster barrier follows.
#[gpu_only]
#[inline(always)]
pub fn fence_init() {
    // SAFETY: a fence has no precondition.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) }
}

/// The address in the window of shared memory that a generic pointer has.
#[cfg(target_os = "cuda")]
#[inline(always)]
pub(crate) fn shared_address<T>(pointer: *const T) -> u32 {
    let address: u32;
    // SAFETY: the assembly converts a number.
    unsafe {
        asm!("{{ .reg .b64 window; cvta.to.shared.u64 window, {p}; cvt.u32.u64 {a}, window; }}",
            p = in(reg64) pointer, a = out(reg32) address, options(pure, nomem, nostack));
    }
    address
}

/// A place in a ring of `STAGES`, and the parity of its phase: what a pipeline's producer and
/// consumer each count on their own.
///
/// ```
/// use cuda_std::mbarrier::Ring;
///
/// let mut ring = Ring::<3>::new();
/// let mut seen = Vec::new();
/// for _ in 0..7 {
///     seen.push((ring.stage(), ring.parity()));
///     ring.advance();
/// }
/// assert_eq!(seen, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 0)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring<const STAGES: usize> {
    stage: u32,
    parity: u32,
}

impl<const STAGES: usize> Ring<STAGES> {
    /// The first stage at its first phase.
    #[inline(always)]
    pub const fn new() -> Self {
        const { assert!(STAGES > 0, "a ring has at least one stage") };
        Self { stage: 0, parity: 0 }
    }

    /// The stage, below `STAGES`.
    #[inline(always)]
    pub const fn stage(self) -> usize {
        self.stage as usize
    }

    /// The stage `steps` before the current one.
    ///
    /// ```
    /// # use cuda_std::mbarrier::Ring;
    /// let mut ring = Ring::<6>::new();
    /// ring.advance();
    /// assert_eq!([0, 1, 2, 7].map(|steps| ring.before(steps)), [1, 0, 5, 0]);
    /// ```
    #[inline(always)]
    pub const fn before(self, steps: usize) -> usize {
        let (stages, steps) = (STAGES as u32, (steps % STAGES) as u32);
        // A division by a number that is not a power of two takes ten times as long as a comparison.
        let stage = if self.stage >= steps { self.stage } else { self.stage + stages };
        (stage - steps) as usize
    }

    /// The parity of the stage's phase: who fills or drains the stage waits for its end.
    #[inline(always)]
    pub const fn parity(self) -> u32 {
        self.parity
    }

    /// The parity of the phase before: a producer waits for it, since a stage is free at first.
    #[inline(always)]
    pub const fn parity_before(self) -> u32 {
        self.parity ^ 1
    }

    /// Steps to the next stage.
    #[inline(always)]
    pub const fn advance(&mut self) {
        self.stage += 1;
        if self.stage as usize == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}
