//! Batches of different lengths, packed into one: the same bits as from a call for each batch, which other tests compare with f64.

use cuda_std::bf16;
use ferrowarp::memory::{DeviceBuffer, DeviceSlice};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Alibi, Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Kernel, Options, attention,
    attention_backward_into, attention_into, backward_scratch_bytes,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::attention::backward::form::AttentionBackwardKernel;
use kernels_gpu::attention::form::AttentionKernel;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

/// What a value of the results is before a kernel writes it.
const POISON: bf16 = bf16::from_bits(0x7fa5);

/// Rows of all batches one after the other, `[rows, heads, depth]`.
struct Rows {
    values: Vec<bf16>,
    heads: usize,
    depth: usize,
    offsets: Vec<u32>,
}

impl Rows {
    fn new([heads, depth]: [usize; 2], offsets: &[u32], rng: &mut StdRng) -> Self {
        let len = heads * depth * *offsets.last().unwrap() as usize;
        let values = (0..len).map(|_| bf16::from_f32(rng.random_range(-2.0..2.0))).collect();
        Self { values, heads, depth, offsets: offsets.to_vec() }
    }

    fn layout(&self, rows: usize) -> HeadsLayout {
        HeadsLayout::by_row([1, self.heads, rows, self.depth])
    }

    fn of_all(&self) -> HeadsLayout {
        self.layout(self.values.len() / (self.heads * self.depth))
    }

    /// The rows of one batch, as the only one.
    fn batch(&self, batch: usize) -> Self {
        let [first, end] = [batch, batch + 1].map(|at| self.offsets[at] as usize);
        let row = self.heads * self.depth;
        let values = self.values[first * row..end * row].to_vec();
        Self { values, offsets: vec![0, (end - first) as u32], ..*self }
    }
}

/// Queries, keys, values, and gradients of the results.
struct Packed {
    q: Rows,
    k: Rows,
    v: Rows,
    d_o: Rows,
}

/// Results, logarithms of sums, and gradients of queries, keys and values.
#[derive(Debug, PartialEq)]
struct Found {
    o: Vec<u16>,
    lse: Vec<u32>,
    gradients: Option<[Vec<u16>; 3]>,
}

/// How a call computes.
#[derive(Clone, Copy, Debug)]
struct Way<C> {
    score: C,
    kernel: Option<Kernel>,
    /// Whether gradients are computed, too.
    backward: bool,
}

impl Packed {
    /// `[heads, kv_heads, depth]`.
    fn new(
        [heads, kv_heads, depth]: [usize; 3],
        of_queries: &[u32],
        of_keys: &[u32],
        rng: &mut StdRng,
    ) -> Self {
        let mut rows = |heads, offsets| Rows::new([heads, depth], offsets, rng);
        let (q, d_o) = (rows(heads, of_queries), rows(heads, of_queries));
        let (k, v) = (rows(kv_heads, of_keys), rows(kv_heads, of_keys));
        Self { q, k, v, d_o }
    }

    fn batch(&self, batch: usize) -> Self {
        let [q, k, v, d_o] = [&self.q, &self.k, &self.v, &self.d_o].map(|rows| rows.batch(batch));
        Self { q, k, v, d_o }
    }

