//! Shared memory of the collectives: 1 KiB that belongs to the token, and scratch arrays that a kernel passes.

use super::token::Block;
use crate::shared::{Element, Phase, Shared};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Values in a half of the token's own memory: one for each warp of the largest block.
const SLOTS: usize = 32;
/// The largest value that has a slot.
const SLOT_BYTES: usize = 16;

#[cfg(target_os = "cuda")]
core::arch::global_asm!(
    ".shared .align 16 .b8 ferrowarp_block_scratch[{bytes}];",
    bytes = const 2 * SLOTS * SLOT_BYTES,
);

/// The token's own memory.
#[cuda_std_macros::gpu_only]
#[inline(always)]
fn own_memory() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: the assembly names the array declared above and touches nothing.
    unsafe {
        core::arch::asm!(
            "mov.u64 {p}, ferrowarp_block_scratch; cvta.shared.u64 {p}, {p};",
            p = out(reg64) pointer,
            options(pure, nomem, nostack),
        );
        crate::shared::assume_shared(pointer)
    }
}

/// A slot for each warp.
#[derive(Clone, Copy)]
pub struct Slots<T>(*mut T);

impl<T: Element> Slots<T> {
    /// # Safety
    /// `slot < 32`, and no other thread uses the slot until a barrier.
    #[inline(always)]
    pub unsafe fn write(self, slot: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(slot).write(value) }
    }

    /// What the slot holds: any bits, where the thread that was to write it has ended.
    ///
    /// # Safety
    /// `slot < 32`, and a barrier lies after the last write.
    #[inline(always)]
    pub unsafe fn read(self, slot: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(slot).read() }
    }
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The half of the token's memory that no thread uses any more.
    ///
    /// A collective that takes it writes, runs a barrier, and reads. The collective before the last one used it too;
    /// the barrier of the last one lies between that one's reads and now.
    #[inline(always)]
    pub(super) fn slots<T: Element>(&mut self) -> Slots<T> {
        const {
            assert!(
                size_of::<T>() <= SLOT_BYTES && align_of::<T>() <= 16,
                "the collectives of a block take values of at most 16 bytes"
            );
            assert!(Self::THREADS.is_multiple_of(32), "a block of collectives has whole warps");
        }
        let half = self.turn * (SLOTS * SLOT_BYTES);
        self.turn ^= 1;
        // SAFETY: one of the two halves.
        Slots(unsafe { own_memory().add(half) }.cast())
    }
}

/// `N` bytes of shared memory, aligned to 16, that only collectives use: `Shared<Bytes<4096>>`.
#[repr(C, align(16))]
#[allow(missing_debug_implementations)]
pub struct Bytes<const N: usize>([MaybeUninit<u8>; N]);

/// Shared memory that other threads may still read. A barrier makes it a [`Shared`] again:
/// `let scratch = block.sync(used)`.
#[derive(Debug)]
pub struct Used<L: ?Sized, const ID: u32 = 0>(Shared<L, ID>);

impl<L: ?Sized, const ID: u32> crate::shared::Sealed for Used<L, ID> {}
impl<L: ?Sized, const ID: u32> Phase for Used<L, ID> {
    type Next = Shared<L, ID>;

    #[inline(always)]
    unsafe fn next(self) -> Shared<L, ID> {
        self.0
    }
}

/// A scratch array that a collective was passed, as an array of its own element type.
pub struct ScratchArray<L, const ID: u32> {
    shared: Shared<L, ID>,
}

impl<L, const ID: u32> ScratchArray<L, ID> {
    #[inline(always)]
    pub fn new(shared: Shared<L, ID>) -> Self {
        Self { shared }
    }

    /// The memory as an array; the caller has compared its size.
    #[inline(always)]
    pub fn array<T: Element>(&self) -> NonNull<T> {
        const { assert!(align_of::<T>() <= 16, "shared memory is aligned to 16 bytes") };
        self.shared.address().cast()
    }

    #[inline(always)]
    pub fn used(self) -> Used<L, ID> {
        Used(self.shared)
    }
}
