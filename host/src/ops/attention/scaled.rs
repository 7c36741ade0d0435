//! Attention of 8-bit floats with scales of heads.

use cuda_std::copy::{Swizzle, Swizzle64, TensorType};
use cuda_std::grid_constant::MapWords;
use cuda_std::launch::DeviceRead;
use cuda_std::number::E4m3;
use kernels_gpu::attention::Problem;
use kernels_gpu::attention::form::Arguments;
use kernels_gpu::attention::hopper::{Half, SPAN, SPAN_OF_VALUES};
use kernels_gpu::attention::scaled::form::{self, AttentionScaledKernel};
use kernels_gpu::attention::scaled::{ROWS_OF_TILE, keys_of_block, values};

use super::maps::{Mapped, is_addressed, map_of_queries, map_of_rows};
use super::prepare::{
    Machine, bytes_of_parts, check_apart, depth_of, problem_of, schedule_of, splits_of, wrong,
};
use super::{Heads, HeadsMut, Kernel, OPERATION, Options, len_of};
use crate::error::GpuResult;
use crate::memory::DeviceSlice;
use crate::ops::scratch::{Scratch, size_of_parts};
use crate::ops::views::{As, AsMut};
use crate::ops::{same_len, tensor_maps};
use crate::stream::{AsStream, Stream};

/// Bytes of an element.
const BYTE: u64 = 1;

/// The scales of heads: what counts is each number times the scale of its head. They are on the device, positive, and of `[heads]`, for all batches, or
/// `[batches, heads]`. Without scales they are 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScales<'a> {
    q: Option<DeviceSlice<'a, f32>>,
    k: Option<DeviceSlice<'a, f32>>,
    v: Option<DeviceSlice<'a, f32>>,
}

impl<'a> HeadScales<'a> {
    /// All are 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of the queries.
    #[must_use]
    pub fn q(self, scales: impl Into<DeviceSlice<'a, f32>>) -> Self {
        Self { q: Some(scales.into()), ..self }
    }

    /// Those of the keys: of heads of keys.
    #[must_use]
    pub fn k(self, scales: impl Into<DeviceSlice<'a, f32>>) -> Self {
        Self { k: Some(scales.into()), ..self }
    }

    /// Those of the values: of heads of keys.
    #[must_use]
    pub fn v(self, scales: impl Into<DeviceSlice<'a, f32>>) -> Self {
        Self { v: Some(scales.into()), ..self }
    }

    /// Refuses scales that are neither of the heads nor of those of all batches.
    fn check(&self, problem: &Problem) -> GpuResult<()> {
        let of =
            [(&self.q, problem.heads), (&self.k, problem.kv_heads), (&self.v, problem.kv_heads)];
        for (scales, heads) in of {
            let Some(found) = len_of(scales.as_ref()) else { continue };
            let heads = heads as usize;
            if found != heads {
                same_len(OPERATION, problem.batches as usize * heads, found)?;
            }
        }
        Ok(())
    }
}

