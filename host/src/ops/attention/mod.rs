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
//! address (rows, heads, or batches that are no multiples of 16 bytes apart), and other devices since `sm_80`, have a kernel of warps, and one for at most 16
//! rows: queries times heads that share keys. Where there are too few tiles for the device, keys are divided among blocks, and a second kernel adds
//! their parts in a fixed order.
//!
//! The [backward pass](attention_backward_into) has kernels of warps, of rows of up to 128 elements.
//!
//! Rows are filled up with zeros to 64, 128, 192 or 256 elements, those of values too, and cost as much.

mod backward;
mod heads;
mod prepare;
mod rotary;
mod steps;

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;

pub use backward::{Backward, Gradients, attention_backward_into, backward_scratch_bytes};
pub use heads::{Heads, HeadsLayout, HeadsMut};
pub use kernels_gpu::attention::{Alibi, Band, Dropout, Kept, Place, Score, SoftCap};
pub use prepare::{Choice, Kernel};
pub use rotary::{Cache, Positions, RotaryTable, append_into, rotary_in_place};
pub use steps::{online_into, textbook_into};

use self::prepare::{Machine, Prepared};
use super::scan::unwritten;
use super::scratch::{Scratch, size_of_parts};
use super::views::{As, AsMut};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::AsStream;

/// What errors name.
const OPERATION: &str = "attention";

/// What attention does beside: the scale, the functor of scores, where keys are, and the logarithms of sums.
#[derive(Debug)]
pub struct Options<'a, C = Band> {
    scale: Option<f32>,
    score: C,
    query_offsets: Option<DeviceSlice<'a, u32>>,
    key_offsets: Option<DeviceSlice<'a, u32>>,
    lengths: Option<DeviceSlice<'a, u32>>,
    pages: Option<DeviceSlice<'a, u32>>,
    lse: Option<DeviceSliceMut<'a, f32>>,
    kernel: Option<Kernel>,
    deterministic: bool,
}

