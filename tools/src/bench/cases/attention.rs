//! Attention, beside PyTorch's backends, on normal data.
//!
//! The shape is `[batches, heads, heads of keys, queries, keys, elements of a row]`. `decode` is measured by its bytes: those of the keys and
//! values.

use cuda_std::number::{E4m3, bf16};
use kernels_gpu::attention::backward::form::AttentionBackwardKernel;
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::{Keys, Lengths};

use super::attention_variants;
use crate::bench::check::{self, Fault};
use crate::bench::data::Normal;
use crate::bench::{Case, Scale, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Kernel, Options,
    attention_backward_into, attention_into, online_into, textbook_into,
};
use reference::attention::{self as expected, Rounding};

/// `[batches, heads, heads of keys, queries, keys, elements of a row]`.
pub(super) type Sizes = [usize; 6];

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    let small = vec![[1, 2, 1, 40, 70, 64]];
    let long = [4, 16, 16, 8192, 8192, 128];
    let of_depth = |depth| [4, 16, 16, 8192, 8192, depth];
    let shared = [2, 64, 8, 8192, 8192, 128];
    let quick = vec![of_depth(64), long, shared];
    let mut all: Vec<Sizes> = [64, 128, 192, 256].map(of_depth).to_vec();
    all.push(shared);
    all.extend([1024, 2048, 4096, 16_384].map(|len| [4, 16, 16, len, len, 128]));
    for sizes in scale.pick(small.clone(), quick, all) {
        let is_long = sizes[3] == 8192 && sizes[5] <= 128;
        for (form, band) in [("all", Band::ALL), ("causal", Band::CAUSAL)] {
            cases.push(forward(form, band, sizes).goal_if(is_long, "cuDNN", 1.05));
        }
    }
    let decoding = scale.pick(
        vec![[2, 8, 1, 1, 70, 64]],
        vec![[32, 64, 8, 1, 8192, 128], [32, 64, 8, 8, 8192, 128], [32, 64, 8, 16, 8192, 128]],
        vec![
            [32, 64, 8, 1, 8192, 128],
            [32, 64, 8, 2, 8192, 128],
            [32, 64, 8, 8, 8192, 128],
            [32, 64, 8, 16, 8192, 128],
            [1, 64, 8, 1, 32_768, 128],
            [128, 32, 8, 1, 2048, 128],
        ],
    );
    for sizes in decoding {
        let mut case = forward("decode", Band::CAUSAL, sizes);
        case.unit = crate::bench::case::Unit::Bandwidth;
        cases.push(case.speed_goal_if(sizes[3] >= 8, "H200", 3000.0));
    }
    let chunks = vec![
        [1, 8, 8, 256, 32_768, 128],
        [1, 8, 1, 256, 32_768, 128],
        [1, 16, 2, 512, 32_768, 128],
    ];
    for sizes in scale.pick(small.clone(), chunks[..1].to_vec(), chunks) {
        let is_long = sizes[4] == 32_768 && sizes[3] == 256;
        cases.push(forward("chunk", Band::ALL, sizes).goal_if(is_long, "cuDNN", 4.0));
    }
    let packed_sizes = vec![[12, 16, 16, 60_000, 60_000, 128], [12, 16, 16, 60_000, 60_000, 64]];
    for sizes in scale.pick(vec![[3, 2, 1, 70, 70, 64]], packed_sizes[..1].to_vec(), packed_sizes) {
        cases.push(packed(sizes));
    }
    let of_steps = [4, 16, 16, 2048, 2048, 128];
    for sizes in scale.pick(small.clone(), vec![of_steps], vec![of_steps]) {
        cases.extend(steps(sizes));
    }
    let [of_192, of_256] = [192, 256].map(|depth| [4, 8, 8, 4096, 4096, depth]);
    let quick = vec![long, of_192, of_256];
    for sizes in scale.pick(small, quick, vec![long, shared, of_depth(64), of_192, of_256]) {
        let is_long = sizes[3] == 8192;
        for (form, band) in [("gradients", Band::ALL), ("gradients-causal", Band::CAUSAL)] {
            let case = backward(form, band, sizes, false, move |_| band, |_, _| 1.0);
            cases.push(case.goal_if(is_long, "cuDNN", 1.05));
        }
        for (form, band) in [
            ("gradients-deterministic", Band::ALL),
            ("gradients-deterministic-causal", Band::CAUSAL),
        ] {
            cases.push(backward(form, band, sizes, true, move |_| band, |_, _| 1.0));
        }
    }
    cases.extend(attention_variants::cases(scale));
    cases
}

