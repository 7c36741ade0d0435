//! The operations of a communicator, each a group of one.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite};
use ferrowarp::AsStream;

use super::Communicator;
use crate::element::{Element, Reduction};
#[cfg(doc)]
use crate::error::DistError;
use crate::error::DistResult;

impl Communicator {
    /// Reduces the values of all ranks, element by element, for all ranks. `from` and `to`: `[n]`.
    ///
    /// Sums of up to 8 MiB of other types than `i8` and `u8`, outside of graphs and of groups of several operations, are made by
    /// kernels of this crate where the ranks [reach each other's memory](Self::has_peer_memory): in the order of the ranks, those
    /// of `f16` and `bf16` in `f32` and rounded once, so that all ranks get the same bits, in every run. Messages of up to 512 KiB,
    /// divided by the number of other ranks, go in one step, with a flag in each word; larger ones between two ranks in one step too,
    /// among more in two. All of these sums use one memory: if two follow each other on different streams, the second one waits for
    /// what was enqueued on the first stream until then.
    ///
    /// # Errors
    /// [`Length`](DistError::Length) if the lengths differ; as [`Group::enqueue`](super::Group::enqueue).
    pub fn all_reduce<T: Element>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<()> {
        self.group().all_reduce(from, to, reduction)?.enqueue(on)
    }

    /// Reduces the values of all ranks, element by element, in their place. `values`: `[n]`.
    ///
    /// # Errors
    /// As [`Group::enqueue`](super::Group::enqueue).
    pub fn all_reduce_in_place<T: Element>(
        &self,
        on: &impl AsStream,
        values: &mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<()> {
        self.group().all_reduce_in_place(values, reduction)?.enqueue(on)
    }

    /// Reduces the values of all ranks, element by element, for the rank `root`. `from`: `[n]`; `to`: `[n]` at the root. What
    /// other ranks give as `to` is not used.
    ///
    /// # Errors
    /// [`Length`](DistError::Length) if the lengths differ or the root gives no `to`, [`NoSuchRank`](DistError::NoSuchRank); as
    /// [`Group::enqueue`](super::Group::enqueue).
    pub fn reduce<'a, T: Element>(
        &'a self,
        on: &impl AsStream,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: Option<&'a mut dyn DeviceWrite<T>>,
        reduction: Reduction,
        root: u32,
    ) -> DistResult<()> {
        self.group().reduce(from, to, reduction, root)?.enqueue(on)
    }

