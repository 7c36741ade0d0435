//! Lists of the blocks of keys that a tile of rows needs: those that a [`Score`] which [masks](Score::MASKS) empties are skipped (as in J. Dong, B. Feng, D. Guessous,
//! Y. Liang and H. He, "Flex Attention", 2024).
//!
//! Memory: [`HEADER`] words, the [`Form`] of the lists, and then for each tile of rows, of one head of one batch or of all, a list: its length, and room for as many blocks as
//! there are, in ascending order. [`WHOLE`] marks those of which every row of the tile sees every key.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::{Place, Problem, Score};
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::gpu_only;
use cuda_std::warp::{lane_id, warp_vote_any};

/// In an entry: no key of the block is left out by any row.
pub const WHOLE: u32 = 1 << 31;
/// Words before the lists.
pub const HEADER: usize = 4;
/// Threads of a block.
pub const BLOCK: usize = 128;

/// Finds out what rows see of each block: a warp for each.
pub const SEES: usize = 0;
/// Takes out the blocks of which they see nothing: a thread for each list.
pub const COMPACTS: usize = 1;

/// Of what there are lists, and what they were made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Form {
    /// Batches that have lists of their own, or 1.
    pub batches: u32,
    /// Packed heads that have lists of their own, or 1.
    pub heads: u32,
    /// Tiles of rows of a packed head.
    pub tiles: u32,
    /// Blocks of keys.
    pub blocks: u32,
    /// Rows of a tile.
    pub rows: u32,
    /// Keys of a block.
    pub keys: u32,
}

impl Form {
    /// How many lists there are.
    #[must_use]
    pub const fn lists(&self) -> u64 {
        self.batches as u64 * self.heads as u64 * self.tiles as u64
    }

    /// Words of memory.
    #[must_use]
    pub const fn len(&self) -> u64 {
        HEADER as u64 + self.lists() * (1 + self.blocks as u64)
    }

    /// Whether there is no list.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lists() == 0
    }

    /// Blocks of threads of a launch.
    #[must_use]
    pub const fn launch(&self, kernel: usize) -> u64 {
        let threads = match kernel {
            SEES => 32 * self.lists() * self.blocks as u64,
            _ => self.lists(),
        };
        threads.div_ceil(BLOCK as u64)
    }
}

/// A list that a kernel reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Where its first entry is.
    pub first: usize,
    /// How many blocks it has.
    pub len: u32,
}

/// The list of a tile of a packed head, if there are lists.
#[inline(always)]
#[must_use]
pub fn list_of(lists: &[u32], batch: u32, head: u32, tile: u32) -> Option<List> {
    let [batches, heads, tiles, blocks] = *lists.first_chunk::<HEADER>()?;
    let (batch, head) = (batch.min(batches - 1), head.min(heads - 1));
    let index = (batch as usize * heads as usize + head as usize) * tiles as usize + tile as usize;
    let at = HEADER + index * (1 + blocks as usize);
    Some(List { first: at + 1, len: lists.get(at).copied().unwrap_or(0) })
}

/// The block at a position, and whether it is [whole](WHOLE): of a list, or of all blocks where there are no lists.
#[inline(always)]
#[must_use]
pub fn block_at(lists: &[u32], list: Option<List>, position: u32) -> (u32, bool) {
    let Some(list) = list else { return (position, false) };
    let entry = lists.get(list.first + position as usize).copied().unwrap_or(0);
    (entry & !WHOLE, entry & WHOLE != 0)
}

/// Writes for each block of keys of each list whether its rows see any of its keys, and all of them: 0, [`WHOLE`], or another number.
///
/// # Safety
/// All threads of the blocks of [`Form::launch`] call this together; `lists` has [`Form::len`] words. The problem has the packed heads of the kernel that reads the
/// lists, and nothing in it is packed or in pages.
#[gpu_only]
#[inline(always)]
pub unsafe fn see<C: Score>(problem: &Problem, form: &Form, lists: *mut u32, score: C) {
    let warp = u64::from(thread::block_idx_x()) * (BLOCK / 32) as u64
        + u64::from(thread::index_in_block() / 32);
    if warp >= form.lists() * u64::from(form.blocks) {
        return;
    }
    // (Divisions of which the compiler sees that they are not by 0 have no panic.)
    let blocks = u64::from(form.blocks.max(1));
    let (block, list) = ((warp % blocks) as u32, warp / blocks);
    let tiles = u64::from(form.tiles.max(1));
    let (tile, head_of_all) = ((list % tiles) as u32, (list / tiles) as u32);
    let heads = form.heads.max(1);
    let (batch, head) = (head_of_all / heads, head_of_all % heads);
    let (first_key, end_key) = (block * form.keys, ((block + 1) * form.keys).min(problem.keys));
    let first_row = tile * form.rows;
    let end_row = (first_row + form.rows).min(problem.queries << problem.pack);
    let (mut sees, mut misses) = (false, false);
    let mut row = first_row;
    // Once there is one key that is seen, and one that is not, nothing else is of interest.
    while row < end_row && !(sees && misses) {
        let (head, query) = problem.place_of_row(head, row);
        let keys = score.band().of_query(query, problem.lengths());
        let own = query as i32 + problem.keys as i32 - problem.queries as i32;
        let mut key = first_key + lane_id();
        let (mut any, mut all) = (false, true);
        while key < end_key {
            let in_band = (key >= keys.first && key < keys.end) || key < score.band().prefix;
            let at = Place { batch, head, query, key, own };
            let is_seen = in_band && score.apply(0.0, at) != f32::NEG_INFINITY;
            any |= is_seen;
            all &= is_seen;
            key += 32;
        }
        // SAFETY: the loop is the same for all lanes.
        unsafe {
            sees |= warp_vote_any(!0, any);
            misses |= warp_vote_any(!0, !all);
        }
        row += 1;
    }
    // Keys of the last block that there are not are not seen.
    misses |= end_key - first_key < form.keys;
    let found = match (sees, misses) {
        (false, _) => 0,
        (true, false) => WHOLE,
        (true, true) => 1,
    };
    if lane_id() == 0 {
        // SAFETY: the caller's promise.
        unsafe {
            let at = HEADER as u64 + list * (1 + blocks) + 1 + u64::from(block);
            lists.add(at as usize).write(found);
            if warp == 0 {
                let header = [form.batches, form.heads, form.tiles, form.blocks];
                lists.cast::<[u32; HEADER]>().write(header);
            }
        }
    }
}

