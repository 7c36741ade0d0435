//! Tiles in registers, 16 bytes at a time.
//!
//! A block takes a tile; each of its warps takes a run of the tile, and reads it in steps in which each lane
//! has the next 16 bytes: a *pack*. So a warp's load is 512 bytes in a row, and a scan of the lanes in one step
//! is in the order of memory: nothing goes through shared memory to be put into order.

use core::mem::MaybeUninit;

use cuda_std::access::{self, StoreHint};
use cuda_std::copy;
use cuda_std::vector::Vec4;
use cuda_std::warp::Plain;

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Warps in a block.
pub const WARPS: usize = BLOCK / 32;

/// 16 bytes of a tile.
pub type Pack = Vec4<u32>;

/// Elements in a pack.
#[must_use]
pub const fn per_pack<T>() -> usize {
    assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= 16, "1, 2, 4, 8 or 16 bytes");
    16 / size_of::<T>()
}

/// Elements in a tile of `PACKS` packs a thread.
#[must_use]
pub const fn tile_len<T, const PACKS: usize>() -> usize {
    BLOCK * PACKS * per_pack::<T>()
}

/// Calls `f` with 0, 1, … `n - 1`, each a constant once inlined, where `n` is one: then an array that is
/// indexed by them stays in registers. At most 16.
#[inline(always)]
pub fn each(n: usize, mut f: impl FnMut(usize)) {
    macro_rules! step {
        ($($k:literal)*) => {$(
            if $k < n {
                f($k);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// The array of `f(0)`, `f(1)`, … in registers; at most 16.
#[inline(always)]
pub fn build<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    const { assert!(N <= 16) };
    let mut items = MaybeUninit::<[T; N]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < N`.
    each(N, |k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}

/// Element `e` of a pack.
#[inline(always)]
pub fn element<T: Plain>(pack: &Pack, e: usize) -> T {
    let words = [pack.x, pack.y, pack.z, pack.w];
    let size = size_of::<T>();
    // Narrow elements come out of their word by a shift, so that a tile stays in as few registers as it was
    // loaded to.
    let (first, shift) = (e * size / 4, e * size % 4 * 8);
    let mut bits = [0u32; 4];
    each(size.div_ceil(4), |k| bits[k] = words[first + k] >> shift);
    // SAFETY: as many bytes as the value has, all initialised; all bits are a value of it.
    unsafe { bits.as_ptr().cast::<T>().read_unaligned() }
}

/// The pack of `f(0)`, `f(1)`, …
#[inline(always)]
pub fn pack_of<T: Plain>(mut f: impl FnMut(usize) -> T) -> Pack {
    let (mut words, size) = ([0u32; 4], size_of::<T>());
    each(per_pack::<T>(), |e| {
        let mut bits = [0u32; 4];
        // SAFETY: at most 16 bytes, and the value has no padding.
        unsafe { bits.as_mut_ptr().cast::<T>().write_unaligned(f(e)) };
        let (first, shift) = (e * size / 4, e * size % 4 * 8);
        each(size.div_ceil(4), |k| words[first + k] |= bits[k] << shift);
    });
    Pack::new(words[0], words[1], words[2], words[3])
}

/// Where the first pack of `thread` begins in its tile, in packs; the next ones are 32 apart.
#[inline(always)]
fn first_pack<const PACKS: usize>(thread: usize) -> usize {
    thread / 32 * (32 * PACKS) + thread % 32
}

/// Where pack `j` of `thread` begins in its tile, in elements.
#[inline(always)]
pub fn place<T, const PACKS: usize>(thread: usize, j: usize) -> usize {
    (first_pack::<PACKS>(thread) + 32 * j) * per_pack::<T>()
}

/// How many elements of a pack that begins at element `i` are below `len`.
#[inline(always)]
pub fn inside<T>(len: usize, i: usize) -> usize {
    len.saturating_sub(i).min(per_pack::<T>())
}

/// This thread's packs of the tile that begins at `x[start]`; `filler` past the end.
#[inline(always)]
pub fn load<T: Plain, const PACKS: usize>(
    x: &[T],
    start: usize,
    thread: usize,
    filler: T,
) -> [Pack; PACKS] {
    let tile = x.as_ptr().wrapping_add(start);
    let first = tile.cast::<Pack>().wrapping_add(first_pack::<PACKS>(thread));
    if is_whole::<T, PACKS>(tile, x.len(), start) {
        // SAFETY: inside the tile, which is inside the slice and begins at a multiple of 16 bytes.
        return build(|j| unsafe { first.add(32 * j).read() });
    }
    build(|j| {
        let elements = first.wrapping_add(32 * j).cast::<T>();
        let inside = inside::<T>(x.len(), start + place::<T, PACKS>(thread, j));
        // SAFETY: so many of the pack's elements are inside the slice.
        pack_of(|e| if e < inside { unsafe { elements.add(e).read() } } else { filler })
    })
}

/// This thread's packs of a tile that is on its way to shared memory. Each thread fetches for itself, so nothing is
/// to wait for but its own copies.
pub struct Fetched<const PACKS: usize> {
    /// The thread's first place; two tiles in turn, of packs that are a block apart.
    own: *mut Pack,
    turn: usize,
}

impl<const PACKS: usize> Fetched<PACKS> {
    /// # Safety
    /// `memory` is shared memory of `2 * PACKS * BLOCK` packs, which nothing else uses.
    #[inline(always)]
    pub unsafe fn new(memory: *mut Pack, thread: usize) -> Self {
        Self { own: memory.wrapping_add(thread), turn: 0 }
    }

    #[inline(always)]
    fn place(&self, j: usize) -> *mut Pack {
        self.own.wrapping_add((self.turn * PACKS + j) * BLOCK)
    }

    /// Starts to fetch the tile that begins at `x[start]`.
    #[inline(always)]
    pub fn start<T>(&mut self, x: &[T], start: usize, thread: usize) {
        self.turn = 1 - self.turn;
        let tile = x.as_ptr().wrapping_add(start);
        if is_whole::<T, PACKS>(tile, x.len(), start) {
            let first = tile.cast::<Pack>().wrapping_add(first_pack::<PACKS>(thread));
            // SAFETY: inside the tile, which is inside the slice and begins at a multiple of 16 bytes; the place
            // is this thread's own, and has been read since the copy before.
            each(PACKS, |j| unsafe { copy::copy_async(self.place(j), first.add(32 * j)) });
        }
    }

    /// The tile that was started; `filler` past the end.
    #[inline(always)]
    pub fn take<T: Plain>(&self, x: &[T], start: usize, thread: usize, filler: T) -> [Pack; PACKS] {
        if is_whole::<T, PACKS>(x.as_ptr().wrapping_add(start), x.len(), start) {
            copy::wait_all_copies();
            // SAFETY: the copies are done.
            return build(|j| unsafe { self.place(j).read() });
        }
        load(x, start, thread, filler)
    }
}

/// Writes this thread's packs of the tile that begins at element `start` of the `len` elements at `out`.
///
/// # Safety
/// `out` is valid for writes of `len` elements, and no other thread has these packs of this tile.
#[inline(always)]
pub unsafe fn store<T: Plain, const PACKS: usize>(
    (out, len): (*mut T, usize),
    start: usize,
    thread: usize,
    mut pack: impl FnMut(usize) -> Pack,
) {
    let tile = out.wrapping_add(start);
    let first = tile.cast::<Pack>().wrapping_add(first_pack::<PACKS>(thread));
    if is_whole::<T, PACKS>(tile, len, start) {
        // SAFETY: inside the tile, which is inside the memory and begins at a multiple of 16 bytes. The compiler
        // does not take this store apart to share it with those below.
        return each(PACKS, |j| unsafe {
            access::store(&mut *first.add(32 * j), pack(j), StoreHint::WriteBack);
        });
    }
    each(PACKS, |j| {
        let elements = first.wrapping_add(32 * j).cast::<T>();
        let (inside, pack) = (inside::<T>(len, start + place::<T, PACKS>(thread, j)), pack(j));
        each(per_pack::<T>(), |e| {
            if e < inside {
                // SAFETY: so many of the pack's elements are inside the memory.
                unsafe { elements.add(e).write(element(&pack, e)) };
            }
        });
    });
}

/// Whether the tile at `first` is inside `len` elements, and begins at a multiple of 16 bytes.
#[inline(always)]
fn is_whole<T, const PACKS: usize>(tile: *const T, len: usize, start: usize) -> bool {
    tile.cast::<Pack>().is_aligned() && start + tile_len::<T, PACKS>() <= len
}
