//! The operations of a group: each checks its lengths, and says what the backend has to do.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite};

use super::group::Group;
use super::lower::{self, Parts};
use super::refusal::Call;
use crate::element::{Element, Reduction};
use crate::error::{DistError, DistResult};
use crate::transport::Primitive;

/// What a length is compared with.
struct Check<'a> {
    operation: &'static str,
    group: &'a Group<'a>,
    /// What a refusal counts as.
    call: Call,
}

impl Check<'_> {
    fn refuse<T>(&self, error: DistError) -> DistResult<T> {
        Err(self.group.communicator.refuse(error, self.call))
    }

    fn len(&self, what: &'static str, expected: usize, found: usize) -> DistResult<()> {
        let operation = self.operation;
        match expected == found {
            true => Ok(()),
            false => self.refuse(DistError::Length { operation, what, expected, found }),
        }
    }

    fn rank(&self, rank: u32) -> DistResult<()> {
        let (operation, size) = (self.operation, self.group.communicator.size());
        match rank < size {
            true => Ok(()),
            false => self.refuse(DistError::NoSuchRank { operation, rank, size }),
        }
    }

    /// That there is a share for each rank, and their sum is `found`.
    fn shares(&self, what: &'static str, shares: &[usize], found: usize) -> DistResult<()> {
        let ranks = self.group.communicator.size() as usize;
        self.len("the list of shares", ranks, shares.len())?;
        self.len(what, shares.iter().sum(), found)
    }

    /// A rank's share of `found` elements, which are the same for each.
    fn share(&self, what: &'static str, found: usize) -> DistResult<usize> {
        let (operation, ranks) = (self.operation, self.group.communicator.size());
        match found % ranks as usize {
            0 => Ok(found / ranks as usize),
            _ => self.refuse(DistError::NotDivisible { operation, what, found, ranks }),
        }
    }
}

const SENT: &str = "what is sent";
const RECEIVED: &str = "what is received";

