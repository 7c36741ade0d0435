//! Sorts along the last axis.

use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self as sorts, Extreme, SortKey, SortOptions};
use half::{bf16, f16};

use crate::data::{Element, computed, gpu, read, upload, with_float};
use crate::error::{Error, Result};

/// The indices that sort each row along the last axis, stably. Floats are in their total order: -NaN, -inf, …, -0, 0, …, inf, NaN.
///
/// # Errors
/// For elements that are no floats, or more than 2^32 - 1 of them; what burn or the library reports.
pub fn argsort<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    descending: bool,
) -> Result<Tensor<B, D, Int>> {
    let columns = x.dims()[D - 1];
    first_of_rows("argsort", x, columns, descending)
}

/// Each row along the last axis in order, stably, and the indices that sort it.
///
/// # Errors
/// As [`argsort`].
pub fn sort<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    descending: bool,
) -> Result<(Tensor<B, D>, Tensor<B, D, Int>)> {
    let columns = x.dims()[D - 1];
    let indices = first_of_rows("sort", x.clone(), columns, descending)?;
    Ok((x.gather(D - 1, indices.clone()), indices))
}

/// The `k` largest elements of each row along the last axis, or the smallest, in order, and their indices. Of equal ones the first
/// are taken.
///
/// # Errors
/// As [`argsort`], and if a row has fewer than `k` elements.
pub fn top_k<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    k: usize,
    largest: bool,
) -> Result<(Tensor<B, D>, Tensor<B, D, Int>)> {
    let columns = x.dims()[D - 1];
    if k > columns {
        let reason = format!("{k} elements of rows of {columns}");
        return Err(Error::Shape { operation: "top_k", reason });
    }
    let indices = first_of_rows("top_k", x.clone(), k, largest)?;
    Ok((x.gather(D - 1, indices.clone()), indices))
}

/// The indices of the first `k` elements of each row, in order.
fn first_of_rows<B: Backend, const D: usize>(
    operation: &'static str,
    x: Tensor<B, D>,
    k: usize,
    descending: bool,
) -> Result<Tensor<B, D, Int>> {
    let (mut shape, device) = (x.dims(), x.device());
    let columns = shape[D - 1];
    let dtype = x.dtype();
    let data = read::<B>(x.into_primitive().tensor())?;
    if u32::try_from(data.num_elements()).is_err() {
        let reason = format!("{} elements have more indices than 32 bits", data.num_elements());
        return Err(Error::Shape { operation, reason });
    }
    let all = with_float!(operation, dtype, [F64 f64, F32 f32, F16 f16, BF16 bf16], T => {
        indices::<T>(&data, columns, k, descending)
    })?;
    shape[D - 1] = k;
    Ok(Tensor::from_data(TensorData::new(all, shape), &device))
}

/// The indices in their rows of the first `k` elements of each row.
fn indices<T: Element + SortKey>(
    data: &TensorData,
    columns: usize,
    k: usize,
    descending: bool,
) -> Result<Vec<i64>> {
    let gpu = gpu()?;
    let x = upload::<T>(gpu, data)?;
    let n = x.len();
    if n == columns && k < columns {
        let which = if descending { Extreme::Largest } else { Extreme::Smallest };
        let mut keys = DeviceBuffer::<T>::zeroed(gpu, k)?;
        let first = computed::<u32>(gpu, k, |out| {
            let mut scratch =
                Scratch::with_bytes_async(gpu, sorts::top_k_scratch_bytes::<T>(n, k))?;
            sorts::top_k_into(gpu, &x, (&mut keys, out), which, &mut scratch)
        })?;
        return Ok(first.into_iter().map(i64::from).collect());
    }
    let options = if descending { SortOptions::DESCENDING } else { SortOptions::ASCENDING };
    let starts: Vec<u64> = (0..=n).step_by(columns.max(1)).map(|start| start as u64).collect();
    let offsets = DeviceBuffer::from_slice(gpu, &starts)?;
    let sorted = computed::<u32>(gpu, n, |out| {
        let bytes = sorts::segmented_argsort_scratch_bytes::<T>(n);
        let mut scratch = Scratch::with_bytes_async(gpu, bytes)?;
        sorts::segmented_argsort_into(gpu, &x, &offsets, out, options, &mut scratch)
    })?;
    // Indices in the whole tensor, of which each row loses those before it.
    let rows = sorted.chunks(columns.max(1)).enumerate();
    let first = rows.flat_map(|(row, own)| {
        own[..k].iter().map(move |index| i64::from(*index) - (row * columns) as i64)
    });
    Ok(first.collect())
}
