//! Attention of 8-bit floats, with dropout, and under a mask whose empty blocks lists leave out; and what turns rows and fills caches.

use cuda_std::number::{E4m3, bf16};
use ferrowarp::ops::attention::{
    Band, BlockLists, Cache, Dropout, HeadScales, Heads, HeadsLayout, HeadsMut, ListsFor, Options,
    Place, Positions, RotaryTable, Score, Strided, append_into, attention_into,
    attention_scaled_into, rotary_in_place,
};
use kernels_gpu::attention::Keys;
use reference::attention::Rounding;

use super::attention::{
    Rigged, Sizes, backward, compare_rows, expected_row, layouts, lengths, operations,
};
use crate::bench::check::{self, Fault};
use crate::bench::{Case, Scale, data, rig};
use ferrowarp::Gpu;
use ferrowarp::memory::DeviceBuffer;

/// Of a query's weights a tenth is dropped.
const DROPPED: f32 = 0.1;
/// A stride of 1,024 keys, of which the last 128 are seen from everywhere.
const MASK: Strided = Strided::new(Band::CAUSAL, 1024, 128);

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    let (small, long) = (vec![[1, 2, 1, 40, 70, 64]], [4, 16, 16, 8192, 8192, 128]);
    let shared = [2, 64, 8, 8192, 8192, 128];
    for sizes in scale.pick(small.clone(), vec![long, shared], vec![long, shared]) {
        for (form, band) in [("all", Band::ALL), ("causal", Band::CAUSAL)] {
            let is_long = sizes[3] == 8192;
            cases.push(scaled(form, band, sizes).goal_if(is_long, "cuDNN's front end", 1.0));
        }
    }
    for sizes in scale.pick(small.clone(), vec![long], vec![long]) {
        cases.push(dropout(sizes));
        let form = "dropout-gradients";
        cases.push(backward(form, Band::ALL, sizes, false, dropout_of, factor_of));
    }
    for sizes in scale.pick(small.clone(), vec![long], vec![long]) {
        cases.push(strided(sizes));
    }
    let rows = vec![[4, 32, 32, 8192, 8192, 128]];
    for sizes in scale.pick(small.clone(), rows.clone(), rows) {
        cases.push(rotary(sizes));
    }
    let rows = vec![[32, 8, 8, 4096, 4096, 128]];
    for sizes in scale.pick(small, rows.clone(), rows) {
        cases.push(append(sizes));
    }
    cases
}

/// The base of the angles.
const BASE: f64 = 10_000.0;

/// Rows of queries, turned in place from position 0 on.
fn rotary(sizes: Sizes) -> Case {
    let (layout, _) = layouts(sizes);
    let HeadsLayout { rows, depth, .. } = layout;
    let len: usize = layout.sizes().iter().product();
    Case::new(["attention", "rotary", "bf16"], sizes, 2 * 2 * len, move |gpu, seed| {
        let [x, before] = [data::normal::<bf16>(gpu, len, seed)?, data::normal(gpu, len, seed)?];
        let table = RotaryTable::new(gpu, rows, depth, BASE)?;
        let turn = move |x: &mut DeviceBuffer<bf16>, table: &RotaryTable, gpu: &Gpu| {
            rotary_in_place(gpu, HeadsMut::new(x, layout)?, table, Positions::From(0), false)
        };
        rig(
            (x, before, table),
            |_, _| Ok(()),
            move |(x, _, table), gpu| turn(x, table, gpu),
            // Timed runs turn the rows again and again: what is compared is one more run, of rows as they were.
            move |(x, before, table), gpu| {
                x.copy_from_device(&*before)?;
                turn(x, table, gpu)?;
                compare_turned(x, rows, depth, seed)
            },
        )
    })
}

/// All rows of a cache without pages, keys and values; keys are turned.
fn append(sizes: Sizes) -> Case {
    let (_, layout) = layouts(sizes);
    let HeadsLayout { batches, rows, depth, .. } = layout;
    let len: usize = layout.sizes().iter().product();
    Case::new(["attention", "append", "bf16"], sizes, 4 * 2 * len, move |gpu, seed| {
        let state = (
            [data::normal::<bf16>(gpu, len, seed)?, data::normal(gpu, len, seed + 1)?],
            [data::poisoned::<bf16>(gpu, len)?, data::poisoned(gpu, len)?],
            DeviceBuffer::from_slice(gpu, &vec![rows as u32; batches])?,
            RotaryTable::new(gpu, rows, depth, BASE)?,
        );
        rig(
            state,
            |state, _| state.1.iter_mut().try_for_each(data::poison),
            move |([k, v], [k_cache, v_cache], lengths, table), gpu| {
                let (k, v) = (Heads::new(&*k, layout)?, Heads::new(&*v, layout)?);
                let cache = Cache {
                    k: HeadsMut::new(k_cache, layout)?,
                    v: HeadsMut::new(v_cache, layout)?,
                    pages: None,
                };
                append_into(gpu, [k, v], cache, &*lengths, Some(&*table))
            },
            move |(_, [k_cache, v_cache], ..), _| {
                compare_turned(k_cache, rows, depth, seed)?;
                check::for_samples(v_cache, |at, found: bf16| {
                    let expected = data::normal_value::<bf16>(seed + 1, at).to_f64();
                    check::near("value of the cache", found.to_f64(), expected, 0.0)
                })
            },
        )
    })
}

