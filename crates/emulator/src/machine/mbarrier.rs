//! Mbarriers: counters of arrivals and of bytes in eight bytes of shared memory.
//!
//! All of an mbarrier's state lies in its eight bytes, so a copy of shared memory copies it too. A
//! phase ends when as many threads have arrived as were announced and as many bytes as were
//! expected; the next begins at once, with the same number of arrivals.

use super::slots::{LANES, Row64};
use crate::fault::{MbarrierFault, WaitsOn};
use crate::memory::access;

/// The most arrivals or bytes of a phase.
pub const MAX_COUNT: u32 = (1 << 20) - 1;
const BYTES_BITS: u32 = 21;
const PENDING_AT: u32 = 20;
const BYTES_AT: u32 = 40;
const PARITY_AT: u32 = 61;
const MARK_AT: u32 = 62;
/// What the two highest bits of an initialised mbarrier are.
const MARK: u64 = 2;

/// The state of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// Arrivals of each phase.
    pub expected: u32,
    /// Arrivals that this phase lacks.
    pub pending: u32,
    /// Bytes that this phase lacks.
    pub bytes: i32,
    /// Parity of this phase.
    pub parity: bool,
}

impl Mbarrier {
    /// A fresh one.
    pub fn new(count: u32) -> Result<Self, MbarrierFault> {
        check(count)?;
        Ok(Self { expected: count, pending: count, bytes: 0, parity: false })
    }

    /// The one in a word; `None` where there is none.
    pub fn decode(word: u64) -> Option<Self> {
        let count = |at: u32| (word >> at) as u32 & MAX_COUNT;
        let bytes = (word >> BYTES_AT) as u32 & ((1 << BYTES_BITS) - 1);
        (word >> MARK_AT == MARK).then_some(Self {
            expected: count(0),
            pending: count(PENDING_AT),
            bytes: (bytes << (32 - BYTES_BITS)) as i32 >> (32 - BYTES_BITS),
            parity: word >> PARITY_AT & 1 != 0,
        })
    }

    /// The word for it.
    pub fn encode(self) -> u64 {
        let bytes = u64::from(self.bytes as u32 & ((1 << BYTES_BITS) - 1));
        u64::from(self.expected)
            | u64::from(self.pending) << PENDING_AT
            | bytes << BYTES_AT
            | u64::from(self.parity) << PARITY_AT
            | MARK << MARK_AT
    }

    /// One more arrival, whose thread will arrive later.
    pub fn announce(&mut self) -> Result<(), MbarrierFault> {
        check(self.pending + 1)?;
        self.pending += 1;
        Ok(())
    }

    /// Arrivals. Returns whether they end the phase.
    pub fn arrive(&mut self, count: u32) -> Result<bool, MbarrierFault> {
        check(count)?;
        if count > self.pending {
            return Err(MbarrierFault::TooMany { count, pending: self.pending });
        }
        self.pending -= count;
        Ok(self.advance())
    }

    /// Later phases expect fewer arrivals.
    pub fn drop_expected(&mut self, count: u32) -> Result<(), MbarrierFault> {
        check(count)?;
        let expected = self.expected.checked_sub(count);
        self.expected = expected.ok_or(MbarrierFault::Drop { count, expected: self.expected })?;
        Ok(())
    }

    /// The phase expects more bytes.
    pub fn expect(&mut self, bytes: u32) -> Result<(), MbarrierFault> {
        self.count_bytes(i64::from(bytes))
    }

    /// Bytes have come. Returns whether they end the phase.
    pub fn complete(&mut self, bytes: u32) -> Result<bool, MbarrierFault> {
        self.count_bytes(-i64::from(bytes))?;
        Ok(self.advance())
    }

    fn count_bytes(&mut self, more: i64) -> Result<(), MbarrierFault> {
        let bytes = i64::from(self.bytes) + more;
        match bytes.unsigned_abs() > u64::from(MAX_COUNT) {
            true => Err(MbarrierFault::Bytes { bytes }),
            false => {
                self.bytes = bytes as i32;
                Ok(())
            }
        }
    }

