//! Reductions of an array that is split over the ranks: sums, products, extremes and their indices.
//!
//! | of all elements | order of combining | of no elements | NaN |
//! |---|---|---|---|
//! | [`sum`], [`product`] | fixed by the shares | 0, 1 | propagates |
//! | [`min`], [`max`] | does not matter | +∞, -∞; the type's largest, smallest integer | ignored |
//! | [`argmin`], [`argmax`] | the first of equal ones | `None` | ignored |
//!
//! Each rank reduces its share by [`ferrowarp::ops::reduce`], all ranks get all partial results, and each reduces them in the order
//! of the ranks. So all ranks have the same bits, and a sum of floats has the same bits in every run with the same shares, over
//! any backend, which is not so with [`Communicator::all_reduce`]. Another number of ranks adds in another order.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, ops::Scratch};
//! use ferrowarp_dist::{Communicator, World, ops::reduce};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let own = DeviceBuffer::from_slice(&gpu, &[3.0f32, -1.0, 4.0])?;
//! let mut scratch = Scratch::new(&gpu)?;
//! assert_eq!(reduce::sum(&ranks, &gpu, &own, &mut scratch)?, 6.0);
//! assert_eq!(reduce::argmax(&ranks, &gpu, &own)?, Some(2));
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Instance};
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::reduce::{self as local, Element};
use ferrowarp::{AsStream, DeviceBuffer};
use kernels_gpu::reduce::{reduce_extreme, reduce_place, reduce_product, reduce_sum};

use super::memory::unwritten;
use super::shares::Shares;
use crate::communicator::Communicator;
use crate::error::DistResult;

/// The value that `enqueue` writes. Waits for it.
fn value<U: Pod>(
    ranks: &Communicator,
    on: &impl AsStream,
    enqueue: impl FnOnce(&mut DeviceBuffer<U>) -> DistResult<()>,
) -> DistResult<U> {
    // SAFETY: the reduction writes it.
    let mut out = unsafe { unwritten(on, 1) }?;
    enqueue(&mut out)?;
    ranks.synchronize(on)?;
    let mut host = [U::zeroed()];
    out.copy_to_host(&mut host)?;
    Ok(host[0])
}

/// The two forms of a reduction, one that waits for the number and one that is asynchronous.
macro_rules! reductions {
    ($(
        $(#[$doc:meta])*
        $name:ident, $into:ident: $total:ty where [$($bound:tt)*];
    )*) => {$(
        $(#[$doc])*
        ///
        /// Waits for the result.
        ///
        /// # Errors
        /// As [`Communicator::all_gather`] and [`Communicator::synchronize`].
        pub fn $name<'x, T: Element>(
            ranks: &Communicator,
            on: &impl AsStream,
            x: impl Into<DeviceSlice<'x, T>>,
            scratch: &mut Scratch,
        ) -> DistResult<$total>
        where
            $($bound)*
        {
            value(ranks, on, |out| $into(ranks, on, x, out, scratch))
        }

        #[doc = concat!("As [`", stringify!($name), "`], into `out: [1]` on each rank. Asynchronous over NCCL.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](ferrowarp::GpuError::SizeMismatch) unless `out` has one element; as [`Communicator::all_gather`].
        pub fn $into<'x, T: Element>(
            ranks: &Communicator,
            on: &impl AsStream,
            x: impl Into<DeviceSlice<'x, T>>,
            out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> DistResult<()>
        where
            $($bound)*
        {
            ranks.attempt(|| {
                // SAFETY: the reduction writes the one, and the ranks the other.
                let (mut own, mut all) = unsafe { (unwritten(on, 1)?, unwritten(on, ranks.size() as usize)?) };
                local::$into(on, &x.into(), &mut own, scratch)?;
                ranks.all_gather(on, &own, &mut all)?;
                Ok(local::$into(on, &all, out, scratch)?)
            })
        }
    )*};
}

reductions! {
    /// The sum of the elements of all ranks: of integers modulo 2³² or 2⁶⁴, of halves in f32; 0 of no elements. `x`: this rank's
    /// share, `[n]`.
    sum, sum_into: T::Total where [
        T::Total: Element<Total = T::Total>,
        reduce_sum<T::Number>: Instance,
        reduce_sum<<T::Total as Element>::Number>: Instance,
    ];

    /// The product of the elements of all ranks, of f32, f64 or integers, these modulo 2³² or 2⁶⁴; 1 of no elements. `x`: this
    /// rank's share, `[n]`.
    product, product_into: T where [reduce_product<T::Number>: Instance];

    /// The smallest element of all ranks. NaN is ignored; of no elements it is +∞, or the type's largest integer. `x`: this
    /// rank's share, `[n]`.
    min, min_into: T where [reduce_extreme<T::Ordered>: Instance];

    /// The largest element of all ranks. NaN is ignored; of no elements it is -∞, or the type's smallest integer. `x`: this
    /// rank's share, `[n]`.
    max, max_into: T where [reduce_extreme<T::Ordered>: Instance];
}

/// A search for the index of an extreme.
macro_rules! index_of {
    ($($name:ident, $what:literal;)*) => {$(
        #[doc = concat!("The index of the ", $what, " element in the array of all ranks, the first of equal ones. NaN is ignored;")]
        /// `None` where there is no number. `x`: this rank's share, `[n]`. Waits for the result.
        ///
        /// # Errors
        /// As [`Communicator::all_gather_host`].
        pub fn $name<'x, T: Element>(
            ranks: &Communicator,
            on: &impl AsStream,
            x: impl Into<DeviceSlice<'x, T>>,
        ) -> DistResult<Option<u64>>
        where
            reduce_place<T::Ordered>: Instance,
        {
            let x = x.into();
            let candidates = ranks.attempt(|| {
                let own = local::$name(on, &x)?;
                Candidates::gather(ranks, on, x, own)
            })?;
            let values = DeviceBuffer::from_slice(on, &candidates.values)?;
            Ok(local::$name(on, &values)?.map(|which| candidates.indices[which]))
        }
    )*};
}

index_of! {
    argmin, "smallest";
    argmax, "largest";
}

/// The extremes of those ranks that have one, in the order of the ranks.
struct Candidates<T> {
    values: Vec<T>,
    indices: Vec<u64>,
}

impl<T: Pod> Candidates<T> {
    /// `own`: the index of this rank's extreme in its share.
    fn gather(
        ranks: &Communicator,
        on: &impl AsStream,
        x: DeviceSlice<'_, T>,
        own: Option<usize>,
    ) -> DistResult<Self> {
        let mut value = [T::zeroed()];
        if let Some(index) = own {
            x.slice(index..=index).copy_to_host(&mut value)?;
        }
        let shares = Shares::gather(ranks, on, x.raw().len)?;
        let places = ranks.all_gather_host(on, &[own.map_or(u64::MAX, |index| index as u64)])?;
        let values = ranks.all_gather_host(on, &value)?;
        let mut found = Self { values: Vec::new(), indices: Vec::new() };
        for (rank, (place, value)) in places.into_iter().zip(values).enumerate() {
            if place != u64::MAX {
                found.values.push(value);
                found.indices.push(shares.start_of(rank as u32) as u64 + place);
            }
        }
        Ok(found)
    }
}