    fn run<C>(&self, way: Way<C>, is_packed: bool) -> GpuResult<Found>
    where
        C: AttentionKernel<bf16> + AttentionBackwardKernel<bf16>,
    {
        let [q, k, v, d_o] = [&self.q, &self.k, &self.v, &self.d_o].map(|of| upload(&of.values));
        let layouts = [&self.q, &self.k, &self.v, &self.q].map(Rows::of_all);
        let offsets = [&self.q, &self.k].map(|rows| upload(&rows.offsets));
        let options = || {
            let options = Options::new().score(way.score);
            let options = match way.kernel {
                Some(kernel) => options.kernel(kernel),
                None => options,
            };
            match is_packed {
                true => options.query_offsets(&offsets[0]).key_offsets(&offsets[1]),
                false => options,
            }
        };
        let [of_q, of_k, of_v, of_o] = layouts;
        let views = (Heads::new(&q, of_q)?, Heads::new(&k, of_k)?, Heads::new(&v, of_v)?);
        let mut o = upload(&vec![POISON; self.q.values.len()]);
        let mut lse = poisoned::<f32>(of_q.heads * of_q.rows);
        let mut scratch = Scratch::new(gpu())?;
        let to = HeadsMut::new(&mut o, of_o)?;
        let all = options().lse(&mut lse);
        attention_into(gpu(), views.0, views.1, views.2, to, all, &mut scratch)?;
        let gradients = match way.backward {
            false => None,
            true => {
                let mut to = [&self.q, &self.k, &self.v]
                    .map(|rows| upload(&vec![POISON; rows.values.len()]));
                let [d_q, d_k, d_v] = &mut to;
                let forward = Backward {
                    q: views.0,
                    k: views.1,
                    v: views.2,
                    o: Heads::new(&o, of_o)?,
                    d_o: Heads::new(&d_o, of_o)?,
                };
                let gradients = Gradients {
                    q: HeadsMut::new(d_q, of_q)?,
                    k: HeadsMut::new(d_k, of_k)?,
                    v: HeadsMut::new(d_v, of_v)?,
                };
                let options = options().deterministic();
                let mut scratch = Scratch::new(gpu())?;
                scratch.reserve(gpu(), backward_scratch_bytes(&of_q, &of_v, &options))?;
                let lse = &lse;
                attention_backward_into(gpu(), forward, lse, gradients, options, &mut scratch)?;
                Some(to.map(|of| bits(&of)))
            }
        };
        let lse = lse.to_vec()?.into_iter().map(f32::to_bits).collect();
        Ok(Found { o: bits(&o), lse, gradients })
    }

    /// Compares the packed call with one for each batch.
    fn check<C>(&self, way: Way<C>)
    where
        C: AttentionKernel<bf16> + AttentionBackwardKernel<bf16> + std::fmt::Debug,
    {
        let all = self.run(way, true).unwrap();
        for batch in 0..self.q.offsets.len() - 1 {
            let one = self.batch(batch);
            // A kernel that the copy engine feeds refuses tensors without rows.
            let is_empty = one.q.values.is_empty() || one.k.values.is_empty();
            let kernel = way.kernel.filter(|_| !is_empty);
            let one = one.run(Way { kernel, ..way }, false).unwrap();
            let rows = |rows: &Rows, of: &[u16]| {
                let row = rows.heads * rows.depth;
                let [first, end] = [batch, batch + 1].map(|at| rows.offsets[at] as usize * row);
                of[first..end].to_vec()
            };
            assert_eq!(rows(&self.q, &all.o), one.o, "results of {batch}, {way:?}");
            let len = self.q.of_all().rows;
            let [first, end] = [batch, batch + 1].map(|at| self.q.offsets[at] as usize);
            let lse = all.lse.chunks(len.max(1)).flat_map(|of_head| &of_head[first..end]);
            assert!(lse.eq(&one.lse), "logarithms of {batch}, {way:?}");
            let (Some(all), Some(one)) = (&all.gradients, one.gradients) else { continue };
            for ((rows_of, all), one) in [&self.q, &self.k, &self.v].into_iter().zip(all).zip(one) {
                assert!(rows(rows_of, all) == one, "gradients of {batch}, {way:?}");
            }
        }
    }
}

fn bits(of: &DeviceBuffer<bf16>) -> Vec<u16> {
    of.to_vec().unwrap().into_iter().map(bf16::to_bits).collect()
}

fn kernels() -> Vec<Kernel> {
    match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    }
}

