//! Tensor maps that operations pass to their kernels by value.

use cuda_driver::sys;
use cuda_std::copy::{Swizzle, Swizzle128};
use cuda_std::grid_constant::MapWords;

use crate::capture;
use crate::error::{GpuContext, GpuResult};
use crate::stream::Stream;

/// Lets the driver describe a tensor, innermost dimension first, for boxes that are swizzled by 128 bytes; `strides_bytes` are those of all dimensions but
/// the first. `ty` is the number of the elements' type, and `operation` what errors name.
pub fn encode<const RANK: usize, const STRIDES: usize>(
    stream: &Stream,
    operation: &'static str,
    ty: u32,
    address: u64,
    extents: [u64; RANK],
    strides_bytes: [u64; STRIDES],
    boxes: [u32; RANK],
) -> GpuResult<MapWords> {
    let swizzle = Swizzle128::MODE;
    encode_swizzled(stream, operation, ty, address, extents, strides_bytes, boxes, swizzle)
}

/// [`encode`] for boxes of another [swizzle](Swizzle::MODE).
#[allow(clippy::too_many_arguments)]
pub fn encode_swizzled<const RANK: usize, const STRIDES: usize>(
    stream: &Stream,
    operation: &'static str,
    ty: u32,
    address: u64,
    extents: [u64; RANK],
    strides_bytes: [u64; STRIDES],
    boxes: [u32; RANK],
    swizzle: u32,
) -> GpuResult<MapWords> {
    const { assert!(STRIDES + 1 == RANK, "one stride for each dimension but the first") };
    /// The lines of the L2 cache that a copy fills: 256 bytes.
    const PROMOTE_256_BYTES: u32 = 3;
    let mut map = sys::CUtensorMap { words: [0; 16] };
    let steps = [1u32; RANK];
    let context = stream.inner().context();
    let mut call = || {
        context.call_uncounted("cuTensorMapEncodeTiled", || {
            // SAFETY: the map is writable, the lists have an element for each dimension, and the address is only stored.
            unsafe {
                sys::cuTensorMapEncodeTiled(
                    &mut map,
                    ty,
                    RANK as u32,
                    address as *mut _,
                    extents.as_ptr(),
                    strides_bytes.as_ptr(),
                    boxes.as_ptr(),
                    steps.as_ptr(),
                    0,
                    swizzle,
                    PROMOTE_256_BYTES,
                    0,
                )
            }
        })
    };
    // The driver only writes the map. It becomes a parameter of a node, whose memory can be no other then.
    let encoded = if capture::is_recording() { capture::outside(call) } else { call() };
    encoded.with_gpu_context(|| operation)?;
    Ok(MapWords { words: map.words })
}
