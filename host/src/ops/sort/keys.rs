//! The types of keys and values, and the kernels that sort the words that stand for them.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::sort::groups::{Groups, sort_groups_histogram, sort_groups_pass};
use kernels_gpu::sort::histogram::{self, sort_histogram};
use kernels_gpu::sort::pass::{self, THREADS, Task, sort_pass};
use kernels_gpu::sort::segments::{self, sort_segments};
use kernels_gpu::sort::top_k::{TILE, rounds, top_k_collect, top_k_count};
use kernels_gpu::sort::{NoValue, Order, Word, passes};

use super::radix::{Buffers, RadixSort};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;
use crate::ops::block_count;
use crate::ops::number::Number;
use crate::ops::views::{As, AsMut};
use crate::stream::Stream;

/// A type of keys: integers of 8 to 64 bits, `f16`, `bf16`, `f32`, `f64`.
#[diagnostic::on_unimplemented(
    message = "the kernel `sort_pass` has no instance for keys of `{Self}`",
    note = "keys are `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32` or `f64`"
)]
pub trait SortKey: Number<Bits: KeyWord> {
    /// How the bits of a key become a word in the keys' order.
    #[doc(hidden)]
    const ORDER: Order;
}

/// A type of values: integers and floats of 32 and 64 bits.
#[diagnostic::on_unimplemented(
    message = "the kernel `sort_pass` has no instance for values of `{Self}`",
    note = "values are `u32`, `i32`, `f32`, `u64`, `i64` or `f64`"
)]
pub trait SortValue: Number {}

macro_rules! keys {
    ($($order:expr => $($ty:ty)*;)*) => {$($(
        impl SortKey for $ty {
            const ORDER: Order = $order;
        }
    )*)*};
}

keys! {
    Order::UNSIGNED => u8 u16 u32 u64;
    Order::signed(8) => i8;
    Order::signed(16) => i16;
    Order::signed(32) => i32;
    Order::signed(64) => i64;
    Order::float(16) => f16 bf16;
    Order::float(32) => f32;
    Order::float(64) => f64;
}

impl SortValue for u32 {}
impl SortValue for i32 {}
impl SortValue for f32 {}
impl SortValue for u64 {}
impl SortValue for i64 {}
impl SortValue for f64 {}

/// A word that is a key in the kernels.
pub trait KeyWord: Word + SortWith<NoValue> + SortWith<u32> + SortWith<u64> {
    /// Enqueues the kernel that counts the digits of `keys` and plans the passes.
    ///
    /// # Safety
    /// As for `sort_histogram`.
    unsafe fn histogram(
        on: &Stream,
        sort: &RadixSort,
        keys: &As<'_, Self>,
        control: &mut DeviceSliceMut<'_, u32>,
    ) -> GpuResult<()>;

    /// Enqueues the kernels that search for the first `k` of `keys` and collect them and their indices, in any order.
    ///
    /// # Safety
    /// As for `top_k_count` and `top_k_collect`.
    unsafe fn top_k(
        on: &Stream,
        keys: &As<'_, Self>,
        order: Order,
        state: &mut DeviceSliceMut<'_, u64>,
        out: &mut AsMut<'_, Self>,
        indices: &mut AsMut<'_, u32>,
    ) -> GpuResult<()>;
}

impl<W: Word + SortWith<NoValue> + SortWith<u32> + SortWith<u64>> KeyWord for W
where
    sort_histogram<W>: Instance,
    top_k_count<W>: Instance,
    top_k_collect<W>: Instance,
{
    unsafe fn histogram(
        on: &Stream,
        sort: &RadixSort,
        keys: &As<'_, Self>,
        control: &mut DeviceSliceMut<'_, u32>,
    ) -> GpuResult<()> {
        let RadixSort { n, order, bits: (begin, end), in_place, .. } = *sort;
        let grid = Grid1::new(histogram::blocks(n));
        let in_place = u32::from(in_place);
        // SAFETY: the caller's promise.
        unsafe { sort_histogram::<W>::launch(on, grid, keys, order, begin, end, in_place, control) }
    }

    unsafe fn top_k(
        on: &Stream,
        keys: &As<'_, Self>,
        order: Order,
        state: &mut DeviceSliceMut<'_, u64>,
        out: &mut AsMut<'_, Self>,
        indices: &mut AsMut<'_, u32>,
    ) -> GpuResult<()> {
        let (n, k) = (keys.len(), out.len() as u64);
        let count = Grid1::new(histogram::blocks(n));
        for round in 0..rounds(W::BITS) {
            // SAFETY: the caller's promise.
            unsafe { top_k_count::<W>::launch(on, count, keys, order, k, round, state)? };
        }
        let collect = Grid1::new(block_count(n.div_ceil(TILE)));
        // SAFETY: the caller's promise; the rounds before have found the key number `k`.
        unsafe { top_k_collect::<W>::launch(on, collect, keys, order, state, out, indices) }
    }
}