/// The gradients of queries, keys and values.
struct Backwards {
    forward: Rigged,
    lse: DeviceBuffer<f32>,
    d_o: DeviceBuffer<bf16>,
    d_q: DeviceBuffer<bf16>,
    d_k: DeviceBuffer<bf16>,
    d_v: DeviceBuffer<bf16>,
}

/// The backward pass: five products in the count of operations, as is usual, whatever is computed again. Each copy of the data has a functor of its own, made of the seed; it multiplies weights
/// by `factor(functor, [head of all batches, query, key])`.
pub(super) fn backward<C>(
    form: &'static str,
    band: Band,
    sizes: Sizes,
    deterministic: bool,
    functor_of: impl Fn(u32) -> C + 'static,
    factor: fn(C, [usize; 3]) -> f64,
) -> Case
where
    C: AttentionKernel<bf16> + AttentionBackwardKernel<bf16> + 'static,
{
    let [batches, heads, kv_heads, queries, keys, depth] = sizes;
    let (of_q, of_k) = layouts(sizes);
    let (rows, of_keys) = (batches * heads * queries * depth, batches * kv_heads * keys * depth);
    Case::new(["attention", form, "bf16"], sizes, 2 * (4 * rows + 4 * of_keys), move |gpu, seed| {
        let functor = functor_of(seed);
        let mut state = Backwards {
            forward: Rigged::new(gpu, sizes, seed)?,
            lse: data::poisoned(gpu, batches * heads * queries)?,
            d_o: data::normal(gpu, rows, seed + 3)?,
            d_q: data::poisoned(gpu, rows)?,
            d_k: data::poisoned(gpu, of_keys)?,
            d_v: data::poisoned(gpu, of_keys)?,
        };
        let Rigged { q, k, v, o, scratch } = &mut state.forward;
        let (q, k, v) = (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
        let options = Options::new().score(functor).lse(&mut state.lse);
        attention_into(gpu, q, k, v, HeadsMut::new(o, of_q)?, options, scratch)?;
        rig(
            state,
            |state, _| data::poison(&mut state.d_v),
            move |state, gpu| {
                let Backwards { forward, lse, d_o, d_q, d_k, d_v } = state;
                let Rigged { q, k, v, o, scratch } = forward;
                let forward = Backward {
                    q: Heads::new(&*q, of_q)?,
                    k: Heads::new(&*k, of_k)?,
                    v: Heads::new(&*v, of_k)?,
                    o: Heads::new(&*o, of_q)?,
                    d_o: Heads::new(&*d_o, of_q)?,
                };
                let gradients = Gradients {
                    q: HeadsMut::new(d_q, of_q)?,
                    k: HeadsMut::new(d_k, of_k)?,
                    v: HeadsMut::new(d_v, of_k)?,
                };
                let options = Options::new().score(functor);
                let options = if deterministic { options.deterministic() } else { options };
                attention_backward_into(gpu, forward, &*lse, gradients, options, scratch)
            },
            move |state, _| compare_values(state, band, sizes, seed, |at| factor(functor, at)),
        )
    })
    .in_operations(operations(band, sizes) / 2 * 5)
}

/// Compares gradients of a few values with f64, given the logarithms of the sums. Weights are multiplied by `factor([head of all batches, query, key])`.
fn compare_values(
    state: &Backwards,
    band: Band,
    sizes: Sizes,
    seed: u32,
    factor: impl Fn([usize; 3]) -> f64,
) -> Result<(), Fault> {
    let [_, heads, kv_heads, queries, keys, depth] = sizes;
    let lse = state.lse.to_vec()?;
    let scale = 1.0 / f64::from((depth as f32).sqrt());
    let mut last: Option<(usize, Vec<(f64, f64)>)> = None;
    check::for_samples(&state.d_v, |index, found: bf16| {
        let (row, i) = (index / depth, index % depth);
        let is_known = last.as_ref().is_some_and(|(known, _)| *known == row);
        if !is_known && !index.is_multiple_of(509) {
            return Ok(());
        }
        if !is_known {
            let (head, key) = (row / keys, row % keys);
            let k = values(seed + 1, row, depth);
            let mut sums = vec![(0.0, 0.0); depth];
            let group = heads / kv_heads;
            for query in (0..group).flat_map(|of| (0..queries).map(move |query| (of, query))) {
                let (of, query) = query;
                let at = (head / kv_heads * heads + head % kv_heads * group + of) * queries + query;
                let Keys { first, end } = band.of_query(query as u32, lengths(sizes));
                if !(first..end).contains(&(key as u32)) {
                    continue;
                }
                let q = values(seed, at, depth);
                let score: f64 = q.iter().zip(&k).map(|(q, k)| q * k).sum();
                let weight = (scale * score - f64::from(lse[at])).exp();
                let weight = weight * factor([at / queries, query, key]);
                for (sum, d_o) in sums.iter_mut().zip(values(seed + 3, at, depth)) {
                    *sum = (sum.0 + weight * d_o, sum.1 + (weight * d_o).abs());
                }
            }
            last = Some((row, sums));
        }
        let (value, magnitude) = last.as_ref().expect("set above").1[i];
        let unit = Rounding::BF16.unit;
        let bound =
            magnitude * (1.1 * unit + queries as f64 * 2f64.powi(-22)) + value.abs() * unit + 1e-6;
        check::near("gradient of a value", found.to_f64(), value, bound)
    })
}

/// The layouts of queries and of keys.
pub(super) fn layouts(
    [batches, heads, kv_heads, queries, keys, depth]: Sizes,
) -> (HeadsLayout, HeadsLayout) {
    let of_q = HeadsLayout::by_head([batches, heads, queries, depth]);
    (of_q, HeadsLayout::by_head([batches, kv_heads, keys, depth]))
}

pub(super) fn lengths([_, _, _, queries, keys, _]: Sizes) -> Lengths {
    Lengths { queries: queries as u32, keys: keys as u32 }
}

/// A row of normal data.
fn values(seed: u32, row: usize, depth: usize) -> Vec<f64> {
    (0..depth).map(|i| data::normal_value::<bf16>(seed, row * depth + i).to_f64()).collect()
}

/// Operations: two products over the keys that queries see.
pub(super) fn operations(band: Band, sizes: Sizes) -> u64 {
    let [batches, heads, _, queries, _, depth] = sizes;
    let lengths = lengths(sizes);
    let seen: u64 = (0..queries as u32)
        .map(|query| {
            let Keys { first, end } = band.of_query(query, lengths);
            u64::from(end - first)
        })
        .sum();
    4 * seen * (batches * heads * depth) as u64
}

/// Queries, keys, values and results.
pub(super) struct Rigged<T: Normal = bf16> {
    pub q: DeviceBuffer<T>,
    pub k: DeviceBuffer<T>,
    pub v: DeviceBuffer<T>,
    pub o: DeviceBuffer<bf16>,
    pub scratch: Scratch,
}

impl<T: Normal> Rigged<T> {
    pub fn new(gpu: &Gpu, sizes: Sizes, seed: u32) -> GpuResult<Self> {
        let [batches, heads, kv_heads, queries, keys, depth] = sizes;
        let (rows, of_keys) =
            (batches * heads * queries * depth, batches * kv_heads * keys * depth);
        Ok(Self {
            q: data::normal(gpu, rows, seed)?,
            k: data::normal(gpu, of_keys, seed + 1)?,
            v: data::normal(gpu, of_keys, seed + 2)?,
            o: data::poisoned(gpu, rows)?,
            scratch: Scratch::new(gpu)?,
        })
    }
}

fn forward(form: &'static str, band: Band, sizes: Sizes) -> Case {
    computed_by(form, band, sizes, move |gpu, [q, k, v], o, scratch| {
        attention_into(gpu, q, k, v, o, Options::new().score(band), scratch)
    })
}

/// The staircase: a textbook's three passes, one pass with the online softmax, and tiles by warps.
fn steps(sizes: Sizes) -> [Case; 3] {
    let options = Options::new;
    [
        computed_by("textbook", Band::ALL, sizes, move |gpu, [q, k, v], o, _| {
            textbook_into(gpu, q, k, v, o, options())
        }),
        computed_by("online", Band::ALL, sizes, move |gpu, [q, k, v], o, _| {
            online_into(gpu, q, k, v, o, options())
        }),
        computed_by("warps", Band::ALL, sizes, move |gpu, [q, k, v], o, scratch| {
            attention_into(gpu, q, k, v, o, options().kernel(Kernel::Warps), scratch)
        }),
    ]
}

/// The forward pass by `run`, given queries, keys and values.
fn computed_by(
    form: &'static str,
    band: Band,
    sizes: Sizes,
    run: impl Fn(&Gpu, [Heads<'_, bf16>; 3], HeadsMut<'_, bf16>, &mut Scratch) -> GpuResult<()>
    + Copy
    + 'static,
) -> Case {
    let [batches, heads, kv_heads, queries, keys, depth] = sizes;
    let (of_q, of_k) = layouts(sizes);
    let (rows, of_keys) = (batches * heads * queries * depth, batches * kv_heads * keys * depth);
    let bytes = 2 * (2 * rows + 2 * of_keys);
    Case::new(["attention", form, "bf16"], sizes, bytes, move |gpu, seed| {
        let state = Rigged::new(gpu, sizes, seed)?;
        rig(
            state,
            |state, _| data::poison(&mut state.o),
            move |state, gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                run(gpu, [q, k, v], HeadsMut::new(o, of_q)?, scratch)
            },
            move |state, _| {
                compare(&state.o, sizes, seed, |query| {
                    let Keys { first, end } = band.of_query(query as u32, lengths(sizes));
                    first as usize..end as usize
                })
            },
        )
    })
    .in_operations(operations(band, sizes))
}

/// Batches of different lengths, packed into one: `queries` and `keys` are those of all batches, equal numbers.
fn packed(sizes: Sizes) -> Case {
    let [batches, heads, kv_heads, rows, _, depth] = sizes;
    // Each batch is longer than the one before it by as much.
    let steps = batches * (batches + 1) / 2;
    let offsets: Vec<usize> =
        (0..=batches).map(|batch| rows * (batch * (batch + 1) / 2) / steps).collect();
    let of_one = [1, heads, kv_heads, rows, rows, depth];
    let (of_q, of_k) = layouts(of_one);
    let bytes = 4 * rows * (heads + kv_heads) * depth;
    let work: usize = offsets.windows(2).map(|of| (of[1] - of[0]).pow(2)).sum();
    Case::new(["attention", "packed", "bf16"], sizes, bytes, move |gpu, seed| {
        let on_device: Vec<u32> = offsets.iter().map(|offset| *offset as u32).collect();
        let state = (Rigged::new(gpu, of_one, seed)?, DeviceBuffer::from_slice(gpu, &on_device)?);
        let offsets = offsets.clone();
        rig(
            state,
            |(state, _), _| data::poison(&mut state.o),
            move |(state, offsets), gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                let o = HeadsMut::new(o, of_q)?;
                let options = Options::new().query_offsets(&*offsets).key_offsets(&*offsets);
                attention_into(gpu, q, k, v, o, options, scratch)
            },
            move |(state, _), _| {
                compare(&state.o, of_one, seed, |query| {
                    let end = offsets.partition_point(|offset| *offset <= query);
                    offsets[end - 1]..offsets[end]
                })
            },
        )
    })
    .in_operations((4 * work * heads * depth) as u64)
}

