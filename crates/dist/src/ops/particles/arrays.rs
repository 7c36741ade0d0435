//! Positions and velocities in memory that grows.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::vector::Vec4;
use ferrowarp::Stream;
use ferrowarp::memory::{DeviceBuffer, DeviceSlice};

use super::room::Room;
use crate::error::DistResult;

/// A position or a velocity, with a fourth value: the name of the particle, or its energy.
pub(super) type Vector = Vec4<f32>;

/// Positions and velocities of particles.
pub(super) struct Arrays {
    pub(super) position: DeviceBuffer<Vector>,
    pub(super) velocity: DeviceBuffer<Vector>,
}

impl Arrays {
    pub(super) fn zeroed(on: &Stream, n: usize) -> DistResult<Self> {
        let (position, velocity) = (DeviceBuffer::zeroed(on, n)?, DeviceBuffer::zeroed(on, n)?);
        Ok(Self { position, velocity })
    }

    pub(super) fn len(&self) -> usize {
        self.position.len()
    }

    /// Room for `n` particles, and a quarter more if it was too little. What was there is lost then.
    pub(super) fn reserve(&mut self, on: &Stream, n: usize) -> DistResult<()> {
        if self.len() < n {
            *self = Self::zeroed(on, n + n / 4)?;
        }
        Ok(())
    }

    /// Those particles.
    pub(super) fn slices(&self, range: Range<usize>) -> [DeviceSlice<'_, Vector>; 2] {
        [self.position.slice(range.clone()), self.velocity.slice(range)]
    }

    /// Copies particles of other arrays to `place` and behind.
    pub(super) fn copy_from(
        &mut self,
        place: usize,
        other: &Self,
        range: Range<usize>,
    ) -> DistResult<()> {
        let to = place..place + range.len();
        let [position, velocity] = other.slices(range);
        self.position.slice_mut(to.clone()).copy_from_device(position)?;
        self.velocity.slice_mut(to).copy_from_device(velocity)?;
        Ok(())
    }
}

/// The particles of a rank, with room before them and behind them for those of other ranks.
pub(super) struct Placed {
    pub(super) arrays: Arrays,
    /// Where a step writes: as many are before it as may come of the ranks before.
    pub(super) place: usize,
    /// Where this rank's begin and end, from `place` on: `[2]`.
    pub(super) own: DeviceBuffer<u32>,
}

impl Placed {
    /// No particles, with that much room.
    pub(super) fn empty(on: &Stream, room: &Room) -> DistResult<Self> {
        let arrays = Arrays::zeroed(on, room.len() + room.len() / 4)?;
        let place = room.front() + (arrays.len() - room.len()) / 2;
        Ok(Self { arrays, place, own: DeviceBuffer::zeroed(on, 2)? })
    }

    /// Whether there is that much room.
    pub(super) fn holds(&self, room: &Room) -> bool {
        self.place >= room.front() && self.arrays.len() - self.place >= room.len() - room.front()
    }

    /// Positions and velocities from `place` on.
    pub(super) fn slices(&self) -> [DeviceSlice<'_, Vector>; 2] {
        self.arrays.slices(self.place..self.arrays.len())
    }

    /// Where this rank's particles are. Waits for what has been enqueued.
    pub(super) fn own_range(&self) -> DistResult<Range<usize>> {
        let own = self.own.to_vec()?;
        let [first, end] = [own[0], own[1]].map(|index| self.place + index as usize);
        Ok(first..end)
    }

    /// This rank's particles in arrays with more room. Waits for what has been enqueued.
    pub(super) fn moved(&self, on: &Stream, room: &Room) -> DistResult<Self> {
        let own = self.own_range()?;
        let mut moved = Self::empty(on, room)?;
        moved.own.copy_from_host(&[0, own.len() as u32])?;
        moved.arrays.copy_from(moved.place, &self.arrays, own)?;
        Ok(moved)
    }
}

/// A buffer of `n` elements or more. What was there is lost if it grows.
pub(super) fn reserve<T: Pod>(
    on: &Stream,
    buffer: &mut DeviceBuffer<T>,
    n: usize,
) -> DistResult<()> {
    if buffer.len() < n {
        *buffer = DeviceBuffer::zeroed(on, n + n / 4)?;
    }
    Ok(())
}
