//! The backward pass.

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use kernels_gpu::attention::backward::form::{self, Arguments, AttentionBackwardKernel};
use kernels_gpu::attention::backward::{BackwardProblem, ROWS, delta, keys};
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::{Problem, Schedule};

use super::prepare::{check_apart, depth_of, problem_of, wrong};
use super::{Heads, HeadsLayout, HeadsMut, OPERATION, Options};
use crate::error::GpuResult;
use crate::ops::same_len;
use crate::ops::scratch::{Scratch, size_of_parts};
use crate::ops::views::AsMut;
use crate::stream::AsStream;

/// What the forward pass read and gave, and the gradient of its results.
#[derive(Clone, Copy, Debug)]
pub struct Backward<'a, T: Pod> {
    /// Queries, `[batches, heads, queries, d]`.
    pub q: Heads<'a, T>,
    /// Keys, `[batches, kv_heads, keys, d]`.
    pub k: Heads<'a, T>,
    /// Values, `[batches, kv_heads, keys, d of values]`.
    pub v: Heads<'a, T>,
    /// Results, `[batches, heads, queries, d of values]`.
    pub o: Heads<'a, T>,
    /// The gradient of the results.
    pub d_o: Heads<'a, T>,
}

/// Where gradients go.
#[derive(Debug)]
pub struct Gradients<'a, T: Pod> {
    /// Of the queries.
    pub q: HeadsMut<'a, T>,
    /// Of the keys.
    pub k: HeadsMut<'a, T>,
    /// Of the values.
    pub v: HeadsMut<'a, T>,
}

/// The gradients of queries, keys and values. `lse: [batches, heads, queries]` is what the forward pass gave ([`Options::lse`]); `options` are those of the
/// forward pass, without it. Asynchronous; allocates only where `scratch` is smaller than [`backward_scratch_bytes`].
///
/// Every sum is one thread's: the same call gives the same bits again and again. Weights and gradients of scores are rounded to the type of the
/// elements before they are multiplied.
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if sizes do not fit, for rows of more than 128 elements, for other options than a scale and a functor of scores, if gradients overlap
/// an input, each other or themselves; [`SizeMismatch`](crate::GpuError::SizeMismatch) for logarithms of another size; errors of the driver.
pub fn attention_backward_into<T: Half, C>(
    on: &impl AsStream,
    forward: Backward<'_, T>,
    lse: &impl DeviceRead<f32>,
    mut gradients: Gradients<'_, T>,
    options: Options<'_, C>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    C: AttentionBackwardKernel<T>,
{
    let stream = on.as_stream();
    let (problem, depth) = prepare(&forward, &gradients, &options)?;
    let of = &problem.forward;
    same_len(OPERATION, of.all_queries(), lse.len())?;
    let (_, [mut sums]) = scratch.parts(stream, [delta_bytes(of)])?;
    let mut sums = AsMut::<f32>::new(&mut sums);
    let tiles = of.queries.div_ceil(ROWS as u32);
    let schedule = Schedule { tiles, group: u32::from(u16::MAX) };
    let of_queries = u64::from(tiles) * u64::from(of.heads) * u64::from(of.batches);
    let launches = [
        (form::DELTA, delta::blocks(&problem)),
        (form::QUERIES + depth, of_queries),
        (form::KEYS + depth, keys::blocks(&problem)),
    ];
    let Backward { q, k, v, o, d_o } = &forward;
    let [q, k, v, o, d_o] = [q, k, v, o, d_o].map(|heads| &heads.memory);
    let Gradients { q: d_q, k: d_k, v: d_v } = &mut gradients;
    let (d_q, d_k, d_v) = (&mut d_q.memory, &mut d_k.memory, &mut d_v.memory);
    for (form, blocks) in launches {
        if blocks == 0 {
            continue;
        }
        let blocks = u32::try_from(blocks)
            .map_err(|_| wrong(format!("{blocks} tiles are more than a launch has")))?;
        let arguments = Arguments { form, blocks, schedule, problem };
        // SAFETY: sizes and overlaps were checked; the schedule and the grid are of this problem, and the sums are there before they are read.
        unsafe {
            let score = options.score;
            score.launch(stream, &arguments, q, k, v, o, d_o, lse, &mut sums, d_q, d_k, d_v)?;
        }
    }
    Ok(())
}

/// The scratch of [`attention_backward_into`] for queries of this layout, in bytes: a number for each query.
#[must_use]
pub fn backward_scratch_bytes(q: &HeadsLayout) -> usize {
    let queries = q.batches.saturating_mul(q.heads).saturating_mul(q.rows);
    size_of_parts(&[queries.saturating_mul(size_of::<f32>())])
}

const fn delta_bytes(problem: &Problem) -> usize {
    problem.all_queries() * size_of::<f32>()
}

/// Checks everything that does not depend on the device. Returns the sizes, and the elements to which rows are filled up.
fn prepare<T: Half, C>(
    forward: &Backward<'_, T>,
    gradients: &Gradients<'_, T>,
    options: &Options<'_, C>,
) -> GpuResult<(BackwardProblem, usize)> {
    let Backward { q, k, v, o, d_o } = forward;
    let Options { lengths, pages, lse, kernel, .. } = options;
    if lengths.is_some() || pages.is_some() || lse.is_some() || kernel.is_some() {
        let reason = "the backward pass takes a scale and a functor of scores, and no other option";
        return Err(wrong(reason.into()));
    }
    let problem = problem_of([q, k, v, o].map(Heads::layout), options)?;
    let pairs = [
        ("results", o.layout(), d_o.layout()),
        ("queries", q.layout(), gradients.q.layout()),
        ("keys", k.layout(), gradients.k.layout()),
        ("values", v.layout(), gradients.v.layout()),
    ];
    for (name, of, gradient) in pairs {
        if of.sizes() != gradient.sizes() {
            return Err(wrong(format!("{name} are {of}, and their gradients {gradient}")));
        }
    }
    let outputs = [
        ("gradients of the queries", &gradients.q),
        ("gradients of the keys", &gradients.k),
        ("gradients of the values", &gradients.v),
    ];
    for (at, (name, output)) in outputs.into_iter().enumerate() {
        if !output.layout().is_disjoint() {
            return Err(wrong(format!("elements of the {name} overlap each other")));
        }
        let inputs = [
            ("queries", q),
            ("keys", k),
            ("values", v),
            ("results", o),
            ("gradients of the results", d_o),
        ];
        check_apart(name, output, inputs)?;
        if let Some((other, _)) =
            outputs[..at].iter().find(|(_, other)| output.overlaps(&other.as_read()))
        {
            return Err(wrong(format!("the memory of the {name} overlaps that of the {other}")));
        }
    }
    let depth = depth_of(&problem, &form::DEPTHS)?;
    let problem = BackwardProblem {
        forward: problem,
        d_o: d_o.layout().strides(),
        d_q: gradients.q.layout().strides(),
        d_k: gradients.k.layout().strides(),
        d_v: gradients.v.layout().strides(),
    };
    Ok((problem, depth))
}
