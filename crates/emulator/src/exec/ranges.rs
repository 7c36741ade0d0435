//! Contiguous ranges that single lanes name: checked, and as addresses of this process.

use super::address::{Generic, resolve};
use crate::fault::{Access, CopyFault, Nearest, RegionKind, Space, TrapKind};
use crate::machine::{Cx, Fault, Frame, SHARED_BASE, WINDOW};
use crate::memory::access;
use crate::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TensorMap};

/// A fault about an asynchronous copy.
pub fn copy_fault(lane: usize, fault: CopyFault) -> Box<Fault> {
    Fault::new(lane, TrapKind::Copy(fault))
}

/// Checks an alignment.
pub fn check_align(lane: usize, address: u64, align: u64) -> Result<(), Box<Fault>> {
    match address.is_multiple_of(align) {
        true => Ok(()),
        false => Err(copy_fault(lane, CopyFault::Align { address, align })),
    }
}

/// A range that an instruction touches.
#[derive(Clone, Copy)]
pub struct Range {
    /// The lane that names it.
    pub lane: usize,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// How it is touched.
    pub access: Access,
}

impl Range {
    #[cold]
    fn outside(self, space: Space, nearest: Option<Nearest>) -> Box<Fault> {
        let Self { lane, address, bytes, access } = self;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Fault::new(lane, TrapKind::OutOfBounds { access, space, address, bytes, nearest })
    }
}

impl Cx<'_> {
    /// A range of the shared memory of a block of the cluster: the block, and where the range
    /// begins in this process.
    pub fn shared_range(&mut self, range: Range) -> Result<(u32, u64), Box<Fault>> {
        let fault = |fault| Fault::new(range.lane, TrapKind::Cluster(fault));
        let (rank, offset) = self.cluster.split(range.address).map_err(fault)?;
        let bytes = self.block.shared_bytes;
        if offset.saturating_add(range.bytes) > bytes {
            let (base, address) = (range.address - offset, range.address);
            let nearest = Nearest { base, bytes, kind: RegionKind::Shared, address };
            return Err(range.outside(Space::Shared, Some(nearest)));
        }
        Ok((rank, self.cluster.peer(rank).map_err(fault)?.base + offset))
    }

    /// A range of the block's own shared memory, outside of which the addresses of other blocks lie.
    pub fn own_shared_range(&mut self, range: Range) -> Result<u64, Box<Fault>> {
        match self.shared_range(range)? {
            (rank, at) if rank == self.cluster.rank => Ok(at),
            _ => Err(range.outside(Space::Shared, None)),
        }
    }

    /// A range of device memory.
    pub fn global_range(&mut self, range: Range) -> Result<u64, Box<Fault>> {
        match self.cursor.span(range.address) {
            Some((_, end)) if end - range.address >= range.bytes => Ok(range.address),
            _ => {
                let nearest = self.cursor.memory().nearest(range.address);
                Err(range.outside(Space::Global, nearest))
            }
        }
    }

    /// The generic address of shared memory for an address of the space.
    pub fn shared_offset(&self, lane: usize, generic: u64) -> Result<u64, Box<Fault>> {
        match generic.wrapping_sub(SHARED_BASE) {
            offset if offset < WINDOW => Ok(offset),
            _ => {
                let (space, address) = (Space::Shared, generic);
                Err(Fault::new(lane, TrapKind::WrongSpace { space, address }))
            }
        }
    }

    /// The tensor map that a lane's generic address names.
    pub fn tensor_map(
        &mut self,
        frame: &mut Frame,
        slot: u32,
        lane: usize,
    ) -> Result<TensorMap, Box<Fault>> {
        let bytes = self.tensor_map_bytes(frame, slot, lane)?;
        let address = frame.row64(slot)[lane];
        TensorMap::decode(&bytes)
            .ok_or_else(|| copy_fault(lane, CopyFault::NoTensorMap { address }))
    }

    /// Its bytes.
    fn tensor_map_bytes(
        &mut self,
        frame: &mut Frame,
        slot: u32,
        lane: usize,
    ) -> Result<[u8; TENSOR_MAP_BYTES], Box<Fault>> {
        let mut out = [0; TENSOR_MAP_BYTES];
        let half = TENSOR_MAP_ALIGN as usize;
        for part in 0..2 {
            let offset = (part * half) as u64;
            let at = resolve::<Generic>(
                self,
                frame,
                (slot, offset),
                1 << lane,
                TENSOR_MAP_ALIGN as u32,
                Access::Load,
            )?;
            for word in 0..half / 8 {
                // SAFETY: `resolve` checked the bytes and their alignment.
                let value = unsafe { access::load_u64(at[lane] + 8 * word as u64) };
                out[part * half + 8 * word..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(out)
    }
}
