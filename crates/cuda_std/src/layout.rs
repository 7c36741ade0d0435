//! Layouts: functions from coordinates to offsets, and an algebra of them.
//!
//! A [`Layout`] is a shape and a stride for each of its modes. It takes a coordinate, one index for each mode, to the sum of
//! index times stride. It also takes one number below its [`size`](Layout::size), which counts the coordinates with the
//! first mode fastest, and so it is a function from `0..size` to offsets, which can be composed with others:
//!
//! | operation | result |
//! |---|---|
//! | [`compose`](Layout::compose) | `outer(inner(i))` |
//! | [`complement`](Layout::complement) | the offsets that a layout leaves out, as the starts of its copies |
//! | [`divide`](Layout::divide) | a tile of a layout, and where the tiles are |
//! | [`product`](Layout::product) | a layout repeated: once for each offset of another |
//! | [`coalesce`](Layout::coalesce) | the same function with as few modes as possible |
//!
//! This is the algebra of CuTe (NVIDIA, 2023: CUTLASS 3.0, "CuTe layout algebra"), with one simplification: modes are not
//! nested. Where CuTe nests, [`divide`](Layout::divide) and [`product`](Layout::product) return two layouts. Everything is a
//! `const fn`, so a kernel's layouts are constants, and a layout that does not divide does not compile.
//!
//! ```
//! use cuda_std::layout::Layout;
//!
//! // Where a warp's lanes and registers lie in the 16 × 8 sums of `mma`, columns contiguous:
//! // lane = 4 * row + pair, register = column of the pair + 2 * upper half.
//! const SUMS: Layout = Layout::new([4, 8, 2, 2], [32, 1, 16, 8]);
//! assert_eq!(SUMS.at([1, 2, 1, 0]), 2 + 16 * 3); // row 2, column 3
//! assert_eq!((SUMS.size(), SUMS.cosize()), (128, 128));
//!
//! // A row-major matrix of 6 × 8 in tiles of 2 × 4, a mode at a time.
//! const ROWS: [Layout; 2] = Layout::new([6], [8]).divide(Layout::compact([2]));
//! const COLUMNS: [Layout; 2] = Layout::new([8], [1]).divide(Layout::compact([4]));
//! const TILE: Layout = ROWS[0].followed_by(COLUMNS[0]);
//! const TILES: Layout = ROWS[1].followed_by(COLUMNS[1]);
//! assert_eq!((TILE, TILES), (Layout::new([2, 4], [8, 1]), Layout::new([3, 2], [16, 4])));
//! ```

use core::fmt;

/// Modes that a layout can have.
pub const MAX_RANK: usize = 8;

/// A function from coordinates to offsets: a shape and a stride for each mode. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    rank: usize,
    /// The first `rank` are the shape; the others are 1.
    shape: [usize; MAX_RANK],
    /// The first `rank` are the strides; the others are 0.
    stride: [usize; MAX_RANK],
}

impl Layout {
    /// No modes: the one offset 0.
    const EMPTY: Self = Self { rank: 0, shape: [1; MAX_RANK], stride: [0; MAX_RANK] };

    /// The layout with these modes. Panics if there are more than [`MAX_RANK`], or if an extent is 0.
    #[must_use]
    pub const fn new<const RANK: usize>(shape: [usize; RANK], stride: [usize; RANK]) -> Self {
        let (mut layout, mut mode) = (Self::EMPTY, 0);
        while mode < RANK {
            layout = layout.with(shape[mode], stride[mode]);
            mode += 1;
        }
        layout
    }

    /// The layout without gaps whose first mode is contiguous: offset `i` for number `i`.
    #[must_use]
    pub const fn compact<const RANK: usize>(shape: [usize; RANK]) -> Self {
        let (mut layout, mut mode, mut stride) = (Self::EMPTY, 0, 1);
        while mode < RANK {
            layout = layout.with(shape[mode], stride);
            stride *= shape[mode];
            mode += 1;
        }
        layout
    }