    /// Reduces the values of all ranks, element by element, and gives each rank its part of the result. `from`: `[ranks × n]`;
    /// `to`: `[n]`.
    ///
    /// # Errors
    /// [`NotDivisible`](DistError::NotDivisible), [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn reduce_scatter<T: Element>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<()> {
        self.group().reduce_scatter(from, to, reduction)?.enqueue(on)
    }

    /// Like [`reduce_scatter`](Self::reduce_scatter), with parts of different lengths, which may be 0. `shares`: the elements of
    /// each rank's part, the same on all ranks; `from`: `[sum of shares]`; `to`: `[shares[rank]]`.
    ///
    /// # Errors
    /// [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn reduce_scatter_uneven<T: Element>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
        reduction: Reduction,
    ) -> DistResult<()> {
        self.group().reduce_scatter_uneven(from, to, shares, reduction)?.enqueue(on)
    }

    /// Gives all ranks the values of the rank `root`. `values`: `[n]`, which are read at the root and written elsewhere.
    ///
    /// # Errors
    /// [`NoSuchRank`](DistError::NoSuchRank); as [`Group::enqueue`](super::Group::enqueue).
    pub fn broadcast<T: Pod>(
        &self,
        on: &impl AsStream,
        values: &mut (impl DeviceWrite<T> + ?Sized),
        root: u32,
    ) -> DistResult<()> {
        self.group().broadcast(values, root)?.enqueue(on)
    }

    /// Gives all ranks the values of all ranks, in their order. `from`: `[n]`; `to`: `[ranks × n]`.
    ///
    /// # Errors
    /// [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn all_gather<T: Pod>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
    ) -> DistResult<()> {
        self.group().all_gather(from, to)?.enqueue(on)
    }

    /// Like [`all_gather`](Self::all_gather), with parts of different lengths, which may be 0. `shares`: the elements of each
    /// rank, the same on all ranks; `from`: `[shares[rank]]`; `to`: `[sum of shares]`.
    ///
    /// # Errors
    /// [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn all_gather_uneven<T: Pod>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
    ) -> DistResult<()> {
        self.group().all_gather_uneven(from, to, shares)?.enqueue(on)
    }

    /// Gives the rank `root` the values of all ranks, in their order. `from`: `[n]`; `to`: `[ranks × n]` at the root. What other
    /// ranks give as `to` is not used.
    ///
    /// # Errors
    /// [`Length`](DistError::Length), also if the root gives no `to`; [`NoSuchRank`](DistError::NoSuchRank); as
    /// [`Group::enqueue`](super::Group::enqueue).
    pub fn gather<'a, T: Pod>(
        &'a self,
        on: &impl AsStream,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: Option<&'a mut dyn DeviceWrite<T>>,
        root: u32,
    ) -> DistResult<()> {
        let shares = vec![from.raw().len; self.size() as usize];
        self.gather_uneven(on, from, to, &shares, root)
    }

    /// Like [`gather`](Self::gather), with parts of different lengths, which may be 0. `shares`: the elements of each rank, the
    /// same on all ranks; `from`: `[shares[rank]]`; `to`: `[sum of shares]` at the root.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_uneven<'a, T: Pod>(
        &'a self,
        on: &impl AsStream,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: Option<&'a mut dyn DeviceWrite<T>>,
        shares: &[usize],
        root: u32,
    ) -> DistResult<()> {
        self.group().gather_uneven(from, to, shares, root)?.enqueue(on)
    }

    /// Gives each rank its part of the values of the rank `root`. `from`: `[ranks × n]` at the root; `to`: `[n]`. What other ranks
    /// give as `from` is not used.
    ///
    /// # Errors
    /// [`Length`](DistError::Length), also if the root gives no `from`; [`NoSuchRank`](DistError::NoSuchRank); as
    /// [`Group::enqueue`](super::Group::enqueue).
    pub fn scatter<T: Pod>(
        &self,
        on: &impl AsStream,
        from: Option<&dyn DeviceRead<T>>,
        to: &mut (impl DeviceWrite<T> + ?Sized),
        root: u32,
    ) -> DistResult<()> {
        let shares = vec![to.raw_mut().len; self.size() as usize];
        self.scatter_uneven(on, from, to, &shares, root)
    }

    /// Like [`scatter`](Self::scatter), with parts of different lengths, which may be 0. `shares`: the elements of each rank, the
    /// same on all ranks; `from`: `[sum of shares]` at the root; `to`: `[shares[rank]]`.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatter_uneven<T: Pod>(
        &self,
        on: &impl AsStream,
        from: Option<&dyn DeviceRead<T>>,
        to: &mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
        root: u32,
    ) -> DistResult<()> {
        self.group().scatter_uneven(from, to, shares, root)?.enqueue(on)
    }

    /// Gives each rank a part of this rank's values, and takes a part from each: part `i` of `from` goes to rank `i`, and part
    /// `i` of `to` comes from there. `from` and `to`: `[ranks × n]`.
    ///
    /// # Errors
    /// [`NotDivisible`](DistError::NotDivisible), [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn all_to_all<T: Pod>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: &mut (impl DeviceWrite<T> + ?Sized),
    ) -> DistResult<()> {
        self.group().all_to_all(from, to)?.enqueue(on)
    }

    /// Like [`all_to_all`](Self::all_to_all), with parts of different lengths, which may be 0. `sent[i]` are the elements for
    /// rank `i`, and `received[i]` those from it: what it has as `sent` for this rank. `from`: `[sum of sent]`; `to`:
    /// `[sum of received]`.
    ///
    /// # Errors
    /// [`Length`](DistError::Length); as [`Group::enqueue`](super::Group::enqueue).
    pub fn all_to_all_uneven<T: Pod>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        sent: &[usize],
        to: &mut (impl DeviceWrite<T> + ?Sized),
        received: &[usize],
    ) -> DistResult<()> {
        self.group().all_to_all_uneven(from, sent, to, received)?.enqueue(on)
    }

    /// Sends values to the rank `to`, which [receives](Self::receive) as many. `from`: `[n]`; nothing is sent if `n` is 0.
    ///
    /// Work that is enqueued on the stream afterwards waits until the other has received: where two ranks send to each other,
    /// both operations of each stand in one [`group`](Self::group).
    ///
    /// # Errors
    /// [`NoSuchRank`](DistError::NoSuchRank); as [`Group::enqueue`](super::Group::enqueue).
    pub fn send<T: Pod>(
        &self,
        on: &impl AsStream,
        from: &(impl DeviceRead<T> + ?Sized),
        to: u32,
    ) -> DistResult<()> {
        self.group().send(from, to)?.enqueue(on)
    }

    /// Receives values from the rank `from`, which [sends](Self::send) as many. `to`: `[n]`; nothing is received if `n` is 0.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "recv")]
    pub fn receive<T: Pod>(
        &self,
        on: &impl AsStream,
        to: &mut (impl DeviceWrite<T> + ?Sized),
        from: u32,
    ) -> DistResult<()> {
        self.group().receive(to, from)?.enqueue(on)
    }
}