/// Makes lists of what [`see`] wrote: a thread for each.
///
/// # Safety
/// As [`see`], behind it.
#[gpu_only]
#[inline(always)]
pub unsafe fn compact(form: &Form, lists: *mut u32) {
    let index =
        u64::from(thread::block_idx_x()) * BLOCK as u64 + u64::from(thread::index_in_block());
    if index >= form.lists() {
        return;
    }
    let at = HEADER as u64 + index * (1 + u64::from(form.blocks));
    let mut len = 0;
    // SAFETY: the caller's promise. An entry is written where one was read, or before it.
    unsafe {
        let list = lists.add(at as usize);
        for block in 0..form.blocks {
            let found = list.add(1 + block as usize).read();
            if found != 0 {
                list.add(1 + len as usize).write(block | found & WHOLE);
                len += 1;
            }
        }
        list.write(len);
    }
}

/// A [`Score`] that has kernels which make lists. [`block_list_kernels!`](crate::block_list_kernels) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that lists the blocks of keys which `{Self}` does not empty",
    label = "the functor `{Self}` has no instance",
    note = "write `kernels_gpu::block_list_kernels! {{ NAME, {Self} }}` in the kernel crate that declares `{Self}`, with `const MASKS: bool = true`"
)]
pub trait BlockListKernel: Score {
    /// Enqueues [`see`] or [`compact`].
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As those have it.
    unsafe fn launch<L: ::cuda_std::launch::Launch>(
        self,
        on: &L,
        kernel: usize,
        problem: Problem,
        form: Form,
        lists: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
    ) -> Result<(), L::Error>;
}

/// Writes the kernels that list blocks of keys for a functor that masks: `block_list_kernels! { NAME, FUNCTOR }`.
#[macro_export]
macro_rules! block_list_kernels {
    ($(#[$doc:meta])* $name:ident, $c:ty) => {
        $(#[$doc])*
        #[doc = concat!("Lists of the blocks of keys that `", stringify!($c), "` does not empty: see `kernels_gpu::attention::lists`.")]
        ///
        /// # Safety
        /// As the form's function has it.
        #[::cuda_std::kernel(0, 1, block = $crate::attention::lists::BLOCK)]
        pub unsafe fn $name<const FORM: usize>(
            problem: $crate::attention::Problem,
            form: $crate::attention::lists::Form,
            mut lists: ::cuda_std::prelude::DisjointSlice<u32>,
            score: $c,
        ) {
            use $crate::attention::lists;
            const { assert!(<$c as $crate::attention::Score>::MASKS, "a functor that masks") };
            // SAFETY: the caller's promise.
            unsafe {
                match FORM {
                    0 => lists::see(&problem, &form, lists.as_mut_ptr(), score),
                    _ => lists::compact(&form, lists.as_mut_ptr()),
                }
            }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::attention::lists::BlockListKernel for $c {
            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                kernel: usize,
                problem: $crate::attention::Problem,
                form: $crate::attention::lists::Form,
                lists: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
            ) -> ::core::result::Result<(), L::Error> {
                // The caller counted the blocks.
                let grid = ::cuda_std::launch::Grid1::new(form.launch(kernel) as u32);
                // SAFETY: the caller's promise.
                unsafe {
                    match kernel {
                        0 => $name::<0>::launch(on, grid, problem, form, lists, self),
                        _ => $name::<1>::launch(on, grid, problem, form, lists, self),
                    }
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_find_their_list() {
        // Two heads of two tiles, and three blocks of keys.
        let lists = [1, 2, 2, 3, 2, 0, WHOLE | 2, 9, 0, 9, 9, 9, 1, 1, 9, 9, 3, 0, 1, 2];
        let form = Form { batches: 1, heads: 2, tiles: 2, blocks: 3, rows: 64, keys: 64 };
        assert_eq!((form.lists(), form.len()), (4, lists.len() as u64));
        let of = |batch, head, tile| {
            let list = list_of(&lists, batch, head, tile).unwrap();
            (0..list.len).map(|at| block_at(&lists, Some(list), at)).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0, 0), [(0, false), (2, true)]);
        assert_eq!(of(0, 0, 1), []);
        assert_eq!(of(0, 1, 0), [(1, false)]);
        // All batches share the lists of one.
        assert_eq!(of(5, 1, 1), [(0, false), (1, false), (2, false)]);
        assert_eq!(list_of(&[], 0, 0, 0), None);
        assert_eq!(block_at(&[], None, 7), (7, false));
    }
}
