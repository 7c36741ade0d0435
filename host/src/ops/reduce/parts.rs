//! Reductions of segments, rows and columns.

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::reduce::{
    Shape, Split, column_extreme, column_lanes, column_sum, partial_words, segment_extreme,
    segment_sum,
};

use super::{Blocks, Element};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// Counters of a [`Scratch`] that columns share.
const COUNTERS: u32 = 64;

/// Bytes for partial values of at most 8 bytes.
const fn partial_bytes(values: usize) -> usize {
    4 * partial_words::<u64>(values)
}

/// The scratch of the `_into` forms for rows, in bytes.
#[must_use]
pub fn rows_scratch_bytes(rows: usize, cols: usize) -> usize {
    segments_scratch_bytes(rows, rows * cols)
}

/// The scratch of the `_into` forms for segments, in bytes.
#[must_use]
pub fn segments_scratch_bytes(segments: usize, n_elems: usize) -> usize {
    let split = Split::of(segments as u64, n_elems as u64, 0);
    size_of_parts(&[partial_bytes(split.partials(segments as u64))])
}

/// The scratch of the `_into` forms for columns, in bytes.
#[must_use]
pub fn columns_scratch_bytes(rows: usize, cols: usize) -> usize {
    // Whatever a thread's number of columns: it depends on the element.
    let of = |lanes| partial_bytes(shape(rows, cols, lanes).partials());
    size_of_parts(&[of(1).max(of(2)).max(of(4))])
}

/// How blocks share a matrix.
fn shape(rows: usize, cols: usize, lanes: usize) -> Shape {
    Shape::of(rows as u64, cols as u64, lanes, COUNTERS)
}

impl<'a> Blocks<'a> {
    /// Those of `blocks` blocks with `partials` partial results.
    fn sharing(
        on: &impl AsStream,
        blocks: u64,
        partials: usize,
        scratch: &'a mut Scratch,
    ) -> GpuResult<Self> {
        let (counters, [words]) = scratch.parts(on, [partial_bytes(partials)])?;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Ok(Self { grid: Grid1::new(blocks), partials: words.into_cast()?, counters })
    }

    /// Those of a reduction of `segments` segments of `x`, each `width` long unless there are offsets.
    fn of_segments<T>(
        on: &impl AsStream,
        x: &impl DeviceRead<T>,
        (segments, width): (usize, usize),
        scratch: &'a mut Scratch,
    ) -> GpuResult<(Self, Split)> {
        let (segments, n_elems) = (segments as u64, x.len() as u64);
        let split = Split::of(segments, n_elems, width as u64);
        let (blocks, partials) = (split.blocks(segments), split.partials(segments));
        Ok((Self::sharing(on, blocks.into(), partials, scratch)?, split))
    }
}

/// An error unless offsets are one more than segments.
fn check_offsets(offsets: usize, segments: usize) -> GpuResult<()> {
    same_len("offsets of segments", segments + 1, offsets)
}

/// An error unless `x` and `out` fit a matrix.
fn check_matrix((rows, cols): (usize, usize), x: usize, out: (usize, usize)) -> GpuResult<()> {
    const OPERATION: &str = "reducing a matrix";
    let cells = rows.checked_mul(cols).ok_or_else(|| GpuError::InvalidArgument {
        operation: OPERATION,
        reason: format!("{rows} rows of {cols} elements are more than can be counted"),
    })?;
    same_len(OPERATION, cells, x)?;
    same_len(OPERATION, out.0, out.1)
}