/// Attention of 8-bit floats, [`E4m3`], with scales of heads, into `o: [batches, heads, queries, d of values]` of bf16 or f16. Asynchronous; allocates only where
/// `scratch` is smaller than [`attention_scaled_scratch_bytes`].
///
/// ```
/// use cuda_std::bf16;
/// use cuda_std::number::E4m3;
/// use ferrowarp::ops::Scratch;
/// use ferrowarp::ops::attention::{
///     Heads, HeadScales, HeadsLayout, HeadsMut, Options, attention_scaled_into,
/// };
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// // Two heads of three rows of 16 elements.
/// let layout = HeadsLayout::by_head([1, 2, 3, 16]);
/// let x = DeviceBuffer::from_slice(&gpu, &[E4m3::saturating(1.0); 96])?;
/// let x = Heads::new(&x, layout)?;
/// let of_values = DeviceBuffer::from_slice(&gpu, &[1.0f32, 2.0])?;
/// let mut o = DeviceBuffer::<bf16>::zeroed(&gpu, 96)?;
///
/// let scales = HeadScales::new().v(&of_values);
/// let result = HeadsMut::new(&mut o, layout)?;
/// attention_scaled_into(&gpu, x, x, x, scales, result, Options::new(), &mut Scratch::new(&gpu)?)?;
/// let o = o.to_vec()?;
/// assert!(o[..48].iter().all(|o| o.to_f32() == 1.0) && o[48..].iter().all(|o| o.to_f32() == 2.0));
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// There are kernels for Hopper alone (`sm_90a`). Values are first copied with keys as neighbours, which takes as much scratch as they have bytes. Exponentials are rounded to `E4m3`, after
/// they were multiplied by 2^8, which the sums take back. Tensor cores keep 13 bits of fraction in sums of such products: rows of up to 128 elements add
/// those of each 768 keys in f32.
///
/// # Errors
/// As [`attention_into`](super::attention_into) for sizes, scales and overlaps; [`InvalidArgument`](crate::GpuError::InvalidArgument) on other devices, for keys that are packed or in pages, for [lists](super::BlockLists), for a
/// [kernel](Options::kernel) other than [`Kernel::Hopper`], for rows, heads or batches that are not multiples of 16 bytes apart;
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) for scales of another length; errors of the driver.
#[allow(clippy::too_many_arguments)]
pub fn attention_scaled_into<T: Half, C>(
    on: &impl AsStream,
    q: Heads<'_, E4m3>,
    k: Heads<'_, E4m3>,
    v: Heads<'_, E4m3>,
    scales: HeadScales<'_>,
    mut o: HeadsMut<'_, T>,
    options: Options<'_, C>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    C: AttentionScaledKernel<T>,
{
    let stream = on.as_stream();
    let machine = Machine::of(stream.inner().context().info());
    let this = Prepared::new([&q, &k, &v], &o, &options, &machine)?;
    scales.check(&this.problem)?;
    if this.problem.all_queries() == 0 {
        return Ok(());
    }
    let (mut counters, [mut turned, mut parts]) = scratch.parts(stream, this.bytes())?;
    let mut turned = AsMut::<E4m3>::new(&mut turned);
    let launches = this.launches(stream, &machine, turned.as_read().raw().address)?;
    let mut counters = AsMut::<u32>::new(&mut counters);
    let mut parts = AsMut::<f32>::new(&mut parts);
    let lengths = As::<u32>::optional(options.set.lengths.as_ref());
    let offsets = As::<u32>::optional(options.set.query_offsets.as_ref());
    let of = |scales| As::<f32>::optional(scales);
    let scales = [&of(scales.q.as_ref()), &of(scales.k.as_ref()), &of(scales.v.as_ref())];
    let mut lse = options.set.lse;
    let mut lse = AsMut::<f32>::optional(lse.as_mut());
    let (v, o) = (&v.memory, &mut o.memory);
    for arguments in launches.into_iter().filter(|launch| launch.blocks > 0) {
        // SAFETY: sizes and overlaps were checked; maps, schedule and grid are of this problem; there is memory for the copy of the values and for the splits, and each tile has a
        // counter; the second kernel finds what the first one writes.
        unsafe {
            options.score.launch(
                stream,
                &arguments,
                v,
                &lengths,
                &offsets,
                scales,
                &mut counters,
                &mut turned,
                &mut parts,
                &mut lse,
                o,
            )?;
        }
    }
    Ok(())
}

/// The scratch of [`attention_scaled_into`] for these tensors, in bytes: the copy of the values, and partial results where keys are divided among blocks.
///
/// # Errors
/// As [`attention_scaled_into`].
pub fn attention_scaled_scratch_bytes<T: Half, C>(
    on: &impl AsStream,
    q: Heads<'_, E4m3>,
    k: Heads<'_, E4m3>,
    v: Heads<'_, E4m3>,
    o: &HeadsMut<'_, T>,
    options: &Options<'_, C>,
) -> GpuResult<usize> {
    let machine = Machine::of(on.as_stream().inner().context().info());
    Ok(size_of_parts(&Prepared::new([&q, &k, &v], o, options, &machine)?.bytes()))
}

/// Attention whose sizes fit, and that this device computes.
struct Prepared {
    problem: Problem,
    /// Where queries and keys begin.
    addresses: [u64; 2],
    /// Elements to which rows are filled up.
    depth: usize,
}

impl Prepared {
    fn new<T: Half, C>(
        [q, k, v]: [&Heads<'_, E4m3>; 3],
        o: &HeadsMut<'_, T>,
        options: &Options<'_, C>,
        machine: &Machine,
    ) -> GpuResult<Self> {
        let problem = problem_of([q.layout(), k.layout(), v.layout(), o.layout()], options)?;
        if let Some(lse) = &options.set.lse {
            same_len(OPERATION, problem.all_queries(), lse.len())?;
        }
        check_apart("results", o, [("queries", q), ("keys", k), ("values", v)])?;
        let depth = depth_of(&problem, &form::DEPTHS)?;
        let batches = problem.batches_of_queries();
        let of_keys = [problem.batches, problem.kv_heads, problem.keys];
        let refusal = if !machine.has_warpgroups {
            Some("on this device, which has no `wgmma`")
        } else if options.set.key_offsets.is_some() || options.set.pages.is_some() {
            Some("whose keys are packed, or in pages")
        } else if options.set.lists.is_some() {
            Some("and lists of blocks")
        } else if options.set.kernel.is_some_and(|kernel| kernel != Kernel::Hopper) {
            Some("by warps")
        } else if !(is_addressed(
            q.address(),
            BYTE,
            problem.q,
            [batches, problem.heads, problem.queries],
        ) && is_addressed(k.address(), BYTE, problem.k, of_keys)
            && is_addressed(v.address(), BYTE, problem.v, of_keys))
        {
            Some("whose rows, heads and batches are not multiples of 16 bytes apart")
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return Err(wrong(format!("there is no kernel for 8-bit floats {refusal}")));
        }
        // Heads have scales of their own, and each has tiles of its own.
        let sizes = (ROWS_OF_TILE, keys_of_block(depth) as u32);
        let splits = splits_of(&problem, machine, 1, sizes, 1);
        let problem = Problem { splits, ..problem };
        Ok(Self { problem, addresses: [q.address(), k.address()], depth })
    }

    /// Bytes of the copy of the values, and of the partial results.
    const fn bytes(&self) -> [usize; 2] {
        [values::bytes(&self.problem), bytes_of_parts(&self.problem, self.problem.splits)]
    }

    /// What the kernels are launched with, one after the other; `turned` is where the copy of the values begins.
    fn launches(
        &self,
        stream: &Stream,
        machine: &Machine,
        turned: u64,
    ) -> GpuResult<[Arguments; 2]> {
        let problem = self.problem;
        let of_values = u32::try_from(values::blocks(&problem))
            .map_err(|_| wrong("more values than a launch has".into()))?;
        let (schedule, len) = schedule_of(&problem, ROWS_OF_TILE as u32, BYTE)?;
        let maps = self.maps(stream, turned)?;
        let new = |form, blocks| Arguments { form, blocks, maps, schedule, problem };
        Ok([new(form::VALUES, of_values), new(self.depth, len.min(machine.multiprocessors))])
    }

    /// The maps of queries, keys, and the copy of the values.
    fn maps(&self, stream: &Stream, turned: u64) -> GpuResult<[MapWords; 3]> {
        let problem = &self.problem;
        let Problem { batches, kv_heads, keys, depth, value_depth, .. } = *problem;
        if keys == 0 || kv_heads == 0 {
            // Nothing is copied.
            return Ok(Default::default());
        }
        let [q, k] = self.addresses;
        let k = Mapped::new((k, BYTE), problem.k, [batches, kv_heads, keys], false);
        let padded = values::padded_keys(problem) as u64;
        let of_head = padded * u64::from(value_depth);
        let v = tensor_maps::encode_swizzled(
            stream,
            OPERATION,
            TensorType::U8 as u32,
            turned,
            [padded, value_depth.into(), kv_heads.into(), batches.into()],
            [padded, of_head, of_head * u64::from(kv_heads)],
            [SPAN_OF_VALUES as u32, SPAN as u32, 1, 1],
            Swizzle64::MODE,
        )?;
        Ok([
            map_of_queries(stream, (q, BYTE), problem, ROWS_OF_TILE as u32)?,
            map_of_rows(stream, k, depth, keys_of_block(self.depth) as u32)?,
            v,
        ])
    }
}