    /// One mode more.
    const fn with(mut self, extent: usize, stride: usize) -> Self {
        assert!(self.rank < MAX_RANK, "a layout has at most eight modes");
        assert!(extent > 0, "a mode of a layout has at least one index");
        self.shape[self.rank] = extent;
        self.stride[self.rank] = stride;
        self.rank += 1;
        self
    }

    /// How many modes there are.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// The extent of a mode. Panics past the rank.
    #[must_use]
    pub const fn extent(&self, mode: usize) -> usize {
        assert!(mode < self.rank);
        self.shape[mode]
    }

    /// The stride of a mode. Panics past the rank.
    #[must_use]
    pub const fn stride(&self, mode: usize) -> usize {
        assert!(mode < self.rank);
        self.stride[mode]
    }

    /// How many coordinates there are.
    #[must_use]
    pub const fn size(&self) -> usize {
        let (mut size, mut mode) = (1, 0);
        while mode < self.rank {
            size *= self.shape[mode];
            mode += 1;
        }
        size
    }

    /// The largest offset plus 1.
    #[must_use]
    pub const fn cosize(&self) -> usize {
        let (mut last, mut mode) = (0, 0);
        while mode < self.rank {
            last += (self.shape[mode] - 1) * self.stride[mode];
            mode += 1;
        }
        last + 1
    }

    /// The offset of a coordinate. An index past its mode's extent is not an error.
    #[inline(always)]
    #[must_use]
    pub const fn at<const RANK: usize>(&self, coordinate: [usize; RANK]) -> usize {
        assert!(RANK == self.rank, "a coordinate has an index for each mode");
        let (mut offset, mut mode) = (0, 0);
        while mode < RANK {
            offset += coordinate[mode] * self.stride[mode];
            mode += 1;
        }
        offset
    }

    /// The offset of coordinate number `index`, the first mode being the fastest. Of an index past the size the last mode
    /// takes the excess.
    #[inline(always)]
    #[must_use]
    pub const fn offset(&self, index: usize) -> usize {
        let (mut rest, mut offset, mut mode) = (index, 0, 0);
        while mode + 1 < self.rank {
            offset += rest % self.shape[mode] * self.stride[mode];
            rest /= self.shape[mode];
            mode += 1;
        }
        if self.rank > 0 { offset + rest * self.stride[mode] } else { 0 }
    }

    /// The modes of this layout and then those of `next`: the sum of both offsets.
    #[must_use]
    pub const fn followed_by(mut self, next: Self) -> Self {
        let mut mode = 0;
        while mode < next.rank {
            self = self.with(next.shape[mode], next.stride[mode]);
            mode += 1;
        }
        self
    }

    /// The same function of the coordinates' numbers, with as few modes as possible: extents of 1 go, and a mode that
    /// continues the one before joins it.
    #[must_use]
    pub const fn coalesce(self) -> Self {
        let (mut joined, mut mode) = (Self::EMPTY, 0);
        while mode < self.rank {
            let (extent, stride) = (self.shape[mode], self.stride[mode]);
            let last = joined.rank.wrapping_sub(1);
            if extent == 1 {
            } else if joined.rank > 0 && stride == joined.shape[last] * joined.stride[last] {
                joined.shape[last] *= extent;
            } else {
                joined = joined.with(extent, stride);
            }
            mode += 1;
        }
        joined
    }

    /// `self(inner(i))` for each number `i` below the size of `inner`. Each mode of `inner` becomes one or several modes.
    ///
    /// Panics where [`checked_compose`](Self::checked_compose) gives none.
    #[must_use]
    pub const fn compose(self, inner: Self) -> Self {
        match self.checked_compose(inner) {
            Some(composed) => composed,
            None => panic!(
                "a stride or extent of the inner layout does not divide the outer layout's extents"
            ),
        }
    }

    /// [`compose`](Self::compose), or `None` where that is not a layout: the strides and extents of `inner` must divide the
    /// extents of this layout, or be divided by them, and the modes of `inner` must not carry into one another.
    #[must_use]
    pub const fn checked_compose(self, inner: Self) -> Option<Self> {
        let outer = self.coalesce();
        let (mut composed, mut reach, mut mode) = (Self::EMPTY, [0; MAX_RANK], 0);
        while mode < inner.rank {
            let (extent, stride) = (inner.shape[mode], inner.stride[mode]);
            match outer.compose_mode(composed, &mut reach, extent, stride) {
                Some(next) => composed = next,
                None => return None,
            }
            mode += 1;
        }
        Some(composed)
    }

