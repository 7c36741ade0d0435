//! Attention: `o = softmax(scale · q·kᵀ) · v` for each head of each batch, over the keys that a query sees.
//!
//! `q: [batches, heads, queries, d]`, `k: [batches, kv_heads, keys, d]`, `v: [batches, kv_heads, keys, d of values]`, with any strides, of
//! [`bf16`](cuda_std::bf16) or [`f16`](cuda_std::f16). Heads of queries share heads of keys, as in grouped-query attention, where `heads` is a multiple of `kv_heads`.
//!
//! ```
//! use cuda_std::bf16;
//! use ferrowarp::ops::attention::{Band, Heads, HeadsLayout, Options, attention};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! // Two heads of three rows of eight elements.
//! let layout = HeadsLayout::by_head([1, 2, 3, 8]);
//! let x = DeviceBuffer::from_slice(&gpu, &[bf16::ONE; 48])?;
//! let x = Heads::new(&x, layout)?;
//! let o = attention(&gpu, x, x, x, Options::new().score(Band::CAUSAL))?;
//! assert_eq!(o.to_vec()?, [bf16::ONE; 48]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Which keys, and what becomes of scores
//! A functor says both, a [`Score`]: [`Band`] for all keys, those up to the query's own, a sliding window, or a prefix; [`SoftCap`] and [`Alibi`], and those of your own
//! kernel crate. Queries and keys are aligned at their ends. A query that sees no key has the result 0, and the logarithm of its sum is negative
//! infinity.
//!
//! A functor that only [masks](Score::MASKS) can have [lists](BlockLists) of the blocks of keys that it does not empty; others are skipped.
//!
//! [`Dropout`] around another functor leaves weights out at random. Which ones, its seed and offset say, the same in the forward and the backward pass.
//!
//! # Results
//! - Scores and sums are f32, exponentials are rounded to the type of the elements before they are multiplied with values. The maximum of a row is subtracted
//!   before its exponentials are taken.
//! - The same call on the same device gives the same bits again and again.
//! - NaN and infinity among keys or queries make rows that see them NaN; so do those among values, also where their weights are 0.
//!
//! # Batches of different lengths
//! [`Options::lengths`] gives each batch a number of keys. [`Options::query_offsets`] and [`Options::key_offsets`] pack the rows of all batches into one, without
//! gaps, as sequences of different lengths are for training: both, or one of them.
//!
//! # Which kernel runs
//! [`explain`] says it. On Hopper (`sm_90a`) keys and values come by the copy engine, and warpgroups multiply them. Tensors that the copy engine cannot
//! address (rows, heads, or batches that are not multiples of 16 bytes apart), and other devices since `sm_80`, have a kernel of warps, and one for at most 16
//! rows: queries times heads that share keys. Where there are too few tiles for the device, keys are divided among blocks, the last of which
//! adds their partial results in a fixed order.
//!
//! The [backward pass](attention_backward_into) has a kernel of warpgroups for rows of up to 128 elements on Hopper, and kernels of warps for all.
//!
//! # 8-bit floats
//! [`attention_scaled_into`] takes queries, keys and values of [`E4m3`](cuda_std::number::E4m3) with a [scale for each head](HeadScales), on Hopper.
//!
//! Rows are filled up with zeros to 64, 128, 192 or 256 elements, those of values too, and cost as much.

mod backward;
mod heads;
mod lists;
mod maps;
mod options;
mod prepare;
mod rotary;
mod scaled;
mod steps;

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;

pub use backward::{Backward, Gradients, attention_backward_into, backward_scratch_bytes};
pub use heads::{Heads, HeadsLayout, HeadsMut};
pub use kernels_gpu::attention::{Alibi, Band, Dropout, Kept, Place, Score, SoftCap, Strided};
pub use lists::{BlockLists, ListsFor};
pub use options::Options;
pub use prepare::{Choice, Kernel};
pub use rotary::{Cache, Positions, RotaryTable, append_into, rotary_in_place};
pub use scaled::{HeadScales, attention_scaled_into, attention_scaled_scratch_bytes};
pub use steps::{online_into, textbook_into};

use self::prepare::{Machine, Prepared};
use super::scan::unwritten;
use super::scratch::{Scratch, size_of_parts};
use super::views::{As, AsMut};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// What errors name.
const OPERATION: &str = "attention";

