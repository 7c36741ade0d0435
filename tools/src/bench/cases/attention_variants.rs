//! Attention of 8-bit floats, with dropout, and under a mask whose empty blocks lists leave out.

use cuda_std::number::{E4m3, bf16};
use ferrowarp::ops::attention::{
    Band, BlockLists, Dropout, HeadScales, Heads, HeadsMut, ListsFor, Options, Place, Score,
    Strided, attention_into, attention_scaled_into,
};
use kernels_gpu::attention::Keys;
use reference::attention::Rounding;

use super::attention::{
    Rigged, Sizes, backward, compare_rows, expected_row, layouts, lengths, operations,
};
use crate::bench::{Case, Scale, data, rig};

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
    for sizes in scale.pick(small, vec![long], vec![long]) {
        cases.push(strided(sizes));
    }
    cases
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