    /// `composed`, and then the modes of `self ∘ extent:stride`. `reach` is the largest index of each mode so far.
    const fn compose_mode(
        &self,
        mut composed: Self,
        reach: &mut [usize; MAX_RANK],
        mut extent: usize,
        mut stride: usize,
    ) -> Option<Self> {
        let mut mode = 0;
        while mode + 1 < self.rank {
            let own = self.shape[mode];
            // Every `stride`-th index of this mode, as many of them as there are or are asked for.
            let left = if stride == 0 { extent } else { own.div_ceil(stride) };
            let taken = if left < extent { left } else { extent };
            reach[mode] += (taken - 1) * stride;
            let divides = stride == 0 || own.is_multiple_of(stride) || stride.is_multiple_of(own);
            if !divides || !extent.is_multiple_of(taken) || reach[mode] >= own {
                return None;
            }
            if taken > 1 {
                composed = composed.with(taken, stride * self.stride[mode]);
            }
            extent /= taken;
            stride = stride.div_ceil(own);
            mode += 1;
        }
        let last = if self.rank > 0 { self.stride[mode] } else { 0 };
        Some(if extent > 1 { composed.with(extent, stride * last) } else { composed })
    }

    /// The starts, below `cosize`, at which copies of this layout's offsets fill what it leaves out: this layout
    /// [`followed_by`](Self::followed_by) its complement reaches each offset below `cosize` (rounded up to whole copies)
    /// once. The strides of a complement ascend.
    ///
    /// Panics where [`checked_complement`](Self::checked_complement) gives none.
    #[must_use]
    pub const fn complement(self, cosize: usize) -> Self {
        match self.checked_complement(cosize) {
            Some(starts) => starts,
            None => panic!("the modes of the layout overlap: it has no complement"),
        }
    }

    /// [`complement`](Self::complement), or `None` where two coordinates of this layout have one offset, or its offsets
    /// interlock so that no copies fit.
    #[must_use]
    pub const fn checked_complement(self, cosize: usize) -> Option<Self> {
        let (mut starts, mut filled, mut modes) = (Self::EMPTY, 1, self.coalesce());
        while let Some(mode) = modes.least_stride() {
            let (extent, stride) = (modes.shape[mode], modes.stride[mode]);
            if stride == 0 || !stride.is_multiple_of(filled) {
                return None;
            }
            starts = starts.with(stride / filled, filled);
            filled = extent * stride;
            modes.shape[mode] = 1;
        }
        Some(starts.with(cosize.div_ceil(filled), filled).coalesce())
    }

    /// The mode with the least stride, of those with more than one index.
    const fn least_stride(&self) -> Option<usize> {
        let (mut least, mut mode): (Option<usize>, usize) = (None, 0);
        while mode < self.rank {
            let is_less = match least {
                Some(other) => self.stride[mode] < self.stride[other],
                None => true,
            };
            if self.shape[mode] > 1 && is_less {
                least = Some(mode);
            }
            mode += 1;
        }
        least
    }

    /// A tile of this layout, whose elements have the numbers `tile(i)`, and the starts of all such tiles: CuTe's
    /// `logical_divide`. The sum of an offset of the first and one of the second is an offset of this layout, and each
    /// offset comes once.
    ///
    /// Panics as [`compose`](Self::compose) and [`complement`](Self::complement) do.
    #[must_use]
    pub const fn divide(self, tile: Self) -> [Self; 2] {
        [self.compose(tile), self.compose(tile.complement(self.size()))]
    }

    /// This layout, and the starts of its copies: copy `i` is number `order(i)` of those that lie without gaps. CuTe's
    /// `logical_product`.
    ///
    /// Panics as [`compose`](Self::compose) and [`complement`](Self::complement) do.
    #[must_use]
    pub const fn product(self, order: Self) -> [Self; 2] {
        [self, self.complement(self.size() * order.cosize()).compose(order)]
    }
}

