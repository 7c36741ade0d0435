//! The types of keys and values, and the words that stand for them in the kernels.

use std::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, RawSlice};
use kernels_gpu::grid::sort::histogram::{self, sort_histogram};
use kernels_gpu::grid::sort::pass::{FEW_LONG, FEW_SHORT, LONG, SHORT, THREADS, Task, sort_pass};
use kernels_gpu::grid::sort::segments::{self, sort_segments};
use kernels_gpu::grid::sort::top_k::{TILE, rounds, top_k_collect, top_k_count};
use kernels_gpu::grid::sort::{NoValue, Order, Payload, Word};

use super::segments::{How, Work};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;
use crate::ops::block_count;
use crate::stream::Stream;

/// A type of keys: integers of 8 to 64 bits, `f16`, `bf16`, `f32`, `f64`.
pub trait SortKey: Pod + sealed::Key {}

/// A type of values: integers and floats of 32 and 64 bits.
pub trait SortValue: Pod + sealed::Value {}

pub(super) mod sealed {
    use super::{KeyWord, Order, ValueWord};

    pub trait Key {
        /// As many bits.
        type Word: KeyWord;
        /// How they become words in order.
        const ORDER: Order;
    }

    pub trait Value {
        /// As many bits.
        type Word: ValueWord;
    }
}

macro_rules! keys {
    ($($ty:ty as $word:ty: $order:expr;)*) => {$(
        impl SortKey for $ty {}
        impl sealed::Key for $ty {
            type Word = $word;
            const ORDER: Order = $order;
        }
    )*};
}

keys! {
    u8 as u8: Order::UNSIGNED;
    u16 as u16: Order::UNSIGNED;
    u32 as u32: Order::UNSIGNED;
    u64 as u64: Order::UNSIGNED;
    i8 as u8: Order::signed(8);
    i16 as u16: Order::signed(16);
    i32 as u32: Order::signed(32);
    i64 as u64: Order::signed(64);
    f16 as u16: Order::float(16);
    bf16 as u16: Order::float(16);
    f32 as u32: Order::float(32);
    f64 as u64: Order::float(64);
}

macro_rules! values {
    ($($word:ty: $($ty:ty)*;)*) => {$($(
        impl SortValue for $ty {}
        impl sealed::Value for $ty {
            type Word = $word;
        }
    )*)*};
}

values! {
    u32: u32 i32 f32;
    u64: u64 i64 f64;
}

/// Memory as the words of a kernel. Its element has as many bits, of which each pattern is a value.
#[derive(Clone)]
pub struct Words<W> {
    raw: RawSlice,
    word: PhantomData<W>,
}

impl<W> Words<W> {
    /// # Safety
    /// `raw` describes memory as [`DeviceRead`] promises it, or [`DeviceWrite`] where a kernel writes it, for as long as
    /// this is used, of elements of the size and alignment of `W`, for which all bits are a value.
    pub unsafe fn new(raw: RawSlice) -> Self {
        Self { raw, word: PhantomData }
    }

    /// No elements.
    pub fn none() -> Self {
        let raw = RawSlice { address: 0, len: 0, home: None };
        // SAFETY: there is no memory.
        unsafe { Self::new(raw) }
    }
}

