//! One launch of a kernel, and what it needs beside its parameters.

use super::{Device, Function};
use crate::exec::stuck::Outside;
use crate::exec::watch::race::Moment;
use crate::machine::MAX_LOCAL_BYTES;
use crate::memory::GlobalMemory;
use std::sync::Arc;

/// One launch of a kernel.
pub struct Launch<'a> {
    /// Kernel.
    pub function: &'a Function,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Stack of a thread in bytes, for a kernel whose functions call themselves or addresses, or
    /// have `alloca`. Others get what they need, as a driver knows that.
    pub stack_bytes: u64,
    /// Parameters, each at its offset.
    pub params: &'a [u8],
    /// Blocks of a cluster in each direction; all zero where the launch says nothing, and the
    /// kernel's own `.reqnctapercluster` holds, or each block is a cluster by itself.
    pub cluster: [u32; 3],
    /// Whether all blocks are resident together, so that they may wait for each other.
    pub cooperative: bool,
    /// Where it stands among the host's operations, for the race check; without it, a launch is
    /// compared with those that run when it begins.
    pub moment: Option<&'a Arc<Moment>>,
    /// What else may write the memory that the launch reads, so that threads which poll forever are found.
    /// Without it anything may, and they poll on.
    pub outside: Option<&'a dyn Outside>,
}

impl<'a> Launch<'a> {
    /// A launch of one block of one thread without parameters, to be changed.
    pub fn new(function: &'a Function) -> Self {
        Self {
            function,
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            stack_bytes: MAX_LOCAL_BYTES,
            params: &[],
            cluster: [0; 3],
            cooperative: false,
            moment: None,
            outside: None,
        }
    }
}

/// What a cooperative launch's barrier of the grid works on, for as long as the launch runs: a word
/// for its size, and one that counts the blocks that have come.
pub(super) struct Workspace<'d> {
    memory: &'d GlobalMemory,
    pub(super) address: u64,
}

impl<'d> Workspace<'d> {
    const BYTES: u64 = 16;

    pub(super) fn new(device: &'d Device, cooperative: bool) -> Self {
        let memory = device.memory();
        let address = match cooperative {
            true => memory.alloc(Self::BYTES).unwrap_or(0),
            false => 0,
        };
        if address != 0 {
            // It has just been allocated; nobody else can have freed it.
            let _ = memory.fill8(address, 0, Self::BYTES);
        }
        Self { memory, address }
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if self.address != 0 {
            // A kernel cannot free it; if it is gone all the same, there is nothing left to do.
            let _ = self.memory.free(self.address);
        }
    }
}
