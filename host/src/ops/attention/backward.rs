//! The backward pass.

use bytemuck::Pod;
use cuda_std::grid_constant::MapWords;
use cuda_std::launch::DeviceRead;
use kernels_gpu::attention::backward::form::{self, Arguments, AttentionBackwardKernel};
use kernels_gpu::attention::backward::{BackwardProblem, ROWS, delta, hopper, keys};
use kernels_gpu::attention::batch::Slots;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::{PACKED_QUERIES, Problem, Schedule};

use super::maps::{HALF_BYTES, Mapped, is_addressed, map_of_rows};
use super::options::Settings;
use super::prepare::{Machine, check_apart, depth_of, problem_of, wrong};
use super::{Heads, HeadsLayout, HeadsMut, Kernel, OPERATION, Options, len_of};
use crate::error::GpuResult;
use crate::ops::same_len;
use crate::ops::scratch::{Scratch, size_of_parts};
use crate::ops::views::{As, AsMut};
use crate::stream::{AsStream, Stream};

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
/// Rows are filled up with zeros to 64, 128, 192 or 256 elements.
///
/// On Hopper one kernel computes all three, if the copy engine can address the tensors: its blocks add the gradients of the queries up in `f32`, atomically and in any order, so that
/// their last bits differ from run to run. [`Options::deterministic`] gives the additions an order, and takes longer. Gradients of keys and values, and all gradients
/// elsewhere, have the same bits in every run. [`Options::kernel`] chooses between [`Kernel::Hopper`] and [`Kernel::Warps`]. Weights and gradients of scores are rounded to
/// the type of the elements before they are multiplied.
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if sizes do not fit, for rows of more than 256 elements or of none, for other options than a scale, a functor of scores, offsets, a kernel
/// and determinism, for a kernel that cannot compute this, if gradients overlap an input, each other or themselves; [`SizeMismatch`](crate::GpuError::SizeMismatch) for logarithms of
/// another size; errors of the driver.
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
    same_len(OPERATION, problem.forward.all_queries(), lse.len())?;
    let machine = Machine::of(stream.inner().context().info());
    let kernel = choose(&machine, &forward, &problem, options.set.kernel)?;
    let (len, maps) = match kernel {
        Kernel::Hopper => {
            (hopper::Scratch::of(&problem).len(), maps(stream, &forward, &problem, depth)?)
        }
        _ => (problem.forward.all_queries(), Default::default()),
    };
    let (_, [mut sums]) = scratch.parts(stream, [len * size_of::<f32>()])?;
    let mut sums = AsMut::<f32>::new(&mut sums);
    let all_heads = problem.forward.heads * problem.forward.batches_of_queries();
    let schedule = Schedule { tiles: tiles(&problem.forward), group: all_heads };
    let of_queries = As::<u32>::optional(options.set.query_offsets.as_ref());
    let of_keys = As::<u32>::optional(options.set.key_offsets.as_ref());
    let offsets = [&of_queries, &of_keys];
    let Backward { q, k, v, o, d_o } = &forward;
    let [q, k, v, o, d_o] = [q, k, v, o, d_o].map(|heads| &heads.memory);
    let Gradients { q: d_q, k: d_k, v: d_v } = &mut gradients;
    let (d_q, d_k, d_v) = (&mut d_q.memory, &mut d_k.memory, &mut d_v.memory);
    for (form, blocks) in launches(kernel, &problem, depth) {
        if blocks == 0 {
            continue;
        }
        let blocks = u32::try_from(blocks)
            .map_err(|_| wrong(format!("{blocks} tiles are more than a launch has")))?;
        let arguments = Arguments { form, blocks, maps, schedule, problem };
        // SAFETY: sizes, alignment and overlaps were checked; maps, schedule and grid are of this problem, and each kernel finds what those before it write.
        unsafe {
            let (score, sums) = (options.score, &mut sums);
            score.launch(stream, &arguments, q, k, v, o, d_o, lse, offsets, sums, d_q, d_k, d_v)?;
        }
    }
    Ok(())
}

/// The scratch of [`attention_backward_into`] for queries and values of these layouts, in bytes: at most two numbers for each query and the sums of its gradients in `f32`.
#[must_use]
pub fn backward_scratch_bytes<C>(
    q: &HeadsLayout,
    v: &HeadsLayout,
    options: &Options<'_, C>,
) -> usize {
    let offsets = len_of(options.set.query_offsets.as_ref());
    let forward = Problem {
        batches: offsets.map_or(q.batches, |offsets| offsets.saturating_sub(1)) as u32,
        packed: if offsets.is_some() { PACKED_QUERIES } else { 0 },
        heads: q.heads as u32,
        queries: q.rows as u32,
        depth: q.depth as u32,
        value_depth: v.depth as u32,
        ..Problem::default()
    };
    let problem = BackwardProblem { forward, ..BackwardProblem::default() };
    size_of_parts(&[hopper::Scratch::of(&problem).len() * size_of::<f32>()])
}

