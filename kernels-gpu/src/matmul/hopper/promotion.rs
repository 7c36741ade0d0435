//! Sums of elements that tensor cores add with few bits: those over a stage, 128 bytes along K, are sums of their own, which
//! ordinary cores add to the others, multiplied by the scales of blocks where there are any.
//!
//! A consumer multiplies a stage in two halves of its columns, each with sums of its own. While the tensor cores compute one half,
//! ordinary cores add the other one: so the tensor cores always have a half under way, as they have where nothing is promoted.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports, unused_variables))]

use super::consume::operands;
use super::{Stage, Work};
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::matrix::*;

/// What the sums of stages are multiplied by.
pub trait Promotion {
    /// What is loaded for a stage.
    type Loaded: Copy;
    /// What is computed from it.
    type OfStage: Copy;

    /// Whether there is anything to multiply by.
    fn scales(&self) -> bool;

    /// Begins a pass over a tile with `N` columns.
    ///
    /// # Safety
    /// All threads of a consumer call this together, after the last stage of the pass before.
    unsafe fn begin<const N: usize>(&mut self, work: &Work);

    /// Loads what belongs to the next stage.
    ///
    /// # Safety
    /// All threads of a consumer call this together, once for each stage of each pass.
    unsafe fn next(&mut self) -> Self::Loaded;

    /// What the sums of a stage are multiplied by. It waits until what was loaded is there: shared memory is so busy with operands that this takes some hundred
    /// cycles.
    fn of_stage(&self, loaded: Self::Loaded) -> Self::OfStage;

    /// The sum at `index` with that of a stage.
    fn add(of_stage: Self::OfStage, index: usize, sum: f32, stage: f32) -> f32;
}

/// They are added as they are.
#[derive(Clone, Copy, Debug)]
pub struct AsTheyAre;

impl Promotion for AsTheyAre {
    type Loaded = ();
    type OfStage = ();

    #[inline(always)]
    fn scales(&self) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn begin<const N: usize>(&mut self, _: &Work) {}

    #[inline(always)]
    unsafe fn next(&mut self) {}

    #[inline(always)]
    fn of_stage(&self, (): ()) {}

    #[inline(always)]
    fn add((): (), _: usize, sum: f32, stage: f32) -> f32 {
        sum + stage
    }
}

/// That sums of `T` times `U` in tiles with `N` columns are promoted.
pub trait Promotes<T, U, const N: usize>: Instruction<T, U, f32> {
    /// Adds the products of a consumer's half of a tile over `steps`, those of each stage by `scales`. `next` is computed while the last ones are under
    /// way.
    ///
    /// # Safety
    /// All threads of a consumer call this together with its number and theirs; the stages are those of the steps, both operands contiguous along K.
    unsafe fn add_promoted<P: Promotion, const S: usize>(
        consumer: &mut TileConsumer<Stage<N>, S>,
        sums: &mut Accumulator<f32, N>,
        who: (usize, usize),
        steps: (u32, u32),
        scales: &mut P,
        next: impl FnOnce() -> Work,
    ) -> Work
    where
        Columns<N>: Width<f32>;
}

/// Implements [`Promotes`] by `$add` in pieces of some columns.
macro_rules! promotes {
    ($($columns:literal: $add:ident $($piece:literal)?;)*) => {$(
        impl<T, U> Promotes<T, U, $columns> for Columns<$columns>
        where
            Columns<$columns>: Instruction<T, U, f32>,
            $(Columns<$piece>: Instruction<T, U, f32>,)?
        {
            #[inline(always)]
            unsafe fn add_promoted<P: Promotion, const S: usize>(
                consumer: &mut TileConsumer<Stage<$columns>, S>,
                sums: &mut Accumulator<f32, $columns>,
                who: (usize, usize),
                steps: (u32, u32),
                scales: &mut P,
                next: impl FnOnce() -> Work,
            ) -> Work {
                // SAFETY: the caller's promise.
                #[cfg(target_os = "cuda")]
                unsafe {
                    $add::<T, U, P, $columns, $($piece,)? S>(consumer, sums, who, steps, scales, next)
                }
                #[cfg(not(target_os = "cuda"))]
                unreachable!("a function of the device")
            }
        }
    )*};
}

