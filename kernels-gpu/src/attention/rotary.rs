//! Rotary position embedding, and new keys and values for a cache.
//!
//! Elements `i` and `i + d / 2` of a row are turned by the angle `position · base^(-2 i / d)` (J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position
//! Embedding*, 2021; halves instead of neighbours, as most models have it). The cosines and sines are a table, which the host computes.

use super::RowStrides;
use crate::matmul::Value;
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::{bf16, f16};

/// Which rows are turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Rotation {
    #[allow(missing_docs)]
    pub batches: u32,
    #[allow(missing_docs)]
    pub heads: u32,
    /// Rows of a head.
    pub rows: u32,
    /// Half of a row's elements.
    pub half: u32,
    /// The position of a head's first row, where batches have no lengths.
    pub first: u32,
    /// 1 to turn back.
    pub back: u32,
    /// Where the rows are.
    pub x: RowStrides,
}

/// The position of a row, of `rows`, at the end of its batch, or from `first` on.
#[inline(always)]
fn position(lengths: &[u32], batch: u32, (first, row, rows): (u32, u32, u32)) -> u32 {
    match lengths.get(batch as usize) {
        Some(length) => (length + row).wrapping_sub(rows),
        None => first + row,
    }
}

/// Turns rows in place, a thread for each pair of elements. `table: [positions, half]` of cosines and sines; `lengths: [batches]`, where rows are at the ends of
/// batches, or none.
///
/// # Safety
/// `x` has every element that the rotation leads to, and no two rows share one.
#[kernel(f16, bf16)]
pub unsafe fn rotary<T: Value>(
    index: ThreadIndex,
    rotation: Rotation,
    table: &[Vec2<f32>],
    lengths: &[u32],
    mut x: DisjointSlice<T>,
) {
    let Rotation { batches, heads, rows, half, first, back, x: strides } = rotation;
    let (half, rows, heads) = (half.max(1), rows.max(1), heads.max(1));
    let (pair, at) = (index.get() % half as usize, index.get() / half as usize);
    let (row, at) = ((at % rows as usize) as u32, at / rows as usize);
    let (head, batch) = ((at % heads as usize) as u32, (at / heads as usize) as u32);
    if batch >= batches {
        return;
    }
    let position = position(lengths, batch, (first, row, rows));
    let turn = table[position as usize * half as usize + pair];
    let sin = if back != 0 { -turn.y } else { turn.y };
    // SAFETY: the caller's promise; each thread has a pair of its own.
    unsafe {
        let low = x.as_mut_ptr().add(strides.index(batch, head, row) + pair);
        let high = low.add(half as usize);
        let (a, b) = ((*low).widen(), (*high).widen());
        *low = T::narrow(a * turn.x - b * sin);
        *high = T::narrow(b * turn.x + a * sin);
    }
}

/// New keys and values, and where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Append {
    #[allow(missing_docs)]
    pub batches: u32,
    #[allow(missing_docs)]
    pub heads: u32,
    /// New rows of each batch.
    pub rows: u32,
    /// Elements of a key.
    pub depth: u32,
    /// Elements of a value.
    pub value_depth: u32,
    /// Rows of a page, or of a batch of a cache without pages.
    pub page_rows: u32,
    /// Pages of a batch; 0 without pages.
    pub pages: u32,
    /// Pages, or batches, of the cache.
    pub cache_batches: u32,
    /// Where the new keys are.
    pub k: RowStrides,
    /// Where the new values are.
    pub v: RowStrides,
    /// Where the cache's keys are.
    pub k_cache: RowStrides,
    /// Where the cache's values are.
    pub v_cache: RowStrides,
}

impl Append {
    /// The threads that it takes: one for each element of a key, or of a value, whichever is longer.
    #[must_use]
    pub const fn threads(&self) -> usize {
        let depth = if self.depth > self.value_depth { self.depth } else { self.value_depth };
        self.batches as usize * self.heads as usize * self.rows as usize * depth as usize
    }
}

/// Writes new keys and values behind those that a cache has, the keys turned by their positions if there is a table. `lengths: [batches]` count the new
/// rows, too; `page_table: [batches, pages]` is of no elements where the cache has no pages. Rows that the cache has no place for are left out.
///
/// # Safety
/// All tensors have every element that their strides lead to, and no two rows of the cache share one.
#[kernel(f16, bf16)]
pub unsafe fn cache_append<T: Value>(
    index: ThreadIndex,
    append: Append,
    table: &[Vec2<f32>],
    lengths: &[u32],
    page_table: &[u32],
    k: &[T],
    v: &[T],
    mut k_cache: DisjointSlice<T>,
    mut v_cache: DisjointSlice<T>,
) {
    let Append { heads, rows, depth, value_depth, .. } = append;
    let width = depth.max(value_depth).max(1) as usize;
    let (column, at) = (index.get() % width, index.get() / width);
    let (heads, rows) = (heads.max(1), rows.max(1));
    let (row, at) = ((at % rows as usize) as u32, at / rows as usize);
    let (head, batch) = ((at % heads as usize) as u32, (at / heads as usize) as u32);
    if batch >= append.batches {
        return;
    }
    let position = position(lengths, batch, (0, row, rows));
    let Some((page, slot)) = append.place(page_table, batch, position) else { return };
    // SAFETY: the caller's promise; each thread has an element of its own in both caches.
    unsafe {
        if column < depth as usize {
            let x = k.as_ptr().add(append.k.index(batch, head, row));
            let half = depth as usize / 2;
            let mut value = (*x.add(column)).widen();
            if !table.is_empty() && half > 0 {
                let is_low = column < half;
                let turn =
                    table[position as usize * half + if is_low { column } else { column - half }];
                let other = (*x.add(if is_low { column + half } else { column - half })).widen();
                value = value * turn.x + if is_low { -other } else { other } * turn.y;
            }
            let to = append.k_cache.index(page, head, slot) + column;
            k_cache.as_mut_ptr().add(to).write(T::narrow(value));
        }
        if column < value_depth as usize {
            let value = *v.as_ptr().add(append.v.index(batch, head, row) + column);
            let to = append.v_cache.index(page, head, slot) + column;
            v_cache.as_mut_ptr().add(to).write(value);
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