#[test]
fn packed_batches_are_as_alone() {
    let mut rng = rng();
    // Empty ones, at the ends, too; one row; whole tiles; keys without queries and queries without keys.
    let of_queries = [0, 0, 1, 129, 129, 257, 300];
    let of_keys = [0, 30, 33, 161, 200, 264, 264];
    for kernel in kernels() {
        for (sizes, band) in [([2, 2, 64], Band::CAUSAL), ([4, 2, 128], Band::ALL)] {
            let packed = Packed::new(sizes, &of_queries, &of_keys, &mut rng);
            packed.check(Way { score: band, kernel: Some(kernel), backward: true });
        }
        let packed = Packed::new([1, 1, 40], &[0, 70, 75], &[0, 20, 160], &mut rng);
        let score = Alibi { band: Band { before: 30, after: 5, prefix: 4 }, heads: 1 };
        packed.check(Way { score, kernel: Some(kernel), backward: true });
        let (of_queries, of_keys) = ([0, 0, 1, 66, 66, 99], [0, 30, 33, 98, 99, 99]);
        for depth in [192, 256] {
            let packed = Packed::new([2, 1, depth], &of_queries, &of_keys, &mut rng);
            packed.check(Way { score: Band::CAUSAL, kernel: Some(kernel), backward: true });
        }
    }
}

#[test]
fn packed_batches_of_few_queries() {
    let mut rng = rng();
    let (of_queries, of_keys) = ([0, 1, 2, 2, 5, 6], [0, 100, 101, 130, 333, 333]);
    for kernel in kernels().into_iter().chain([Kernel::FewRows]) {
        let packed = Packed::new([8, 1, 64], &of_queries, &of_keys, &mut rng);
        packed.check(Way { score: Band::CAUSAL, kernel: Some(kernel), backward: false });
    }
}

#[test]
fn keys_of_one_batch_are_divided_among_blocks() {
    let mut rng = rng();
    for kernel in kernels() {
        // One batch alone has the parts of a packed call, whose number goes by the tensors' sizes.
        let packed = Packed::new([1, 1, 64], &[0, 20], &[0, 1500], &mut rng);
        packed.check(Way { score: Band::ALL, kernel: Some(kernel), backward: false });
    }
}

#[test]
fn packed_batches_do_not_see_each_other() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut packed = Packed::new([1, 1, 64], &[0, 70, 140], &[0, 70, 140], &mut rng);
        for rows in [&mut packed.k, &mut packed.v] {
            rows.values[70 * 64..].fill(bf16::NAN);
        }
        let way = Way { score: Band::ALL, kernel: Some(kernel), backward: true };
        let found = packed.run(way, true).unwrap();
        let is_nan = |bits: &u16| bf16::from_bits(*bits).to_f32().is_nan();
        let [d_q, d_k, d_v] = found.gradients.unwrap();
        for (of, name) in [(found.o, "o"), (d_q, "d_q"), (d_k, "d_k"), (d_v, "d_v")] {
            assert!(!of[..70 * 64].iter().any(is_nan), "{name}, {kernel:?}");
            assert!(of[70 * 64..].iter().all(is_nan), "{name}, {kernel:?}");
        }
    }
}

#[test]
fn rows_of_no_batch_stay_as_they_are() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut packed = Packed::new([1, 1, 64], &[0, 90], &[0, 60], &mut rng);
        packed.q.offsets = vec![10, 40, 80];
        packed.k.offsets = vec![5, 30, 50];
        let way = Way { score: Band::ALL, kernel: Some(kernel), backward: true };
        let Found { o, gradients, .. } = packed.run(way, true).unwrap();
        let [d_q, d_k, d_v] = gradients.unwrap();
        let of_queries = [(o, 10..80), (d_q, 10..80)];
        for (of, inside) in of_queries.into_iter().chain([(d_k, 5..50), (d_v, 5..50)]) {
            for (row, values) in of.chunks(64).enumerate() {
                let is_kept = values.iter().all(|value| *value == POISON.to_bits());
                assert_eq!(is_kept, !inside.contains(&row), "row {row} of {inside:?}, {kernel:?}");
            }
        }
    }
    let q = upload(&[bf16::ONE; 3 * 64]);
    let q = Heads::new(&q, HeadsLayout::by_head([1, 1, 3, 64])).unwrap();
    let offsets = upload(&[1, 2]);
    let options = Options::new().query_offsets(&offsets).key_offsets(&offsets);
    let o = attention(gpu(), q, q, q, options).unwrap().to_vec().unwrap();
    assert!(o[..64].iter().chain(&o[128..]).all(|o| *o == bf16::ZERO));
    assert!(o[64..128].iter().all(|o| *o == bf16::ONE));
}

