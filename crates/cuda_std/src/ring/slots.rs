//! The slots of a ring and the turns that are taken at them: one definition for host and device.

use super::Position;
use crate::atomic::{
    Atomic,
    Ordering::{Acquire, Relaxed, Release},
    scope,
};
use bytemuck::Pod;
use core::marker::PhantomData;

/// A word that both sides of a ring see.
type Word = Atomic<u32, scope::System>;

/// The state of a slot for a position that waits to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Not ready: the ring is full for a producer, and empty for a consumer.
    Early,
    /// Ready.
    Now,
    /// Past: another thread has used it for this position.
    Late,
}

impl Turn {
    /// The state of a slot whose sequence number is `found`, for a position that waits for `wanted`.
    #[inline(always)]
    const fn of(found: u32, wanted: u32) -> Self {
        match found.wrapping_sub(wanted) as i32 {
            0 => Self::Now,
            ..0 => Self::Early,
            _ => Self::Late,
        }
    }
}

/// The slots of a ring, as one side sees them.
#[derive(Debug)]
pub struct Slots<'a, T> {
    values: *mut T,
    arrived: *mut u32,
    free: *mut u32,
    capacity: u64,
    borrow: PhantomData<&'a T>,
}

impl<T> Clone for Slots<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slots<'_, T> {}

// SAFETY: messages are plain data, and every access to a slot follows the turns.
unsafe impl<T: Pod> Send for Slots<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for Slots<'_, T> {}

impl<'a, T: Pod> Slots<'a, T> {
    /// The slots at these places.
    ///
    /// # Safety
    /// - `capacity` is a power of two up to 2^30, and during `'a` there are as many initialised
    ///   messages at `values`, and words at `arrived` and at `free`, aligned, for reads and writes.
    /// - The words were set by [`first_words`](Self::first_words) for one first position, and since
    ///   then all was reached through such slots alone, by producers that share one [`Position`] and
    ///   consumers that share another, which began there.
    #[inline(always)]
    pub const unsafe fn from_raw_parts(
        values: *mut T,
        arrived: *mut u32,
        free: *mut u32,
        capacity: usize,
    ) -> Self {
        Self { values, arrived, free, capacity: capacity as u64, borrow: PhantomData }
    }

    /// What `arrived` and `free` of slot `index` are in an empty ring whose first position is `first`.
    #[must_use]
    pub const fn first_words(index: usize, capacity: usize, first: u64) -> (u32, u32) {
        let ahead = (index as u64).wrapping_sub(first) & (capacity as u64 - 1);
        let free = first.wrapping_add(ahead) as u32;
        (free.wrapping_add(1).wrapping_sub(capacity as u32), free)
    }

    /// The number of slots.
    #[inline(always)]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The slot of a position.
    #[inline(always)]
    pub const fn index(&self, position: u64) -> usize {
        (position & (self.capacity - 1)) as usize
    }

