//! Tiles of a host array on their way through the device.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

use bytemuck::Pod;
use cuda_driver::pageable_on_purpose;

use super::OutOfCore;
use super::share::{Share, Stop, Trial};
use crate::error::{GpuError, GpuResult};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::memory::{DeviceBuffer, DeviceSlice};
use crate::stream::Stream;

/// Tiles in flight: one is copied to the device, one is computed, one is copied back or waited for.
pub const LANES: usize = 3;
/// The most bytes of a tile of an operation that reads its array once. A longer one would not make the bus faster.
pub const MOST_TILE_BYTES: usize = 64 << 20;
/// The fewest elements of a tile; longer ones are a multiple of it.
const LEAST_TILE: usize = 256;
/// What a thread of the CPU takes at a time: little, so that the device never waits long for the last one.
const CPU_CHUNK_BYTES: usize = 1 << 20;

/// The slot of a tile in flight. Results are at home on its stream too, so that reading one waits for no later tile.
#[derive(Debug)]
pub struct Lane<T: Pod> {
    pub stream: Stream,
    pub input: DeviceBuffer<T>,
}

/// `n` slots for tiles of at most `len` elements.
pub fn lanes<T: Pod>(gpu: &Gpu, n: usize, len: usize) -> GpuResult<Vec<Lane<T>>> {
    let lane = |_| {
        let stream = gpu.create_stream()?;
        Ok(Lane { input: DeviceBuffer::zeroed(&stream, len)?, stream })
    };
    (0..n).map(lane).collect()
}

/// The most elements of a tile, `most` at most, whose `bytes` are within the budget. More elements have no fewer bytes.
pub fn tile_len(budget: usize, most: usize, bytes: impl Fn(usize) -> usize) -> GpuResult<usize> {
    let most = most.max(1);
    let least = most.min(LEAST_TILE);
    if bytes(least) > budget {
        return Err(GpuError::InvalidArgument {
            operation: "an operation on tiles of a host array",
            reason: format!(
                "a budget of {budget} bytes of device memory is too small: it takes {} at least",
                bytes(least)
            ),
        });
    }
    let (mut fits, mut past) = (least, most + 1);
    while fits + 1 < past {
        let middle = fits.midpoint(past);
        if bytes(middle) <= budget { fits = middle } else { past = middle }
    }
    let whole = fits - fits % LEAST_TILE;
    Ok(if fits == most || whole == 0 { fits } else { whole })
}

/// A tile on the device.
pub struct Tile<'a, T: Pod> {
    /// The index of its slot, from 0 to [`LANES`].
    pub lane: usize,
    pub stream: &'a Stream,
    pub values: DeviceSlice<'a, T>,
}

/// What is done with each tile of an array that is read once.
pub trait OnePass<T: Pod> {
    /// Enqueues the work on a tile.
    fn enqueue(&mut self, tile: &Tile<'_, T>) -> GpuResult<()>;

    /// Takes the result of the tile that was `lane`'s last, and is finished: the elements at `place` of the array. Tiles come in their order.
    fn collect(&mut self, lane: usize, place: Range<usize>) -> GpuResult<()>;
}

/// What the CPU does with its share: adds the elements of a range to what a thread has so far.
pub struct OnHost<'a, A> {
    pub start: &'a (dyn Fn() -> A + Sync),
    pub add: &'a (dyn Fn(&mut A, Range<usize>) + Sync),
}

