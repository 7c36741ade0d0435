//! Attention.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::attention::{
    Band, Heads, HeadsLayout, HeadsMut, Options, attention_into, scratch_bytes,
};

use crate::call::{Call, run};
use crate::element::{ElementType, with_type};
use crate::error::{Error, Status};
use crate::handle::Handle;

/// The sizes of a tensor `[batches, heads, rows, depth]`, and where its rows are. The elements of a row are neighbours.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeadsShape {
    /// Batches.
    pub batches: i64,
    /// Heads of a batch.
    pub heads: i64,
    /// Queries, or keys, of a head.
    pub rows: i64,
    /// Elements of a row.
    pub depth: i64,
    /// From a batch to the next, in elements.
    pub batch_stride: i64,
    /// From a head to the next, in elements.
    pub head_stride: i64,
    /// From a row to the next, in elements.
    pub row_stride: i64,
}

/// Writes softmax(scale * q * k^T) * v to `o`, for each head of each batch. `q: [batches, heads, queries, depth]`, `k` and `v: [batches, heads
/// of keys, keys, depth]`; the heads of q are a multiple of those of k and v, which several of them then share.
///
/// The last query is aligned with the last key. If `is_causal`, a query sees its own key and those before it, of which no more than `window`
/// if that is not negative. `scale` 0 is 1 / sqrt(depth).
///
/// Elements of f16, bf16, with a depth of at most 256.
///
/// # Safety
/// The handle exists; the shapes can be read; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_attention(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    q: *const c_void,
    q_shape: *const HeadsShape,
    k: *const c_void,
    k_shape: *const HeadsShape,
    v: *const c_void,
    v_shape: *const HeadsShape,
    is_causal: bool,
    window: i64,
    scale: f32,
    o: *mut c_void,
    o_shape: *const HeadsShape,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_attention", handle, |call| {
            let r#type = call.code("type", r#type)?;
            let (of_q, q_len) = layout(call, "q_shape", q_shape)?;
            let (of_k, k_len) = layout(call, "k_shape", k_shape)?;
            let (of_v, v_len) = layout(call, "v_shape", v_shape)?;
            let (of_o, o_len) = layout(call, "o_shape", o_shape)?;
            let band = band(call, is_causal, window)?;
            with_type!(call, r#type, [f16 bf16], T => {
                let q = call.read::<T>("q", q, q_len)?;
                let k = call.read::<T>("k", k, k_len)?;
                let v = call.read::<T>("v", v, v_len)?;
                let mut o = call.write::<T>("o", o, o_len)?;
                let options = Options::new().score(band);
                let options = if scale == 0.0 { options } else { options.scale(scale) };
                let views = || Ok((Heads::new(q.as_slice(), of_q)?, Heads::new(k.as_slice(), of_k)?, Heads::new(v.as_slice(), of_v)?));
                let (q, k, v) = call.enqueue(|_| views())?;
                let o = call.enqueue(|_| HeadsMut::new(o.as_mut_slice(), of_o))?;
                let bytes = call.enqueue(|on| scratch_bytes(on, q, k, v, &o, &options))?;
                call.enqueue_with(bytes, |on, scratch| attention_into(on, q, k, v, o, options, scratch))
            })
        })
    }
}

/// Which keys a query sees.
fn band(call: &Call<'_>, is_causal: bool, window: i64) -> Result<Band, Error> {
    match (is_causal, u32::try_from(window)) {
        (true, Ok(before)) => Ok(Band { before, ..Band::CAUSAL }),
        (true, Err(_)) if window < 0 => Ok(Band::CAUSAL),
        (false, _) if window < 0 => Ok(Band::ALL),
        (true, Err(_)) => Err(call.wrong(format!("`window` is {window}, and at most 2^32 - 1"))),
        (false, _) => {
            Err(call.wrong("a window is one of keys before the query's own: set `is_causal`"))
        }
    }
}

/// The layout that C has passed, and its length in elements.
///
/// # Safety
/// The shape is null or can be read.
unsafe fn layout(
    call: &Call<'_>,
    name: &'static str,
    shape: *const HeadsShape,
) -> Result<(HeadsLayout, usize), Error> {
    // SAFETY: the caller's promise.
    let shape =
        unsafe { shape.as_ref() }.ok_or(Error::Null { operation: call.operation(), name })?;
    let layout = HeadsLayout {
        batches: call.len(name, shape.batches)?,
        heads: call.len(name, shape.heads)?,
        rows: call.len(name, shape.rows)?,
        depth: call.len(name, shape.depth)?,
        batch_stride: call.len(name, shape.batch_stride)?,
        head_stride: call.len(name, shape.head_stride)?,
        row_stride: call.len(name, shape.row_stride)?,
    };
    if layout.is_empty() {
        return Ok((layout, 0));
    }
    let between = [
        (layout.batches, layout.batch_stride),
        (layout.heads, layout.head_stride),
        (layout.rows, layout.row_stride),
    ];
    Ok((layout, call.span(name, layout.depth, &between)?))
}
