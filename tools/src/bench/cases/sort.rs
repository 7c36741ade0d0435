//! Sorts, beside CUB's and PyTorch's.

use crate::bench::{Case, Fault, Random, Scale, check, data, rig};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::sort::{self, Extreme, SortKey, SortOptions};
use ferrowarp::ops::{self, Scratch};

/// Up to so many keys the CPU sorts them too.
const FEW: usize = 1 << 16;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let ladder = scale.ladder();
    let u32s = ladder.iter().map(|&n| keys::<u32>(n));
    let f32s = ladder.iter().map(|&n| keys::<f32>(n));
    let u64s = ladder.iter().filter(|&&n| n < 1 << 30).map(|&n| keys::<u64>(n));
    let pairs = ladder.iter().filter(|&&n| n < 1 << 30).map(|&n| pairs(n));
    let like = scale.lens().into_iter().flat_map(|n| [few(n), sorted(n), argsort(n), top_k(n)]);
    let plain =
        scale.pick(vec![4096], vec![1 << 20], vec![1 << 20, 1 << 24]).into_iter().map(plain);
    u32s.chain(f32s).chain(u64s).chain(pairs).chain(like).chain(plain).collect()
}

/// A key of which the share of smaller ones is known.
trait Spread: SortKey + Random + PartialOrd + std::fmt::Display {
    /// The share of random keys below this one.
    fn share(self) -> f64;
}

impl Spread for u32 {
    fn share(self) -> f64 {
        f64::from(self) / 2f64.powi(32)
    }
}

impl Spread for u64 {
    fn share(self) -> f64 {
        self as f64 / 2f64.powi(64)
    }
}

impl Spread for f32 {
    fn share(self) -> f64 {
        f64::from(self) + 0.5
    }
}

/// Random keys are in order and spread evenly; few of them are those that the CPU sorts.
fn check_random<K: Spread>(out: &DeviceBuffer<K>, seed: u32) -> Result<(), Fault> {
    let n = out.len();
    if n <= FEW {
        let mut keys: Vec<K> = (0..n).map(|i| data::value(seed, i)).collect();
        keys.sort_by(|a, b| a.partial_cmp(b).expect("the keys are numbers"));
        return check::samples(out, |i| keys[i]);
    }
    let mut before = None;
    check::for_samples(out, |index, found: K| {
        if before.is_some_and(|before| found < before) {
            return Err(Fault::Broken { what: "keys out of order", index });
        }
        before = Some(found);
        // Dvoretzky, Kiefer and Wolfowitz, 1956: further off than this once in 10^13 times.
        let tolerance = 4.0 / (n as f64).sqrt();
        check::near("share of smaller keys", found.share(), index as f64 / n as f64, tolerance)
    })
}

