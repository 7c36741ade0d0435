//! Positions and velocities in memory that grows.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::vector::Vec4;
use ferrowarp::Stream;
use ferrowarp::memory::{DeviceBuffer, DeviceSlice};

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
            *self = Self::zeroed(on, with_room(n))?;
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

/// A buffer of `n` elements or more. What was there is lost if it grows.
pub(super) fn reserve<T: Pod>(
    on: &Stream,
    buffer: &mut DeviceBuffer<T>,
    n: usize,
) -> DistResult<()> {
    if buffer.len() < n {
        *buffer = DeviceBuffer::zeroed(on, with_room(n))?;
    }
    Ok(())
}

/// `n`, and a quarter more.
pub(super) fn with_room(n: usize) -> usize {
    n + n / 4 + 64
}
