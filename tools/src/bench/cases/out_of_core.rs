//! Operations on arrays of the host, beside what the bus gives.
//!
//! All cases of a length share one page-locked array, made when the first of them runs, and a budget of device memory of a quarter
//! of it. A sort takes half of the array as keys and half as spare memory, and so comes last.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::thread;

use crate::bench::check::{Fault, element};
use crate::bench::{Case, Rig, Scale, data, rig};
use ferrowarp::memory::{DeviceBuffer, PinnedBuffer};
use ferrowarp::ops::histogram::Bins;
use ferrowarp::ops::out_of_core::OutOfCore;
use ferrowarp::ops::sort::{Extreme, SortOptions};
use ferrowarp::{Gpu, GpuResult, Stream};

/// Elements that are made at a time, and those of a tile of the bus's own test: 64 MiB.
const TILE: usize = 1 << 24;
/// The least budget, for short arrays.
const LEAST_BUDGET: usize = 256 << 10;

/// The array of a length.
type Array = Rc<RefCell<Option<PinnedBuffer<u32>>>>;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let lens = scale.pick(vec![200_000], vec![1 << 28], vec![1 << 30]);
    scale.lens_or(lens).into_iter().flat_map(of_len).collect()
}

fn of_len(n: usize) -> [Case; 6] {
    let array = Array::default();
    [
        sum(n, &array, false),
        sum(n, &array, true),
        histogram(n, &array, false),
        histogram(n, &array, true),
        top_k(n, &array),
        sort(n, &array),
    ]
}

/// The array, made if it is not there yet.
fn made<'a>(gpu: &Gpu, array: &'a Array, n: usize) -> GpuResult<RefMut<'a, PinnedBuffer<u32>>> {
    let mut values = array.borrow_mut();
    if values.is_none() {
        let mut made = PinnedBuffer::zeroed(gpu, n)?;
        fill(gpu, &mut made)?;
        *values = Some(made);
    }
    Ok(RefMut::map(values, |values| values.as_mut().expect("it was just made")))
}

/// Random bits, made on the device.
fn fill(gpu: &Gpu, values: &mut [u32]) -> GpuResult<()> {
    for (seed, part) in values.chunks_mut(TILE).enumerate() {
        data::random::<u32>(gpu, part.len(), seed as u32)?.copy_to_host(part)?;
    }
    Ok(())
}

/// The operations, with the CPU or without.
fn tiles(gpu: &Gpu, n: usize, with_cpu: bool) -> OutOfCore {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let tiles = OutOfCore::new(gpu).with_budget(n.max(LEAST_BUDGET));
    tiles.with_cpu_threads(if with_cpu { threads.saturating_sub(1).max(1) } else { 0 })
}

/// The array goes to the device, and nothing is done there.
fn bus(array: &Array, n: usize) -> impl Fn(&Gpu, u32) -> GpuResult<Box<dyn Rig>> + use<> {
    let array = array.clone();
    move |gpu, _| {
        let array = array.clone();
        rig(
            lanes(gpu, n)?,
            |_, _| Ok(()),
            move |lanes, gpu| {
                let values = made(gpu, &array, n)?;
                gpu.host_scope(|scope| {
                    for (i, part) in values.chunks(TILE).enumerate() {
                        let (stream, buffer) = &mut lanes[i % 2];
                        scope.upload(stream, part, &mut buffer.slice_mut(..part.len()))?;
                    }
                    Ok(())
                })
            },
            |_, _| Ok(()),
        )
    }
}

/// Two places for what goes over the bus.
fn lanes(gpu: &Gpu, n: usize) -> GpuResult<[(Stream, DeviceBuffer<u32>); 2]> {
    let lane = || {
        let stream = gpu.create_stream()?;
        GpuResult::Ok((stream.clone(), DeviceBuffer::zeroed(&stream, TILE.min(n))?))
    };
    Ok([lane()?, lane()?])
}

/// A case of an operation that reads the array once; `check` gets the array and the result.
fn case<R: 'static>(
    form: &str,
    element: &str,
    (n, array): (usize, &Array),
    with_cpu: bool,
    element_bytes: usize,
    operation: fn(&OutOfCore, &Gpu, &[u32]) -> GpuResult<R>,
    check: fn(&[u32], &R) -> Result<(), Fault>,
) -> Case {
    let set_up = |with_cpu| {
        let array = array.clone();
        move |gpu: &Gpu, _: u32| {
            drop(made(gpu, &array, n)?);
            let (ran, checked) = (array.clone(), array.clone());
            rig(
                (tiles(gpu, n, with_cpu), None),
                |(_, result), _| {
                    *result = None;
                    Ok(())
                },
                move |(tiles, result), gpu| {
                    *result = Some(operation(tiles, gpu, &made(gpu, &ran, n)?)?);
                    Ok(())
                },
                move |(_, result), gpu| {
                    let result =
                        result.as_ref().ok_or(Fault::Broken { what: "no result", index: 0 })?;
                    check(&made(gpu, &checked, n)?, result)
                },
            )
        }
    };
    let form = if with_cpu { format!("{form}_with_cpu") } else { form.to_owned() };
    let case = Case::new(
        ["out_of_core", &form, element],
        [4 * n / element_bytes],
        4 * n,
        set_up(with_cpu),
    );
    let case = case.timed_on_host().beside("bus", bus(array, n));
    if with_cpu {
        case.beside("device alone", set_up(false)).goal_if(n >= 1 << 28, "device alone", 0.98)
    } else {
        case.goal_if(n >= 1 << 28, "bus", 0.9)
    }
}

