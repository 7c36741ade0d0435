//! Keys on the device, perhaps with values.

use bytemuck::Pod;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self as local, SortKey, SortOptions, SortValue};
use ferrowarp::{AsStream, DeviceBuffer, Stream};

use super::key::{RankKey, Run, RunMut};
use super::moves::Moves;
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::{at, unwritten};
use crate::peers::Unordered;
use cuda_std::launch::DeviceRead;
use std::ops::Range;

/// Keys, and the value of each, if there are values.
pub(super) struct Table<K: SortKey, V: SortValue> {
    pub(super) keys: DeviceBuffer<K>,
    pub(super) values: Option<DeviceBuffer<V>>,
}

impl<K: SortKey, V: SortValue> Table<K, V> {
    /// A table of `len` rows.
    ///
    /// # Safety
    /// Each is written before it is read.
    pub(super) unsafe fn unwritten(
        on: &impl AsStream,
        len: usize,
        has_values: bool,
    ) -> DistResult<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let values = if has_values { Some(unwritten(on, len)?) } else { None };
            Ok(Self { keys: unwritten(on, len)?, values })
        }
    }

    /// A table of `len` rows at an address: keys, and then, if there are some, values.
    ///
    /// # Safety
    /// As [`at`], for [`bytes_at`](Self::bytes_at).
    pub(super) unsafe fn at(
        address: u64,
        on: &impl AsStream,
        len: usize,
        has_values: bool,
    ) -> DistResult<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let values = || at(address + Self::values_at(len), on, len);
            let values = has_values.then(values).transpose()?;
            Ok(Self { keys: at(address, on, len)?, values })
        }
    }

    /// Where the values of such a table begin, in bytes behind its keys' address.
    pub(super) fn values_at(len: usize) -> u64 {
        (len * size_of::<K>()).next_multiple_of(256) as u64
    }

    /// The bytes of such a table.
    pub(super) fn bytes_at(len: usize, has_values: bool) -> usize {
        let values = if has_values { len * size_of::<V>() } else { 0 };
        Self::values_at(len) as usize + values
    }

    /// A sorted copy of keys and values.
    pub(super) fn sorted(
        on: &Stream,
        keys: DeviceSlice<'_, K>,
        values: Option<DeviceSlice<'_, V>>,
        options: SortOptions,
        scratch: &mut Scratch,
    ) -> DistResult<Self> {
        // SAFETY: the sort writes all of it.
        let mut sorted = unsafe { Self::unwritten(on, keys.raw().len, values.is_some()) }?;
        sort_into(on, (&keys, values.as_ref()), &mut sorted.as_mut(), options, scratch)?;
        Ok(sorted)
    }

    /// Sorts it again.
    pub(super) fn sort(
        &mut self,
        on: &impl AsStream,
        options: SortOptions,
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        self.sort_rows(on, 0..self.len(), options, scratch)
    }

    /// Sorts some rows by themselves.
    pub(super) fn sort_rows(
        &mut self,
        on: &impl AsStream,
        rows: Range<usize>,
        options: SortOptions,
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        let mut keys = self.keys.slice_mut(rows.clone());
        match &mut self.values {
            Some(values) => {
                let mut values = values.slice_mut(rows);
                local::sort_pairs_in_place(on, &mut keys, &mut values, options, scratch)
            }
            None => local::sort_in_place(on, &mut keys, options, scratch),
        }
    }

    /// Moves keys, and values with them, into the table: those with each value of a digit to a place that the plan says, and on.
    ///
    /// # Safety
    /// As [`scatter_by_digit_into`](local::scatter_by_digit_into).
    pub(super) unsafe fn scatter(
        &mut self,
        on: &Stream,
        (keys, values): (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
        plan: (Range<u32>, &[u64; local::DIGITS]),
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match (values, &mut self.values) {
                (Some(values), Some(out)) => {
                    let out = (&mut self.keys, out);
                    local::scatter_pairs_by_digit_into(on, (&keys, &values), out, plan, scratch)
                }
                _ => local::scatter_by_digit_into(on, &keys, &mut self.keys, plan, scratch),
            }
        }
    }

    /// Sorts some rows by themselves into as many of another table.
    pub(super) fn sort_rows_into(
        &self,
        on: &impl AsStream,
        rows: Range<usize>,
        out: &mut TableMut<'_, K, V>,
        options: SortOptions,
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        let values = self.values.as_ref().map(|values| values.slice(rows.clone()));
        sort_into(on, (&self.keys.slice(rows), values.as_ref()), out, options, scratch)
    }

    /// Sorts groups of these numbers of rows, which follow one another, each by itself into as many rows of another table, whatever the
    /// home of this one has to do.
    ///
    /// # Safety
    /// The rows are there when the stream has come to the sort, and are not changed until it has gone on.
    pub(super) unsafe fn sort_groups_unordered_into(
        &self,
        on: &impl AsStream,
        rows: Range<usize>,
        lens: &[usize],
        out: &mut TableMut<'_, K, V>,
        options: SortOptions,
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        let (keys, values) = unsafe {
            let keys = Unordered::new(self.keys.slice(rows.clone()).raw().address, rows.len());
            let address = |values: &DeviceBuffer<V>| values.slice(rows.clone()).raw().address;
            let values = self.values.as_ref().map(address);
            (keys, values.map(|address| Unordered::new(address, rows.len())))
        };
        match (&values, &mut out.values) {
            (Some(values), Some(out_values)) => {
                let out = (&mut out.keys, out_values);
                local::sort_pair_groups_into(on, (&keys, values), lens, out, options, scratch)
            }
            _ => local::sort_groups_into(on, &keys, lens, &mut out.keys, options, scratch),
        }
    }

    /// All rows, to be written.
    pub(super) fn as_mut(&mut self) -> TableMut<'_, K, V> {
        let values = self.values.as_mut().map(DeviceBuffer::as_mut_slice);
        TableMut { keys: self.keys.as_mut_slice(), values }
    }

    /// What a sort of `n` rows takes of its scratch, in bytes.
    pub(super) fn scratch_bytes(n: usize, has_values: bool) -> usize {
        match has_values {
            true => local::pairs_scratch_bytes::<K, V>(n),
            false => local::scratch_bytes::<K>(n),
        }
    }

    /// What a sort of so many groups, with `n` rows in all, takes of its scratch, in bytes.
    pub(super) fn group_scratch_bytes(n: usize, groups: usize, has_values: bool) -> usize {
        match has_values {
            true => local::pair_group_scratch_bytes::<K, V>(n, groups),
            false => local::group_scratch_bytes::<K>(n, groups),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.as_slice().raw().len
    }

    /// Sends each rank its rows, and returns those that come from all ranks, in their order. The table is ordered by `on`.
    pub(super) fn exchange(
        &self,
        ranks: &Communicator,
        on: &Stream,
        moves: &Moves,
    ) -> DistResult<Self>
    where
        K: RankKey,
    {
        // SAFETY: the ranks write all of it.
        let mut all = unsafe { Self::unwritten(on, moves.len(), self.values.is_some()) }?;
        // SAFETY: the table is `on`'s.
        unsafe { moves.enqueue(ranks, [on; 2], self, &mut all) }?;
        Ok(all)
    }

    /// Rows, for a merge.
    pub(super) fn run(&self, rows: Range<usize>) -> GpuResult<Run<'_, K>> {
        let values = self.values.as_ref().map(|values| values.slice(rows.clone()).cast());
        Ok(Run { keys: self.keys.slice(rows), values: values.transpose()? })
    }

    /// As [`run`](Self::run), to be written.
    pub(super) fn run_mut(&mut self, rows: Range<usize>) -> GpuResult<RunMut<'_, K>> {
        let values = self.values.as_mut().map(|values| values.slice_mut(rows.clone()).into_cast());
        Ok(RunMut { keys: self.keys.slice_mut(rows), values: values.transpose()? })
    }

    /// Copies rows of another table to the same place here.
    pub(super) fn copy(&mut self, from: &Self, rows: Range<usize>) -> GpuResult<()> {
        copy(&mut self.keys, &from.keys, rows.clone())?;
        match (&mut self.values, &from.values) {
            (Some(values), Some(from)) => copy(values, from, rows),
            _ => Ok(()),
        }
    }
}