/// Keys that are sorted with values of `V`, or alone (`NoValue`).
pub trait SortWith<V>: Sized {
    /// Enqueues a pass, in tiles of `items` keys for each thread.
    ///
    /// # Safety
    /// As for `sort_pass`.
    unsafe fn pass(
        on: &Stream,
        items: usize,
        keys: &mut Buffers<'_, Self>,
        values: &mut Buffers<'_, V>,
        control: &mut DeviceSliceMut<'_, u32>,
        task: Task,
    ) -> GpuResult<()>;

    /// Keys of a thread in a pass over groups, if there is a kernel for that.
    const GROUP_ITEMS: Option<usize> = None;

    /// Enqueues the kernels of a sort of groups.
    ///
    /// # Safety
    /// As for `sort_groups_histogram` and `sort_groups_pass`.
    ///
    /// # Panics
    /// If there are no such kernels.
    unsafe fn groups(
        _on: &Stream,
        _sort: &RadixSort,
        _groups: Groups,
        _keys: &mut Buffers<'_, Self>,
        _values: &mut Buffers<'_, V>,
        _control: &mut DeviceSliceMut<'_, u32>,
    ) -> GpuResult<()> {
        unreachable!("there are no kernels for groups of such keys")
    }

    /// Enqueues a sort of segments.
    ///
    /// # Safety
    /// As for `sort_segments`.
    unsafe fn segments(
        on: &Stream,
        sort: &RadixSort,
        offsets: &As<'_, u64>,
        keys: &mut Buffers<'_, Self>,
        values: &mut Buffers<'_, V>,
    ) -> GpuResult<()>;
}

/// Which tiles each kind of keys and values has: those of few keys, and those of many, whose name segments have too; and those of
/// groups, where groups have kernels.
macro_rules! tiles {
    ($($word:ty: $($value:ty [$few:ident $many:ident $($groups:ident)?])+;)*) => {$($(
        impl SortWith<$value> for $word {
            unsafe fn pass(
                on: &Stream,
                items: usize,
                keys: &mut Buffers<'_, Self>,
                values: &mut Buffers<'_, $value>,
                control: &mut DeviceSliceMut<'_, u32>,
                task: Task,
            ) -> GpuResult<()> {
                // SAFETY: the caller's promise.
                unsafe {
                    if items == pass::$few {
                        pass::<_, _, { pass::$few }>(on, keys, values, control, task)
                    } else {
                        pass::<_, _, { pass::$many }>(on, keys, values, control, task)
                    }
                }
            }

            $(
                const GROUP_ITEMS: Option<usize> = Some(pass::$groups);

                unsafe fn groups(
                    on: &Stream,
                    sort: &RadixSort,
                    groups: Groups,
                    keys: &mut Buffers<'_, Self>,
                    values: &mut Buffers<'_, $value>,
                    control: &mut DeviceSliceMut<'_, u32>,
                ) -> GpuResult<()> {
                    // SAFETY: the caller's promise.
                    unsafe { sort_groups::<_, _, { pass::$groups }>(on, sort, groups, keys, values, control) }
                }
            )?

            unsafe fn segments(
                on: &Stream,
                sort: &RadixSort,
                offsets: &As<'_, u64>,
                keys: &mut Buffers<'_, Self>,
                values: &mut Buffers<'_, $value>,
            ) -> GpuResult<()> {
                // SAFETY: the caller's promise.
                unsafe { segments::<_, _, { segments::$many }>(on, sort, offsets, keys, values) }
            }
        }
    )*)*};
}

