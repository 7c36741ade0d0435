//! Rotary position embedding, and new keys and values for a cache.
//!
//! Elements `i` and `i + d / 2` of a row are turned by the angle `position · base^(-2 i / d)` (J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position
//! Embedding*, 2021; halves instead of neighbours, as most models have it). The cosines and sines are a table, which the host computes.
//!
//! A thread moves elements of both halves of a row: eight of each, by vectors of 16 bytes, where all rows are made of such, else one. A block has the rows of all heads at some
//! positions, so that one read of the table from memory serves all of them.

use super::RowStrides;
use super::hopper::Half;
use crate::divisor::Divisor;
use crate::prelude::*;
use crate::quads::{self, Quad};
use bytemuck::{Pod, Zeroable};
use cuda_std::unroll::each;
use cuda_std::{bf16, f16};

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Elements of a vector of 16 bytes.
pub const WIDE: u32 = 8;

/// How the blocks and threads of a launch divide rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Division {
    batches: u32,
    rows: u32,
    rows_of_block: u32,
    /// What threads take of a row of all heads.
    units_of_heads: u32,
    /// 1 if a thread takes [`WIDE`] elements of each half of a row, 0 if one.
    is_wide: u32,
    blocks: u32,
    by_blocks: Divisor,
    by_heads: Divisor,
    by_units: Divisor,
}

/// The elements that a thread takes: those from `at` on of each half of a row.
#[derive(Clone, Copy)]
struct Place {
    batch: u32,
    head: u32,
    row: u32,
    at: u32,
}

impl Division {
    /// Of rows that have `half` elements in the longer one of two halves. `None` if there are more than a launch takes.
    #[must_use]
    pub fn new([batches, heads, rows]: [u32; 3], half: u32, is_wide: bool) -> Option<Self> {
        let units = if is_wide { half.div_ceil(WIDE) } else { half };
        let units_of_heads = units.checked_mul(heads)?;
        let rows_of_block = (BLOCK as u32).checked_div(units_of_heads).unwrap_or(1).max(1);
        let blocks = rows.div_ceil(rows_of_block);
        batches.checked_mul(blocks).filter(|all| *all < 1 << 31)?;
        Some(Self {
            batches,
            rows,
            rows_of_block,
            units_of_heads,
            is_wide: is_wide.into(),
            blocks,
            by_blocks: Divisor::new(blocks),
            by_heads: Divisor::new(units_of_heads),
            by_units: Divisor::new(units),
        })
    }

    /// The blocks of a launch.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        if self.units_of_heads == 0 { 0 } else { self.batches * self.blocks }
    }

    /// The elements with that number among those of a block, of which each thread takes every [`BLOCK`]th; `None` past the last one.
    #[inline(always)]
    fn place(&self, block: u32, number: u32) -> Option<Place> {
        let (batch, block) = self.by_blocks.divide(block);
        let (row, at) = self.by_heads.divide(number);
        let (head, unit) = self.by_units.divide(at);
        let first = block * self.rows_of_block;
        let is_inside = batch < self.batches && row < self.rows_of_block && first + row < self.rows;
        let at = if self.is_wide != 0 { WIDE * unit } else { unit };
        is_inside.then_some(Place { batch, head, row: first + row, at })
    }
}

/// Cosines and sines of the angles of a row.
#[derive(Clone, Copy)]
struct Turns<'a> {
    turns: &'a [Vec2<f32>],
    /// -1 to turn back, or 1.
    sign: f32,
}

impl<'a> Turns<'a> {
    /// Those of a position, in a table with `half` of them for each.
    #[inline(always)]
    fn new(table: &'a [Vec2<f32>], position: u32, half: u32, sign: f32) -> Self {
        let first = position as usize * half as usize;
        Self { turns: &table[first..first + half as usize], sign }
    }
}

/// An element of the first half of a row, and that of the second one, turned.
#[inline(always)]
fn turned([low, high]: [f32; 2], cos: f32, sin: f32) -> [f32; 2] {
    [low * cos - high * sin, high * cos + low * sin]
}