impl OutOfCore {
    /// Sends `x` through the device in tiles as long as the lanes, and returns what the threads of the CPU have.
    pub(super) fn pass<T: Pod, A: Send>(
        &self,
        x: &[T],
        lanes: &mut [Lane<T>],
        on_device: &mut impl OnePass<T>,
        on_host: Option<&OnHost<'_, A>>,
    ) -> GpuResult<Vec<A>> {
        let share = Share::new(x.len());
        let chunk = lanes[0].input.len().min(CPU_CHUNK_BYTES / size_of::<T>());
        let work = |host: &OnHost<'_, A>| {
            let mut own = (host.start)();
            while let Some(range) = share.take_back(chunk) {
                let elements = range.len();
                (host.add)(&mut own, range);
                share.finish(elements);
            }
            own
        };
        thread::scope(|scope| {
            let stop = Stop(&share);
            let host =
                on_host.into_iter().flat_map(|host| std::iter::repeat_n(host, self.cpu_threads));
            let threads: Vec<_> = host.map(|host| scope.spawn(|| work(host))).collect();
            let result = self.device_pass(x, lanes, &share, on_device);
            drop(stop);
            let ends = threads.into_iter().map(|thread| thread.join());
            let parts = ends.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect();
            result.map(|()| parts)
        })
    }

    /// The device's side, until no elements are left.
    fn device_pass<T: Pod>(
        &self,
        x: &[T],
        lanes: &mut [Lane<T>],
        share: &Share,
        on_device: &mut impl OnePass<T>,
    ) -> GpuResult<()> {
        let tile = lanes[0].input.len();
        let mut trial = Trial::new(share);
        let mut in_flight: [Option<(Event, Range<usize>)>; LANES] = Default::default();
        let mut number = 0;
        self.gpu.host_scope(|scope| {
            loop {
                let at = number % LANES;
                if let Some((end, place)) = in_flight[at].take() {
                    end.synchronize()?;
                    trial.tile_done(place.len());
                    on_device.collect(at, place)?;
                }
                let Some(place) = share.take_front(tile) else { break };
                let Lane { stream, input } = &mut lanes[at];
                let mut values = input.slice_mut(..place.len());
                let upload = || scope.upload(stream, &x[place.clone()], &mut values);
                pageable_on_purpose(upload)?;
                on_device.enqueue(&Tile { lane: at, stream, values: values.as_slice() })?;
                in_flight[at] = Some((stream.record_event()?, place));
                number += 1;
            }
            for at in (number + 1..number + LANES).map(|number| number % LANES) {
                if let Some((end, place)) = in_flight[at].take() {
                    end.synchronize()?;
                    on_device.collect(at, place)?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::share::FIRST_OF_BOTH;
    use super::*;

    #[test]
    fn tiles_are_as_long_as_the_budget_allows() {
        let len = |budget, most| tile_len(budget, most, |len| 1000 + 12 * len).unwrap();
        assert_eq!(len(1000 + 12 * 256, 1 << 20), 256);
        assert_eq!(len(1000 + 12 * 1000, 1 << 20), 768);
        assert_eq!(len(usize::MAX, 1_000_001), 1_000_001);
        assert_eq!((len(1000 + 12 * 7, 7), len(1012, 0)), (7, 1));
        let refused = tile_len(1000 + 12 * 255, 9999, |len| 1000 + 12 * len).unwrap_err();
        assert!(refused.to_string().contains("it takes 4072 at least"), "{refused}");
    }

    /// Ranges that the device had, in the order in which they were collected.
    #[derive(Default)]
    struct Seen {
        places: Vec<Range<usize>>,
        enqueued: Vec<Vec<u32>>,
    }

    impl OnePass<u32> for Seen {
        fn enqueue(&mut self, tile: &Tile<'_, u32>) -> GpuResult<()> {
            self.enqueued.push(tile.values.to_vec()?);
            Ok(())
        }

        fn collect(&mut self, _lane: usize, place: Range<usize>) -> GpuResult<()> {
            self.places.push(place);
            Ok(())
        }
    }

    #[test]
    fn each_element_is_seen_once_by_the_device_or_by_the_cpu() {
        let gpu = Gpu::new().unwrap();
        for n in [0, 1, 255, 256, 257, 1024, 70_001] {
            let x: Vec<u32> = (0..n as u32).collect();
            for threads in [0, 1, 3] {
                let tiles = OutOfCore::new(&gpu).with_cpu_threads(threads);
                let mut seen = Seen::default();
                let host = OnHost { start: &Vec::new, add: &|own, range| own.extend(range) };
                let by_cpu = tiles
                    .pass(&x, &mut lanes(&gpu, LANES, 256).unwrap(), &mut seen, Some(&host))
                    .unwrap();
                assert_eq!(by_cpu.len(), threads);
                let mut all: Vec<usize> = seen.places.iter().cloned().flatten().collect();
                assert!(all.is_sorted(), "tiles come in their order");
                let values: Vec<usize> =
                    seen.enqueued.concat().iter().map(|&x| x as usize).collect();
                assert_eq!(values, all);
                all.extend(by_cpu.concat());
                all.sort_unstable();
                assert!(all.into_iter().eq(0..n), "{n} elements, {threads} threads");
            }
        }
    }

    #[test]
    fn a_panic_on_either_side_ends_both() {
        /// What the device does with tile number so and so.
        struct OnDevice<'a>(usize, &'a dyn Fn(usize));
        impl OnePass<u32> for OnDevice<'_> {
            fn enqueue(&mut self, _: &Tile<'_, u32>) -> GpuResult<()> {
                self.0 += 1;
                self.1(self.0);
                Ok(())
            }

            fn collect(&mut self, _: usize, _: Range<usize>) -> GpuResult<()> {
                Ok(())
            }
        }
        let gpu = Gpu::new().unwrap();
        let tiles = OutOfCore::new(&gpu).with_cpu_threads(2);
        let x = vec![1_u32; 100_000];
        let run = |on_device: &dyn Fn(usize), on_host: &(dyn Fn() + Sync)| {
            let run = std::panic::AssertUnwindSafe(|| {
                let host = OnHost { start: &|| (), add: &|(), _| on_host() };
                let (mut lanes, mut device) =
                    (lanes(&gpu, LANES, 256).unwrap(), OnDevice(0, on_device));
                tiles.pass(&x, &mut lanes, &mut device, Some(&host)).map(drop)
            });
            std::panic::catch_unwind(run).unwrap_err();
        };
        run(&|_| panic!("on purpose"), &|| ());
        let cpu_works = AtomicBool::new(false);
        // As soon as the CPU may work, before its share is judged, the device waits until it does, however late it gets a processor.
        let wait = |tile: usize| {
            while tile == FIRST_OF_BOTH + LANES && !cpu_works.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        };
        run(&wait, &|| {
            cpu_works.store(true, Ordering::Relaxed);
            panic!("on purpose")
        });
    }
}