/// The forms of an operation on segments, rows and columns.
macro_rules! parts {
    ($(
        $what:literal, $nothing:literal, $segments:ident $columns:ident <$shipped:ident>($($flip:ident)?) => $total:ty:
        $segmented:ident $segmented_into:ident
        $row:ident $row_into:ident
        $column:ident $column_into:ident;
    )*) => {$(
        #[doc = concat!("The ", $what, " of each segment of `x: [n]`; ", $nothing, " of an empty one.")]
        ///
        /// Segment `s` is `offsets[s]..offsets[s + 1]`, as in a CSR matrix: `offsets: [segments + 1]`. Elements
        /// outside `x` are left out, and a segment whose end is before its start is empty. The order of
        /// combining is fixed by the offsets and by the address of `x` modulo 16.
        ///
        /// A thread, a warp, a block or several blocks take a segment, by the mean length. A segment that is far longer
        /// than the mean takes the whole launch's time.
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) if there is no offset; errors of the driver.
        pub fn $segmented<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            offsets: &impl DeviceRead<u64>,
        ) -> GpuResult<DeviceBuffer<$total>>
        where
            $segments<T::$shipped>: Instance,
        {
            let count = offsets.len();
            check_offsets(count, count.saturating_sub(1))?;
            let mut out = DeviceBuffer::zeroed(on, count - 1)?;
            $segmented_into(on, x, offsets, &mut out, &mut Scratch::new(on)?)?;
            Ok(out)
        }

        #[doc = concat!("As [`", stringify!($segmented), "`], into `out: [segments]`; asynchronous, in one launch.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) unless there is one offset more than elements of `out`; errors of the
        /// driver.
        pub fn $segmented_into<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            offsets: &impl DeviceRead<u64>,
            out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> GpuResult<()>
        where
            $segments<T::$shipped>: Instance,
        {
            let count = out.len();
            check_offsets(offsets.len(), count)?;
            let (blocks, split) = Blocks::of_segments(on, x, (count, 0), scratch)?;
            let Blocks { grid, mut partials, mut counters } = blocks;
            let (stream, x, mut out) = (on.as_stream(), As::new(x), AsMut::new(out));
            $segments::<T::$shipped>::launch(
                stream, grid, $(T::$flip,)? split, &x, offsets, &mut partials, &mut counters, &mut out,
            )
        }

        #[doc = concat!("The ", $what, " of each row of the row-major `x: [rows, cols]`; ", $nothing, " without columns.")]
        /// The order of combining is fixed by the shape and by the address of `x` modulo 16.
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) if `x` has another length; errors of the driver.
        pub fn $row<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            rows: usize,
            cols: usize,
        ) -> GpuResult<DeviceBuffer<$total>>
        where
            $segments<T::$shipped>: Instance,
        {
            check_matrix((rows, cols), x.len(), (rows, rows))?;
            let mut out = DeviceBuffer::zeroed(on, rows)?;
            $row_into(on, x, rows, cols, &mut out, &mut Scratch::new(on)?)?;
            Ok(out)
        }

        #[doc = concat!("As [`", stringify!($row), "`], into `out: [rows]`; asynchronous, in one launch.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) if `x` or `out` has another length; errors of the driver.
        pub fn $row_into<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            rows: usize,
            cols: usize,
            out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> GpuResult<()>
        where
            $segments<T::$shipped>: Instance,
        {
            check_matrix((rows, cols), x.len(), (rows, out.len()))?;
            let (blocks, split) = Blocks::of_segments(on, x, (rows, cols), scratch)?;
            let Blocks { grid, mut partials, mut counters } = blocks;
            let (stream, x, mut out) = (on.as_stream(), As::new(x), AsMut::new(out));
            // Without offsets the segments are rows.
            let offsets = As::none();
            $segments::<T::$shipped>::launch(
                stream, grid, $(T::$flip,)? split, &x, &offsets, &mut partials, &mut counters, &mut out,
            )
        }

        #[doc = concat!("The ", $what, " of each column of the row-major `x: [rows, cols]`; ", $nothing, " without rows.")]
        /// The order of combining is fixed by the shape.
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) if `x` has another length; errors of the driver.
        pub fn $column<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            rows: usize,
            cols: usize,
        ) -> GpuResult<DeviceBuffer<$total>>
        where
            $columns<T::$shipped>: Instance,
        {
            check_matrix((rows, cols), x.len(), (cols, cols))?;
            let mut out = DeviceBuffer::zeroed(on, cols)?;
            $column_into(on, x, rows, cols, &mut out, &mut Scratch::new(on)?)?;
            Ok(out)
        }

        #[doc = concat!("As [`", stringify!($column), "`], into `out: [cols]`; asynchronous, in one launch.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](GpuError::SizeMismatch) if `x` or `out` has another length; errors of the driver.
        pub fn $column_into<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            rows: usize,
            cols: usize,
            out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> GpuResult<()>
        where
            $columns<T::$shipped>: Instance,
        {
            check_matrix((rows, cols), x.len(), (cols, out.len()))?;
            let shape = shape(rows, cols, column_lanes::<T>());
            let blocks = Blocks::sharing(on, shape.blocks(), shape.partials(), scratch)?;
            let Blocks { grid, mut partials, mut counters } = blocks;
            let (stream, x, mut out) = (on.as_stream(), As::new(x), AsMut::new(out));
            $columns::<T::$shipped>::launch(
                stream, grid, $(T::$flip,)? shape, &x, &mut partials, &mut counters, &mut out,
            )
        }
    )*};
}

parts! {
    "sum", "0", segment_sum column_sum<Number>() => T::Total:
        segmented_sum segmented_sum_into row_sums row_sums_into column_sums column_sums_into;
    "smallest element", "+∞, or the type's largest integer,", segment_extreme column_extreme<Ordered>(MIN) => T:
        segmented_min segmented_min_into row_min row_min_into column_min column_min_into;
    "largest element", "-∞, or the type's smallest integer,", segment_extreme column_extreme<Ordered>(MAX) => T:
        segmented_max segmented_max_into row_max row_max_into column_max column_max_into;
}
