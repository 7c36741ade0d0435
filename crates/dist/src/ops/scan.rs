//! Scans (prefix sums) of an array that is split over the ranks: each element combined with all before it, those of earlier
//! ranks too, by an associative operation.
//!
//! Each rank scans its share, all ranks get the totals of all shares, and each scans its share again, behind the total of the
//! shares before it (the scan of blocks of G. E. Blelloch, *Prefix sums and their applications*, 1990). The first rank that has
//! elements scans once. The order of combining depends on the shares alone. Integers wrap; the total of each share is rounded to
//! the type, also of halves.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, ops::Scratch};
//! use ferrowarp_dist::{Communicator, World, ops::{Shares, scan}};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let own = DeviceBuffer::from_slice(&gpu, &[3u32, 1, 4])?;
//! let (shares, mut scratch) = (Shares::gather(&ranks, &gpu, 3)?, Scratch::new(&gpu)?);
//! let sums = scan::inclusive(&ranks, &gpu, &own, &shares, &mut scratch)?;
//! assert_eq!(sums.to_vec()?, [3, 4, 8]);
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::scan::{self as local, Form, ScanOperator, Sum};
use ferrowarp::{AsStream, DeviceBuffer};

use super::memory::unwritten;
use super::shares::{Shares, same_len};
use crate::communicator::Communicator;
use crate::error::DistResult;

const OPERATION: &str = "scan over ranks";

/// `x[0] + … + x[i]` for each element `i` of this rank's share, over the elements of all ranks. See [`by`].
///
/// # Errors
/// As [`by`].
pub fn inclusive<'x, T: Pod>(
    ranks: &Communicator,
    on: &impl AsStream,
    x: impl Into<DeviceSlice<'x, T>>,
    shares: &Shares,
    scratch: &mut Scratch,
) -> DistResult<DeviceBuffer<T>>
where
    Sum: ScanOperator<T>,
{
    by(ranks, on, Sum, Form::Inclusive, x, shares, scratch)
}

/// `x[0] + … + x[i - 1]` for each element `i` of this rank's share, over the elements of all ranks. See [`by`].
///
/// # Errors
/// As [`by`].
pub fn exclusive<'x, T: Pod>(
    ranks: &Communicator,
    on: &impl AsStream,
    x: impl Into<DeviceSlice<'x, T>>,
    shares: &Shares,
    scratch: &mut Scratch,
) -> DistResult<DeviceBuffer<T>>
where
    Sum: ScanOperator<T>,
{
    by(ranks, on, Sum, Form::Exclusive, x, shares, scratch)
}

/// This rank's share of the scan by `operator` of the array of all ranks: a new buffer, `[n]`. `x`: this rank's share, `[n]`;
/// `shares`: those of all ranks. Asynchronous over NCCL.
///
/// Memory: the result, and on ranks that are not the first as much again while the work runs.
///
/// # Errors
/// [`Length`](crate::DistError::Length) if `x` has another length than its share, or there is not a share for each rank; as
/// [`Communicator::all_gather_uneven`].
pub fn by<'x, T: Pod, O: ScanOperator<T> + Copy>(
    ranks: &Communicator,
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: impl Into<DeviceSlice<'x, T>>,
    shares: &Shares,
    scratch: &mut Scratch,
) -> DistResult<DeviceBuffer<T>> {
    let x = x.into();
    let scan = Scan { ranks, on, operator, x, n: x.raw().len, scratch };
    ranks.attempt(|| scan.run(form, shares))
}

/// A scan on one rank.
struct Scan<'a, S, T: Pod, O> {
    ranks: &'a Communicator,
    on: &'a S,
    operator: O,
    x: DeviceSlice<'a, T>,
    n: usize,
    scratch: &'a mut Scratch,
}