    fn advance(&mut self) -> bool {
        let over = self.pending == 0 && self.bytes == 0;
        if over {
            self.pending = self.expected;
            self.parity = !self.parity;
        }
        over
    }
}

fn check(count: u32) -> Result<(), MbarrierFault> {
    match (1..=MAX_COUNT).contains(&count) {
        true => Ok(()),
        false => Err(MbarrierFault::Count { count }),
    }
}

/// The mbarriers that the lanes of a warp wait for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Address in this process, for each lane that waits.
    pub at: Row64,
    /// Parity of the phase whose end each waits for.
    pub parity: u32,
    /// Lanes that go on, whether it is over or not.
    pub expired: u32,
}

impl Default for Awaited {
    fn default() -> Self {
        Self { at: [0; LANES], parity: 0, expired: 0 }
    }
}

impl Awaited {
    /// What a lane waits for: an mbarrier of the block with that rank, at an offset of its shared memory.
    pub fn describe(&self, lane: usize, (rank, offset): (u32, u64)) -> WaitsOn {
        let at = self.at[lane];
        // SAFETY: a lane waits on an mbarrier in the shared memory of its cluster, which lives.
        let state = Mbarrier::decode(unsafe { access::load_u64(at) });
        let (pending, bytes) = state.map_or((0, 0), |state| (state.pending, state.bytes));
        WaitsOn::Phase { rank, offset, parity: self.parity >> lane & 1 != 0, pending, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_the_whole_state() {
        for (expected, pending, bytes, parity) in
            [(1, 1, 0, false), (MAX_COUNT, 0, -(MAX_COUNT as i32), true), (7, 3, 1 << 19, true)]
        {
            let state = Mbarrier { expected, pending, bytes, parity };
            assert_eq!(Mbarrier::decode(state.encode()), Some(state));
        }
        assert_eq!(Mbarrier::decode(0), None);
        assert_eq!(Mbarrier::decode(0xcdcd_cdcd_cdcd_cdcd), None);
    }

    #[test]
    fn a_phase_ends_with_its_arrivals_and_bytes() {
        let mut state = Mbarrier::new(2).unwrap();
        state.expect(32).unwrap();
        assert_eq!(state.arrive(1), Ok(false));
        assert_eq!(state.complete(16), Ok(false));
        assert_eq!(state.arrive(1), Ok(false));
        assert_eq!(state.complete(16), Ok(true));
        assert_eq!(state, Mbarrier { expected: 2, pending: 2, bytes: 0, parity: true });
        state.drop_expected(1).unwrap();
        assert_eq!(state.arrive(2), Ok(true));
        assert_eq!(state.pending, 1);
        assert_eq!(state.arrive(2), Err(MbarrierFault::TooMany { count: 2, pending: 1 }));
        assert_eq!(state.drop_expected(2), Err(MbarrierFault::Drop { count: 2, expected: 1 }));
    }

    #[test]
    fn bytes_may_come_before_they_are_expected() {
        let mut state = Mbarrier::new(1).unwrap();
        assert_eq!(state.complete(64), Ok(false));
        state.expect(64).unwrap();
        assert_eq!(state.arrive(1), Ok(true));
        assert_eq!(state.expect(MAX_COUNT), Ok(()));
        assert_eq!(state.expect(1), Err(MbarrierFault::Bytes { bytes: 1 << 20 }));
    }

    #[test]
    fn counts_have_a_range() {
        assert_eq!(Mbarrier::new(0), Err(MbarrierFault::Count { count: 0 }));
        assert_eq!(Mbarrier::new(1 << 20), Err(MbarrierFault::Count { count: 1 << 20 }));
        let mut state = Mbarrier::new(MAX_COUNT).unwrap();
        assert_eq!(state.announce(), Err(MbarrierFault::Count { count: 1 << 20 }));
    }
}
