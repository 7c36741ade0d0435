//! Selections, beside CUB's.

use bytemuck::Pod;

use crate::bench::check::Fault;
use crate::bench::{Case, Scale, check, data, rig};
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::select::{Above, Flagged, Unique, by_into, partition_into, run_lengths_into};
use ferrowarp::{Gpu, ops::select::Selector};

/// Up to so many elements what is kept is counted on the CPU, beyond it estimated.
const COUNTED: usize = 1 << 20;
/// Runs of equal elements are as long as bits of a random number are equal: two, on average.
const VALUES: u32 = 2;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let half = scale.ladder().into_iter().map(|n| above(n, 50));
    let lens = || scale.lens().into_iter();
    let others = lens().flat_map(|n| {
        [above(n, 1), above(n, 99), partition(n), flagged(n), unique(n), run_lengths(n)]
    });
    half.chain(others).collect()
}

/// What a random word is greater than so many times in 100.
fn threshold(percent: u32) -> u32 {
    u32::MAX - (u64::from(percent) * (1 << 32) / 100) as u32
}

/// What is kept, the buffer that counts it, and the scratch.
struct Kept {
    out: DeviceBuffer<u32>,
    count: DeviceBuffer<u64>,
    scratch: Scratch,
}

impl Kept {
    fn new(gpu: &Gpu, n: usize) -> GpuResult<Self> {
        let (out, count) = (data::poisoned(gpu, n)?, data::poisoned(gpu, 1)?);
        Ok(Self { out, count, scratch: Scratch::new(gpu)? })
    }

    fn poison(&mut self) -> GpuResult<()> {
        data::poison(&mut self.out)?;
        data::poison(&mut self.count)
    }

    fn select(
        &mut self,
        gpu: &Gpu,
        selector: impl Selector<u32>,
        x: &DeviceBuffer<u32>,
    ) -> GpuResult<()> {
        by_into(gpu, selector, x, &mut self.out, &mut self.count, &mut self.scratch)
    }

    /// Whether about `share` of all are kept, exactly so many as `keeps` says where they are few.
    fn count(&self, share: f64, keeps: impl Fn(usize) -> bool) -> Result<usize, Fault> {
        let (n, found) = (self.out.len(), first(&self.count)?);
        let (expected, off) = if n <= COUNTED {
            ((0..n).filter(|&i| keeps(i)).count() as f64, 0.0)
        } else {
            (share * n as f64, 6.0 * (n as f64).sqrt())
        };
        check::near("count", found as f64, expected, off)?;
        Ok(found as usize)
    }
}

fn first<T: Pod>(buffer: &DeviceBuffer<T>) -> GpuResult<T> {
    Ok(buffer.slice(..1).to_vec()?[0])
}

/// Bytes that a selection moves which keeps so much of `n` words.
fn bytes(n: usize, share: f64) -> usize {
    4 * n + (4.0 * n as f64 * share) as usize
}

