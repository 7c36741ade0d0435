//! Attention.

use cuda_std::{bf16, f16};
use ferrowarp::GpuResult;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{Band, Heads, HeadsLayout, HeadsMut, Options, attention_into};
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::Array;
use crate::call::{Call, unwritten};
use crate::dtype::{Element, with_type};

/// softmax(scale * q k^T) v, for each head of each batch: q is [batches, heads, queries, d], k and v are [batches, heads of keys, keys, d]; heads is a multiple of
/// heads of keys, which several heads of queries then share.
///
/// Arrays are row-major, or the transpose of [batches, rows, heads, d] (x.transpose(1, 2) of PyTorch), without gaps. The last query stands at the last key;
/// with causal a query sees its own key and those before it, with window no more than so many before. scale is 1 / sqrt(d) by itself.
///
/// q, k, v: all float16 or all bfloat16, with d of at most 256.
#[pyfunction]
#[pyo3(name = "attention", signature = (q, k, v, *, causal = false, window = None, scale = None))]
pub fn attention<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    causal: bool,
    window: Option<u32>,
    scale: Option<f32>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [("q", Some(q)), ("k", Some(k)), ("v", Some(v))];
    let call = Call::new("attention", &arguments)?;
    let dtype = call.input(0).dtype();
    if let Some(other) = call.inputs().iter().find(|input| input.dtype() != dtype) {
        return Err(PyTypeError::new_err(format!(
            "attention: `q` has elements of {}, and `{}` of {}: they have to be of one type",
            dtype.name(),
            other.name(),
            other.dtype().name()
        )));
    }
    if window.is_some() && !causal {
        return Err(call.wrong("a window is one of keys before the query's own: pass causal=True"));
    }
    let before = window.unwrap_or(u32::MAX);
    let band = if causal { Band { before, ..Band::CAUSAL } } else { Band::ALL };
    let layouts = [layout(&call, 0)?, layout(&call, 1)?, layout(&call, 2)?];
    let o =
        with_type!("attention", dtype, [f16 bf16], T => run::<T>(py, &call, layouts, band, scale))?;
    call.give(py, o)
}

/// The layout of an argument.
fn layout(call: &Call, number: usize) -> PyResult<HeadsLayout> {
    let (sizes, is_by_row) = call.input(number).heads(call.operation())?;
    Ok(if is_by_row { HeadsLayout::by_row(sizes) } else { HeadsLayout::by_head(sizes) })
}

fn run<T: Element + Half>(
    py: Python<'_>,
    call: &Call,
    [of_q, of_k, of_v]: [HeadsLayout; 3],
    band: Band,
    scale: Option<f32>,
) -> PyResult<Array>
where
    Band: AttentionKernel<T>,
{
    let shape = vec![of_q.batches, of_q.heads, of_q.rows, of_v.depth];
    call.run(py, |on| -> GpuResult<Array> {
        let lease = call.lease();
        let q = call.input(0).resident::<T>(lease)?;
        let k = call.input(1).resident::<T>(lease)?;
        let v = call.input(2).resident::<T>(lease)?;
        let mut out = unwritten::<T>(on, shape.iter().product())?;
        let layout = HeadsLayout::by_head([of_q.batches, of_q.heads, of_q.rows, of_v.depth]);
        let options = Options::new().score(band);
        let options = match scale {
            Some(scale) => options.scale(scale),
            None => options,
        };
        attention_into(
            on,
            Heads::new(q.as_slice(), of_q)?,
            Heads::new(k.as_slice(), of_k)?,
            Heads::new(v.as_slice(), of_v)?,
            HeadsMut::new(&mut out, layout)?,
            options,
            &mut Scratch::new(on)?,
        )?;
        call.result(out, shape)
    })
}