impl<'a> Group<'a> {
    /// Of an operation that all members make.
    fn check(&self, operation: &'static str) -> Check<'_> {
        Check { operation, group: self, call: Call::Next }
    }

    /// Of a send or a receive, which other members do not make.
    fn check_single(&self, operation: &'static str) -> Check<'_> {
        Check { operation, group: self, call: self.call() }
    }

    fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    /// See [`Communicator::all_reduce`](super::Communicator::all_reduce).
    ///
    /// # Errors
    /// As there.
    pub fn all_reduce<T: Element>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<Self> {
        let (source, target, kind) = (from.raw(), to.raw_mut(), T::KIND);
        self.check("all-reduce").len(RECEIVED, source.len, target.len)?;
        let (from_at, to_at, len) = (source.address, target.address, source.len);
        let call = Primitive::AllReduce { from: from_at, to: to_at, len, kind, reduction };
        let calls = (len > 0).then_some(call);
        Ok(self.with("all_reduce", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::all_reduce_in_place`](super::Communicator::all_reduce_in_place).
    ///
    /// # Errors
    /// As there.
    pub fn all_reduce_in_place<T: Element>(
        self,
        values: &'a mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<Self> {
        let (raw, kind) = (values.raw_mut(), T::KIND);
        let (at, len) = (raw.address, raw.len);
        let call = Primitive::AllReduce { from: at, to: at, len, kind, reduction };
        let calls = (len > 0).then_some(call);
        Ok(self.with("all_reduce", calls, |memory| memory.writes(values)))
    }

    /// See [`Communicator::reduce`](super::Communicator::reduce).
    ///
    /// # Errors
    /// As there.
    pub fn reduce<T: Element>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: Option<&'a mut dyn DeviceWrite<T>>,
        reduction: Reduction,
        root: u32,
    ) -> DistResult<Self> {
        let check = self.check("reduce");
        check.rank(root)?;
        let (source, kind, is_root) = (from.raw(), T::KIND, self.rank() == root);
        let mut to = to.filter(|_| is_root);
        let target = to.as_mut().map(|to| to.raw_mut());
        if is_root {
            check.len(RECEIVED, source.len, target.as_ref().map_or(0, |target| target.len))?;
        }
        let (len, at) = (source.len, target.map_or(0, |target| target.address));
        let call = Primitive::Reduce { from: source.address, to: at, len, kind, reduction, root };
        Ok(self.with("reduce", (len > 0).then_some(call), |memory| {
            let memory = memory.reads(from);
            match to {
                Some(to) => memory.writes(to),
                None => memory,
            }
        }))
    }

    /// See [`Communicator::reduce_scatter`](super::Communicator::reduce_scatter).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_scatter<T: Element>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        reduction: Reduction,
    ) -> DistResult<Self> {
        let (source, target, kind) = (from.raw(), to.raw_mut(), T::KIND);
        let check = self.check("reduce-scatter");
        let len = check.share(SENT, source.len)?;
        check.len(RECEIVED, len, target.len)?;
        let (from_at, to_at) = (source.address, target.address);
        let call = Primitive::ReduceScatter { from: from_at, to: to_at, len, kind, reduction };
        let calls = (len > 0).then_some(call);
        Ok(self.with("reduce_scatter", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::reduce_scatter_uneven`](super::Communicator::reduce_scatter_uneven).
    ///
    /// # Errors
    /// As there.
    pub fn reduce_scatter_uneven<T: Element>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
        reduction: Reduction,
    ) -> DistResult<Self> {
        let (source, target) = (from.raw(), to.raw_mut());
        let check = self.check("reduce-scatter of uneven shares");
        check.shares(SENT, shares, source.len)?;
        check.len(RECEIVED, shares[self.rank() as usize], target.len)?;
        let parts = Parts { start: source.address, lens: shares, element: size_of::<T>() };
        let calls = lower::reduce_scatter_uneven(parts, target.address, T::KIND, reduction);
        Ok(self.with("reduce_scatter", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::broadcast`](super::Communicator::broadcast).
    ///
    /// # Errors
    /// As there.
    pub fn broadcast<T: Pod>(
        self,
        values: &'a mut (impl DeviceWrite<T> + ?Sized),
        root: u32,
    ) -> DistResult<Self> {
        self.check("broadcast").rank(root)?;
        let raw = values.raw_mut();
        let (at, bytes) = (raw.address, raw.len * size_of::<T>());
        let call = Primitive::Broadcast { from: at, to: at, bytes, root };
        Ok(self.with("broadcast", (bytes > 0).then_some(call), |memory| memory.writes(values)))
    }

    /// See [`Communicator::all_gather`](super::Communicator::all_gather).
    ///
    /// # Errors
    /// As there.
    pub fn all_gather<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
    ) -> DistResult<Self> {
        let (source, target) = (from.raw(), to.raw_mut());
        let all = source.len * self.communicator.size() as usize;
        self.check("all-gather").len(RECEIVED, all, target.len)?;
        let bytes = source.len * size_of::<T>();
        let call = Primitive::AllGather { from: source.address, to: target.address, bytes };
        let calls = (bytes > 0).then_some(call);
        Ok(self.with("all_gather", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::all_gather_uneven`](super::Communicator::all_gather_uneven).
    ///
    /// # Errors
    /// As there.
    pub fn all_gather_uneven<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
    ) -> DistResult<Self> {
        let (source, target) = (from.raw(), to.raw_mut());
        let check = self.check("all-gather of uneven shares");
        check.shares(RECEIVED, shares, target.len)?;
        check.len(SENT, shares[self.rank() as usize], source.len)?;
        let parts = Parts { start: target.address, lens: shares, element: size_of::<T>() };
        let calls = lower::all_gather_uneven(source.address, parts);
        Ok(self.with("all_gather", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::gather_uneven`](super::Communicator::gather_uneven).
    ///
    /// # Errors
    /// As there.
    pub fn gather_uneven<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: Option<&'a mut dyn DeviceWrite<T>>,
        shares: &[usize],
        root: u32,
    ) -> DistResult<Self> {
        let check = self.check("gather");
        check.rank(root)?;
        let (source, rank) = (from.raw(), self.rank());
        let mut to = to.filter(|_| rank == root);
        let target = to.as_mut().map(|to| to.raw_mut());
        check.shares(RECEIVED, shares, target.as_ref().map_or(shares.iter().sum(), |to| to.len))?;
        if rank == root && target.is_none() {
            check.len(RECEIVED, shares.iter().sum(), 0)?;
        }
        check.len(SENT, shares[rank as usize], source.len)?;
        let element = size_of::<T>();
        let parts = target.map(|to| Parts { start: to.address, lens: shares, element });
        let calls = lower::gather(rank, root, (source.address, source.len * element), parts);
        Ok(self.with("gather", calls, |memory| {
            let memory = memory.reads(from);
            match to {
                Some(to) => memory.writes(to),
                None => memory,
            }
        }))
    }

    /// See [`Communicator::scatter_uneven`](super::Communicator::scatter_uneven).
    ///
    /// # Errors
    /// As there.
    pub fn scatter_uneven<T: Pod>(
        self,
        from: Option<&'a dyn DeviceRead<T>>,
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        shares: &[usize],
        root: u32,
    ) -> DistResult<Self> {
        let check = self.check("scatter");
        check.rank(root)?;
        let (target, rank) = (to.raw_mut(), self.rank());
        let from = from.filter(|_| rank == root);
        let source = from.map(|from| from.raw());
        check.shares(SENT, shares, source.as_ref().map_or(shares.iter().sum(), |from| from.len))?;
        if rank == root && source.is_none() {
            check.len(SENT, shares.iter().sum(), 0)?;
        }
        check.len(RECEIVED, shares[rank as usize], target.len)?;
        let element = size_of::<T>();
        let parts = source.map(|from| Parts { start: from.address, lens: shares, element });
        let calls = lower::scatter(rank, root, parts, (target.address, target.len * element));
        Ok(self.with("scatter", calls, |memory| {
            let memory = memory.writes(to);
            match from {
                Some(from) => memory.reads(from),
                None => memory,
            }
        }))
    }

    /// See [`Communicator::all_to_all`](super::Communicator::all_to_all).
    ///
    /// # Errors
    /// As there.
    pub fn all_to_all<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
    ) -> DistResult<Self> {
        let check = self.check("all-to-all");
        let share = check.share(SENT, from.raw().len)?;
        check.len(RECEIVED, from.raw().len, to.raw_mut().len)?;
        let shares = vec![share; self.communicator.size() as usize];
        self.all_to_all_uneven(from, &shares, to, &shares)
    }

    /// See [`Communicator::all_to_all_uneven`](super::Communicator::all_to_all_uneven).
    ///
    /// # Errors
    /// As there.
    pub fn all_to_all_uneven<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        sent: &[usize],
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        received: &[usize],
    ) -> DistResult<Self> {
        let (source, target, own) = (from.raw(), to.raw_mut(), self.rank() as usize);
        let check = self.check("all-to-all");
        check.shares(SENT, sent, source.len)?;
        check.shares(RECEIVED, received, target.len)?;
        check.len("this rank's part for itself", sent[own], received[own])?;
        let element = size_of::<T>();
        let mut calls = lower::sends(Parts { start: source.address, lens: sent, element });
        calls.extend(lower::receives(Parts { start: target.address, lens: received, element }));
        Ok(self.with("all_to_all", calls, |memory| memory.reads(from).writes(to)))
    }

    /// See [`Communicator::send`](super::Communicator::send).
    ///
    /// # Errors
    /// As there.
    pub fn send<T: Pod>(
        self,
        from: &'a (impl DeviceRead<T> + ?Sized),
        to: u32,
    ) -> DistResult<Self> {
        self.check_single("send").rank(to)?;
        let source = from.raw();
        let (at, bytes) = (source.address, source.len * size_of::<T>());
        let call = Primitive::Send { from: at, bytes, to };
        Ok(self.with_single("send", (bytes > 0).then_some(call), |memory| memory.reads(from)))
    }

    /// See [`Communicator::receive`](super::Communicator::receive).
    ///
    /// # Errors
    /// As there.
    pub fn receive<T: Pod>(
        self,
        to: &'a mut (impl DeviceWrite<T> + ?Sized),
        from: u32,
    ) -> DistResult<Self> {
        self.check_single("receive").rank(from)?;
        let target = to.raw_mut();
        let (at, bytes) = (target.address, target.len * size_of::<T>());
        let call = Primitive::Receive { to: at, bytes, from };
        Ok(self.with_single("receive", (bytes > 0).then_some(call), |memory| memory.writes(to)))
    }
}
