//! What operations can see of their warp.

use super::mbarrier::Awaited;
use super::op::Op;
use super::slots::{LANES, Row32};
use std::sync::atomic::AtomicU64;

/// Local memory of a frame begins at a multiple of this.
pub const LOCAL_ALIGN: u64 = 64;

/// What operations can see of their warp.
#[derive(Default)]
pub struct WarpState {
    /// Number in the block.
    pub index: u32,
    /// Lanes that have not exited.
    pub alive: u32,
    /// Lanes that took part in a barrier of the block.
    pub met: u32,
    /// Lanes that have ended, and the first of them with the operation that it ended at.
    pub left: Option<(u32, usize, u32)>,
    /// Thread indices x, y, z.
    pub tid: [Row32; 3],
    /// Local memory of all lanes, one after the other.
    pub local: Vec<AtomicU64>,
    /// Bytes of each lane's.
    pub local_stride: u64,
    /// Its lanes at the barrier of the cluster.
    pub cluster: ClusterLanes,
    /// The mbarriers that its lanes wait for.
    pub awaited: Awaited,
}

impl WarpState {
    /// Makes each lane's local memory at least `bytes` long.
    pub fn reserve_local(&mut self, bytes: u64) {
        if bytes <= self.local_stride {
            return;
        }
        let stride = bytes.next_multiple_of(LOCAL_ALIGN).max(2 * self.local_stride);
        let (old, new) = ((self.local_stride / 8) as usize, (stride / 8) as usize);
        let mut local: Vec<AtomicU64> = Vec::new();
        local.resize_with(new * LANES, AtomicU64::default);
        for lane in 0..LANES {
            for word in 0..old {
                *local[lane * new + word].get_mut() = *self.local[lane * old + word].get_mut();
            }
        }
        (self.local, self.local_stride) = (local, stride);
    }
}

/// The lanes of a warp at the cluster's barrier.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterLanes {
    /// Have arrived, in a phase that is not over.
    pub arrived: u32,
    /// Have arrived, in a phase that is over, and have not waited.
    pub passed: u32,
    /// The phase that `arrived` is about.
    pub phase: u64,
}

impl ClusterLanes {
    /// Learns that a phase is over.
    pub fn settle(&mut self, phase: u64) {
        if self.phase != phase {
            self.passed |= std::mem::take(&mut self.arrived);
            self.phase = phase;
        }
    }
}

/// What lanes last read, and how often in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Address of the operation in this process.
    pub op: usize,
    /// Address that the lowest lane read.
    pub address: u64,
    /// How often in a row.
    pub times: u32,
}

impl Seen {
    /// Lanes read.
    #[inline(always)]
    pub fn read(&mut self, op: &Op, address: u64) {
        let op = std::ptr::from_ref(op) as usize;
        if (self.op, self.address) == (op, address) {
            self.times = self.times.saturating_add(1);
        } else {
            *self = Self { op, address, times: 0 };
        }
    }

    /// Lanes wrote, so they do not only wait.
    #[inline(always)]
    pub fn wrote(&mut self) {
        self.times = 0;
    }
}