promotes! {
    16: add_whole;
    64: add_whole;
    128: add_in_halves 64;
    192: add_in_halves 96;
    256: add_in_halves 128;
}

/// [`Promotes::add_promoted`], a stage at a time: of tiles that memory bounds.
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn add_whole<T, U, P: Promotion, const N: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<f32, N>,
    (own, thread): (usize, usize),
    steps: (u32, u32),
    scales: &mut P,
    next: impl FnOnce() -> Work,
) -> Work
where
    Columns<N>: Instruction<T, U, f32>,
{
    let mut of_stage = Accumulator::<f32, N>::zeroed();
    for _ in steps.0..steps.1 {
        let stage = consumer.wait();
        // SAFETY: the stage is full; its boxes are as the producer copied them, and stay until the release after the wait.
        let factors = unsafe {
            let operands = operands::<N, false, false>(stage, own, 0);
            of_stage.multiply_operands::<T, U, 4, false, false>(operands, false);
            consumer.step();
            let loaded = scales.next();
            of_stage.wait::<0>();
            if thread == 0 {
                consumer.release(1);
            }
            scales.of_stage(loaded)
        };
        sums.combine(&of_stage, |index, sum, stage| P::add(factors, index, sum, stage));
    }
    next()
}

/// [`Promotes::add_promoted`], half of a stage at a time.
///
/// # Safety
/// As there; `M` is half of `N`.
#[gpu_only]
#[inline(always)]
unsafe fn add_in_halves<T, U, P: Promotion, const N: usize, const M: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<f32, N>,
    (own, thread): (usize, usize),
    (begin, end): (u32, u32),
    scales: &mut P,
    next: impl FnOnce() -> Work,
) -> Work
where
    Columns<N>: Width<f32>,
    Columns<M>: Instruction<T, U, f32>,
{
    let mut left_steps = end - begin;
    if left_steps == 0 {
        return next();
    }
    let (mut left, mut right) = (Accumulator::<f32, M>::zeroed(), Accumulator::<f32, M>::zeroed());
    // SAFETY: the stages are full; their boxes are as the producer copied them, and stay until the release after the wait for both halves.
    unsafe {
        let half = |stage, column| operands::<N, false, false>(stage, own, column);
        let mut stage = consumer.wait();
        let mut loaded = scales.next();
        left.multiply_operands::<T, U, 4, false, false>(half(stage, 0), false);
        loop {
            right.multiply_operands::<T, U, 4, false, false>(half(stage, M), false);
            let of_stage = scales.of_stage(loaded);
            consumer.step();
            left_steps -= 1;
            if left_steps > 0 {
                loaded = scales.next();
            }
            left.wait::<1>();
            sums.combine_columns(0, &left, |index, sum, stage| P::add(of_stage, index, sum, stage));
            // Additions that the compiler moved behind the next multiplication would read its sums. (The other half is the one group that is under way.)
            sums.wait::<1>();
            if left_steps == 0 {
                let next = next();
                right.wait::<0>();
                if thread == 0 {
                    consumer.release(1);
                }
                sums.combine_columns(M, &right, |index, sum, stage| {
                    P::add(of_stage, index, sum, stage)
                });
                return next;
            }
            stage = consumer.wait();
            left.multiply_operands::<T, U, 4, false, false>(half(stage, 0), false);
            right.wait::<1>();
            if thread == 0 {
                consumer.release(1);
            }
            sums.combine_columns(M, &right, |index, sum, stage| {
                P::add(of_stage, index, sum, stage)
            });
            sums.wait::<1>();
        }
    }
}
