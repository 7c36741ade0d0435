//! Pinned, mapped and unified memory, and much memory of the pool at once.

use ferrowarp::error::GpuError;
use ferrowarp::memory::{DeviceBuffer, MappedBuffer, PinnedBuffer, UnifiedBuffer};
use ferrowarp::{Stream, ops};

use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;

const MOST: usize = 10_000;
/// Buffers that are there at a time.
const BUFFERS: usize = 16;

pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let kind = [pinned, mapped, unified, many][random.below(4)];
    match site.on_a_stream(random, |stream, random| kind(site, stream, random)) {
        // Not all devices have all kinds.
        Err(SoakError::Gpu(error)) if matches!(error.root(), GpuError::Unsupported { .. }) => {
            Ok(())
        }
        done => done,
    }
}

/// To the device and back, by copies that nothing waits for before the end.
fn pinned(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let x = random.words(n);
    let source = PinnedBuffer::from_slice(on, &x)?;
    let target = PinnedBuffer::<u32>::zeroed(on, n)?;
    let mut between = DeviceBuffer::zeroed_in(&site.memory, on, n)?;
    let there = between.copy_from_pinned_async(on, source)?;
    let back = between.copy_to_pinned_async(on, target)?;
    site.counts.same("a copy from pinned memory", &there.wait()?, &x)?;
    site.counts.same("a copy to pinned memory", &back.wait()?, &x)
}

/// The kernel works in the host's memory.
fn mapped(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let (x, y) = (random.wholes(n), random.wholes(n));
    let on_x = MappedBuffer::from_slice(on, &x)?;
    let mut on_y = MappedBuffer::from_slice(on, &y)?;
    ops::saxpy(on, 2.0, &on_x, &mut on_y)?;
    let expected = reference::saxpy::saxpy(2.0, &x, &y);
    site.counts.same("saxpy in mapped memory", on_y.as_slice()?, &expected)
}

/// Host and kernel write the same memory in turn.
fn unified(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let (x, y) = (random.wholes(n), random.wholes(n));
    let on_x = UnifiedBuffer::from_slice(on, &x)?;
    let mut on_y = UnifiedBuffer::zeroed(on, n)?;
    on_y.as_mut_slice()?.copy_from_slice(&y);
    ops::saxpy(on, 3.0, &on_x, &mut on_y)?;
    on_y.as_mut_slice()?.iter_mut().for_each(|y| *y += 1.0);
    ops::saxpy(on, 3.0, &on_x, &mut on_y)?;
    let once: Vec<f32> = reference::saxpy::saxpy(3.0, &x, &y).iter().map(|y| y + 1.0).collect();
    let expected = reference::saxpy::saxpy(3.0, &x, &once);
    site.counts.same("saxpy in unified memory", on_y.as_slice()?, &expected)
}

/// Buffers of many sizes come and go in disorder, and none has the values of another one.
fn many(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let mut kept: Vec<(u32, DeviceBuffer<u32>)> = Vec::new();
    for _ in 0..2 * BUFFERS {
        if kept.len() == BUFFERS {
            check(site, kept.swap_remove(random.below(BUFFERS)))?;
        }
        let (len, value) = (random.len(MOST), random.next() as u32);
        let mut buffer = DeviceBuffer::zeroed_in(&site.memory, on, len)?;
        ops::fill(on, &value, &mut buffer)?;
        kept.push((value, buffer));
    }
    kept.into_iter().try_for_each(|buffer| check(site, buffer))
}

fn check(site: &Site, (value, buffer): (u32, DeviceBuffer<u32>)) -> Result<(), SoakError> {
    let found = buffer.to_vec()?;
    site.counts.same("a buffer of the pool", &found, &vec![value; found.len()])
}
