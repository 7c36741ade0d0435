//! What attention does beside: the scale, the functor of scores, where keys are, and the logarithms of sums.

use kernels_gpu::attention::{Band, Score};

use super::Kernel;
use super::lists::{BlockLists, Listed};
use crate::memory::{DeviceSlice, DeviceSliceMut};

/// What attention does beside: the scale, the functor of scores, where keys are, and the logarithms of sums.
#[derive(Debug)]
pub struct Options<'a, C = Band> {
    pub(super) score: C,
    pub(super) set: Settings<'a>,
}

/// All options but the functor.
#[derive(Debug, Default)]
pub(super) struct Settings<'a> {
    pub scale: Option<f32>,
    pub query_offsets: Option<DeviceSlice<'a, u32>>,
    pub key_offsets: Option<DeviceSlice<'a, u32>>,
    pub lengths: Option<DeviceSlice<'a, u32>>,
    pub pages: Option<DeviceSlice<'a, u32>>,
    pub lists: Option<Listed<'a>>,
    pub lse: Option<DeviceSliceMut<'a, f32>>,
    pub kernel: Option<Kernel>,
    pub deterministic: bool,
}

impl Options<'_> {
    /// All keys, and a scale of `1 / √d`.
    #[must_use]
    pub fn new() -> Self {
        Self { score: Band::ALL, set: Settings::default() }
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
    pub fn scale(mut self, scale: f32) -> Self {
        self.set.scale = Some(scale);
        self
    }

    /// Which keys a query sees, and what becomes of its scores.
    #[must_use]
    pub fn score<S: Score>(self, score: S) -> Options<'a, S> {
        Options { score, set: Settings { lists: None, ..self.set } }
    }

    /// The functor of these lists, and only the blocks of keys that they have: those in which it leaves some for a query to see. In the forward pass.
    #[must_use]
    pub fn block_lists<S: Score>(self, lists: &'a BlockLists<S>) -> Options<'a, S> {
        let set = Settings { lists: Some(lists.listed()), ..self.set };
        Options { score: lists.score(), set }
    }

    /// Queries, and results, of all batches are rows of one batch, `[1, heads, queries of all batches, d]`: those of batch `b` are from `offsets[b]` to
    /// `offsets[b + 1]`. The offsets, one more than there are batches, are on the device, ascending; nothing is computed for rows of no batch.
    /// With offsets that do not ascend, results have no meaning, and a [deterministic](Self::deterministic) backward pass may not end.
    #[must_use]
    pub fn query_offsets(mut self, offsets: impl Into<DeviceSlice<'a, u32>>) -> Self {
        self.set.query_offsets = Some(offsets.into());
        self
    }

    /// Keys and values of all batches are rows of one batch, `[1, kv_heads, keys of all batches, d]`, with offsets like those of
    /// [queries](Self::query_offsets).
    #[must_use]
    pub fn key_offsets(mut self, offsets: impl Into<DeviceSlice<'a, u32>>) -> Self {
        self.set.key_offsets = Some(offsets.into());
        self
    }

    /// The number of keys of each batch, on the device: `[batches]`. A number that is larger than the keys of the tensor counts as those.
    #[must_use]
    pub fn lengths(mut self, lengths: impl Into<DeviceSlice<'a, u32>>) -> Self {
        self.set.lengths = Some(lengths.into());
        self
    }

    /// Keys and values lie in pages, `[pages, kv_heads, keys of a page, d]`, a power of two of keys each: `table` is `[batches, pages of a batch]`, on the
    /// device, and names the pages of each batch in order. How many keys a batch has say [`lengths`](Self::lengths), and as many pages are
    /// looked up. A page that there is not has keys and values of zeros.
    #[must_use]
    pub fn pages(mut self, table: impl Into<DeviceSlice<'a, u32>>) -> Self {
        self.set.pages = Some(table.into());
        self
    }

    /// Where the logarithm of each query's sum of `e^score` goes: `[batches, heads, queries]`, of packed queries `[heads, queries of all batches]`.
    #[must_use]
    pub fn lse(mut self, lse: impl Into<DeviceSliceMut<'a, f32>>) -> Self {
        self.set.lse = Some(lse.into());
        self
    }

    /// This kernel in place of the one that would be taken.
    #[must_use]
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.set.kernel = Some(kernel);
        self
    }

    /// The same bits in every run. Without it the [backward pass](super::attention_backward_into) may add in any order; everything else is deterministic anyway.
    #[must_use]
    pub fn deterministic(mut self) -> Self {
        self.set.deterministic = true;
        self
    }
}