/// Sorts keys, and values with them, into a table.
fn sort_into<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<K>, Option<&impl DeviceRead<V>>),
    out: &mut TableMut<'_, K, V>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    match (values, &mut out.values) {
        (Some(values), Some(out_values)) => {
            let out = (&mut out.keys, out_values);
            local::sort_pairs_into(on, (keys, values), out, options, scratch)
        }
        _ => local::sort_into(on, keys, &mut out.keys, options, scratch),
    }
}

/// Rows of a table, to be written.
pub(super) struct TableMut<'a, K: SortKey, V: SortValue> {
    pub(super) keys: DeviceSliceMut<'a, K>,
    pub(super) values: Option<DeviceSliceMut<'a, V>>,
}

impl<'a, K: SortKey, V: SortValue> TableMut<'a, K, V> {
    /// The first `middle` rows, and the others.
    pub(super) fn split_at(self, middle: usize) -> (Self, Self) {
        let (keys, other_keys) = self.keys.split_at_mut(middle);
        let (values, other_values) = self.values.map(|values| values.split_at_mut(middle)).unzip();
        (Self { keys, values }, Self { keys: other_keys, values: other_values })
    }

    /// Consecutive parts of these numbers of rows.
    pub(super) fn divide(self, lens: impl IntoIterator<Item = usize>) -> Vec<Self> {
        let mut rest = Some(self);
        let part = |len| {
            let all = rest.take().expect("each round leaves the rest");
            let (part, behind) = all.split_at(len);
            rest = Some(behind);
            part
        };
        lens.into_iter().map(part).collect()
    }

    /// Makes each of the streams the home of a part while `work` runs, as [`Stream::rehome_parts`] does.
    pub(super) fn rehome_parts<R>(
        parts: Vec<(&'a Stream, Self)>,
        work: impl FnOnce(Vec<TableMut<'_, K, V>>) -> DistResult<R>,
    ) -> DistResult<R> {
        let mut of_values = Vec::new();
        let mut of_keys = Vec::new();
        for (stream, Self { keys, values }) in parts {
            of_keys.push((stream, keys));
            of_values.extend(values.map(|values| (stream, values)));
        }
        Stream::rehome_parts(of_keys, |keys| {
            Stream::rehome_parts(of_values, |values| {
                let mut values = values.into_iter();
                let table = |keys| TableMut { keys, values: values.next() };
                Ok(work(keys.into_iter().map(table).collect()))
            })
        })?
    }
}

fn copy<T: Pod>(
    to: &mut DeviceBuffer<T>,
    from: &DeviceBuffer<T>,
    rows: Range<usize>,
) -> GpuResult<()> {
    to.slice_mut(rows.clone()).copy_from_device(from.slice(rows))
}