tiles! {
    u8: NoValue [SHORT SHORT] u32 [SHORT SHORT] u64 [LONG LONG];
    u16: NoValue [SHORT SHORT] u32 [SHORT SHORT] u64 [LONG LONG];
    u32: NoValue [FEW_SHORT SHORT SHORT] u32 [FEW_SHORT SHORT SHORT] u64 [FEW_LONG LONG LONG];
    u64: NoValue [FEW_LONG LONG LONG] u32 [FEW_LONG LONG LONG] u64 [FEW_LONG LONG LONG];
}

/// Launches an instance of `sort_pass`.
///
/// # Safety
/// As for the kernel.
unsafe fn pass<W, V, const ITEMS: usize>(
    on: &Stream,
    keys: &mut Buffers<'_, W>,
    values: &mut Buffers<'_, V>,
    control: &mut DeviceSliceMut<'_, u32>,
    task: Task,
) -> GpuResult<()>
where
    sort_pass<W, V, ITEMS>: Instance,
{
    let grid = Grid1::new(block_count(keys.spare.len().div_ceil(THREADS * ITEMS)));
    // SAFETY: the caller's promise.
    unsafe {
        sort_pass::<W, V, ITEMS>::launch(
            on,
            grid,
            &keys.input,
            &mut keys.out,
            &mut keys.spare,
            &values.input,
            &mut values.out,
            &mut values.spare,
            control,
            task,
        )
    }
}

/// Launches the histogram of a sort of groups, and its passes.
///
/// # Safety
/// As for the kernels.
unsafe fn sort_groups<W: Word, V, const ITEMS: usize>(
    on: &Stream,
    sort: &RadixSort,
    groups: Groups,
    keys: &mut Buffers<'_, W>,
    values: &mut Buffers<'_, V>,
    control: &mut DeviceSliceMut<'_, u32>,
) -> GpuResult<()>
where
    sort_groups_histogram<W>: Instance,
    sort_groups_pass<W, V, ITEMS>: Instance,
{
    let RadixSort { n, order, bits: (begin, end), .. } = *sort;
    // As many blocks as count all keys at once, and one more for the end of each group.
    let stretches = groups.in_tiles(n.div_ceil(histogram::blocks(n) as usize));
    let count = Grid1::new(stretches.tiles());
    let tiles = Grid1::new(groups.tiles());
    // SAFETY: the caller's promise.
    unsafe {
        sort_groups_histogram::<W>::launch(
            on,
            count,
            &keys.input,
            stretches,
            order,
            begin,
            end,
            control,
        )?;
        for pass in 0..passes(begin, end) as u32 {
            let task = Task { order, pass, begin, end, group_bits: 0, numbered: 0, reserved: 0 };
            sort_groups_pass::<W, V, ITEMS>::launch(
                on,
                tiles,
                &keys.input,
                &mut keys.out,
                &mut keys.spare,
                &values.input,
                &mut values.out,
                &mut values.spare,
                control,
                groups,
                task,
            )?;
        }
    }
    Ok(())
}

/// Launches an instance of `sort_segments`.
///
/// # Safety
/// As for the kernel.
unsafe fn segments<W, V, const ITEMS: usize>(
    on: &Stream,
    sort: &RadixSort,
    offsets: &As<'_, u64>,
    keys: &mut Buffers<'_, W>,
    values: &mut Buffers<'_, V>,
) -> GpuResult<()>
where
    sort_segments<W, V, ITEMS>: Instance,
{
    let RadixSort { order, bits: (begin, end), indexed, .. } = *sort;
    let grid = Grid1::new(segments::blocks(offsets.len() - 1));
    // SAFETY: the caller's promise.
    unsafe {
        sort_segments::<W, V, ITEMS>::launch(
            on,
            grid,
            &keys.input,
            &values.input,
            offsets,
            order,
            begin,
            end,
            u32::from(indexed),
            &mut keys.out,
            &mut keys.spare,
            &mut values.out,
            &mut values.spare,
        )
    }
}