impl<S: AsStream, T: Pod, O: ScanOperator<T> + Copy> Scan<'_, S, T, O> {
    fn run(mut self, form: Form, shares: &Shares) -> DistResult<DeviceBuffer<T>> {
        let (ranks, x) = (self.ranks, self.x);
        let scan = &mut self;
        shares.check(ranks, OPERATION)?;
        same_len(OPERATION, "the share of this rank", shares.len_of(ranks.rank()), scan.n)?;
        // Ranks without elements have no total.
        let has_some: Vec<usize> = shares.lens().iter().map(|len| usize::from(*len > 0)).collect();
        let before: usize = has_some[..ranks.rank() as usize].iter().sum();
        // A share that is scanned twice is first scanned for its total.
        let first_form = if before == 0 { form } else { Form::Inclusive };
        let scanned = scan.of(first_form, x)?;
        let total = scan.total(first_form, &scanned)?;
        let totals = scan.totals(&total, &has_some)?;
        if before == 0 || scan.n == 0 {
            return Ok(scanned);
        }
        drop(scanned);
        let behind = scan.behind(form, totals.slice(..before))?;
        scan.of(Form::Inclusive, behind.as_slice())
    }

    fn of(&mut self, form: Form, x: DeviceSlice<'_, T>) -> DistResult<DeviceBuffer<T>> {
        // SAFETY: the scan writes all of it.
        let mut out = unsafe { unwritten(self.on, x.raw().len) }?;
        local::by_into(self.on, self.operator, form, &x, &mut out, self.scratch)?;
        Ok(out)
    }

    /// The join of two single elements.
    fn join(
        &mut self,
        a: DeviceSlice<'_, T>,
        b: DeviceSlice<'_, T>,
    ) -> DistResult<DeviceBuffer<T>> {
        // SAFETY: both elements are written next.
        let mut both = unsafe { unwritten(self.on, 2) }?;
        both.slice_mut(..1).copy_from_device(a)?;
        both.slice_mut(1..).copy_from_device(b)?;
        self.of(Form::Inclusive, both.as_slice())
    }

    /// All elements of this rank joined: one element, or none of none.
    fn total(&mut self, form: Form, scanned: &DeviceBuffer<T>) -> DistResult<DeviceBuffer<T>> {
        let x = self.x;
        let last = self.n.saturating_sub(1)..self.n;
        // SAFETY: it is written next.
        let mut total = unsafe { unwritten(self.on, last.len()) }?;
        if last.is_empty() {
            return Ok(total);
        }
        match form {
            Form::Inclusive => total.copy_from_device(scanned.slice(last))?,
            Form::Exclusive => {
                let joined = self.join(scanned.slice(last.clone()), x.slice(last))?;
                total.copy_from_device(joined.slice(1..))?;
            }
        }
        Ok(total)
    }

    /// The totals of the ranks that have elements, in their order.
    fn totals(&self, own: &DeviceBuffer<T>, has_some: &[usize]) -> DistResult<DeviceBuffer<T>> {
        // SAFETY: the ranks write all of it.
        let mut totals = unsafe { unwritten(self.on, has_some.iter().sum()) }?;
        self.ranks.all_gather_uneven(self.on, own, &mut totals, has_some)?;
        Ok(totals)
    }

    /// What has as its inclusive scan the wanted one, behind the totals `before` of earlier ranks, of which there are some: the
    /// first element with the totals in it, or all elements moved on by one behind the totals.
    fn behind(&mut self, form: Form, before: DeviceSlice<'_, T>) -> DistResult<DeviceBuffer<T>> {
        let (x, n) = (self.x, self.n);
        let carries = self.of(Form::Inclusive, before)?;
        let carry = carries.slice(before.raw().len - 1..);
        // SAFETY: all of it is written next.
        let mut behind = unsafe { unwritten(self.on, n) }?;
        match form {
            Form::Inclusive => {
                let first = self.join(carry, x.slice(..1))?;
                behind.slice_mut(..1).copy_from_device(first.slice(1..))?;
                behind.slice_mut(1..).copy_from_device(x.slice(1..))?;
            }
            Form::Exclusive => {
                behind.slice_mut(..1).copy_from_device(carry)?;
                behind.slice_mut(1..).copy_from_device(x.slice(..n - 1))?;
            }
        }
        Ok(behind)
    }
}
