//! Sorts along the last dimension.

use candle_core::{CustomOp1, D, DType, Error, Layout, Result, Shape, Tensor};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self, Extreme, SortKey, SortOptions};
use ferrowarp::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Gpu, GpuResult};
use half::{bf16, f16};

use crate::memory::{Element, Storage, forwards};

const ARGSORT: &str = "ferrowarp argsort";
const TOP_K: &str = "ferrowarp top-k";

/// The indices (`u32`) that sort each row along the last dimension: as [`Tensor::arg_sort_last_dim`], but stable. Floats are in their
/// total order: -NaN, -inf, …, -0, 0, …, inf, NaN.
///
/// # Errors
/// For a tensor that is not contiguous, of floats of 8 bits or fewer, or of more than 2^32 - 1 elements; what the library reports, wrapped.
pub fn arg_sort_last_dim(x: &Tensor, asc: bool) -> Result<Tensor> {
    first_of_rows(x, x.dim(D::Minus1)?, asc, ARGSORT)
}

/// Each row along the last dimension in order, and the indices that sort it: as [`Tensor::sort_last_dim`], but stable.
///
/// # Errors
/// As [`arg_sort_last_dim`].
pub fn sort_last_dim(x: &Tensor, asc: bool) -> Result<(Tensor, Tensor)> {
    with_values(x, arg_sort_last_dim(x, asc)?)
}

/// The `k` largest elements of each row along the last dimension, or the smallest, in order, and their indices (`u32`). Of equal ones the first
/// are taken.
///
/// # Errors
/// As [`arg_sort_last_dim`], and if a row has fewer than `k` elements.
pub fn top_k_last_dim(x: &Tensor, k: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    let columns = x.dim(D::Minus1)?;
    if k > columns {
        candle_core::bail!("{TOP_K}: {k} elements of rows of {columns}");
    }
    with_values(x, first_of_rows(x, k, !largest, TOP_K)?)
}

/// The elements of each row at `indices`, and those.
fn with_values(x: &Tensor, indices: Tensor) -> Result<(Tensor, Tensor)> {
    let values = match indices.elem_count() {
        // candle's own kernels refuse to start for no elements.
        0 => x.narrow(D::Minus1, 0, indices.dim(D::Minus1)?)?,
        _ => x.gather(&indices, D::Minus1)?,
    };
    Ok((values, indices))
}

/// The indices of the first `k` elements of each row, in order.
fn first_of_rows(x: &Tensor, k: usize, asc: bool, name: &'static str) -> Result<Tensor> {
    let columns = x.dim(D::Minus1)?;
    let mut shape = x.dims().to_vec();
    *shape.last_mut().expect("there is a last dimension") = k;
    if k == 0 || x.elem_count() == 0 {
        return Tensor::zeros(shape, DType::U32, x.device());
    }
    let rows = x.elem_count() / columns;
    if rows <= 1 {
        return x.apply_op1_no_bwd(&First { columns, k, asc, name })?.reshape(shape);
    }
    // Indices in the whole tensor, of which each row loses those before it.
    let first = First { columns, k: columns, asc, name };
    let all = x.apply_op1_no_bwd(&first)?.reshape((rows, columns))?.narrow(1, 0, k)?;
    let starts = (0..rows).map(|row| (row * columns) as u32).collect::<Vec<_>>();
    let starts = Tensor::from_vec(starts, (rows, 1), x.device())?;
    all.broadcast_sub(&starts)?.reshape(shape)
}

/// The indices of the first elements of one row, or of all elements of several.
struct First {
    columns: usize,
    k: usize,
    asc: bool,
    name: &'static str,
}

impl First {
    fn forward<S: Storage>(&self, x: &S, layout: &Layout) -> Result<(S, Shape)> {
        let n = layout.shape().elem_count();
        if u32::try_from(n).is_err() {
            candle_core::bail!("{}: {n} elements have more indices than 32 bits", self.name);
        }
        let len = if n == self.columns { self.k } else { n };
        /// The indices of keys of a type.
        macro_rules! of {
            ($($dtype:ident $ty:ty;)*) => {
                match x.dtype() {
                    $(DType::$dtype => S::run::<$ty, u32>(self.name, &[(x, layout)], len, |gpu, inputs, out| {
                        self.enqueue(gpu, inputs[0], out)
                    }),)*
                    other => Err(Error::UnsupportedDTypeForOp(other, self.name).bt()),
                }
            };
        }
        let indices = of! {
            U8 u8; U32 u32; I16 i16; I32 i32; I64 i64; BF16 bf16; F16 f16; F32 f32; F64 f64;
        }?;
        Ok((indices, len.into()))
    }

    fn enqueue<T: Element + SortKey>(
        &self,
        gpu: &Gpu,
        x: DeviceSlice<'_, T>,
        mut out: DeviceSliceMut<'_, u32>,
    ) -> GpuResult<()> {
        let options = if self.asc { SortOptions::ASCENDING } else { SortOptions::DESCENDING };
        let n = x.len();
        let scratch = |bytes| Scratch::with_bytes_async(gpu, bytes);
        if n > self.columns {
            let starts: Vec<_> = (0..=n).step_by(self.columns).map(|at| at as u64).collect();
            let mut offsets = DeviceBuffer::zeroed_async(gpu, starts.len())?;
            offsets.copy_from_host(&starts)?;
            let scratch = &mut scratch(sort::segmented_argsort_scratch_bytes::<T>(n))?;
            sort::segmented_argsort_into(gpu, &x, &offsets, &mut out, options, scratch)
        } else if self.k < self.columns {
            let which = if self.asc { Extreme::Smallest } else { Extreme::Largest };
            let mut keys = DeviceBuffer::<T>::zeroed_async(gpu, self.k)?;
            let scratch = &mut scratch(sort::top_k_scratch_bytes::<T>(n, self.k))?;
            sort::top_k_into(gpu, &x, (&mut keys, &mut out), which, scratch)
        } else {
            let scratch = &mut scratch(sort::argsort_scratch_bytes::<T>(n))?;
            sort::argsort_into(gpu, &x, &mut out, options, scratch)
        }
    }
}

impl CustomOp1 for First {
    fn name(&self) -> &'static str {
        self.name
    }

    forwards!((x layout) => |op| op.forward(x, layout));
}
