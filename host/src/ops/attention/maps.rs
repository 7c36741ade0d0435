//! Tensor maps of queries, keys and values for the copy engine.

use cuda_std::copy::TensorType;
use cuda_std::grid_constant::MapWords;
use kernels_gpu::attention::{Problem, RowStrides, hopper};

use super::OPERATION;
use crate::error::GpuResult;
use crate::ops::tensor_maps;
use crate::stream::Stream;

/// What the copy engine asks of addresses and of strides, in bytes.
const UNIT_BYTES: u64 = 16;
/// Strides of the copy engine are below this, in bytes.
const STRIDE_LIMIT_BYTES: u64 = 1 << 40;
/// Bytes of a row of a box.
const BYTES_OF_BOX: u32 = hopper::SPAN as u32;
/// Bytes of an element of 16 bits.
pub(super) const HALF_BYTES: u64 = 2;

/// Whether the copy engine addresses elements of this many bytes from `address` on: batches (or pages), heads and rows at these strides.
pub(super) fn is_addressed(
    address: u64,
    element_bytes: u64,
    strides: RowStrides,
    extents: [u32; 3],
) -> bool {
    let RowStrides { batch, head, row } = strides;
    address.is_multiple_of(UNIT_BYTES)
        && [batch, head, row].into_iter().zip(extents).all(|(stride, count)| {
            let bytes = stride.saturating_mul(element_bytes);
            let is_taken = bytes > 0 && bytes < STRIDE_LIMIT_BYTES;
            count == 1 || (bytes.is_multiple_of(UNIT_BYTES) && is_taken)
        })
}

/// Rows as a map has them: those of a packed tensor twice, as [`Segment::coordinates`](kernels_gpu::attention::Segment::coordinates) has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    address: u64,
    element_bytes: u64,
    batches: u32,
    heads: u32,
    rows: u32,
    batch_stride: u64,
    strides: RowStrides,
}

impl Mapped {
    /// Rows of elements from an address on, of this many bytes each, with extents of batches (or pages), heads and rows.
    pub const fn new(
        (address, element_bytes): (u64, u64),
        strides: RowStrides,
        [batches, heads, rows]: [u32; 3],
        is_packed: bool,
    ) -> Self {
        let (address, batches, batch_stride) = if is_packed {
            // Copies add both coordinates: what they read is inside of the tensor.
            (address.wrapping_sub(element_bytes * strides.row * rows as u64), rows + 1, strides.row)
        } else {
            (address, batches, strides.batch)
        };
        Self { address, element_bytes, batches, heads, rows, batch_stride, strides }
    }
}

/// The map of queries from an address on, of elements of this many bytes, in boxes of `rows` rows of a packed head.
pub(super) fn map_of_queries(
    stream: &Stream,
    (address, element_bytes): (u64, u64),
    problem: &Problem,
    rows: u32,
) -> GpuResult<MapWords> {
    let (pack, packed_heads) = (1 << problem.pack, problem.packed_heads());
    let extents = [problem.batches_of_queries(), packed_heads, problem.queries];
    let is_packed = problem.has_packed_queries();
    let q = Mapped::new((address, element_bytes), problem.q, extents, is_packed);
    encode(
        stream,
        (q.address, element_bytes),
        [problem.depth, pack, problem.queries, packed_heads, q.batches],
        [problem.q.head, problem.q.row, problem.q.head << problem.pack, q.batch_stride],
        [pack, rows / pack, 1, 1],
    )
}

/// The map of rows of `depth` elements, in boxes of `of_box` rows.
pub(super) fn map_of_rows(
    stream: &Stream,
    mapped: Mapped,
    depth: u32,
    of_box: u32,
) -> GpuResult<MapWords> {
    let Mapped { address, element_bytes, batches, heads, rows, batch_stride, strides } = mapped;
    encode(
        stream,
        (address, element_bytes),
        [depth, rows, heads, batches],
        [strides.row, strides.head, batch_stride],
        [of_box, 1, 1],
    )
}

/// The map of a tensor from an address on, of elements of 1 or 2 bytes, innermost dimension first. `strides` are in elements, of all dimensions but the first; `boxes` are the
/// extents of a box without the first, which are [`BYTES_OF_BOX`].
fn encode<const RANK: usize, const REST: usize>(
    stream: &Stream,
    (address, element_bytes): (u64, u64),
    extents: [u32; RANK],
    strides: [u64; REST],
    boxes: [u32; REST],
) -> GpuResult<MapWords> {
    // The stride of a dimension of one element is of no meaning, and may be none that the copy engine takes.
    let mut bytes = strides.map(|stride| element_bytes * stride);
    for (stride, extent) in bytes.iter_mut().zip(&extents[1..]) {
        if *extent == 1 {
            *stride = UNIT_BYTES;
        }
    }
    let ty = if element_bytes == 1 { TensorType::U8 } else { TensorType::U16 } as u32;
    let mut all_boxes = [BYTES_OF_BOX / element_bytes as u32; RANK];
    all_boxes[1..].copy_from_slice(&boxes);
    let extents = extents.map(u64::from);
    tensor_maps::encode(stream, OPERATION, ty, address, extents, bytes, all_boxes)
}