/// As CuTe prints them: `(4, 8):(2, 1)`.
impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, of: &[usize; MAX_RANK]| {
            f.write_str("(")?;
            for (mode, number) in of[..self.rank].iter().enumerate() {
                write!(f, "{}{number}", if mode == 0 { "" } else { ", " })?;
            }
            f.write_str(")")
        };
        list(f, &self.shape)?;
        f.write_str(":")?;
        list(f, &self.stride)
    }
}

/// A permutation of offsets that spreads a column over the banks of shared memory: `bits` bits from bit `base` on are
/// changed by an exclusive or with those that stand `shift` above. It is its own inverse.
///
/// ```
/// use cuda_std::layout::Swizzle;
///
/// // Rows of 128 bytes, in pieces of 16: piece p of row r is at p ^ r, modulo 8.
/// const ROWS: Swizzle = Swizzle::new(3, 4, 3);
/// assert_eq!(ROWS.apply(128 * 5 + 16 * 3 + 7), 128 * 5 + 16 * (3 ^ 5) + 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swizzle {
    mask: usize,
    shift: u32,
}

impl Swizzle {
    /// The swizzle of these numbers, CuTe's `Swizzle<bits, base, shift>`. Panics if the two groups of bits overlap.
    #[must_use]
    pub const fn new(bits: u32, base: u32, shift: u32) -> Self {
        assert!(shift >= bits, "the bits of a swizzle overlap those that change them");
        Self { mask: ((1 << bits) - 1) << base, shift }
    }