/// Moves a thread's elements of a row of `depth`, turned if there are `turns`. Both rows may be one.
///
/// # Safety
/// The rows are there, and this thread alone uses these elements of `to`. If `is_wide`, both rows are made of vectors of 16 bytes, and so are their halves.
#[inline(always)]
unsafe fn move_units<T: Half>(
    [from, to]: [*mut T; 2],
    (depth, at, is_wide): (u32, u32, bool),
    turns: Option<Turns<'_>>,
) {
    let (half, at) = (depth.div_ceil(2) as usize, at as usize);
    if at >= half {
        return;
    }
    let (low, high) = (at, half + at);
    // SAFETY: the caller's promise.
    unsafe {
        if is_wide {
            return move_vectors(
                from,
                to,
                [low, high],
                turns.map(|own| (&raw const own.turns[at], own.sign)),
            );
        }
        let has_both = high < depth as usize;
        let read = |at: usize| (*from.add(at)).widen();
        let mut pair = [read(low), if has_both { read(high) } else { 0.0 }];
        if let Some(Turns { turns, sign }) = turns {
            pair = turned(pair, turns[at].x, sign * turns[at].y);
        }
        *to.add(low) = T::narrow(pair[0]);
        if has_both {
            *to.add(high) = T::narrow(pair[1]);
        }
    }
}

/// Moves a vector of each half of a row.
///
/// # Safety
/// As [`move_units`]; as many cosines and sines are there.
#[inline(always)]
unsafe fn move_vectors<T: Half>(
    from: *const T,
    to: *mut T,
    halves: [usize; 2],
    turns: Option<(*const Vec2<f32>, f32)>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let read = |at: usize| from.add(at).cast::<Quad>().read().to_array();
        let [mut low, mut high] = halves.map(read);
        if let Some((turns, sign)) = turns {
            each::<4>(|k| {
                let pairs = quads::load(turns.cast::<Quad>().add(k)).to_array();
                let [cos, sin, next_cos, next_sin] = pairs.map(f32::from_bits);
                let ([a, b], [c, d]) = (T::unpair(low[k]), T::unpair(high[k]));
                let [first, second] =
                    [turned([a, c], cos, sign * sin), turned([b, d], next_cos, sign * next_sin)];
                low[k] = T::pair([first[0], second[0]]);
                high[k] = T::pair([first[1], second[1]]);
            });
        }
        let write = |at: usize, [x, y, z, w]: [u32; 4]| {
            to.add(at).cast::<Quad>().write(Quad::new(x, y, z, w));
        };
        write(halves[0], low);
        write(halves[1], high);
    }
}

/// Which rows are turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Rotation {
    /// Where the rows are.
    pub x: RowStrides,
    /// The rows of the launch.
    pub division: Division,
    /// Rows of a head.
    pub rows: u32,
    /// Elements of a row, an even number.
    pub depth: u32,
    /// The position of a head's first row, where batches have no lengths.
    pub first: u32,
    /// 1 to turn back.
    pub back: u32,
}

/// The position of a row, of `rows`, at the end of its batch, or from `first` on.
#[inline(always)]
fn position(lengths: &[u32], batch: u32, (first, row, rows): (u32, u32, u32)) -> u32 {
    match lengths.get(batch as usize) {
        Some(length) => (length + row).wrapping_sub(rows),
        None => first + row,
    }
}

/// Turns rows in place, in [`Division::blocks`] blocks. `table: [positions, depth / 2]` of cosines and sines; `lengths: [batches]`, where rows are at the ends of
/// batches, or none.
///
/// # Safety
/// `x` has every element that the rotation leads to, and no two rows share one. If the division is wide, all rows are made of vectors of 16 bytes, and so are their halves.
#[kernel(f16, bf16, block = BLOCK)]
pub unsafe fn rotary<T: Half>(
    rotation: Rotation,
    table: &[Vec2<f32>],
    lengths: &[u32],
    mut x: DisjointSlice<T>,
) {
    let Rotation { x: strides, division, rows, depth, first, back } = rotation;
    let sign = if back != 0 { -1.0 } else { 1.0 };
    let mut number = thread::thread_idx_x();
    while let Some(Place { batch, head, row, at }) = division.place(thread::block_idx_x(), number) {
        let position = position(lengths, batch, (first, row, rows));
        let turns = Turns::new(table, position, depth / 2, sign);
        let units = (depth, at, division.is_wide != 0);
        // SAFETY: the caller's promise; each thread has elements of its own.
        unsafe {
            let row = x.as_mut_ptr().add(strides.index(batch, head, row));
            move_units([row; 2], units, Some(turns));
        }
        number += BLOCK as u32;
    }
}

/// New keys and values, and where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Append {
    /// Where the new keys are.
    pub k: RowStrides,
    /// Where the new values are.
    pub v: RowStrides,
    /// Where the cache's keys are.
    pub k_cache: RowStrides,
    /// Where the cache's values are.
    pub v_cache: RowStrides,
    /// The new rows of the launch.
    pub division: Division,
    /// New rows of each batch.
    pub rows: u32,
    /// Elements of a key, an even number if there is a table.
    pub depth: u32,
    /// Elements of a value.
    pub value_depth: u32,
    /// Rows of a page, or of a batch of a cache without pages.
    pub page_rows: u32,
    /// Pages of a batch; 0 without pages.
    pub pages: u32,
    /// Pages, or batches, of the cache.
    pub cache_batches: u32,
}