fn above(n: usize, percent: u32) -> Case {
    let form = match percent {
        1 => "above_1",
        99 => "above_99",
        _ => "above_50",
    };
    let (share, limit) = (f64::from(percent) / 100.0, threshold(percent));
    Case::new(["select", form, "u32"], [n], bytes(n, share), move |gpu, seed| {
        rig(
            (data::random::<u32>(gpu, n, seed)?, Kept::new(gpu, n)?),
            |(_, kept), _| kept.poison(),
            move |(x, kept), gpu| kept.select(gpu, Above(limit), x),
            move |(_, kept), _| {
                let count = kept.count(share, |i| data::value::<u32>(seed, i) > limit)?;
                check::for_samples(&kept.out, |i, found| {
                    let right = i >= count || found > limit;
                    if right {
                        Ok(())
                    } else {
                        Err(check::element(i, found, "above the threshold"))
                    }
                })
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.2)
}

fn partition(n: usize) -> Case {
    Case::new(["select", "partition", "u32"], [n], bytes(n, 1.0), move |gpu, seed| {
        let limit = threshold(50);
        rig(
            (data::random::<u32>(gpu, n, seed)?, Kept::new(gpu, n)?),
            |(_, kept), _| kept.poison(),
            move |(x, kept), gpu| {
                let Kept { out, count, scratch } = kept;
                partition_into(gpu, Above(limit), x, out, count, scratch)
            },
            move |(_, kept), _| {
                let count = kept.count(0.5, |i| data::value::<u32>(seed, i) > limit)?;
                check::for_samples(&kept.out, |i, found| {
                    let right = (i < count) == (found > limit);
                    if right { Ok(()) } else { Err(check::element(i, found, "the other part's")) }
                })
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

fn flagged(n: usize) -> Case {
    Case::new(["select", "flagged", "u32"], [n], bytes(n, 0.5) + n, move |gpu, seed| {
        // Flags of one bit each, in bytes.
        let flags = DeviceBuffer::from_slice(gpu, &(0..n).map(flag).collect::<Vec<u8>>())?;
        rig(
            (data::random::<u32>(gpu, n, seed)?, flags, Kept::new(gpu, n)?),
            |(_, _, kept), _| kept.poison(),
            |(x, flags, kept), gpu| kept.select(gpu, Flagged(flags), x),
            move |(_, _, kept), _| {
                kept.count(0.5, |i| flag(i) != 0)?;
                let first_kept = (0..n).find(|&i| flag(i) != 0).unwrap_or(0);
                let (found, expected) = (first(&kept.out)?, data::value::<u32>(seed, first_kept));
                if found == expected { Ok(()) } else { Err(check::element(0, found, expected)) }
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

/// A flag that is set for half of all elements, without an order.
fn flag(i: usize) -> u8 {
    ((i as u32).wrapping_mul(0x9e37_79b9) >> 31) as u8
}

fn is_head(seed: u32, i: usize) -> bool {
    i == 0 || data::below(seed, VALUES, i) != data::below(seed, VALUES, i - 1)
}

fn unique(n: usize) -> Case {
    Case::new(["select", "unique", "u32"], [n], bytes(n, 0.5), move |gpu, seed| {
        rig(
            (data::random_below(gpu, n, seed, VALUES)?, Kept::new(gpu, n)?),
            |(_, kept), _| kept.poison(),
            |(x, kept), gpu| kept.select(gpu, Unique, x),
            move |(_, kept), _| {
                let count = kept.count(0.5, |i| is_head(seed, i))?;
                let begin = data::below(seed, VALUES, 0) as usize;
                // Of two values each follows the other.
                check::for_samples(&kept.out, |i, found| {
                    let right = i >= count || found as usize == (begin + i) % 2;
                    if right { Ok(()) } else { Err(check::element(i, found, (begin + i) % 2)) }
                })
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

fn run_lengths(n: usize) -> Case {
    Case::new(["select", "run_lengths", "u32"], [n], bytes(n, 1.0), move |gpu, seed| {
        let lengths = data::poisoned::<u32>(gpu, n)?;
        rig(
            (data::random_below(gpu, n, seed, VALUES)?, lengths, Kept::new(gpu, n)?),
            |(_, lengths, kept), _| data::poison(lengths).and_then(|()| kept.poison()),
            |(x, lengths, kept), gpu| {
                run_lengths_into(gpu, x, &mut kept.out, lengths, &mut kept.count, &mut kept.scratch)
            },
            move |(_, lengths, kept), _| {
                let count = kept.count(0.5, |i| is_head(seed, i))?;
                let longest = 64;
                check::for_samples(lengths, |i, found| {
                    let right = i >= count || (1..longest).contains(&found);
                    if right {
                        Ok(())
                    } else {
                        Err(check::element(i, found, "the length of a run"))
                    }
                })
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}
