//! Attention.

use cuda_std::{bf16, f16};
use ferrowarp::GpuResult;
use ferrowarp::ops::attention::{
    Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Options, attention_backward_into,
    attention_into, backward_scratch_bytes, scratch_bytes,
};
use kernels_gpu::attention::backward::form::AttentionBackwardKernel;
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::call::{Call, Outcome, Output};
use crate::dtype::{Element, with_type};
use crate::input::Values;

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
    let forward = Forward { causal, window, scale, with_lse: false };
    forward.run(py, [q, k, v]).map(|(o, _)| o)
}

/// As attention, and the logarithm of each query's sum of exponentials, which attention_backward takes.
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal, window, scale))]
pub fn attention_with_lse<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    causal: bool,
    window: Option<u32>,
    scale: Option<f32>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let forward = Forward { causal, window, scale, with_lse: true };
    let (o, lse) = forward.run(py, [q, k, v])?;
    Ok((o, lse.expect("it was asked for")))
}

/// What attention does beside.
#[derive(Clone, Copy)]
struct Forward {
    causal: bool,
    window: Option<u32>,
    scale: Option<f32>,
    with_lse: bool,
}

/// An array.
type Any<'py> = Bound<'py, PyAny>;

impl Forward {
    /// The result, and the logarithms.
    fn run<'py>(
        self,
        py: Python<'py>,
        [q, k, v]: [&Any<'py>; 3],
    ) -> PyResult<(Any<'py>, Option<Any<'py>>)> {
        let call = Call::new("attention", &[("q", Some(q)), ("k", Some(k)), ("v", Some(v))])?;
        check_types(&call, 3)?;
        let (band, dtype) = (self.band(&call)?, call.input(0).dtype());
        let layouts = [layout(&call, 0)?, layout(&call, 1)?, layout(&call, 2)?];
        let (o, lse) = with_type!("attention", dtype, [f16 bf16], T => {
            self.enqueue::<T>(py, &call, layouts, band)
        })?;
        Ok((call.give(py, o)?, lse.map(|lse| call.give(py, lse)).transpose()?))
    }

    /// Which keys a query sees.
    fn band(self, call: &Call) -> PyResult<Band> {
        if self.window.is_some() && !self.causal {
            return Err(
                call.wrong("a window is one of keys before the query's own: pass causal=True")
            );
        }
        let before = self.window.unwrap_or(u32::MAX);
        Ok(if self.causal { Band { before, ..Band::CAUSAL } } else { Band::ALL })
    }

    fn options<'a>(self, band: Band) -> Options<'a> {
        let options = Options::new().score(band);
        match self.scale {
            Some(scale) => options.scale(scale),
            None => options,
        }
    }

    fn enqueue<T: Element + Half>(
        self,
        py: Python<'_>,
        call: &Call,
        [of_q, of_k, of_v]: [HeadsLayout; 3],
        band: Band,
    ) -> PyResult<(Outcome, Option<Outcome>)>
    where
        Band: AttentionKernel<T>,
    {
        let HeadsLayout { batches, heads, rows, .. } = of_q;
        let sizes = [batches, heads, rows, of_v.depth];
        let mut out = call.output::<T>(py, sizes)?;
        let lse = self.with_lse.then(|| call.output::<f32>(py, [batches, heads, rows]));
        let mut lse = lse.transpose()?;
        call.run(py, |on| {
            let [q, k, v] = [values::<T>(call, 0), values(call, 1), values(call, 2)];
            let (q, k, v) = (q?, k?, v?);
            let q = Heads::new(q.as_slice(), of_q)?;
            let (k, v) = (Heads::new(k.as_slice(), of_k)?, Heads::new(v.as_slice(), of_v)?);
            let o = HeadsMut::new(out.buffer.as_mut_slice(), HeadsLayout::by_head(sizes))?;
            let mut options = self.options(band);
            if let Some(lse) = &mut lse {
                options = options.lse(lse.buffer.as_mut_slice());
            }
            let bytes = scratch_bytes(on, q, k, v, &o, &options)?;
            let mut scratch = call.lease().scratch(bytes)?;
            attention_into(on, q, k, v, o, options, &mut scratch)?;
            Ok((call.finish(out)?, lse.map(|lse| call.finish(lse)).transpose()?))
        })
    }
}