impl Options<'_> {
    /// All keys, and a scale of `1 / √d`.
    #[must_use]
    pub fn new() -> Self {
        let (lengths, pages, lse) = (None, None, None);
        let (query_offsets, key_offsets) = (None, None);
        let (scale, score, kernel, deterministic) = (None, Band::ALL, None, false);
        Self {
            scale,
            score,
            query_offsets,
            key_offsets,
            lengths,
            pages,
            lse,
            kernel,
            deterministic,
        }
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, C> Options<'a, C> {
    /// Factor of the scores: positive and finite.
    #[must_use]
    pub fn scale(self, scale: f32) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// Which keys a query sees, and what becomes of its scores.
    #[must_use]
    pub fn score<S: Score>(self, score: S) -> Options<'a, S> {
        let Self { scale, query_offsets, key_offsets, lengths, pages, lse, .. } = self;
        let Self { kernel, deterministic, .. } = self;
        Options {
            scale,
            score,
            query_offsets,
            key_offsets,
            lengths,
            pages,
            lse,
            kernel,
            deterministic,
        }
    }

    /// Queries, and results, of all batches are rows of one batch, `[1, heads, queries of all batches, d]`: those of batch `b` are from `offsets[b]` to
    /// `offsets[b + 1]`. The offsets, one more than there are batches, are on the device, ascending; nothing is computed for rows of no batch.
    /// With offsets that do not ascend, results have no meaning, and a [deterministic](Self::deterministic) backward pass may not end.
    #[must_use]
    pub fn query_offsets(self, offsets: impl Into<DeviceSlice<'a, u32>>) -> Self {
        Self { query_offsets: Some(offsets.into()), ..self }
    }

    /// Keys and values of all batches are rows of one batch, `[1, kv_heads, keys of all batches, d]`, with offsets like those of
    /// [queries](Self::query_offsets).
    #[must_use]
    pub fn key_offsets(self, offsets: impl Into<DeviceSlice<'a, u32>>) -> Self {
        Self { key_offsets: Some(offsets.into()), ..self }
    }

    /// The number of keys of each batch, on the device: `[batches]`. A number that is larger than the keys of the tensor counts as those.
    #[must_use]
    pub fn lengths(self, lengths: impl Into<DeviceSlice<'a, u32>>) -> Self {
        Self { lengths: Some(lengths.into()), ..self }
    }

    /// Keys and values lie in pages, `[pages, kv_heads, keys of a page, d]`, a power of two of keys each: `table` is `[batches, pages of a batch]`, on the
    /// device, and names the pages of each batch in order. How many keys a batch has say [`lengths`](Self::lengths), and as many pages are
    /// looked up. A page that there is not has keys and values of zeros.
    #[must_use]
    pub fn pages(self, table: impl Into<DeviceSlice<'a, u32>>) -> Self {
        Self { pages: Some(table.into()), ..self }
    }

    /// Where the logarithm of each query's sum of `e^score` goes: `[batches, heads, queries]`, of packed queries `[heads, queries of all batches]`.
    #[must_use]
    pub fn lse(self, lse: impl Into<DeviceSliceMut<'a, f32>>) -> Self {
        Self { lse: Some(lse.into()), ..self }
    }

    /// This kernel in place of the one that would be taken.
    #[must_use]
    pub fn kernel(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// The same bits in every run. Without it the [backward pass](attention_backward_into) may add in any order; everything else is deterministic anyway.
    #[must_use]
    pub fn deterministic(self) -> Self {
        Self { deterministic: true, ..self }
    }
}

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
    let mut out = match options.query_offsets {
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
/// 2^31 or more, for a scale that is not positive and finite, if `o` overlaps an input or itself, for a [kernel](Options::kernel) that cannot compute this;
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
    let choice = this.choice(&machine, options.kernel)?;
    let arguments = this.arguments(stream, &machine, &choice)?;
    let (counters, [mut parts]) = scratch.parts(stream, [this.parts_bytes(&choice)])?;
    let mut parts = AsMut::<f32>::new(&mut parts);
    let mut counter = Some(counters).filter(|_| this.counts(&arguments));
    let mut counter = AsMut::<u32>::optional(counter.as_mut());
    let lengths = As::<u32>::optional(options.lengths.as_ref());
    let pages = As::<u32>::optional(options.pages.as_ref());
    let of_queries = As::<u32>::optional(options.query_offsets.as_ref());
    let of_keys = As::<u32>::optional(options.key_offsets.as_ref());
    let offsets = [&of_queries, &of_keys];
    let mut lse = options.lse;
    let mut lse = AsMut::<f32>::optional(lse.as_mut());
    let (q, k, v, o) = (&q.memory, &k.memory, &v.memory, &mut o.memory);
    let score = options.score;
    // SAFETY: sizes and overlaps were checked; maps, schedule and grid are of this problem; the parts have their place, and are combined behind the
    // kernel that writes them.
    unsafe {
        let (pages, lengths, parts, lse) = (&pages, &lengths, &mut parts, &mut lse);
        let count = &mut counter;
        score.launch(stream, &arguments, q, k, v, pages, lengths, offsets, count, parts, lse, o)?;
        if choice.splits > 1 {
            let arguments = this.combining(&choice)?;
            score.launch(
                stream, &arguments, q, k, v, pages, lengths, offsets, count, parts, lse, o,
            )?;
        }
    }
    Ok(())
}

/// The scratch of [`attention_into`] for these tensors, in bytes: parts of results where keys are divided among blocks.
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
    let choice = this.choice(&machine, options.kernel)?;
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
    this.choice(&Machine::of(on.as_stream().inner().context().info()), options.kernel)
}

/// The length of optional device memory.
fn len_of<T: Pod>(memory: Option<&impl DeviceRead<T>>) -> Option<usize> {
    memory.map(DeviceRead::len)
}
