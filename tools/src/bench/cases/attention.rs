//! Attention, beside PyTorch's backends, on normal data.
//!
//! The shape is `[batches, heads, heads of keys, queries, keys, elements of a row]`. `decode` is measured by its bytes: those of the keys and
//! values.

use cuda_std::number::bf16;
use kernels_gpu::attention::{Keys, Lengths};

use crate::bench::check::{self, Fault};
use crate::bench::{Case, Scale, data, rig};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{Band, Heads, HeadsLayout, HeadsMut, Options, attention_into};
use reference::attention::{self as expected, Rounding};

/// `[batches, heads, heads of keys, queries, keys, elements of a row]`.
type Sizes = [usize; 6];

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
        case.unit = crate::bench::Unit::Bandwidth;
        cases.push(case.speed_goal_if(sizes[3] >= 8, "H200", 3000.0));
    }
    let chunks = vec![
        [1, 8, 8, 256, 32_768, 128],
        [1, 8, 1, 256, 32_768, 128],
        [1, 16, 2, 512, 32_768, 128],
    ];
    for sizes in scale.pick(small, chunks[..1].to_vec(), chunks) {
        let is_long = sizes[4] == 32_768 && sizes[3] == 256;
        cases.push(forward("chunk", Band::ALL, sizes).goal_if(is_long, "cuDNN", 4.0));
    }
    cases
}

/// Operations: two products over the keys that queries see.
fn operations(band: Band, [batches, heads, _, queries, keys, depth]: Sizes) -> u64 {
    let lengths = Lengths { queries: queries as u32, keys: keys as u32 };
    let seen: u64 = (0..queries as u32)
        .map(|query| {
            let Keys { first, end } = band.of_query(query, lengths);
            u64::from(end - first)
        })
        .sum();
    4 * seen * (batches * heads * depth) as u64
}

/// Queries, keys, values and results.
struct Rigged {
    q: DeviceBuffer<bf16>,
    k: DeviceBuffer<bf16>,
    v: DeviceBuffer<bf16>,
    o: DeviceBuffer<bf16>,
    scratch: Scratch,
}

fn forward(form: &'static str, band: Band, sizes: Sizes) -> Case {
    let [batches, heads, kv_heads, queries, keys, depth] = sizes;
    let of_q = HeadsLayout::by_head([batches, heads, queries, depth]);
    let of_k = HeadsLayout::by_head([batches, kv_heads, keys, depth]);
    let (rows, of_keys) = (batches * heads * queries * depth, batches * kv_heads * keys * depth);
    let bytes = 2 * (2 * rows + 2 * of_keys);
    Case::new(["attention", form, "bf16"], sizes, bytes, move |gpu, seed| {
        let state = Rigged {
            q: data::normal(gpu, rows, seed)?,
            k: data::normal(gpu, of_keys, seed + 1)?,
            v: data::normal(gpu, of_keys, seed + 2)?,
            o: data::poisoned(gpu, rows)?,
            scratch: Scratch::new(gpu)?,
        };
        rig(
            state,
            |state, _| data::poison(&mut state.o),
            move |state, gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                let o = HeadsMut::new(o, of_q)?;
                attention_into(gpu, q, k, v, o, Options::new().score(band), scratch)
            },
            move |state, _| compare(&state.o, band, sizes, seed),
        )
    })
    .in_operations(operations(band, sizes))
}

/// Compares a few rows with f64.
fn compare(o: &DeviceBuffer<bf16>, band: Band, sizes: Sizes, seed: u32) -> Result<(), Fault> {
    let [_, heads, kv_heads, queries, keys, depth] = sizes;
    let lengths = Lengths { queries: queries as u32, keys: keys as u32 };
    let values = |seed, row: usize| -> Vec<f64> {
        (0..depth).map(|i| data::normal_value::<bf16>(seed, row * depth + i).to_f64()).collect()
    };
    let mut last: Option<(usize, expected::Row)> = None;
    check::for_samples(o, |index, found: bf16| {
        // Each sample is a run of neighbours, most of them of one row; a row takes a pass over all keys.
        let (row, i) = (index / depth, index % depth);
        if !index.is_multiple_of(509) && last.as_ref().is_none_or(|(known, _)| *known != row) {
            return Ok(());
        }
        if last.as_ref().is_none_or(|(known, _)| *known != row) {
            let (head, query) = (row / queries, row % queries);
            let first = (head / heads * kv_heads + head % heads / (heads / kv_heads)) * keys;
            let Keys { first: from, end } = band.of_query(query as u32, lengths);
            let seen = from as usize..end as usize;
            let (k, v): (Vec<_>, Vec<_>) = seen
                .map(|key| (values(seed + 1, first + key), values(seed + 2, first + key)))
                .unzip();
            let scale = 1.0 / f64::from((depth as f32).sqrt());
            let of_row = expected::row(
                &values(seed, row),
                k.len(),
                |at| &k[at],
                |at| &v[at],
                scale,
                |_, s| s,
            );
            last = Some((row, of_row));
        }
        let (_, of_row) = last.as_ref().expect("set above");
        let bound = Rounding::BF16.bound(of_row, depth, i);
        check::near("result", found.to_f64(), of_row.values[i], bound)
    })
}