/// The gradients of attention by q, k and v: o and lse are what attention_with_lse gave, and d_o is the gradient by o. On Hopper their last bits
/// differ from run to run unless they are to be deterministic.
#[pyfunction]
#[pyo3(signature = (q, k, v, o, lse, d_o, *, causal, window, scale, deterministic=false))]
#[allow(clippy::too_many_arguments)]
pub fn attention_backward<'py>(
    py: Python<'py>,
    q: &Any<'py>,
    k: &Any<'py>,
    v: &Any<'py>,
    o: &Any<'py>,
    lse: &Any<'py>,
    d_o: &Any<'py>,
    causal: bool,
    window: Option<u32>,
    scale: Option<f32>,
    deterministic: bool,
) -> PyResult<[Any<'py>; 3]> {
    let arguments = [("q", q), ("k", k), ("v", v), ("o", o), ("d_o", d_o), ("lse", lse)];
    let call = Call::new("attention_backward", &arguments.map(|(name, own)| (name, Some(own))))?;
    check_types(&call, 5)?;
    with_type!("the logarithms of attention_backward", call.input(5).dtype(), [f32], _T => Ok(()))?;
    call.input(5).check_contiguous(call.operation())?;
    let forward = Forward { causal, window, scale, with_lse: true };
    let band = forward.band(&call)?;
    let dtype = call.input(0).dtype();
    let [d_q, d_k, d_v] = with_type!("attention_backward", dtype, [f16 bf16], T => {
        forward.enqueue_backward::<T>(py, &call, band, deterministic)
    })?;
    Ok([call.give(py, d_q)?, call.give(py, d_k)?, call.give(py, d_v)?])
}

impl Forward {
    fn enqueue_backward<T: Element + Half>(
        self,
        py: Python<'_>,
        call: &Call,
        band: Band,
        deterministic: bool,
    ) -> PyResult<[Outcome; 3]>
    where
        Band: AttentionBackwardKernel<T>,
    {
        let layouts = [0, 1, 2, 3, 4].map(|number| layout(call, number));
        let [of_q, of_k, of_v, of_o, of_d_o] = layouts;
        let (of_q, of_k, of_v, of_o, of_d_o) = (of_q?, of_k?, of_v?, of_o?, of_d_o?);
        let output = |of: HeadsLayout| call.output::<T>(py, of.sizes());
        let (mut d_q, mut d_k, mut d_v) = (output(of_q)?, output(of_k)?, output(of_v)?);
        call.run(py, |on| {
            let all = [0, 1, 2, 3, 4].map(|number| values::<T>(call, number));
            let [q, k, v, o, d_o] = all;
            let (q, k, v, o, d_o) = (q?, k?, v?, o?, d_o?);
            let lse = values::<f32>(call, 5)?;
            let backward = Backward {
                q: Heads::new(q.as_slice(), of_q)?,
                k: Heads::new(k.as_slice(), of_k)?,
                v: Heads::new(v.as_slice(), of_v)?,
                o: Heads::new(o.as_slice(), of_o)?,
                d_o: Heads::new(d_o.as_slice(), of_d_o)?,
            };
            let gradients = Gradients {
                q: rows(&mut d_q, of_q)?,
                k: rows(&mut d_k, of_k)?,
                v: rows(&mut d_v, of_v)?,
            };
            let options = self.options(band);
            let options = if deterministic { options.deterministic() } else { options };
            let bytes = backward_scratch_bytes(&of_q, &of_v, &options);
            let mut scratch = call.lease().scratch(bytes)?;
            attention_backward_into(
                on,
                backward,
                &lse.as_slice(),
                gradients,
                options,
                &mut scratch,
            )?;
            Ok([call.finish(d_q)?, call.finish(d_k)?, call.finish(d_v)?])
        })
    }
}

/// A gradient without gaps, of an argument of that layout.
fn rows<T: Element>(output: &mut Output<T>, of: HeadsLayout) -> GpuResult<HeadsMut<'_, T>> {
    HeadsMut::new(output.buffer.as_mut_slice(), HeadsLayout::by_head(of.sizes()))
}

/// An error unless the first arguments have one type.
fn check_types(call: &Call, count: usize) -> PyResult<()> {
    let dtype = call.input(0).dtype();
    match call.inputs()[..count].iter().find(|input| input.dtype() != dtype) {
        Some(other) => Err(PyTypeError::new_err(format!(
            "{}: `q` has elements of {}, and `{}` of {}: they have to be of one type",
            call.operation(),
            dtype.name(),
            other.name(),
            other.dtype().name()
        ))),
        None => Ok(()),
    }
}

/// The layout of an argument.
fn layout(call: &Call, number: usize) -> PyResult<HeadsLayout> {
    let (sizes, is_by_row) = call.input(number).heads(call.operation())?;
    Ok(if is_by_row { HeadsLayout::by_row(sizes) } else { HeadsLayout::by_head(sizes) })
}

fn values<T: Element>(call: &Call, number: usize) -> GpuResult<Values<'_, T>> {
    call.input(number).values(call.lease())
}
