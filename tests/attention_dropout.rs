//! Dropout in attention: results and gradients against f64, with the mask that a function of the host gives.
//!
//! Tolerance: `reference::attention::Rounding` and `Head::gradients`, derived there.

use cuda_std::bf16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Backward, Band, Dropout, Gradients, Heads, HeadsLayout, HeadsMut, Kernel, Options,
    attention_backward_into, attention_into, explain,
};
use kernels_gpu::attention::{Keys, Lengths};
use rand::RngExt;
use reference::attention::{self as expected, Gradient, Rounding};

use crate::attention::{Element, Host};
use crate::support::{gpu, poisoned, rng, upload};

/// Queries, keys, values and gradients of the results, `[batches, heads, rows, depth]`.
struct Case {
    q: Host<bf16>,
    k: Host<bf16>,
    v: Host<bf16>,
    d_o: Host<bf16>,
}

/// Results, logarithms, and gradients of queries, keys and values.
struct Found {
    o: Vec<bf16>,
    lse: Vec<f32>,
    gradients: [Vec<bf16>; 3],
}

impl Case {
    /// `[batches, heads, queries, keys, depth]`.
    fn new([batches, heads, queries, keys, depth]: [usize; 5]) -> Self {
        let mut rng = rng();
        let mut host = |rows| {
            let layout = HeadsLayout::by_head([batches, heads, rows, depth]);
            Host::new(layout, || rng.random_range(-2.0..2.0))
        };
        Self { q: host(queries), k: host(keys), v: host(keys), d_o: host(queries) }
    }

    fn run(&self, dropout: Dropout<Band>, kernel: Kernel) -> Found {
        let [q, k, v, of_o] =
            [&self.q, &self.k, &self.v, &self.d_o].map(|host| upload(&host.values));
        fn heads<'a>(memory: &'a DeviceBuffer<bf16>, host: &Host<bf16>) -> Heads<'a, bf16> {
            Heads::new(memory, host.layout).unwrap()
        }
        let (q, k, v) = (heads(&q, &self.q), heads(&k, &self.k), heads(&v, &self.v));
        let layout = self.q.layout;
        let mut o = poisoned::<bf16>(self.q.values.len());
        let mut lse = poisoned::<f32>(layout.batches * layout.heads * layout.rows);
        let options = || Options::new().score(dropout).kernel(kernel);
        let to = HeadsMut::new(&mut o, layout).unwrap();
        let mut scratch = Scratch::new(gpu()).unwrap();
        attention_into(gpu(), q, k, v, to, options().lse(&mut lse), &mut scratch).unwrap();
        let mut gradients = [&self.q, &self.k, &self.v].map(|of| poisoned(of.values.len()));
        let [d_q, d_k, d_v] = &mut gradients;
        let to = Gradients {
            q: HeadsMut::new(d_q, layout).unwrap(),
            k: HeadsMut::new(d_k, self.k.layout).unwrap(),
            v: HeadsMut::new(d_v, self.v.layout).unwrap(),
        };
        let (o_of, d_o) = (heads(&o, &self.q), heads(&of_o, &self.d_o));
        let forward = Backward { q, k, v, o: o_of, d_o };
        attention_backward_into(gpu(), forward, &lse, to, options(), &mut scratch).unwrap();
        let gradients = gradients.map(|of| of.to_vec().unwrap());
        Found { o: o.to_vec().unwrap(), lse: lse.to_vec().unwrap(), gradients }
    }

    /// Compares every result and gradient with the reference.
    fn check(&self, dropout: Dropout<Band>, kernel: Kernel) {
        let Found { o, lse, gradients } = self.run(dropout, kernel);
        let [batches, heads, queries, depth] = self.q.layout.sizes();
        let keys = self.k.layout.rows;
        let lengths = Lengths { queries: queries as u32, keys: keys as u32 };
        let scale = 1.0 / f64::from((depth as f32).sqrt());
        for head_of_all in 0..batches * heads {
            let (batch, head) = (head_of_all / heads, head_of_all % heads);
            let factor = |query: usize, key: usize| {
                let kept = dropout.kept;
                let keeps = kept.keeps_weight(head_of_all as u32, query as u32, key as u32);
                if keeps { f64::from(kept.factor()) } else { 0.0 }
            };
            let score = |query: usize, key: usize, value: f64| {
                let Keys { first, end } = dropout.score.of_query(query as u32, lengths);
                let sees = (first..end).contains(&(key as u32));
                if sees { (value, 1.0) } else { (f64::NEG_INFINITY, 0.0) }
            };
            let rows = |host: &Host<bf16>| -> Vec<Vec<f64>> {
                (0..host.layout.rows).map(|row| host.row(batch, head, row).to_vec()).collect()
            };
            let all = [&self.q, &self.k, &self.v, &self.d_o].map(rows);
            let [q, k, v, d_o] =
                all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for (query, of_query) in q.iter().enumerate() {
                let row = expected::dropped_row(
                    of_query,
                    keys,
                    |key| k[key],
                    |key| v[key],
                    scale,
                    |key, value| score(query, key, value).0,
                    |key| factor(query, key),
                );
                let index = head_of_all * queries + query;
                let is_right = f64::from(lse[index]) == row.lse
                    || (f64::from(lse[index]) - row.lse).abs()
                        <= Rounding::BF16.bound_of_lse(&row, depth);
                assert!(is_right, "{head_of_all} {query}: {} for {}", lse[index], row.lse);
                let found = o[index * depth..][..depth].iter().zip(0..);
                for (found, i) in found.filter(|_| row.seen > 0) {
                    let bound = Rounding::BF16.bound(&row, depth, i);
                    let value = Gradient { value: row.values[i], bound };
                    near(found.exact(), value, ("results", [head_of_all, query, i]), kernel);
                }
            }
            let head_of = expected::Head { q: &q, k: &k, v: &v, d_o: &d_o, scale };
            let expected = head_of.dropped_gradients(score, factor, Rounding::BF16);
            for ((found, expected), what) in
                gradients.iter().zip(expected).zip(["queries", "keys", "values"])
            {
                let first = head_of_all * expected.len() * depth;
                let expected = expected.iter().flatten().enumerate();
                for (i, value) in expected {
                    let place = [head_of_all, i / depth, i % depth];
                    near(found[first + i].exact(), *value, (what, place), kernel);
                }
            }
        }
    }
}