/// Attention as a new tensor without gaps: `[batches, heads, queries, d of values]`. Rows of packed queries that belong to no batch are 0. Asynchronous.
///
/// # Errors
/// As [`attention_into`]; out of memory.
pub fn attention<T: Half, C>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    options: Options<'_, C>,
) -> GpuResult<DeviceBuffer<T>>
where
    C: AttentionKernel<T>,
{
    let of_q = q.layout();
    let sizes = [of_q.batches, of_q.heads, of_q.rows, v.layout().depth];
    let len = sizes.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
    let len = len.unwrap_or(usize::MAX);
    let mut out = match options.set.query_offsets {
        Some(_) => DeviceBuffer::zeroed(on, len)?,
        None => unwritten(on, len)?,
    };
    let o = HeadsMut::new(&mut out, HeadsLayout::by_head(sizes))?;
    attention_into(on, q, k, v, o, options, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// Attention into `o: [batches, heads, queries, d of values]`. Asynchronous; allocates only where `scratch` is smaller than [`scratch_bytes`].
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if sizes do not fit (the message has them), for rows of more than 256 elements or of none, for a size of
/// 2^31 or more, for a scale that is not positive and finite, for [lists](BlockLists) of other sizes, if `o` overlaps an input or itself, for a [kernel](Options::kernel) that cannot compute this;
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) for lengths, offsets, a table of pages or logarithms of another size; errors of the driver.
pub fn attention_into<T: Half, C>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    mut o: HeadsMut<'_, T>,
    options: Options<'_, C>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    C: AttentionKernel<T>,
{
    let stream = on.as_stream();
    let this = Prepared::new(&q, &k, &v, &o, &options)?;
    if this.problem.all_queries() == 0 {
        return Ok(());
    }
    let machine = Machine::of(stream.inner().context().info());
    let choice = this.choice(&machine, options.set.kernel)?;
    let arguments = this.arguments(stream, &machine, &choice)?;
    let (mut counters, [mut parts]) = scratch.parts(stream, [this.parts_bytes(&choice)])?;
    let mut parts = AsMut::<f32>::new(&mut parts);
    let mut counters = AsMut::<u32>::new(&mut counters);
    let lengths = As::<u32>::optional(options.set.lengths.as_ref());
    let pages = As::<u32>::optional(options.set.pages.as_ref());
    let of_queries = As::<u32>::optional(options.set.query_offsets.as_ref());
    let of_keys = As::<u32>::optional(options.set.key_offsets.as_ref());
    let offsets = [&of_queries, &of_keys];
    if let Some(lists) = &options.set.lists {
        let (problem, whole) = this.listed(&choice, &options)?;
        lists.check(&whole, problem.pack)?;
    }
    let lists = As::<u32>::optional(options.set.lists.as_ref().map(|lists| &lists.memory));
    let mut lse = options.set.lse;
    let mut lse = AsMut::<f32>::optional(lse.as_mut());
    let (q, k, v, o) = (&q.memory, &k.memory, &v.memory, &mut o.memory);
    let score = options.score;
    // SAFETY: sizes and overlaps were checked; maps, schedule and grid are of this problem; there is memory for the splits, and a counter for each tile.
    unsafe {
        let (pages, lengths, parts, lse) = (&pages, &lengths, &mut parts, &mut lse);
        let count = &mut counters;
        score.launch(
            stream, &arguments, q, k, v, pages, lengths, offsets, &lists, count, parts, lse, o,
        )
    }
}

/// The scratch of [`attention_into`] for these tensors, in bytes: partial results where keys are divided among blocks.
///
/// # Errors
/// As [`attention_into`].
pub fn scratch_bytes<T: Half, C: Score>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    o: &HeadsMut<'_, T>,
    options: &Options<'_, C>,
) -> GpuResult<usize> {
    let this = Prepared::new(&q, &k, &v, o, options)?;
    let machine = Machine::of(on.as_stream().inner().context().info());
    let choice = this.choice(&machine, options.set.kernel)?;
    Ok(size_of_parts(&[this.parts_bytes(&choice)]))
}

/// Which kernel [`attention_into`] launches, and how it divides the work: `Display` prints it.
///
/// # Errors
/// As [`attention_into`].
pub fn explain<T: Half, C: Score>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    o: &HeadsMut<'_, T>,
    options: &Options<'_, C>,
) -> GpuResult<Choice> {
    let this = Prepared::new(&q, &k, &v, o, options)?;
    this.choice(&Machine::of(on.as_stream().inner().context().info()), options.set.kernel)
}

/// The length of optional device memory.
fn len_of<T: Pod>(memory: Option<&impl DeviceRead<T>>) -> Option<usize> {
    memory.map(DeviceRead::len)
}