#[test]
fn packed_queries_of_a_cache_in_pages() {
    let mut rng = rng();
    // Three batches with 40, 0 and 17 keys, in pages of 16; as queries of one batch each, by the same table.
    let (pages, lengths) = ([5u32, 2, 0, 9, 9, 9, 1, 3, 9], [40u32, 0, 17]);
    let of_cache = HeadsLayout::by_row([6, 2, 16, 64]);
    let cache: Vec<bf16> =
        (0..6 * 2 * 16 * 64).map(|_| bf16::from_f32(rng.random_range(-2.0..2.0))).collect();
    let cache = upload(&cache);
    let cache = Heads::new(&cache, of_cache).unwrap();
    let rows = Rows::new([4, 64], &[0, 3, 4, 9], &mut rng);
    let (q, table, lens) = (upload(&rows.values), upload(&pages), upload(&lengths));
    let offsets = upload(&rows.offsets);
    let run = |q: DeviceSlice<'_, bf16>, rows_of, options: Options<'_>| {
        let q = Heads::new(q, rows.layout(rows_of)).unwrap();
        let o = attention(gpu(), q, cache, cache, options.score(Band::CAUSAL)).unwrap();
        // `[heads, rows, depth]`.
        bits(&o)
    };
    for kernel in kernels().into_iter().chain([Kernel::FewRows]) {
        let new = || Options::new().kernel(kernel);
        let all = new().pages(&table).lengths(&lens).query_offsets(&offsets);
        let all = run(q.slice(..), 9, all);
        for batch in 0..3 {
            let [first, end] = [batch, batch + 1].map(|at| rows.offsets[at] as usize);
            let (pages, len) = (upload(&pages[3 * batch..][..3]), upload(&lengths[batch..=batch]));
            let q = q.slice(first * 256..end * 256);
            let one = run(q, end - first, new().pages(&pages).lengths(&len));
            let of_all = all.chunks(9 * 64).flat_map(|of| &of[first * 64..end * 64]);
            assert!(of_all.eq(&one), "{batch}, {kernel:?}");
        }
    }
}

#[test]
fn offsets_that_do_not_fit_are_refused() {
    let memory: DeviceBuffer<bf16> = poisoned(1 << 12);
    let heads = |sizes| Heads::new(&memory, HeadsLayout::by_head(sizes)).unwrap();
    let refusal = |of_q, of_k, options| {
        attention(gpu(), heads(of_q), heads(of_k), heads(of_k), options).unwrap_err()
    };
    let [one, two] = [[1, 1, 8, 64], [2, 1, 8, 64]];
    let (none, of_one, of_two) = (poisoned::<u32>(0), upload(&[0u32, 8]), upload(&[0u32, 4, 8]));
    let new = Options::new;
    let error = refusal(one, one, new().query_offsets(&none)).to_string();
    assert!(error.contains("one more than there are batches"), "{error}");
    let error = refusal(two, one, new().query_offsets(&of_two)).to_string();
    assert!(error.contains("queries are rows of one batch"), "{error}");
    let error = refusal(one, one, new().query_offsets(&of_two)).to_string();
    assert!(error.contains("offsets are of 2 batches"), "{error}");
    let error = refusal(one, one, new().query_offsets(&of_two).key_offsets(&of_one));
    assert!(matches!(error, GpuError::SizeMismatch { expected: 3, found: 2, .. }), "{error}");
    let lengths = upload(&[4u32]);
    let paged = new().pages(&lengths).lengths(&lengths).key_offsets(&of_one);
    let error = refusal(one, one, paged).to_string();
    assert!(error.contains("have no offsets"), "{error}");
}
