//! Views of device memory as rows of heads.

use std::fmt;

use bytemuck::Pod;
use kernels_gpu::attention::RowStrides;

use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceSlice, DeviceSliceMut};

const OPERATION: &str = "describing heads";

/// The sizes of a tensor `[batches, heads, rows, depth]`, and where its rows are. The elements of a row are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadsLayout {
    #[allow(missing_docs)]
    pub batches: usize,
    #[allow(missing_docs)]
    pub heads: usize,
    /// Queries, or keys, of a head.
    pub rows: usize,
    /// Elements of a row.
    pub depth: usize,
    /// From a batch to the next, in elements.
    pub batch_stride: usize,
    /// From a head to the next, in elements.
    pub head_stride: usize,
    /// From a row to the next, in elements.
    pub row_stride: usize,
}

impl HeadsLayout {
    /// `[batches, heads, rows, depth]` without gaps.
    #[must_use]
    pub const fn by_head([batches, heads, rows, depth]: [usize; 4]) -> Self {
        let head_stride = rows * depth;
        let batch_stride = heads * head_stride;
        Self { batches, heads, rows, depth, batch_stride, head_stride, row_stride: depth }
    }

    /// The sizes are `[batches, heads, rows, depth]`, and the memory `[batches, rows, heads, depth]` without gaps: what a linear layer gives.
    #[must_use]
    pub const fn by_row([batches, heads, rows, depth]: [usize; 4]) -> Self {
        let row_stride = heads * depth;
        let batch_stride = rows * row_stride;
        Self { batches, heads, rows, depth, batch_stride, head_stride: depth, row_stride }
    }

    /// `[batches, heads, rows, depth]`.
    #[must_use]
    pub const fn sizes(&self) -> [usize; 4] {
        [self.batches, self.heads, self.rows, self.depth]
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.batches == 0 || self.heads == 0 || self.rows == 0 || self.depth == 0
    }

    /// From the first element to after the last one.
    fn span(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let of = |count: usize, stride: usize| (count - 1).saturating_mul(stride);
        of(self.batches, self.batch_stride)
            .saturating_add(of(self.heads, self.head_stride))
            .saturating_add(of(self.rows, self.row_stride))
            .saturating_add(self.depth)
    }

    /// Whether no two elements are the same, as far as can be told from sorted strides.
    pub(super) fn is_disjoint(&self) -> bool {
        let mut dims = [
            (self.batch_stride, self.batches),
            (self.head_stride, self.heads),
            (self.row_stride, self.rows),
            (1, self.depth),
        ];
        dims.sort_unstable();
        let mut reach = 1usize;
        self.is_empty()
            || dims.iter().filter(|(_, count)| *count > 1).all(|(stride, count)| {
                let is_apart = *stride >= reach;
                reach = reach.saturating_add((count - 1).saturating_mul(*stride));
                is_apart
            })
    }

    pub(super) const fn strides(&self) -> RowStrides {
        RowStrides {
            batch: self.batch_stride as u64,
            head: self.head_stride as u64,
            row: self.row_stride as u64,
        }
    }
}

impl fmt::Display for HeadsLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batches, heads, rows, depth, .. } = self;
        write!(f, "{batches} × {heads} × {rows} × {depth}")
    }
}

/// What both views have.
macro_rules! views {
    ($($(#[$doc:meta])* $name:ident $slice:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name<'a, T: Pod> {
            pub(super) memory: $slice<'a, T>,
            pub(super) layout: HeadsLayout,
        }

        impl<'a, T: Pod> $name<'a, T> {
            /// Heads of this layout at the beginning of `memory`.
            ///
            /// # Errors
            /// [`SizeMismatch`](GpuError::SizeMismatch) if `memory` is too short.
            pub fn new(memory: impl Into<$slice<'a, T>>, layout: HeadsLayout) -> GpuResult<Self> {
                let memory = memory.into();
                let expected = layout.span();
                if expected > memory.len() {
                    let found = memory.len();
                    return Err(GpuError::SizeMismatch { operation: OPERATION, expected, found });
                }
                Ok(Self { memory, layout })
            }

            /// The sizes, and where the rows are.
            #[must_use]
            pub fn layout(&self) -> HeadsLayout {
                self.layout
            }

            /// Where the first element is in device memory.
            pub(super) fn address(&self) -> u64 {
                cuda_std::launch::DeviceRead::raw(&self.memory).address
            }

        }

        impl<T: Pod> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("layout", &self.layout).finish_non_exhaustive()
            }
        }
    )*};
}

views! {
    /// Queries, keys or values in device memory.
    Heads DeviceSlice;
    /// Results in device memory.
    HeadsMut DeviceSliceMut;
}

impl<T: Pod> HeadsMut<'_, T> {
    /// The same memory, to be read.
    pub(super) fn as_read(&self) -> Heads<'_, T> {
        Heads { memory: (&self.memory).into(), layout: self.layout }
    }

    /// Whether their memory has bytes of that of `other`.
    pub(super) fn overlaps<U: Pod>(&self, other: &Heads<'_, U>) -> bool {
        let own = (self.memory.len() * size_of::<T>()) as u64;
        let others = (other.memory.len() * size_of::<U>()) as u64;
        let (start, from) = (self.address(), other.address());
        own > 0 && others > 0 && start < from + others && from < start + own
    }
}

impl<T: Pod> Clone for Heads<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for Heads<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_know_their_span() {
        let sizes = [2, 3, 5, 8];
        assert_eq!(HeadsLayout::by_head(sizes).span(), 240);
        assert_eq!(HeadsLayout::by_row(sizes).span(), 240);
        assert_eq!(HeadsLayout { batches: 0, ..HeadsLayout::by_row(sizes) }.span(), 0);
        let endless = HeadsLayout { row_stride: usize::MAX, ..HeadsLayout::by_row(sizes) };
        assert_eq!(endless.span(), usize::MAX);
    }

    #[test]
    fn rows_that_meet_are_found() {
        let sizes = [2, 3, 5, 8];
        assert!(
            HeadsLayout::by_head(sizes).is_disjoint() && HeadsLayout::by_row(sizes).is_disjoint()
        );
        assert!(!HeadsLayout { row_stride: 7, ..HeadsLayout::by_head(sizes) }.is_disjoint());
        assert!(!HeadsLayout { batch_stride: 0, ..HeadsLayout::by_head(sizes) }.is_disjoint());
        assert!(
            HeadsLayout { batches: 1, batch_stride: 0, ..HeadsLayout::by_head(sizes) }
                .is_disjoint()
        );
    }
}