/// Writes new keys and values behind those that a cache has, the keys turned by their positions if there is a table, in [`Division::blocks`] blocks. `lengths: [batches]` count
/// the new rows, too; `page_table: [batches, pages]` is of no elements where the cache has no pages. Rows that the cache has no place for are left out.
///
/// # Safety
/// All tensors have every element that their strides lead to, and no two rows of the cache share one. If the division is wide, all rows are made of vectors of 16 bytes, and so are
/// their halves.
#[kernel(f16, bf16, block = BLOCK)]
pub unsafe fn cache_append<T: Half>(
    append: Append,
    table: &[Vec2<f32>],
    lengths: &[u32],
    page_table: &[u32],
    k: &[T],
    v: &[T],
    mut k_cache: DisjointSlice<T>,
    mut v_cache: DisjointSlice<T>,
) {
    let Append { division, rows, depth, value_depth, .. } = append;
    let is_wide = division.is_wide != 0;
    let mut number = thread::thread_idx_x();
    while let Some(Place { batch, head, row, at }) = division.place(thread::block_idx_x(), number) {
        number += BLOCK as u32;
        let position = position(lengths, batch, (0, row, rows));
        let Some((page, slot)) = append.place(page_table, batch, position) else { continue };
        let turns = (!table.is_empty()).then(|| Turns::new(table, position, depth / 2, 1.0));
        // SAFETY: the caller's promise; each thread has elements of its own in both caches. Of new rows it only reads.
        unsafe {
            let from = k.as_ptr().add(append.k.index(batch, head, row)).cast_mut();
            let to = k_cache.as_mut_ptr().add(append.k_cache.index(page, head, slot));
            move_units([from, to], (depth, at, is_wide), turns);
            let from = v.as_ptr().add(append.v.index(batch, head, row)).cast_mut();
            let to = v_cache.as_mut_ptr().add(append.v_cache.index(page, head, slot));
            move_units([from, to], (value_depth, at, is_wide), None);
        }
    }
}

impl Append {
    /// The page, or batch, and the row there, of a position; `None` if the cache has no place for it.
    #[inline(always)]
    fn place(&self, page_table: &[u32], batch: u32, position: u32) -> Option<(u32, u32)> {
        let page_rows = self.page_rows.max(1);
        if self.pages == 0 {
            let is_inside = position < page_rows && batch < self.cache_batches;
            return is_inside.then_some((batch, position));
        }
        let page = position / page_rows;
        if page >= self.pages {
            return None;
        }
        let page = *page_table.get(batch as usize * self.pages as usize + page as usize)?;
        (page < self.cache_batches).then_some((page, position % page_rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places as each thread of each block would find them.
    fn places(division: &Division) -> Vec<[u32; 4]> {
        let of_block = |block| (0..).map_while(move |number| division.place(block, number));
        let places = (0..division.blocks()).flat_map(of_block);
        places.map(|Place { batch, head, row, at }| [batch, head, row, at]).collect()
    }

    #[test]
    fn every_unit_is_one_thread_s() {
        for sizes in [[1, 1, 1], [2, 3, 5], [3, 40, 7], [1, 300, 2], [2, 1, 1000]] {
            for (half, is_wide) in [(1, false), (3, false), (64, true), (8, true)] {
                let division = Division::new(sizes, half, is_wide).unwrap();
                let mut found = places(&division);
                let [batches, heads, rows] = sizes;
                let step = if is_wide { WIDE } else { 1 };
                let of_row = move |row: [u32; 3]| {
                    (0..half).step_by(step as usize).map(move |at| [row[0], row[1], row[2], at])
                };
                let of_head =
                    |batch, head| (0..rows).flat_map(move |row| of_row([batch, head, row]));
                let of_batch = |batch| (0..heads).flat_map(move |head| of_head(batch, head));
                let all: Vec<[u32; 4]> = (0..batches).flat_map(of_batch).collect();
                found.sort_unstable();
                assert!(found == all, "{sizes:?}, {half}");
            }
        }
    }

    #[test]
    fn no_rows_are_no_blocks_and_too_many_are_refused() {
        for sizes in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
            assert_eq!(Division::new(sizes, 64, true).unwrap().blocks(), 0);
        }
        assert_eq!(Division::new([1, 1, 1], 0, false).unwrap().blocks(), 0);
        assert!(Division::new([1 << 16, 1 << 10, 1 << 16], 64, true).is_none());
    }
}