fn sum(n: usize, array: &Array, with_cpu: bool) -> Case {
    case(
        "sum",
        "u32",
        (n, array),
        with_cpu,
        4,
        |tiles, _, x| tiles.sum(x),
        |x, &found| {
            let expected = by_threads(x, sum_of).into_iter().fold(0, u32::wrapping_add);
            if found == expected { Ok(()) } else { Err(element(0, found, expected)) }
        },
    )
}

fn histogram(n: usize, array: &Array, with_cpu: bool) -> Case {
    case(
        "histogram",
        "u8",
        (n, array),
        with_cpu,
        1,
        |tiles, gpu, x| {
            tiles.count(bytemuck::cast_slice::<_, u8>(x), &Bins::<u8>::given(gpu, 256)?)
        },
        |x, found| {
            let parts =
                by_threads(x, |part| reference::histogram::histogram(bytemuck::cast_slice(part)));
            (0..256).try_for_each(|bin| {
                let expected = parts.iter().map(|part| part[bin]).sum::<u64>();
                let is_right = found[bin] == expected;
                if is_right { Ok(()) } else { Err(element(bin, found[bin], expected)) }
            })
        },
    )
}

fn top_k(n: usize, array: &Array) -> Case {
    case(
        "top_k",
        "u32",
        (n, array),
        false,
        4,
        |tiles, _, x| tiles.top_k(x, x.len().min(1000), Extreme::Largest),
        |x, (keys, indices)| {
            let last = keys[keys.len() - 1];
            let above = by_threads(x, |part| part.iter().filter(|key| **key > last).count());
            let in_order = keys.is_sorted_by(|a, b| a >= b)
                && keys.iter().zip(indices).all(|(key, &index)| x[index as usize] == *key);
            let is_first = in_order && above.into_iter().sum::<usize>() < keys.len();
            if is_first { Ok(()) } else { Err(Fault::Broken { what: "not the largest", index: 0 }) }
        },
    )
}

/// The halves of the array: keys, and spare memory.
struct Sorted {
    array: Array,
    n: usize,
    /// The sum of the keys, which their order does not change.
    sum: u32,
    /// The operation; without it, its copies alone.
    tiles: Option<OutOfCore>,
    lanes: [(Stream, DeviceBuffer<u32>); 2],
}

impl Rig for Sorted {
    fn poison(&mut self, _: &Gpu) -> GpuResult<()> {
        Ok(())
    }

    fn prepare(&mut self, gpu: &Gpu) -> GpuResult<()> {
        let mut array = made(gpu, &self.array, self.n)?;
        if self.tiles.is_some() {
            fill(gpu, &mut array[..self.n / 2])?;
            self.sum =
                by_threads(&array[..self.n / 2], sum_of).into_iter().fold(0, u32::wrapping_add);
        }
        Ok(())
    }

    fn run(&mut self, gpu: &Gpu) -> GpuResult<()> {
        let mut array = made(gpu, &self.array, self.n)?;
        let (keys, spare) = array.split_at_mut(self.n / 2);
        match &self.tiles {
            Some(tiles) => {
                let spare = &mut spare[..keys.len()];
                tiles.sort_in_place(keys, spare, SortOptions::ASCENDING)
            }
            None => {
                // The keys stay as they are: they are checked at the end.
                both_ways(gpu, &mut self.lanes, keys, spare)?;
                both_ways(gpu, &mut self.lanes, keys, spare)
            }
        }
    }

    fn check(&mut self, gpu: &Gpu) -> Result<(), Fault> {
        if self.tiles.is_none() {
            return Ok(());
        }
        let array = made(gpu, &self.array, self.n)?;
        let keys = &array[..self.n / 2];
        let ends =
            by_threads(keys, |part| part.is_sorted().then_some([part[0], part[part.len() - 1]]));
        let ends: Option<Vec<_>> = ends.into_iter().collect();
        if !ends.is_some_and(|ends| ends.as_flattened().is_sorted()) {
            return Err(Fault::Broken { what: "keys out of order", index: 0 });
        }
        let found = by_threads(keys, sum_of).into_iter().fold(0, u32::wrapping_add);
        if found == self.sum { Ok(()) } else { Err(element(0, found, self.sum)) }
    }
}

/// As many bytes to the device as back, at the same time.
fn both_ways(
    gpu: &Gpu,
    [up, down]: &mut [(Stream, DeviceBuffer<u32>); 2],
    from: &[u32],
    to: &mut [u32],
) -> GpuResult<()> {
    gpu.host_scope(|scope| {
        for (from, to) in from.chunks(TILE).zip(to.chunks_mut(TILE)) {
            scope.upload(&up.0, from, &mut up.1.slice_mut(..from.len()))?;
            scope.download(&down.0, &down.1.slice(..to.len()), to)?;
        }
        Ok(())
    })
}

fn sort(n: usize, array: &Array) -> Case {
    let set_up = |is_sort: bool| {
        let array = array.clone();
        move |gpu: &Gpu, _: u32| {
            let tiles = is_sort.then(|| tiles(gpu, n / 2, false));
            let (array, lanes) = (array.clone(), lanes(gpu, n)?);
            Ok(Box::new(Sorted { array, n, sum: 0, tiles, lanes }) as Box<dyn Rig>)
        }
    };
    // Each of two passes has every key on the bus in both directions.
    Case::new(["out_of_core", "sort", "u32"], [n / 2], 16 * (n / 2), set_up(true))
        .timed_on_host()
        .beside("bus", set_up(false))
        .goal_if(n >= 1 << 28, "bus", 0.85)
}

fn sum_of(part: &[u32]) -> u32 {
    part.iter().copied().fold(0, u32::wrapping_add)
}

/// What each core finds in its part.
fn by_threads<R: Send>(x: &[u32], work: impl Fn(&[u32]) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = &work;
    thread::scope(|scope| {
        let parts = x.chunks(x.len().div_ceil(threads).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("sums do not panic")).collect()
    })
}
