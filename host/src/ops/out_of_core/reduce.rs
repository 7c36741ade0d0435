//! Reductions of host arrays.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::Instance;
use kernels_gpu::reduce::{reduce_extreme, reduce_place, reduce_product, reduce_sum};

use super::OutOfCore;
use super::element::{HostElement, larger, smaller};
use super::tiles::{LANES, MOST_TILE_BYTES, OnHost, OnePass, Tile, lanes, tile_len};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSlice};
use crate::ops::{Scratch, reduce};
use crate::stream::{AsStream, Stream};

/// Joins elements to a value on the CPU.
type Fold<'a, T, U> = dyn Fn(U, &[T]) -> U + Sync + 'a;

/// A reduction of each tile on the device, and what becomes of its result.
struct Reduction<U: Pod, I, C> {
    scratch: Scratch,
    /// A result for each tile in flight.
    results: Vec<DeviceBuffer<U>>,
    into: I,
    join: C,
}

impl<T, U, I, C> OnePass<T> for Reduction<U, I, C>
where
    T: Pod,
    U: Pod,
    I: Fn(&Stream, &DeviceSlice<'_, T>, &mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>,
    C: FnMut(U, Range<usize>),
{
    fn enqueue(&mut self, tile: &Tile<'_, T>) -> GpuResult<()> {
        let result = &mut self.results[tile.lane];
        (self.into)(tile.stream, &tile.values, result, &mut self.scratch)
    }

    fn collect(&mut self, lane: usize, place: Range<usize>) -> GpuResult<()> {
        let mut result = [U::zeroed()];
        self.results[lane].copy_to_host(&mut result)?;
        (self.join)(result[0], place);
        Ok(())
    }
}

/// Bytes of device memory that tiles of `len` elements take.
fn bytes<T>(len: usize) -> usize {
    LANES * (len * size_of::<T>() + size_of::<u64>()) + Scratch::bytes_of(reduce::scratch_bytes())
}

impl OutOfCore {
    /// The sum of `x: [n]`: of integers modulo 2³² or 2⁶⁴, of halves in f32; 0 of no elements.
    ///
    /// The sums of tiles are added in their order, so a sum has the same bits in every run and with every budget of 193 MiB or
    /// more. With a smaller one the tiles are shorter: then the budget decides on the order too.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::GpuError::InvalidArgument) for a budget that is too small, with the least one; errors of the driver.
    pub fn sum<T: HostElement>(&self, x: &[T]) -> GpuResult<T::Total>
    where
        reduce_sum<T::Number>: Instance,
    {
        let on_host = |total, part: &[T]| part.iter().fold(total, |sum, x| T::add(sum, x.total()));
        let on_host = T::IS_EXACT.then_some(&on_host as &(dyn Fn(_, &[T]) -> _ + Sync));
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::sum_into(on, x, out, scratch)
        };
        self.whole(x, T::ZERO, into, on_host, T::add)
    }

    /// The product of `x: [n]` of f32, f64 or integers, in the order of a [`sum`](Self::sum): of integers modulo 2³² or 2⁶⁴; 1 of
    /// no elements.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn product<T: HostElement>(&self, x: &[T]) -> GpuResult<T>
    where
        reduce_product<T::Number>: Instance,
    {
        let on_host = |total, part: &[T]| part.iter().fold(total, |all: T, x| all.multiply(*x));
        let on_host = T::IS_EXACT.then_some(&on_host as &(dyn Fn(_, &[T]) -> _ + Sync));
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::product_into(on, x, out, scratch)
        };
        self.whole(x, T::ONE, into, on_host, T::multiply)
    }

    /// The smallest element of `x: [n]`. NaN is ignored; of no elements it is +∞, or the type's largest integer.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn min<T: HostElement>(&self, x: &[T]) -> GpuResult<T>
    where
        reduce_extreme<T::Ordered>: Instance,
    {
        let on_host = |least, part: &[T]| part.iter().copied().fold(least, smaller);
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::min_into(on, x, out, scratch)
        };
        self.whole(x, T::MOST, into, Some(&on_host), smaller)
    }

    /// The largest element of `x: [n]`. NaN is ignored; of no elements it is -∞, or the type's smallest integer.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn max<T: HostElement>(&self, x: &[T]) -> GpuResult<T>
    where
        reduce_extreme<T::Ordered>: Instance,
    {
        let on_host = |most, part: &[T]| part.iter().copied().fold(most, larger);
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::max_into(on, x, out, scratch)
        };
        self.whole(x, T::LEAST, into, Some(&on_host), larger)
    }

    /// The index of the smallest element of `x: [n]`, the first of equal ones. NaN is ignored; `None` where there is no number.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn argmin<T: HostElement>(&self, x: &[T]) -> GpuResult<Option<usize>>
    where
        reduce_place<T::Ordered>: Instance,
    {
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::argmin_into(on, x, out, scratch)
        };
        self.index(x, into, |a, b| a < b)
    }

    /// The index of the largest element of `x: [n]`, the first of equal ones. NaN is ignored; `None` where there is no number.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn argmax<T: HostElement>(&self, x: &[T]) -> GpuResult<Option<usize>>
    where
        reduce_place<T::Ordered>: Instance,
    {
        let into = |on: &Stream, x: &DeviceSlice<'_, T>, out: &mut _, scratch: &mut _| {
            reduce::argmax_into(on, x, out, scratch)
        };
        self.index(x, into, |a, b| a > b)
    }

    /// One value: results of tiles are joined in their order, then those of the CPU.
    fn whole<T: HostElement, U: Pod + Send + Sync>(
        &self,
        x: &[T],
        start: U,
        into: impl Fn(&Stream, &DeviceSlice<'_, T>, &mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>,
        on_host: Option<&Fold<'_, T, U>>,
        join: impl Fn(U, U) -> U,
    ) -> GpuResult<U> {
        let mut total = start;
        let on_tile = |result, _| total = join(total, result);
        let add = |own: &mut U, place| {
            *own = on_host.map_or(*own, |on_host| on_host(*own, &x[place]));
        };
        let host = OnHost { start: &|| start, add: &add };
        let parts = self.reduced(x, into, on_tile, on_host.map(|_| &host))?;
        Ok(parts.into_iter().fold(total, join))
    }

    /// The index of an element that is before all others; of equal ones the first.
    fn index<T: HostElement>(
        &self,
        x: &[T],
        into: impl Fn(
            &Stream,
            &DeviceSlice<'_, T>,
            &mut DeviceBuffer<u64>,
            &mut Scratch,
        ) -> GpuResult<()>,
        is_before: impl Fn(&T, &T) -> bool + Sync,
    ) -> GpuResult<Option<usize>> {
        let first = |a: Option<usize>, b: usize| match a {
            Some(a) if is_before(&x[b], &x[a]) || (x[b] == x[a] && b < a) => Some(b),
            // Not a NaN, which compares with nothing.
            None if x[b].partial_cmp(&x[b]).is_some() => Some(b),
            a => a,
        };
        let mut found = None;
        let on_tile = |index: u64, place: Range<usize>| {
            if index != u64::MAX {
                found = first(found, place.start + index as usize);
            }
        };
        let add = |own: &mut Option<usize>, place: Range<usize>| *own = place.fold(*own, first);
        let host = OnHost { start: &|| None, add: &add };
        let parts = self.reduced(x, into, on_tile, Some(&host))?;
        Ok(parts.into_iter().flatten().fold(found, first))
    }

    fn reduced<T: HostElement, U: Pod, A: Send>(
        &self,
        x: &[T],
        into: impl Fn(&Stream, &DeviceSlice<'_, T>, &mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>,
        join: impl FnMut(U, Range<usize>),
        on_host: Option<&OnHost<'_, A>>,
    ) -> GpuResult<Vec<A>> {
        let most = x.len().min(MOST_TILE_BYTES / size_of::<T>());
        let tile = tile_len(self.budget()?, most, bytes::<T>)?;
        let on = self.gpu.as_stream();
        let mut scratch = Scratch::new(on)?;
        scratch.reserve(on, reduce::scratch_bytes())?;
        let mut lanes = lanes(&self.gpu, LANES, tile)?;
        let results = lanes.iter().map(|lane| DeviceBuffer::zeroed(&lane.stream, 1));
        let results = results.collect::<GpuResult<_>>()?;
        let mut reduction = Reduction { scratch, results, into, join };
        self.pass(x, &mut lanes, &mut reduction, on_host)
    }
}
