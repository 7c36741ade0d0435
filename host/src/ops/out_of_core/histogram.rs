//! Histograms of host arrays.

use std::ops::Range;

use super::OutOfCore;
use super::tiles::{LANES, MOST_TILE_BYTES, OnHost, OnePass, Tile, lanes, tile_len};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::ops::histogram::{self, Bins, Countable};

/// Counts of the tiles so far: on the device, where they have 32 bits, and on the host.
struct Counting<'a, T: Countable> {
    bins: &'a Bins<T>,
    on_device: DeviceBuffer<u32>,
    /// The samples that the device has counted since its counts were zero.
    samples: usize,
    counts: Vec<u64>,
}

impl<T: Countable> Counting<'_, T> {
    /// Moves the device's counts to the host.
    fn flush(&mut self) -> GpuResult<()> {
        for (count, more) in self.counts.iter_mut().zip(self.on_device.to_vec()?) {
            *count += u64::from(more);
        }
        self.samples = 0;
        self.on_device.clear()
    }
}

impl<T: Countable> OnePass<T> for Counting<'_, T> {
    fn enqueue(&mut self, tile: &Tile<'_, T>) -> GpuResult<()> {
        let samples = tile.values.len();
        if self.samples + samples > u32::MAX as usize {
            self.flush()?;
        }
        self.samples += samples;
        histogram::add_into(tile.stream, &tile.values, self.bins, &mut self.on_device)
    }

    fn collect(&mut self, _lane: usize, _place: Range<usize>) -> GpuResult<()> {
        Ok(())
    }
}

impl OutOfCore {
    /// How many of `samples: [n]` are in each bin: [`bins.len()`](Bins::len) counts, which do not wrap.
    ///
    /// # Errors
    /// As [`sum`](Self::sum); [`WrongDevice`](crate::GpuError::WrongDevice) for the bins of another device.
    #[doc(alias = "histogram")]
    pub fn count<T: Countable>(&self, samples: &[T], bins: &Bins<T>) -> GpuResult<Vec<u64>> {
        let n_bins = bins.len();
        let bytes = |len| LANES * len * size_of::<T>() + n_bins * size_of::<u32>();
        let most = samples.len().min(MOST_TILE_BYTES / size_of::<T>());
        let tile = tile_len(self.budget()?, most, bytes)?;
        let on_device = DeviceBuffer::zeroed(&self.gpu, n_bins)?;
        let mut counting = Counting { bins, on_device, samples: 0, counts: vec![0; n_bins] };
        let rule = bins.rule();
        let add = |own: &mut Vec<u64>, place: Range<usize>| {
            for sample in &samples[place] {
                if let Some(count) = own.get_mut(rule.bin(*sample) as usize) {
                    *count += 1;
                }
            }
        };
        let host = OnHost { start: &|| vec![0_u64; n_bins], add: &add };
        let parts =
            self.pass(samples, &mut lanes(&self.gpu, LANES, tile)?, &mut counting, Some(&host))?;
        counting.flush()?;
        let mut counts = counting.counts;
        for part in parts {
            counts.iter_mut().zip(part).for_each(|(count, more)| *count += more);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpu;

    #[test]
    fn counts_of_32_bits_move_to_the_host_before_they_wrap() {
        let gpu = Gpu::new().unwrap();
        let bins = Bins::given(&gpu, 4).unwrap();
        let mut on_device = DeviceBuffer::zeroed(&gpu, 4).unwrap();
        // As if as many samples as fit had been counted in bin 2 before.
        on_device.copy_from_host(&[0, 0, u32::MAX - 1, 0]).unwrap();
        let samples = u32::MAX as usize - 1;
        let mut counting = Counting { bins: &bins, on_device, samples, counts: vec![0; 4] };
        let values = DeviceBuffer::from_slice(&gpu, &[2_u8, 2, 3]).unwrap();
        let tile = Tile { lane: 0, stream: gpu.stream(), values: values.as_slice() };
        counting.enqueue(&tile).unwrap();
        counting.flush().unwrap();
        assert_eq!(counting.counts, [0, 0, u64::from(u32::MAX) + 1, 1]);
    }
}