fn keys<K: Spread>(n: usize) -> Case {
    Case::new(["sort", "keys", K::NAME], [n], 2 * n * size_of::<K>(), move |gpu, seed| {
        let x = data::random::<K>(gpu, n, seed)?;
        rig(
            (x, data::poisoned::<K>(gpu, n)?, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| sort::sort_into(gpu, x, out, SortOptions::ASCENDING, scratch),
            move |(_, out, _), _| check_random(out, seed),
        )
    })
    .in_elements()
    .goal_if(n >= 1 << 24, "CUB", 1.0)
}

/// Keys with values: the order in which they came, as far as a check needs it.
fn pairs(n: usize) -> Case {
    Case::new(["sort", "pairs", "u32"], [n], 16 * n, move |gpu, seed| {
        let x = [seed, seed ^ 1].map(|seed| data::random::<u32>(gpu, n, seed));
        let [keys, values] = x;
        let out = (data::poisoned::<u32>(gpu, n)?, data::poisoned::<u32>(gpu, n)?);
        rig(
            (keys?, values?, out, Scratch::new(gpu)?),
            |(_, _, out, _), _| {
                data::poison(&mut out.0)?;
                data::poison(&mut out.1)
            },
            |(keys, values, out, scratch), gpu| {
                let out = (&mut out.0, &mut out.1);
                sort::sort_pairs_into(gpu, (&*keys, &*values), out, SortOptions::ASCENDING, scratch)
            },
            move |(_, _, out, _), _| {
                check_random(&out.0, seed)?;
                if n > FEW {
                    return Ok(());
                }
                let mut pairs: Vec<_> = (0..n)
                    .map(|i| (data::value::<u32>(seed, i), data::value::<u32>(seed ^ 1, i)))
                    .collect();
                pairs.sort_by_key(|pair| pair.0);
                check::samples(&out.1, |i| pairs[i].1)
            },
        )
    })
    .in_elements()
    .goal_if(n >= 1 << 24, "CUB", 1.0)
}

/// Keys of sixteen values: most passes have nothing to do.
fn few(n: usize) -> Case {
    Case::new(["sort", "few", "u32"], [n], 8 * n, move |gpu, seed| {
        rig(
            (
                data::random_below(gpu, n, seed, 16)?,
                data::poisoned::<u32>(gpu, n)?,
                Scratch::new(gpu)?,
            ),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| sort::sort_into(gpu, x, out, SortOptions::ASCENDING, scratch),
            move |(_, out, _), _| {
                check::for_samples(out, |i, found: u32| {
                    let tolerance = 4.0 / (n as f64).sqrt() + 1.0 / 16.0;
                    check::near("share", f64::from(found) / 16.0, i as f64 / n as f64, tolerance)
                })
            },
        )
    })
    .in_elements()
}

/// Keys in order already: all lanes of a warp have the same digit, most of the time.
fn sorted(n: usize) -> Case {
    Case::new(["sort", "sorted", "u32"], [n], 8 * n, move |gpu, _| {
        let x: Vec<u32> = (0..n as u32).collect();
        rig(
            (
                DeviceBuffer::from_slice(gpu, &x)?,
                data::poisoned::<u32>(gpu, n)?,
                Scratch::new(gpu)?,
            ),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| sort::sort_into(gpu, x, out, SortOptions::ASCENDING, scratch),
            |(_, out, _), _| check::samples(out, |i| i as u32),
        )
    })
    .in_elements()
}

/// The places of keys in order.
fn argsort(n: usize) -> Case {
    Case::new(["sort", "argsort", f32::NAME], [n], 8 * n, move |gpu, seed| {
        let x = data::random::<f32>(gpu, n, seed)?;
        rig(
            (x, data::poisoned::<u32>(gpu, n)?, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| {
                sort::argsort_into(gpu, x, out, SortOptions::ASCENDING, scratch)
            },
            move |(_, out, _), _| {
                let mut before = (0, f32::NEG_INFINITY);
                check::for_samples(out, |index, place: u32| {
                    let key = data::value::<f32>(seed, place as usize);
                    let what = "places out of order";
                    // Samples of a short array overlap: one may begin before the end of the last.
                    let in_order = before.1 <= key || index < before.0;
                    before = (index, key);
                    if in_order { Ok(()) } else { Err(Fault::Broken { what, index }) }
                })
            },
        )
    })
    .in_elements()
}

/// The largest few, and where they stand.
fn top_k(n: usize) -> Case {
    let k = n.min(128);
    Case::new(["sort", "top_k", f32::NAME], [n, k], 4 * n, move |gpu, seed| {
        let x = data::random::<f32>(gpu, n, seed)?;
        let out = (data::poisoned::<f32>(gpu, k)?, data::poisoned::<u32>(gpu, k)?);
        rig(
            (x, out, Scratch::new(gpu)?),
            |(_, out, _), _| {
                data::poison(&mut out.0)?;
                data::poison(&mut out.1)
            },
            |(x, out, scratch), gpu| {
                sort::top_k_into(gpu, x, (&mut out.0, &mut out.1), Extreme::Largest, scratch)
            },
            move |(_, out, _), _| {
                let places = out.1.to_vec()?;
                let key = |place: u32| data::value::<f32>(seed, place as usize);
                check::samples(&out.0, |i| key(places[i]))?;
                if n > 1 << 22 {
                    let share = f64::from(key(places[k - 1])) + 0.5;
                    return check::near(
                        "share of smaller keys",
                        share,
                        1.0,
                        4.0 * k as f64 / n as f64,
                    );
                }
                let mut largest: Vec<f32> = (0..n).map(|i| data::value(seed, i)).collect();
                largest.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
                let least = largest[k - 1];
                check::near("least of the largest", key(places[k - 1]).into(), least.into(), 0.0)
            },
        )
    })
}

/// The plain form, of pairs.
fn plain(n: usize) -> Case {
    Case::new(["sort", "plain", "u32"], [n], 16 * n, move |gpu, seed| {
        let [keys, values] = [seed, seed ^ 1].map(|seed| data::random::<u32>(gpu, n, seed));
        let out = (data::poisoned::<u32>(gpu, n)?, data::poisoned::<u32>(gpu, n)?);
        rig(
            (keys?, values?, out, Scratch::new(gpu)?),
            |(_, _, out, _), _| data::poison(&mut out.0),
            |(keys, values, out, scratch), gpu| {
                let out = (&mut out.0, &mut out.1);
                let options = SortOptions::ASCENDING;
                ops::sort::plain_into(gpu, (&*keys, &*values), out, options, scratch)
            },
            move |(_, _, out, _), _| check_random(&out.0, seed),
        )
    })
    .in_elements()
}