/// Compares a few elements of turned rows, which were normal data, with f64. Two products, their sum, and the cosine and the sine are rounded to 24 bits.
fn compare_turned(
    turned: &DeviceBuffer<bf16>,
    rows: usize,
    depth: usize,
    seed: u32,
) -> Result<(), Fault> {
    check::for_samples(turned, |at, found: bf16| {
        let (row, i) = (at / depth, at % depth);
        let value = |i| data::normal_value::<bf16>(seed, row * depth + i).to_f64();
        let (pair, other) = (i % (depth / 2), (i + depth / 2) % depth);
        let angle = (row % rows) as f64 * BASE.powf(-2.0 * pair as f64 / depth as f64);
        let sin = if i < depth / 2 { -angle.sin() } else { angle.sin() };
        let expected = value(i) * angle.cos() + value(other) * sin;
        let added = value(i).abs() + value(other).abs();
        let bound = expected.abs() * Rounding::BF16.unit + added * 4.0 * 2f64.powi(-24) + 1e-6;
        check::near("turned element", found.to_f64(), expected, bound)
    })
}

fn bytes_of([batches, heads, kv_heads, queries, keys, depth]: Sizes) -> usize {
    2 * batches * depth * (heads * queries + kv_heads * keys)
}

/// 8-bit floats, without scales.
fn scaled(form: &'static str, band: Band, sizes: Sizes) -> Case {
    let (of_q, of_k) = layouts(sizes);
    let [.., queries, _, depth] = sizes;
    Case::new(["attention", form, "E4m3"], sizes, bytes_of(sizes), move |gpu, seed| {
        rig(
            Rigged::<E4m3>::new(gpu, sizes, seed)?,
            |state, _| data::poison(&mut state.o),
            move |state, gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                let (o, options) = (HeadsMut::new(o, of_q)?, Options::new().score(band));
                attention_scaled_into(gpu, q, k, v, HeadScales::new(), o, options, scratch)
            },
            move |state, _| {
                compare_rows(&state.o, depth, Rounding::E4M3, |row| {
                    let Keys { first, end } = band.of_query((row % queries) as u32, lengths(sizes));
                    let keys = first as usize..end as usize;
                    let sees = |key: usize, score| {
                        if keys.contains(&key) { score } else { f64::NEG_INFINITY }
                    };
                    expected_row::<E4m3>(sizes, seed, row, sees, |_| 1.0)
                })
            },
        )
    })
    .in_operations(operations(band, sizes))
}

/// The functor of a benchmark of dropout: each copy of the data has a seed of its own.
fn dropout_of(seed: u32) -> Dropout<Band> {
    Dropout::new(Band::ALL, DROPPED, u64::from(seed), 0)
}

/// What dropout multiplies a weight by.
fn factor_of(functor: Dropout<Band>, [head, query, key]: [usize; 3]) -> f64 {
    match functor.kept.keeps_weight(head as u32, query as u32, key as u32) {
        true => f64::from(functor.kept.factor()),
        false => 0.0,
    }
}

fn dropout(sizes: Sizes) -> Case {
    let (of_q, of_k) = layouts(sizes);
    let [.., queries, _, depth] = sizes;
    Case::new(["attention", "dropout", "bf16"], sizes, bytes_of(sizes), move |gpu, seed| {
        let functor = dropout_of(seed);
        rig(
            Rigged::<bf16>::new(gpu, sizes, seed)?,
            |state, _| data::poison(&mut state.o),
            move |state, gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                let o = HeadsMut::new(o, of_q)?;
                attention_into(gpu, q, k, v, o, Options::new().score(functor), scratch)
            },
            move |state, _| {
                compare_rows(&state.o, depth, Rounding::BF16, |row| {
                    let factor = |key| factor_of(functor, [row / queries, row % queries, key]);
                    expected_row::<bf16>(sizes, seed, row, |_, score| score, factor)
                })
            },
        )
    })
    .in_operations(operations(Band::ALL, sizes))
}

/// A sparse mask, with lists that were made before.
fn strided(sizes: Sizes) -> Case {
    let (of_q, of_k) = layouts(sizes);
    let [batches, heads, _, queries, keys, depth] = sizes;
    let place = move |query: usize, key: usize| Place {
        batch: 0,
        head: 0,
        query: query as u32,
        key: key as u32,
        own: (query + keys) as i32 - queries as i32,
    };
    let sees = move |query: usize, key: usize| {
        let Keys { first, end } = MASK.band().of_query(query as u32, lengths(sizes));
        let is_inside = (first as usize..end as usize).contains(&key);
        is_inside && MASK.apply(0.0, place(query, key)) == 0.0
    };
    let seen: usize =
        (0..queries).map(|query| (0..keys).filter(|key| sees(query, *key)).count()).sum();
    Case::new(["attention", "strided", "bf16"], sizes, bytes_of(sizes), move |gpu, seed| {
        let mut state = Rigged::<bf16>::new(gpu, sizes, seed)?;
        let Rigged { q, k, v, o, .. } = &mut state;
        let (q, k, v) = (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
        let (o, options) = (HeadsMut::new(o, of_q)?, Options::new().score(MASK));
        let lists = BlockLists::new(gpu, q, k, v, &o, &options, ListsFor::All)?;
        rig(
            (state, lists),
            |(state, _), _| data::poison(&mut state.o),
            move |(state, lists), gpu| {
                let Rigged { q, k, v, o, scratch } = state;
                let (q, k, v) =
                    (Heads::new(&*q, of_q)?, Heads::new(&*k, of_k)?, Heads::new(&*v, of_k)?);
                let o = HeadsMut::new(o, of_q)?;
                attention_into(gpu, q, k, v, o, Options::new().block_lists(lists), scratch)
            },
            move |(state, _), _| {
                compare_rows(&state.o, depth, Rounding::BF16, |row| {
                    let score = |key, score| {
                        if sees(row % queries, key) { score } else { f64::NEG_INFINITY }
                    };
                    expected_row::<bf16>(sizes, seed, row, score, |_| 1.0)
                })
            },
        )
    })
    .in_operations((4 * seen * batches * heads * depth) as u64)
}