fn near(found: f64, expected: Gradient, place: (&str, [usize; 3]), kernel: Kernel) {
    let error = (found - expected.value).abs();
    assert!(error <= expected.bound, "{place:?}, {kernel:?}: {found} instead of {expected:?}");
}

fn kernels() -> Vec<Kernel> {
    match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    }
}

#[test]
fn weights_are_dropped_in_both_directions() {
    for kernel in kernels() {
        let dropout = Dropout::new(Band::CAUSAL, 0.3, 1 << 40, 5);
        for sizes in [[2, 2, 70, 90, 64], [1, 2, 70, 100, 192], [1, 2, 70, 100, 256]] {
            Case::new(sizes).check(dropout, kernel);
        }
        Case::new([1, 1, 130, 200, 128]).check(Dropout::new(Band::ALL, 0.5, 3, 0), kernel);
    }
}

#[test]
fn few_rows_drop_the_same_weights() {
    let case = Case::new([1, 2, 5, 150, 64]);
    let dropout = Dropout::new(Band::ALL, 0.4, 9, 1);
    let [q, k, v] = [&case.q, &case.k, &case.v].map(|host| upload(&host.values));
    let view = |memory, host: &Host<bf16>| Heads::new(memory, host.layout).unwrap();
    let (q, k, v) = (view(&q, &case.q), view(&k, &case.k), view(&v, &case.v));
    let run = |kernel| {
        let mut o = poisoned::<bf16>(case.q.values.len());
        let to = HeadsMut::new(&mut o, case.q.layout).unwrap();
        let options = Options::new().score(dropout).kernel(kernel);
        assert_eq!(explain(gpu(), q, k, v, &to, &options).unwrap().packed_heads, 1);
        attention_into(gpu(), q, k, v, to, options, &mut Scratch::new(gpu()).unwrap()).unwrap();
        o.to_vec().unwrap()
    };
    let (few, many) = (run(Kernel::FewRows), run(Kernel::Warps));
    for (few, many) in few.iter().zip(many) {
        assert!((few.exact() - many.exact()).abs() < 0.05, "{few} {many}");
    }
}

#[test]
fn the_mask_is_that_of_the_seed() {
    let case = Case::new([1, 1, 40, 60, 64]);
    for kernel in kernels() {
        let o = |seed, offset| {
            let o = case.run(Dropout::new(Band::ALL, 0.5, seed, offset), kernel).o;
            o.into_iter().map(bf16::to_bits).collect::<Vec<_>>()
        };
        let first = o(1, 2);
        assert_eq!(first, o(1, 2));
        assert!(first != o(1, 3) && first != o(2, 2));
        // All weights are kept: the sums are those of no dropout.
        let whole = case.run(Dropout::new(Band::ALL, 0.0, 1, 2), kernel);
        let Found { o, .. } = case.run(Dropout::new(Band::ALL, 0.0, 8, 9), kernel);
        assert_eq!(whole.o, o);
    }
}
