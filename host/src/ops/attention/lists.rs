//! Lists of the blocks of keys that a mask does not empty, made beforehand.

use kernels_gpu::attention::Score;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::lists::{BlockListKernel, COMPACTS, Form, HEADER, SEES};

use super::prepare::{Machine, Prepared, wrong};
use super::{Heads, HeadsMut, Options};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSlice};
use crate::ops::scan::unwritten;
use crate::stream::AsStream;

/// For what lists are made: what a mask depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListsFor {
    /// Each head of each batch.
    EachHead,
    /// Each batch: all of its heads see the same keys.
    EachBatch,
    /// All heads of all batches see the same keys.
    All,
}

/// Which blocks of keys each tile of queries needs, under a functor that [masks](Score::MASKS): those that it empties are skipped, and those that it leaves whole need
/// no mask. Made once on the device, for as many calls of [`attention_into`](super::attention_into) as have the same sizes ([`Options::block_lists`]).
///
/// ```
/// use cuda_std::bf16;
/// use ferrowarp::ops::Scratch;
/// use ferrowarp::ops::attention::{
///     Band, BlockLists, Heads, HeadsLayout, HeadsMut, ListsFor, Options, Strided, attention_into,
/// };
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let layout = HeadsLayout::by_head([1, 1, 600, 16]);
/// let x = DeviceBuffer::from_slice(&gpu, &[bf16::ONE; 9600])?;
/// let x = Heads::new(&x, layout)?;
/// let mut o = DeviceBuffer::<bf16>::zeroed(&gpu, 9600)?;
///
/// // Keys of the same 300, and no others.
/// let mask = Strided::new(Band::ALL, 300, 0);
/// let o = HeadsMut::new(&mut o, layout)?;
/// let options = Options::new().score(mask);
/// let lists = BlockLists::new(&gpu, x, x, x, &o, &options, ListsFor::All)?;
/// let (listed, all) = lists.count()?;
/// assert!(listed < all);
/// let options = Options::new().block_lists(&lists);
/// attention_into(&gpu, x, x, x, o, options, &mut Scratch::new(&gpu)?)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Debug)]
pub struct BlockLists<C> {
    score: C,
    memory: DeviceBuffer<u32>,
    form: Form,
    pack: u32,
}

/// Lists, as options have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed<'a> {
    pub memory: DeviceSlice<'a, u32>,
    form: Form,
    pack: u32,
}

impl<C: Score> BlockLists<C> {
    /// The lists for a call of [`attention_into`](super::attention_into) with these tensors and options. Asynchronous.
    ///
    /// It evaluates the mask for every query and key, of every head and batch that have lists of their own.
    ///
    /// # Errors
    /// As [`attention_into`](super::attention_into); [`InvalidArgument`](crate::GpuError::InvalidArgument) for packed rows, keys in pages, and lengths of batches; out of memory.
    pub fn new<T: Half>(
        on: &impl AsStream,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        o: &HeadsMut<'_, T>,
        options: &Options<'_, C>,
        lists_for: ListsFor,
    ) -> GpuResult<Self>
    where
        C: BlockListKernel,
    {
        let stream = on.as_stream();
        let this = Prepared::new(&q, &k, &v, o, options)?;
        let choice =
            this.choice(&Machine::of(stream.inner().context().info()), options.set.kernel)?;
        let (problem, whole) = this.listed(&choice, options)?;
        let form = match lists_for {
            ListsFor::EachHead => whole,
            ListsFor::EachBatch => Form { heads: 1, ..whole },
            ListsFor::All => Form { heads: 1, batches: 1, ..whole },
        };
        if form.launch(SEES) >= 1 << 31 || form.len() >= 1 << 31 {
            return Err(wrong(format!("{} lists are more than a launch makes", form.lists())));
        }
        let mut memory = unwritten(on, form.len() as usize)?;
        let score = options.score;
        for kernel in [SEES, COMPACTS] {
            if form.launch(kernel) > 0 {
                // SAFETY: the memory has the form's length; the second kernel runs after the first one.
                unsafe { score.launch(stream, kernel, problem, form, &mut memory)? };
            }
        }
        Ok(Self { score, memory, form, pack: problem.pack })
    }

    /// The functor.
    #[must_use]
    pub fn score(&self) -> C {
        self.score
    }

    /// How many blocks of keys the lists have, and how many there are. Waits for the device.
    ///
    /// # Errors
    /// Errors of the driver, also of earlier work.
    pub fn count(&self) -> GpuResult<(u64, u64)> {
        let words = self.memory.to_vec()?;
        let lists = words.get(HEADER..).unwrap_or(&[]).chunks(1 + self.form.blocks as usize);
        let listed = lists.map(|list| u64::from(list[0])).sum();
        Ok((listed, self.form.lists() * u64::from(self.form.blocks)))
    }

    pub(super) fn listed(&self) -> Listed<'_> {
        Listed { memory: self.memory.as_slice(), form: self.form, pack: self.pack }
    }
}

impl Listed<'_> {
    /// Refuses lists that were made for other sizes, or for another kernel.
    pub fn check(&self, whole: &Form, pack: u32) -> GpuResult<()> {
        let Form { batches, heads, .. } = self.form;
        let is_fit = Form { batches: whole.batches, heads: whole.heads, ..self.form } == *whole
            && self.pack == pack
            && (batches == 1 || batches == whole.batches)
            && (heads == 1 || heads == whole.heads);
        if is_fit {
            return Ok(());
        }
        let of = |form: &Form| {
            let Form { batches, heads, tiles, blocks, rows, keys } = form;
            format!(
                "{batches} × {heads} × {tiles} tiles of {rows} rows, {blocks} blocks of {keys} keys"
            )
        };
        Err(wrong(format!("lists of {}, and attention of {}", of(&self.form), of(whole))))
    }
}