    #[inline(always)]
    fn arrived(&self, position: u64) -> &'a Word {
        // SAFETY: the index is below the capacity; words are reached atomically alone.
        unsafe { Atomic::from_ptr(self.arrived.add(self.index(position))) }
    }

    #[inline(always)]
    fn free(&self, position: u64) -> &'a Word {
        // SAFETY: as above.
        unsafe { Atomic::from_ptr(self.free.add(self.index(position))) }
    }

    /// Where the message of a position lies.
    #[inline(always)]
    pub fn value_ptr(&self, position: u64) -> *const T {
        self.values.wrapping_add(self.index(position))
    }

    /// The turn of the consumer of `position`.
    #[inline(always)]
    pub fn consumers_turn(&self, position: u64) -> Turn {
        Turn::of(self.arrived(position).load(Acquire), (position as u32).wrapping_add(1))
    }

    /// The turn of the producer of `position`.
    #[inline(always)]
    pub fn producers_turn(&self, position: u64) -> Turn {
        Turn::of(self.free(position).load(Acquire), position as u32)
    }

    /// Claims the position of a message that is there. `hint` is where to look, and where to look
    /// the next time; it may be old.
    #[inline(always)]
    pub fn claim_message(&self, end: &Position, hint: &mut u64) -> Option<u64> {
        Self::claim(end, hint, |position| self.consumers_turn(position))
    }

    /// Claims the position of a free slot, as [`claim_message`](Self::claim_message).
    #[inline(always)]
    pub fn claim_slot(&self, end: &Position, hint: &mut u64) -> Option<u64> {
        Self::claim(end, hint, |position| self.producers_turn(position))
    }

    #[inline(always)]
    fn claim(end: &Position, hint: &mut u64, turn: impl Fn(u64) -> Turn) -> Option<u64> {
        loop {
            let position = *hint;
            match turn(position) {
                Turn::Early => return None,
                // The turn may be that of somebody who claimed the position before: it is claimed
                // by the counter.
                Turn::Now => match end.compare_exchange(position, position + 1, Relaxed) {
                    Ok(_) => {
                        *hint = position + 1;
                        return Some(position);
                    }
                    Err(now) => *hint = now,
                },
                Turn::Late => *hint = end.load(Relaxed),
            }
        }
    }

    /// Claims positions of messages that are there, `most` at most: the first one and how many.
    pub fn claim_messages(&self, end: &Position, most: u64) -> Option<(u64, u64)> {
        self.claim_run(end, most, |position| self.consumers_turn(position))
    }

    /// Claims positions of free slots, `most` at most: the first one and how many.
    pub fn claim_slots(&self, end: &Position, most: u64) -> Option<(u64, u64)> {
        self.claim_run(end, most, |position| self.producers_turn(position))
    }

    fn claim_run(
        &self,
        end: &Position,
        most: u64,
        turn: impl Fn(u64) -> Turn,
    ) -> Option<(u64, u64)> {
        let most = most.min(self.capacity);
        if most == 0 {
            return None;
        }
        let mut first = end.load(Relaxed);
        loop {
            let ready =
                (0..most).take_while(|ahead| turn(first + ahead) == Turn::Now).count() as u64;
            if ready == 0 && turn(first) == Turn::Early {
                return None;
            }
            match ready {
                0 => first = end.load(Relaxed),
                _ => match end.compare_exchange(first, first + ready, Relaxed) {
                    Ok(_) => return Some((first, ready)),
                    Err(now) => first = now,
                },
            }
        }
    }

    /// Reads the message of a position and frees its slot.
    ///
    /// # Safety
    /// The caller claimed the position, found that its turn is now, and takes it once.
    #[inline(always)]
    pub unsafe fn take(&self, position: u64) -> T {
        // SAFETY: the slot is the caller's until it is freed below.
        let message = unsafe { self.values.add(self.index(position)).read() };
        self.free(position).store((position as u32).wrapping_add(self.capacity as u32), Release);
        message
    }

    /// Writes the message of a position and lets the consumers know.
    ///
    /// # Safety
    /// The caller claimed the position, found that its turn is now, and puts it once.
    #[inline(always)]
    pub unsafe fn put(&self, position: u64, message: T) {
        // SAFETY: the slot is the caller's until `announce`.
        unsafe { self.values.add(self.index(position)).write(message) };
        // SAFETY: the caller's promise.
        unsafe { self.announce(position) };
    }

    /// Lets the consumers know that the message of a position is there.
    ///
    /// # Safety
    /// As [`put`](Self::put), and the message has been written.
    #[inline(always)]
    pub unsafe fn announce(&self, position: u64) {
        self.arrived(position).store((position as u32).wrapping_add(1), Release);
    }

    /// Whether the message of a position, which was sent, has been taken out.
    #[must_use]
    pub fn is_taken(&self, position: u64) -> bool {
        self.producers_turn(position.wrapping_add(self.capacity)) != Turn::Early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring in the host's memory.
    struct Own {
        values: Vec<u64>,
        arrived: Vec<u32>,
        free: Vec<u32>,
        ends: [Position; 2],
        first: u64,
    }

    impl Own {
        fn new(capacity: usize, first: u64) -> Self {
            let words = |index| Slots::<u64>::first_words(index, capacity, first);
            let ends = [Position::default(), Position::default()];
            ends.iter().for_each(|end| end.store(first, Relaxed));
            Self {
                values: vec![0; capacity],
                arrived: (0..capacity).map(|index| words(index).0).collect(),
                free: (0..capacity).map(|index| words(index).1).collect(),
                ends,
                first,
            }
        }

        fn slots(&mut self) -> Slots<'_, u64> {
            let capacity = self.values.len();
            let (values, arrived, free) =
                (self.values.as_mut_ptr(), self.arrived.as_mut_ptr(), self.free.as_mut_ptr());
            // SAFETY: as many slots, set as an empty ring has them.
            unsafe { Slots::from_raw_parts(values, arrived, free, capacity) }
        }
    }

    /// Sends `0..count` from each of some threads to some others; returns what each of these got.
    fn pass(own: &mut Own, senders: u64, receivers: u64, count: u64) -> Vec<Vec<u64>> {
        let (first, ends) = (own.first, [Position::default(), Position::default()]);
        let ends = std::mem::replace(&mut own.ends, ends);
        let slots = own.slots();
        let taken = Position::default();
        std::thread::scope(|threads| {
            for sender in 0..senders {
                let end = &ends[0];
                threads.spawn(move || {
                    let mut hint = first;
                    for message in 0..count {
                        let position = loop {
                            match slots.claim_slot(end, &mut hint) {
                                Some(position) => break position,
                                None => std::thread::yield_now(),
                            }
                        };
                        // SAFETY: claimed just now.
                        unsafe { slots.put(position, sender << 32 | message) };
                    }
                });
            }
            let receive = || {
                let (mut hint, mut got) = (first, Vec::new());
                while taken.load(Relaxed) < senders * count {
                    match slots.claim_message(&ends[1], &mut hint) {
                        Some(position) => {
                            taken.fetch_add(1, Relaxed);
                            // SAFETY: claimed just now.
                            got.push(unsafe { slots.take(position) });
                        }
                        None => std::thread::yield_now(),
                    }
                }
                got
            };
            let all: Vec<_> = (0..receivers).map(|_| threads.spawn(receive)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_message_arrives_once_and_in_its_senders_order() {
        let near = u64::from(u32::MAX);
        for (capacity, first) in [(1, 0), (1, near - 3), (2, near / 2 - 3), (8, near - 5), (64, 77)]
        {
            for (senders, receivers) in [(1, 1), (3, 1), (1, 2), (3, 3)] {
                let count = if cfg!(miri) { 20 } else { 2000 };
                let got = pass(&mut Own::new(capacity, first), senders, receivers, count);
                for one in &got {
                    for sender in 0..senders {
                        let own: Vec<_> = one.iter().filter(|m| **m >> 32 == sender).collect();
                        assert!(own.is_sorted(), "{capacity} slots from {first}");
                    }
                }
                let mut all = got.concat();
                all.sort_unstable();
                let sent: Vec<_> =
                    (0..senders).flat_map(|s| (0..count).map(move |m| s << 32 | m)).collect();
                assert_eq!(all, sent, "{capacity} slots from {first}: {senders} to {receivers}");
            }
        }
    }

    #[test]
    fn turns_follow_each_other() {
        for first in [0, 3, u64::from(u32::MAX) - 1] {
            let mut own = Own::new(2, first);
            let slots = own.slots();
            assert_eq!(slots.consumers_turn(first), Turn::Early);
            assert_eq!(slots.producers_turn(first), Turn::Now);
            assert_eq!(slots.producers_turn(first + 2), Turn::Early);
            // SAFETY: this thread has all turns.
            unsafe { slots.put(first, 7) };
            assert_eq!(slots.consumers_turn(first), Turn::Now);
            assert!(!slots.is_taken(first));
            // SAFETY: as above.
            assert_eq!(unsafe { slots.take(first) }, 7);
            assert!(slots.is_taken(first));
            assert_eq!(slots.producers_turn(first), Turn::Late);
            assert_eq!(slots.producers_turn(first + 2), Turn::Now);
            // SAFETY: as above.
            unsafe { slots.put(first + 2, 8) };
            assert_eq!(slots.consumers_turn(first), Turn::Late);
        }
    }
}
