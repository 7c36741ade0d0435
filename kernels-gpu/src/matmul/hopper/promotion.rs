//! Sums of elements that tensor cores add with few bits: those over a stage, 128 bytes along K, are sums of their own, which
//! ordinary cores add to the others. (Those with scales of blocks are another matter: see `blocks.rs`.)
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

/// That sums of `T` times `U` in tiles with `N` columns are promoted.
pub trait Promotes<T, U, const N: usize>: Instruction<T, U, f32> {
    /// Adds the products of a consumer's half of a tile over so many steps. `next` is computed while the last ones are under way.
    ///
    /// # Safety
    /// All threads of a consumer call this together with its number and theirs; the stages are those of the steps, both operands contiguous along K.
    unsafe fn add_promoted<const S: usize>(
        consumer: &mut TileConsumer<Stage<N>, S>,
        sums: &mut Accumulator<f32, N>,
        who: (usize, usize),
        steps: u32,
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
            unsafe fn add_promoted<const S: usize>(
                consumer: &mut TileConsumer<Stage<$columns>, S>,
                sums: &mut Accumulator<f32, $columns>,
                who: (usize, usize),
                steps: u32,
                next: impl FnOnce() -> Work,
            ) -> Work {
                // SAFETY: the caller's promise.
                #[cfg(target_os = "cuda")]
                unsafe {
                    $add::<T, U, $columns, $($piece,)? S>(consumer, sums, who, steps, next)
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
unsafe fn add_whole<T, U, const N: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<f32, N>,
    (own, thread): (usize, usize),
    steps: u32,
    next: impl FnOnce() -> Work,
) -> Work
where
    Columns<N>: Instruction<T, U, f32>,
{
    let mut of_stage = Accumulator::<f32, N>::zeroed();
    for _ in 0..steps {
        let stage = consumer.wait();
        // SAFETY: the stage is full; its boxes are as the producer copied them, and stay until the release after the wait.
        unsafe {
            let operands = operands::<N, false, false>(stage, own, 0);
            of_stage.multiply_operands::<T, U, 4, false, false>(operands, false);
            consumer.step();
            of_stage.wait::<0>();
            if thread == 0 {
                consumer.release(1);
            }
        }
        sums.combine(&of_stage, |_, sum, stage| sum + stage);
    }
    next()
}

/// [`Promotes::add_promoted`], half of a stage at a time.
///
/// # Safety
/// As there; `M` is half of `N`.
#[gpu_only]
#[inline(always)]
unsafe fn add_in_halves<T, U, const N: usize, const M: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<f32, N>,
    (own, thread): (usize, usize),
    mut left_steps: u32,
    next: impl FnOnce() -> Work,
) -> Work
where
    Columns<N>: Width<f32>,
    Columns<M>: Instruction<T, U, f32>,
{
    if left_steps == 0 {
        return next();
    }
    let (mut left, mut right) = (Accumulator::<f32, M>::zeroed(), Accumulator::<f32, M>::zeroed());
    // SAFETY: the stages are full; their boxes are as the producer copied them, and stay until the release after the wait for both halves.
    unsafe {
        let half = |stage, column| operands::<N, false, false>(stage, own, column);
        let mut stage = consumer.wait();
        left.multiply_operands::<T, U, 4, false, false>(half(stage, 0), false);
        loop {
            right.multiply_operands::<T, U, 4, false, false>(half(stage, M), false);
            consumer.step();
            left_steps -= 1;
            left.wait::<1>();
            sums.combine_columns(0, &left, |_, sum, stage| sum + stage);
            // Additions that the compiler moved behind the next multiplication would read its sums. (The other half is the one group that is under way.)
            sums.wait::<1>();
            if left_steps == 0 {
                let next = next();
                right.wait::<0>();
                if thread == 0 {
                    consumer.release(1);
                }
                sums.combine_columns(M, &right, |_, sum, stage| sum + stage);
                return next;
            }
            stage = consumer.wait();
            left.multiply_operands::<T, U, 4, false, false>(half(stage, 0), false);
            right.wait::<1>();
            if thread == 0 {
                consumer.release(1);
            }
            sums.combine_columns(M, &right, |_, sum, stage| sum + stage);
            sums.wait::<1>();
        }
    }
}