    /// Where `offset` goes.
    #[inline(always)]
    #[must_use]
    pub const fn apply(self, offset: usize) -> usize {
        offset ^ (offset >> self.shift & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(layout: Layout) -> Vec<usize> {
        (0..layout.size()).map(|i| layout.offset(i)).collect()
    }

    fn sorted(mut values: Vec<usize>) -> Vec<usize> {
        values.sort_unstable();
        values
    }

    /// Layouts of up to three modes, with extents that divide 24 and strides up to 8.
    fn some() -> Vec<Layout> {
        let modes: Vec<_> =
            [1, 2, 3, 4].into_iter().flat_map(|n| [0, 1, 2, 3, 4, 8].map(|d| (n, d))).collect();
        let mut all = vec![Layout::compact([]), Layout::compact([24]), Layout::new([6, 4], [4, 1])];
        all.extend(modes.iter().map(|&(n, d)| Layout::new([n], [d])));
        for &(n, d) in &modes {
            all.extend(modes.iter().map(|&(m, e)| Layout::new([n, m], [d, e])));
            all.extend(modes.iter().step_by(5).map(|&(m, e)| Layout::new([n, m, 2], [d, e, 12])));
        }
        all
    }

    #[test]
    fn offsets_are_sums_over_the_modes() {
        let layout = Layout::new([3, 4, 2], [5, 0, 7]);
        let mut index = 0;
        for k in 0..2 {
            for j in 0..4 {
                for i in 0..3 {
                    assert_eq!(layout.at([i, j, k]), 5 * i + 7 * k);
                    assert_eq!(layout.offset(index), 5 * i + 7 * k);
                    index += 1;
                }
            }
        }
        assert_eq!((layout.size(), layout.cosize(), layout.rank()), (24, 18, 3));
        assert_eq!((layout.extent(1), layout.stride(2)), (4, 7));
        assert_eq!(format!("{layout:?}"), "(3, 4, 2):(5, 0, 7)");
        assert_eq!(offsets(Layout::compact([2, 3])), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn coalesced_layouts_are_the_same_functions() {
        for layout in some() {
            let joined = layout.coalesce();
            assert_eq!(offsets(joined), offsets(layout), "{layout:?} and {joined:?}");
        }
        assert_eq!(Layout::new([2, 1, 6], [1, 6, 2]).coalesce(), Layout::new([12], [1]));
    }

    #[test]
    fn compositions_are_one_function_after_the_other() {
        let mut composed = 0;
        for outer in some() {
            for inner in some() {
                if inner.cosize() > outer.size() {
                    continue;
                }
                let Some(both) = outer.checked_compose(inner) else { continue };
                let expected: Vec<_> =
                    offsets(inner).into_iter().map(|i| outer.offset(i)).collect();
                assert_eq!(offsets(both), expected, "{outer:?} ∘ {inner:?} = {both:?}");
                composed += 1;
            }
        }
        assert!(composed > 1000, "only {composed} compositions are layouts");
        // The examples of CuTe's documentation.
        let found = Layout::new([6, 2], [8, 2]).compose(Layout::new([4, 3], [3, 1]));
        assert_eq!(found, Layout::new([2, 2, 3], [24, 2, 8]));
        let found = Layout::new([20], [2]).compose(Layout::new([5, 4], [4, 1]));
        assert_eq!(found, Layout::new([5, 4], [8, 2]));
    }

    #[test]
    fn what_does_not_divide_has_no_composition() {
        let outer = Layout::new([6, 4], [1, 10]);
        // A stride, an extent, and two modes whose sum carries from one mode of the outer layout to the next.
        for inner in [Layout::new([2], [4]), Layout::new([8], [1]), Layout::new([2, 3], [2, 2])] {
            assert_eq!(outer.checked_compose(inner), None, "{inner:?}");
        }
    }

    #[test]
    fn a_layout_and_its_complement_reach_each_offset_once() {
        let mut found = 0;
        for layout in some() {
            let Some(rest) = layout.checked_complement(48) else { continue };
            let both = sorted(offsets(layout.followed_by(rest)));
            assert_eq!(both, (0..both.len()).collect::<Vec<_>>(), "{layout:?} and {rest:?}");
            assert!(both.len() >= 48);
            found += 1;
        }
        assert!(found > 50, "only {found} layouts have a complement");
        for layout in [Layout::new([4], [0]), Layout::new([4, 2], [1, 2])] {
            assert_eq!(layout.checked_complement(48), None, "{layout:?}");
        }
        assert_eq!(Layout::new([2, 2], [1, 6]).complement(24), Layout::new([3, 2], [2, 12]));
    }

    #[test]
    fn tiles_reach_each_offset_of_the_layout_once() {
        let whole = Layout::new([4, 2, 3], [2, 1, 8]);
        // CuTe's example: 24 elements in tiles of 4.
        let [tile, tiles] = whole.divide(Layout::new([4], [2]));
        assert_eq!(tile, Layout::new([2, 2], [4, 1]));
        assert_eq!(tiles, Layout::new([2, 3], [2, 8]));
        for of in [Layout::compact([2]), Layout::new([3], [8]), Layout::new([4], [2])] {
            let [tile, tiles] = whole.divide(of);
            assert_eq!(tile.size(), of.size());
            let both = sorted(offsets(tile.followed_by(tiles)));
            assert_eq!(both, sorted(offsets(whole)), "{of:?}");
        }
    }

    #[test]
    fn a_product_repeats_a_layout() {
        let [tile, copies] = Layout::new([2, 2], [4, 1]).product(Layout::compact([6]));
        assert_eq!((tile, copies), (Layout::new([2, 2], [4, 1]), Layout::new([2, 3], [2, 8])));
        let all = sorted(offsets(tile.followed_by(copies)));
        assert_eq!(all, (0..24).collect::<Vec<_>>());
        // In another order: the copies of a row of two before the next row.
        let [_, copies] = Layout::compact([4]).product(Layout::new([3, 2], [2, 1]));
        assert_eq!(offsets(copies), [0, 8, 16, 4, 12, 20]);
    }

    #[test]
    fn a_swizzle_is_a_permutation_that_spreads_columns() {
        for shift in 3..6 {
            let swizzle = Swizzle::new(3, 4, shift);
            let all: Vec<_> = (0..4096).map(|offset| swizzle.apply(offset)).collect();
            assert!((0..4096).all(|offset| swizzle.apply(all[offset]) == offset));
            let row_bytes = 16 << shift;
            let column = (0..8).map(|row| swizzle.apply(row * row_bytes + 32) / 16 % 8);
            assert_eq!(sorted(column.collect()), [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }
}