// SAFETY: the promise of `new`.
unsafe impl<W> DeviceRead<W> for Words<W> {
    fn raw(&self) -> RawSlice {
        self.raw.clone()
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

// SAFETY: the promise of `new`.
unsafe impl<W> DeviceWrite<W> for Words<W> {
    fn raw_mut(&mut self) -> RawSlice {
        self.raw.clone()
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

/// A word that is a key in the kernels.
pub trait KeyWord:
    Word + Pass<NoValue> + Pass<u32> + Pass<u64> + Segments<NoValue> + Segments<u32> + Segments<u64>
{
    /// Launches the histogram.
    ///
    /// # Safety
    /// As for the kernel.
    unsafe fn histogram(
        on: &Stream,
        keys: &Words<Self>,
        order: Order,
        bits: (u32, u32),
        in_place: bool,
        control: &mut DeviceSliceMut<'_, u32>,
    ) -> GpuResult<()>;

    /// Launches the search for the first `k`, and what collects them and their places.
    ///
    /// # Safety
    /// As for the kernels.
    unsafe fn top_k(
        on: &Stream,
        keys: &Words<Self>,
        order: Order,
        k: usize,
        state: &mut DeviceSliceMut<'_, u64>,
        results: (&mut Words<Self>, &mut Words<u32>),
    ) -> GpuResult<()>;
}

/// A word that is a value in the kernels.
pub trait ValueWord: Payload {
    /// Launches a pass.
    ///
    /// # Safety
    /// As for the kernel.
    unsafe fn pass<W: KeyWord>(
        on: &Stream,
        arrays: Arrays<'_, '_, W, Self>,
        task: Task,
    ) -> GpuResult<()>;

    /// Launches a sort of segments.
    ///
    /// # Safety
    /// As for the kernel.
    unsafe fn segments<W: KeyWord>(on: &Stream, work: Work<W, Self>, how: How) -> GpuResult<()>;
}

/// Keys that travel with `V`.
pub trait Pass<V>: Sized {
    /// Launches a pass.
    ///
    /// # Safety
    /// As for the kernel.
    unsafe fn pass(on: &Stream, arrays: Arrays<'_, '_, Self, V>, task: Task) -> GpuResult<()>;
}

/// What a pass works on.
pub struct Arrays<'a, 'c, W, V> {
    pub input: &'a Words<W>,
    pub out: &'a mut Words<W>,
    pub spare: &'a mut Words<W>,
    pub values: &'a Words<V>,
    pub out_values: &'a mut Words<V>,
    pub spare_values: &'a mut Words<V>,
    pub control: &'a mut DeviceSliceMut<'c, u32>,
    /// Keys of a thread: what the tiling says of this many.
    pub items: usize,
}

macro_rules! passes {
    ($($word:ty, $value:ty: $($form:pat => $items:ident),+;)*) => {$(
        impl Pass<$value> for $word {
            unsafe fn pass(
                on: &Stream,
                arrays: Arrays<'_, '_, Self, $value>,
                task: Task,
            ) -> GpuResult<()> {
                let Arrays { input, out, spare, values, out_values, spare_values, control, items } =
                    arrays;
                let grid = Grid1::new(block_count(out.raw.len.div_ceil(THREADS * items)));
                // SAFETY: the caller's promise.
                unsafe {
                    match items {
                        $($form => sort_pass::<$word, $value, $items>::launch(
                            on, grid, input, out, spare, values, out_values, spare_values, control,
                            task,
                        ),)+
                    }
                }
            }
        }
    )*};
}

passes! {
    u8, NoValue: _ => SHORT;
    u16, NoValue: _ => SHORT;
    u32, NoValue: FEW_SHORT => FEW_SHORT, _ => SHORT;
    u64, NoValue: FEW_LONG => FEW_LONG, _ => LONG;
    u8, u32: _ => SHORT;
    u16, u32: _ => SHORT;
    u32, u32: FEW_SHORT => FEW_SHORT, _ => SHORT;
    u64, u32: FEW_LONG => FEW_LONG, _ => LONG;
    u8, u64: _ => LONG;
    u16, u64: _ => LONG;
    u32, u64: FEW_LONG => FEW_LONG, _ => LONG;
    u64, u64: FEW_LONG => FEW_LONG, _ => LONG;
}

/// Keys whose segments are sorted with `V`.
pub trait Segments<V>: Sized {
    /// Launches the sort.
    ///
    /// # Safety
    /// As for the kernel.
    unsafe fn segments(on: &Stream, work: Work<Self, V>, how: How) -> GpuResult<()>;
}

macro_rules! segments {
    ($($word:ty, $value:ty, $items:ident;)*) => {$(
        impl Segments<$value> for $word {
            unsafe fn segments(on: &Stream, work: Work<Self, $value>, how: How) -> GpuResult<()> {
                let Work { keys, mut out, mut spare, values, numbered } = work;
                let [values, mut out_values, mut spare_values] = values;
                let How { offsets, order, bits: (begin, end) } = how;
                let grid = Grid1::new(segments::blocks(offsets.raw.len - 1));
                // SAFETY: the caller's promise.
                unsafe {
                    sort_segments::<$word, $value, { segments::$items }>::launch(
                        on, grid, &keys, &values, &offsets, order, begin, end,
                        u32::from(numbered), &mut out, &mut spare, &mut out_values, &mut spare_values,
                    )
                }
            }
        }
    )*};
}

segments! {
    u8, NoValue, SHORT; u16, NoValue, SHORT; u32, NoValue, SHORT; u64, NoValue, LONG;
    u8, u32, SHORT; u16, u32, SHORT; u32, u32, SHORT; u64, u32, LONG;
    u8, u64, LONG; u16, u64, LONG; u32, u64, LONG; u64, u64, LONG;
}

macro_rules! key_words {
    ($($word:ty)*) => {$(
        impl KeyWord for $word {
            unsafe fn histogram(
                on: &Stream,
                keys: &Words<Self>,
                order: Order,
                (begin, end): (u32, u32),
                in_place: bool,
                control: &mut DeviceSliceMut<'_, u32>,
            ) -> GpuResult<()> {
                let grid = Grid1::new(histogram::blocks(keys.raw.len));
                let in_place = u32::from(in_place);
                // SAFETY: the caller's promise.
                unsafe {
                    sort_histogram::<$word>::launch(
                        on, grid, keys, order, begin, end, in_place, control,
                    )
                }
            }

            unsafe fn top_k(
                on: &Stream,
                keys: &Words<Self>,
                order: Order,
                k: usize,
                state: &mut DeviceSliceMut<'_, u64>,
                (out, places): (&mut Words<Self>, &mut Words<u32>),
            ) -> GpuResult<()> {
                let n = keys.raw.len;
                let (count, collect) = (histogram::blocks(n), block_count(n.div_ceil(TILE)));
                // SAFETY: the caller's promise.
                unsafe {
                    for round in 0..rounds(<$word>::BITS) {
                        let grid = Grid1::new(count);
                        top_k_count::<$word>::launch(on, grid, keys, order, k as u64, round, state)?;
                    }
                    let grid = Grid1::new(collect);
                    top_k_collect::<$word>::launch(on, grid, keys, order, state, out, places)
                }
            }
        }
    )*};
}

key_words!(u8 u16 u32 u64);

macro_rules! value_words {
    ($($word:ty)*) => {$(
        impl ValueWord for $word {
            unsafe fn pass<W: KeyWord>(
                on: &Stream,
                arrays: Arrays<'_, '_, W, Self>,
                task: Task,
            ) -> GpuResult<()> {
                // SAFETY: the caller's promise.
                unsafe { <W as Pass<$word>>::pass(on, arrays, task) }
            }

            unsafe fn segments<W: KeyWord>(
                on: &Stream,
                work: Work<W, Self>,
                how: How,
            ) -> GpuResult<()> {
                // SAFETY: the caller's promise.
                unsafe { <W as Segments<$word>>::segments(on, work, how) }
            }
        }
    )*};
}

value_words!(NoValue u32 u64);