/// Compares a few rows with f64. `keys_of` says which keys of its batch a query sees.
fn compare(
    o: &DeviceBuffer<bf16>,
    sizes: Sizes,
    seed: u32,
    keys_of: impl Fn(usize) -> std::ops::Range<usize>,
) -> Result<(), Fault> {
    let [.., queries, _, depth] = sizes;
    compare_rows(o, depth, Rounding::BF16, |row| {
        let keys = keys_of(row % queries);
        let sees = |key: usize, score| if keys.contains(&key) { score } else { f64::NEG_INFINITY };
        expected_row::<bf16>(sizes, seed, row, sees, |_| 1.0)
    })
}

/// A row of the results of normal data, in f64: `score(key, score)` makes of scores what counts, and weights are multiplied by `factor(key)`.
pub(super) fn expected_row<T: Normal + Exact>(
    sizes: Sizes,
    seed: u32,
    row: usize,
    score: impl Fn(usize, f64) -> f64,
    factor: impl Fn(usize) -> f64,
) -> expected::Row {
    let [_, heads, kv_heads, queries, keys, depth] = sizes;
    let values = |seed, row: usize| -> Vec<f64> {
        (0..depth).map(|i| data::normal_value::<T>(seed, row * depth + i).exact()).collect()
    };
    let head = row / queries;
    let first = (head / heads * kv_heads + head % heads / (heads / kv_heads)) * keys;
    let sees = |key: &usize| score(*key, 0.0) != f64::NEG_INFINITY;
    let seen: Vec<usize> = (0..keys).filter(sees).collect();
    let of = |seed| -> Vec<_> { seen.iter().map(|key| values(seed, first + key)).collect() };
    let (k, v) = (of(seed + 1), of(seed + 2));
    expected::dropped_row(
        &values(seed, row),
        seen.len(),
        |at| &k[at],
        |at| &v[at],
        1.0 / f64::from((depth as f32).sqrt()),
        |at, value| score(seen[at], value),
        |at| factor(seen[at]),
    )
}

/// An element whose value is known exactly.
pub(super) trait Exact {
    fn exact(self) -> f64;
}

impl Exact for bf16 {
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

impl Exact for E4m3 {
    fn exact(self) -> f64 {
        f64::from(self.widen())
    }
}

/// Compares a few rows of `depth` elements with what `of_row` gives for them.
pub(super) fn compare_rows(
    o: &DeviceBuffer<bf16>,
    depth: usize,
    rounding: Rounding,
    of_row: impl Fn(usize) -> expected::Row,
) -> Result<(), Fault> {
    let mut last: Option<(usize, expected::Row)> = None;
    check::for_samples(o, |index, found: bf16| {
        // Each sample is a run of neighbours, most of them of one row; a row takes a pass over all keys.
        let (row, i) = (index / depth, index % depth);
        if last.as_ref().is_none_or(|(known, _)| *known != row) {
            if !index.is_multiple_of(509) {
                return Ok(());
            }
            last = Some((row, of_row(row)));
        }
        let (_, of_row) = last.as_ref().expect("set above");
        let bound = rounding.bound(of_row, depth, i);
        check::near("result", found.to_f64(), of_row.values[i], bound)
    })
}
