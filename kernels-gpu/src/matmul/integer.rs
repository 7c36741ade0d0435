//! Sums of bytes, and how they are stored.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code))]

use super::Problem;
use bytemuck::Pod;
use cuda_std::intrinsics::float2int_rn;

/// What a product of integers is stored as.
pub trait Integer: Pod {
    /// Two neighbours, as one store moves them: aligned to their size.
    type Pair: Pod;

    /// From `alpha · sum + beta · c`; `c` is read where beta is not 0.
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self;

    /// Two elements, the first one in the lower bits.
    fn pair(values: [Self; 2]) -> Self::Pair;
}

/// Alpha and beta are taken as integers; sums wrap.
impl Integer for i32 {
    type Pair = u64;

    #[inline(always)]
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self {
        let addend = if beta != 0.0 { (beta as i32).wrapping_mul(c()) } else { 0 };
        (alpha as i32).wrapping_mul(sum).wrapping_add(addend)
    }

    #[inline(always)]
    fn pair([first, second]: [Self; 2]) -> u64 {
        u64::from(first.cast_unsigned()) | u64::from(second.cast_unsigned()) << 32
    }
}

/// Rounded to the nearest, ties to even, and limited to the type's range.
impl Integer for i8 {
    type Pair = u16;

    #[inline(always)]
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self {
        let addend = if beta != 0.0 { beta * f32::from(c()) } else { 0.0 };
        float2int_rn(alpha * sum as f32 + addend).clamp(-128, 127) as i8
    }

    #[inline(always)]
    fn pair([first, second]: [Self; 2]) -> u16 {
        u16::from(first.cast_unsigned()) | u16::from(second.cast_unsigned()) << 8
    }
}

/// D of a product of integers.
#[derive(Clone, Copy)]
pub struct IntegerOutput<'a, D> {
    problem: &'a Problem,
    c: *const D,
    d: *mut D,
    /// Whether pairs that begin in even columns are aligned.
    has_pairs: bool,
}

impl<'a, D: Integer> IntegerOutput<'a, D> {
    /// From a kernel's arguments.
    #[inline(always)]
    pub fn new(problem: &'a Problem, c: *const D, d: *mut D) -> Self {
        let has_pairs = d.addr().is_multiple_of(size_of::<D::Pair>())
            && problem.d.column == 1
            && (problem.d.row | problem.d.batch).is_multiple_of(2);
        Self { problem, c, d, has_pairs }
    }

    /// The product.
    #[inline(always)]
    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// Where the element at `at` (matrix, row and column) and the one 8 rows below are, if all of a tile of `sizes` at row and column `first` is
    /// stored in pairs, without C.
    #[inline(always)]
    pub fn places_of_tile(
        &self,
        first: [usize; 2],
        sizes: [usize; 2],
        at: [usize; 3],
    ) -> Option<[*mut D; 2]> {
        let &Problem { m, n, beta, d: strides, .. } = self.problem;
        let is_inside = first[0] + sizes[0] <= m as usize && first[1] + sizes[1] <= n as usize;
        (is_inside && self.has_pairs && beta == 0.0).then(|| {
            let above = self.d.wrapping_add(strides.index(at[0], at[1], at[2]));
            [above, above.wrapping_add(8 * strides.row as usize)]
        })
    }

    /// Writes two elements of a row, `column` elements behind a place of [`places_of_tile`](Self::places_of_tile).
    ///
    /// # Safety
    /// They are in that tile, the column is even, and this thread alone writes them.
    #[inline(always)]
    pub unsafe fn write_plain(&self, place: *mut D, column: usize, sums: [i32; 2]) {
        let alpha = self.problem.alpha;
        let value = |sum| D::store(sum, alpha, 0.0, || D::zeroed());
        // SAFETY: the caller's promise.
        unsafe { place.add(column).cast::<D::Pair>().write(D::pair(sums.map(value))) };
    }

    /// Writes two elements of a row, those that are inside: by one store where they are neighbours that begin in an even column and D's
    /// rows are aligned.
    ///
    /// # Safety
    /// The batch is inside, D and, where beta is not 0, C have every element that the problem leads to, and this thread alone writes
    /// both elements.
    #[inline(always)]
    pub unsafe fn write_pair(
        &self,
        sums: [i32; 2],
        batch: usize,
        row: usize,
        [first, second]: [usize; 2],
    ) {
        let &Problem { n, m, alpha, beta, .. } = self.problem;
        if row >= m as usize || first >= n as usize {
            return;
        }
        // SAFETY: both are inside where they are called.
        let value = |sum, column| unsafe {
            let at = self.problem.c.index(batch, row, column);
            D::store(sum, alpha, beta, || self.c.add(at).read())
        };
        let at = |column| self.problem.d.index(batch, row, column);
        let has_second = second < n as usize;
        // SAFETY: inside; the caller's promise.
        unsafe {
            if has_second && self.has_pairs && second == first + 1 {
                let pair = D::pair([value(sums[0], first), value(sums[1], second)]);
                self.d.add(at(first)).cast::<D::Pair>().write(pair);
                return;
            }
            self.d.add(at(first)).write(value(sums[0], first));
            if has_second {
                self.d.add(at(second)).write(value(sums[1], second));
            }
        }
    }
}