/// The kernels, in order, and the blocks of each.
fn launches(kernel: Kernel, problem: &BackwardProblem, depth: usize) -> [(usize, u64); 3] {
    let forward = &problem.forward;
    let heads = u64::from(forward.heads) * u64::from(forward.batches_of_queries());
    match kernel {
        Kernel::Hopper => [
            (form::PREPARE, hopper::prepare::blocks(problem)),
            (form::HOPPER + depth, hopper::blocks(problem)),
            (form::FINISH, hopper::finish::blocks(problem)),
        ],
        _ => [
            (form::DELTA, delta::blocks(problem)),
            (form::QUERIES + depth, u64::from(tiles(forward)) * heads),
            (form::KEYS + depth, keys::blocks(problem, depth)),
        ],
    }
}

/// Tiles of queries of a head for warps, or of packed queries the slots for them.
const fn tiles(forward: &Problem) -> u32 {
    if forward.has_packed_queries() {
        Slots::len(forward.queries, ROWS as u32, forward.batches)
    } else {
        forward.queries.div_ceil(ROWS as u32)
    }
}

/// The kernel for this device, or the one that is asked for.
fn choose<T: Half>(
    machine: &Machine,
    forward: &Backward<'_, T>,
    problem: &BackwardProblem,
    asked: Option<Kernel>,
) -> GpuResult<Kernel> {
    let of = &problem.forward;
    let [of_queries, of_keys] = extents(of);
    let Backward { q, k, v, o, d_o } = forward;
    let has_addresses = of_queries.into_iter().chain(of_keys).all(|extent| extent > 0)
        && is_addressed(q.address(), HALF_BYTES, of.q, of_queries)
        && is_addressed(k.address(), HALF_BYTES, of.k, of_keys)
        && is_addressed(v.address(), HALF_BYTES, of.v, of_keys)
        && is_addressed(o.address(), HALF_BYTES, of.o, of_queries)
        && is_addressed(d_o.address(), HALF_BYTES, problem.d_o, of_queries);
    let reason = match asked {
        None if machine.has_warpgroups && has_addresses => return Ok(Kernel::Hopper),
        None | Some(Kernel::Warps) => return Ok(Kernel::Warps),
        Some(Kernel::Hopper) if !machine.has_warpgroups => "this device has no `wgmma`",
        Some(Kernel::Hopper) if has_addresses => return Ok(Kernel::Hopper),
        Some(Kernel::Hopper) => {
            "the copy engine takes rows, heads and batches at multiples of 16 bytes, and at least one query and one key"
        }
        Some(Kernel::FewRows) => "the backward pass has `Hopper` and `Warps`",
    };
    let kernel = asked.unwrap_or(Kernel::Warps);
    Err(wrong(format!("{kernel:?} is not a kernel for this: {reason}")))
}

/// The maps of queries, keys, values and gradients of the results.
fn maps<T: Half>(
    stream: &Stream,
    forward: &Backward<'_, T>,
    problem: &BackwardProblem,
    depth: usize,
) -> GpuResult<[MapWords; 4]> {
    let of = &problem.forward;
    let [of_queries, of_keys] = extents(of);
    let (tile, keys) = (hopper::queries_of_tile(depth) as u32, hopper::keys_of_tile(depth) as u32);
    let Backward { q, k, v, d_o, .. } = forward;
    let of_queries = |address, strides, depth| {
        let mapped =
            Mapped::new((address, HALF_BYTES), strides, of_queries, of.has_packed_queries());
        map_of_rows(stream, mapped, depth, tile)
    };
    let of_keys = |address, strides, depth| {
        let mapped = Mapped::new((address, HALF_BYTES), strides, of_keys, of.has_packed_keys());
        map_of_rows(stream, mapped, depth, keys)
    };
    Ok([
        of_queries(q.address(), of.q, of.depth)?,
        of_keys(k.address(), of.k, of.depth)?,
        of_keys(v.address(), of.v, of.value_depth)?,
        of_queries(d_o.address(), problem.d_o, of.value_depth)?,
    ])
}

/// Batches, heads and rows of queries, and of keys.
const fn extents(of: &Problem) -> [[u32; 3]; 2] {
    [[of.batches_of_queries(), of.heads, of.queries], [of.batches_of_keys(), of.kv_heads, of.keys]]
}

/// Checks everything that does not depend on the device. Returns the sizes, and the elements to which rows are filled up.
fn prepare<T: Half, C>(
    forward: &Backward<'_, T>,
    gradients: &Gradients<'_, T>,
    options: &Options<'_, C>,
) -> GpuResult<(BackwardProblem, usize)> {
    let Backward { q, k, v, o, d_o } = forward;
    let Settings { lengths, pages, lists, lse, .. } = &options.set;
    if lengths.is_some() || pages.is_some() || lists.is_some() || lse.is_some() {
        let reason = "the backward pass takes a scale, a functor of scores, offsets, a kernel and determinism, and no other option";
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
        in_turns: u32::from(options.set.deterministic),
        padding: 0,
    };
    Ok((problem, depth))
}
