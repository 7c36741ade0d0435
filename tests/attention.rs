//! Attention against f64.
//!
//! Tolerance: `reference::attention::Rounding`, derived there.

use bytemuck::Pod;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Alibi, Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Kernel, Options, SoftCap,
    attention, attention_backward_into, attention_into, backward_scratch_bytes, explain,
    online_into, scratch_bytes, textbook_into,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::attention::backward::form::AttentionBackwardKernel;
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::{Lengths, Place, Score};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::attention as expected;
use reference::attention::Rounding;

use crate::support::{gpu, poisoned, rng, upload};

/// An element of a test.
trait Element: Pod + PartialEq + Half {
    const ROUNDING: Rounding;
    fn of(value: f32) -> Self;
    fn exact(self) -> f64;
}

impl Element for bf16 {
    const ROUNDING: Rounding = Rounding::BF16;
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

impl Element for f16 {
    const ROUNDING: Rounding = Rounding::F16;
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

/// Heads on the host.
#[derive(Clone)]
struct Host<T> {
    layout: HeadsLayout,
    values: Vec<T>,
    exact: Vec<f64>,
}

impl<T: Element> Host<T> {
    fn new(layout: HeadsLayout, mut value: impl FnMut() -> f32) -> Self {
        let len = layout.batches * layout.batch_stride.max(layout.heads * layout.head_stride);
        let values: Vec<T> = (0..len).map(|_| T::of(value())).collect();
        let exact = values.iter().map(|value| value.exact()).collect();
        Self { layout, values, exact }
    }

    fn row(&self, batch: usize, head: usize, row: usize) -> &[f64] {
        let HeadsLayout { batch_stride, head_stride, row_stride, depth, .. } = self.layout;
        let at = batch * batch_stride + head * head_stride + row * row_stride;
        &self.exact[at..at + depth]
    }
}

/// What a test computes.
struct Case<T> {
    q: Host<T>,
    k: Host<T>,
    v: Host<T>,
    kernel: Option<Kernel>,
    /// Keys of each batch.
    lengths: Option<Vec<u32>>,
    /// The pages of each batch.
    pages: Option<Vec<u32>>,
}

impl<T: Element> Case<T> {
    /// `[batches, heads, kv_heads, queries, keys, depth]`.
    fn new([batches, heads, kv_heads, queries, keys, depth]: [usize; 6], rng: &mut StdRng) -> Self {
        let mut host = |heads, rows| {
            let layout = HeadsLayout::by_head([batches, heads, rows, depth]);
            Host::new(layout, || rng.random_range(-2.0..2.0))
        };
        let (q, k, v) = (host(heads, queries), host(kv_heads, keys), host(kv_heads, keys));
        Self { q, k, v, kernel: None, lengths: None, pages: None }
    }

    fn with(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    fn lengths(&self, batch: usize) -> Lengths {
        let keys = match &self.lengths {
            Some(lengths) => lengths[batch],
            None => self.k.layout.rows as u32,
        };
        Lengths { queries: self.q.layout.rows as u32, keys }
    }

    /// The batch, or page, and the row there, of a key.
    fn place(&self, batch: usize, key: usize) -> (usize, usize) {
        let Some(pages) = &self.pages else { return (batch, key) };
        let (len, of_batch) = (self.k.layout.rows, pages.len() / self.q.layout.batches);
        (pages[batch * of_batch + key / len] as usize, key % len)
    }

    fn options<C: Score>(&self, score: C) -> Options<'static, C> {
        let options = Options::new().score(score);
        match self.kernel {
            Some(kernel) => options.kernel(kernel),
            None => options,
        }
    }

    /// Runs it, and compares every element with the reference.
    fn check<C: AttentionKernel<T>>(&self, score: C, exact: impl Fn(f64, Place) -> f64) {
        let of_q = self.q.layout;
        let sizes = [of_q.batches, of_q.heads, of_q.rows, self.v.layout.depth];
        let (o, lse) = self.run(score).unwrap();
        for batch in 0..of_q.batches {
            for head in 0..of_q.heads {
                for query in 0..of_q.rows {
                    let row = self.expected(score, &exact, [batch, head, query]);
                    let index = (batch * sizes[1] + head) * sizes[2] + query;
                    self.compare(
                        &row,
                        &o[index * sizes[3]..][..sizes[3]],
                        lse[index],
                        [batch, head, query],
                    );
                }
            }
        }
    }

    fn run<C: AttentionKernel<T>>(&self, score: C) -> GpuResult<(Vec<T>, Vec<f32>)> {
        let of_q = self.q.layout;
        let sizes = [of_q.batches, of_q.heads, of_q.rows, self.v.layout.depth];
        let rows = sizes[0] * sizes[1] * sizes[2];
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|host| upload(&host.values));
        let heads = |memory, host: &Host<T>| Heads::new(memory, host.layout).unwrap();
        let (q, k, v) = (heads(&q, &self.q), heads(&k, &self.k), heads(&v, &self.v));
        let (mut o, mut lse) = (poisoned::<T>(rows * sizes[3]), poisoned::<f32>(rows));
        let lengths = self.lengths.as_ref().map(|lengths| upload(lengths));
        let pages = self.pages.as_ref().map(|pages| upload(pages));
        let mut options = self.options(score).lse(&mut lse);
        if let Some(lengths) = &lengths {
            options = options.lengths(lengths);
        }
        if let Some(pages) = &pages {
            options = options.pages(pages);
        }
        let to = HeadsMut::new(&mut o, HeadsLayout::by_head(sizes))?;
        let mut scratch = Scratch::new(gpu())?;
        scratch.reserve(gpu(), scratch_bytes(gpu(), q, k, v, &to, &options)?)?;
        attention_into(gpu(), q, k, v, to, options, &mut scratch)?;
        Ok((o.to_vec()?, lse.to_vec()?))
    }

    fn expected(
        &self,
        score: impl Score,
        exact: impl Fn(f64, Place) -> f64,
        [batch, head, query]: [usize; 3],
    ) -> expected::Row {
        let lengths = self.lengths(batch);
        let kv_head = head / (self.q.layout.heads / self.k.layout.heads);
        let band = score.band();
        let keys = band.of_query(query as u32, lengths);
        let own = query as i32 + lengths.keys as i32 - lengths.queries as i32;
        let of_key = |host, key| {
            let (batch, row) = self.place(batch, key);
            Host::row(host, batch, kv_head, row)
        };
        expected::row(
            self.q.row(batch, head, query),
            lengths.keys as usize,
            |key| of_key(&self.k, key),
            |key| of_key(&self.v, key),
            1.0 / f64::from((self.q.layout.depth as f32).sqrt()),
            |key, value| {
                let key = key as u32;
                if !(keys.first..keys.end).contains(&key) && key >= band.prefix {
                    return f64::NEG_INFINITY;
                }
                let (batch, head, query) = (batch as u32, head as u32, query as u32);
                exact(value, Place { batch, head, query, key, own })
            },
        )
    }

    fn compare(&self, row: &expected::Row, found: &[T], lse: f32, place: [usize; 3]) {
        let depth = self.q.layout.depth;
        for (i, found) in found.iter().enumerate() {
            let (found, value) = (found.exact(), row.values.get(i).copied().unwrap_or(0.0));
            let bound = if row.seen == 0 { 0.0 } else { T::ROUNDING.bound(row, depth, i) };
            assert!(
                (found - value).abs() <= bound,
                "{place:?}, {i}: {found} instead of {value} ± {bound}"
            );
        }
        let lse = f64::from(lse);
        let is_right =
            lse == row.lse || (lse - row.lse).abs() <= T::ROUNDING.bound_of_lse(row, depth);
        assert!(is_right, "{place:?}: a logarithm of {lse} instead of {}", row.lse);
    }
}

/// The kernels that this device has for many rows.
fn kernels() -> Vec<Kernel> {
    match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    }
}

const SAME: fn(f64, Place) -> f64 = |score, _| score;

#[test]
fn lengths_around_tiles() {
    let mut rng = rng();
    for kernel in kernels() {
        for (queries, keys) in
            [(1, 1), (17, 64), (64, 65), (65, 127), (127, 128), (129, 129), (130, 300)]
        {
            Case::<bf16>::new([1, 2, 1, queries, keys, 64], &mut rng)
                .with(kernel)
                .check(Band::ALL, SAME);
        }
    }
}

#[test]
fn bands() {
    let mut rng = rng();
    let bands = [
        Band::CAUSAL,
        Band { before: 20, after: 0, prefix: 0 },
        Band { before: 50, after: 10, prefix: 3 },
        Band { before: 0, after: 0, prefix: 0 },
        Band { before: u32::MAX, after: 0, prefix: 150 },
    ];
    for kernel in kernels() {
        for band in bands {
            for (queries, keys) in [(150, 150), (40, 170), (140, 60)] {
                Case::<bf16>::new([1, 1, 1, queries, keys, 64], &mut rng)
                    .with(kernel)
                    .check(band, SAME);
            }
        }
    }
}

#[test]
fn depths_and_types() {
    let mut rng = rng();
    for kernel in kernels() {
        for depth in [8, 64, 80, 128, 192, 256] {
            Case::<bf16>::new([1, 1, 1, 70, 200, depth], &mut rng)
                .with(kernel)
                .check(Band::CAUSAL, SAME);
        }
        Case::<f16>::new([2, 1, 1, 70, 200, 128], &mut rng).with(kernel).check(Band::ALL, SAME);
    }
}

#[test]
fn values_of_another_depth() {
    let mut rng = rng();
    for kernel in kernels() {
        for (depth, of_values) in [(192, 128), (64, 40), (24, 72)] {
            let mut case = Case::<bf16>::new([1, 2, 2, 40, 90, depth], &mut rng).with(kernel);
            let layout = HeadsLayout::by_head([1, 2, 90, of_values]);
            case.v = Host::new(layout, || rng.random_range(-2.0..2.0));
            case.check(Band::ALL, SAME);
        }
    }
}

#[test]
fn heads_that_share_keys_are_rows_of_one() {
    let mut rng = rng();
    for kernel in kernels() {
        for (heads, kv_heads, queries) in [(8, 1, 5), (6, 1, 40), (12, 3, 33), (8, 2, 3)] {
            Case::<bf16>::new([2, heads, kv_heads, queries, 140, 64], &mut rng)
                .with(kernel)
                .check(Band::CAUSAL, SAME);
        }
    }
}

#[test]
fn few_rows() {
    let mut rng = rng();
    for (heads, kv_heads, queries, depth) in [
        (8, 1, 1, 128),
        (8, 1, 2, 64),
        (3, 3, 16, 128),
        (4, 2, 7, 192),
        (16, 1, 1, 256),
        (1, 1, 1, 40),
    ] {
        for keys in [1, 63, 64, 300] {
            let case = Case::<bf16>::new([2, heads, kv_heads, queries, keys, depth], &mut rng);
            case.check(Band::CAUSAL, SAME);
            case.with(Kernel::FewRows).check(Band::CAUSAL, SAME);
        }
    }
    Case::<f16>::new([1, 2, 2, 1, 2000, 64], &mut rng).check(Band::ALL, SAME);
}

#[test]
fn keys_are_divided_among_blocks() {
    let mut rng = rng();
    for kernel in kernels() {
        let case = Case::<bf16>::new([1, 2, 1, 30, 2000, 64], &mut rng).with(kernel);
        let (q, k, o) =
            (upload(&case.q.values), upload(&case.k.values), &mut poisoned::<bf16>(30 * 128));
        let q = Heads::new(&q, case.q.layout).unwrap();
        let k = Heads::new(&k, case.k.layout).unwrap();
        let o = HeadsMut::new(o, case.q.layout).unwrap();
        let choice = explain(gpu(), q, k, k, &o, &case.options(Band::ALL)).unwrap();
        assert!(choice.splits > 1, "{choice}");
        assert!(choice.to_string().contains("divided among"));
        case.check(Band::ALL, SAME);
        case.check(Band { before: 1500, after: 0, prefix: 0 }, SAME);
    }
}

#[test]
fn strides_are_free() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut case = Case::<bf16>::new([2, 2, 2, 70, 70, 64], &mut rng).with(kernel);
        let layout = HeadsLayout::by_row([2, 2, 70, 64]);
        for host in [&mut case.q, &mut case.k, &mut case.v] {
            *host = Host::new(layout, || rng.random_range(-2.0..2.0));
        }
        // Queries, keys and values side by side, as one linear layer gives them.
        let row_stride = 3 * layout.row_stride;
        case.k.layout = HeadsLayout { row_stride, batch_stride: 70 * row_stride, ..layout };
        case.k = Host::new(case.k.layout, || rng.random_range(-2.0..2.0));
        case.check(Band::CAUSAL, SAME);
    }
}

#[test]
fn rows_that_are_not_aligned() {
    let mut rng = rng();
    for depth in [1, 3, 33, 65] {
        let case = Case::<bf16>::new([1, 2, 1, 40, 90, depth], &mut rng);
        case.check(Band::ALL, SAME);
        case.with(Kernel::Warps).check(Band::CAUSAL, SAME);
    }
}

#[test]
fn scores_go_through_functors() {
    let mut rng = rng();
    for kernel in kernels() {
        let case = Case::<bf16>::new([1, 4, 2, 70, 150, 64], &mut rng).with(kernel);
        // The approximate tangent is off by 2^-11 at most: the cap is small, so that the bound holds it.
        let cap = 2.0_f32.powi(-8);
        case.check(SoftCap { band: Band::ALL, cap }, |score, _| {
            f64::from(cap) * (score / f64::from(cap)).tanh()
        });
        case.check(Alibi { band: Band::CAUSAL, heads: 4 }, |score, at| {
            let slope = 2f64.powf(-8.0 * f64::from(at.head + 1) / 4.0);
            score - slope * f64::from(at.own - at.key as i32).abs()
        });
    }
}

#[test]
fn batches_of_different_lengths() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut case = Case::<bf16>::new([4, 2, 1, 20, 200, 64], &mut rng).with(kernel);
        case.lengths = Some(vec![200, 0, 1, 77]);
        case.check(Band::CAUSAL, SAME);
    }
    let mut case = Case::<bf16>::new([4, 2, 1, 1, 200, 64], &mut rng);
    case.lengths = Some(vec![200, 0, 1, 77]);
    case.check(Band::ALL, SAME);
}

#[test]
fn keys_in_pages() {
    let mut rng = rng();
    let kernels = kernels().into_iter().chain([Kernel::FewRows]);
    for kernel in kernels {
        let queries = if kernel == Kernel::FewRows { [1, 3] } else { [1, 40] };
        for (queries, page, depth) in [
            (queries[0], 16, 128),
            (queries[1], 32, 64),
            (queries[1], 64, 192),
            (queries[0], 128, 256),
            (queries[1], 256, 128),
            (queries[1], if kernel == Kernel::Hopper { 8 } else { 1 }, 64),
        ] {
            let of_batch = 256 / page;
            let mut case =
                Case::<bf16>::new([2, 4, 1, queries, page, depth], &mut rng).with(kernel);
            let layout = HeadsLayout::by_row([2 * of_batch + 1, 1, page, depth]);
            case.k = Host::new(layout, || rng.random_range(-2.0..2.0));
            case.v = Host::new(layout, || rng.random_range(-2.0..2.0));
            case.lengths = Some(vec![200, 77]);
            // From the last to the first; an entry that no key needs names a page that there is not.
            let mut pages: Vec<u32> = (0..2 * of_batch as u32).rev().collect();
            if page < 128 {
                pages[2 * of_batch - 1] = 1 << 30;
            }
            case.pages = Some(pages);
            case.check(Band::CAUSAL, SAME);
        }
    }
}

#[test]
fn pages_that_there_are_not_are_zero() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut case = Case::<bf16>::new([1, 1, 1, 2, 16, 64], &mut rng).with(kernel);
        case.k = Host::new(HeadsLayout::by_head([2, 1, 16, 64]), || rng.random_range(-2.0..2.0));
        case.v = Host::new(case.k.layout, || 1.0);
        (case.lengths, case.pages) = (Some(vec![32]), Some(vec![1, u32::MAX]));
        let (o, _) = case.run(Band::ALL).unwrap();
        assert!(o.iter().all(|o| o.to_f32() > 0.0 && o.to_f32() < 1.0));
    }
}

#[test]
fn large_scores() {
    let mut rng = rng();
    for kernel in kernels() {
        for scale in [100.0, 1e4] {
            let mut case = Case::<bf16>::new([1, 1, 1, 20, 150, 64], &mut rng).with(kernel);
            case.q = Host::new(case.q.layout, || scale * if rng.random() { 1.0 } else { -1.0 });
            // Scores are whole numbers of scales: the largest keys take all of the weight.
            case.k = Host::new(case.k.layout, || if rng.random() { 1.0 } else { -1.0 });
            let (o, lse) = case.run(Band::ALL).unwrap();
            assert!(
                o.iter().all(|o| o.exact().is_finite()) && lse.iter().all(|lse| lse.is_finite())
            );
            for (query, lse) in lse.into_iter().enumerate() {
                let row = case.expected(Band::ALL, SAME, [0, 0, query]);
                let error = (f64::from(lse) - row.lse).abs();
                assert!(error <= Rounding::BF16.bound_of_lse(&row, 64), "{error}");
            }
        }
    }
}

type Step = fn(
    Heads<'_, bf16>,
    Heads<'_, bf16>,
    Heads<'_, bf16>,
    HeadsMut<'_, bf16>,
    Options<'_>,
) -> GpuResult<()>;

#[test]
fn steps_of_the_staircase() {
    let mut rng = rng();
    for (queries, keys, depth) in [(1, 1, 8), (33, 70, 64), (20, 45, 100), (9, 40, 256)] {
        for band in [Band::ALL, Band::CAUSAL, Band { before: 7, after: 2, prefix: 0 }] {
            let case = Case::<bf16>::new([2, 4, 2, queries, keys, depth], &mut rng);
            let [q, k, v] = [&case.q, &case.k, &case.v].map(|host| upload(&host.values));
            let heads = |memory, host: &Host<bf16>| Heads::new(memory, host.layout).unwrap();
            let (q, k, v) = (heads(&q, &case.q), heads(&k, &case.k), heads(&v, &case.v));
            let steps: [Step; 2] = [
                |q, k, v, o, options| textbook_into(gpu(), q, k, v, o, options),
                |q, k, v, o, options| online_into(gpu(), q, k, v, o, options),
            ];
            for step in steps {
                let mut o = poisoned::<bf16>(case.q.values.len());
                let to = HeadsMut::new(&mut o, case.q.layout).unwrap();
                step(q, k, v, to, Options::new().score(band)).unwrap();
                let o = o.to_vec().unwrap();
                for row in 0..8 * queries {
                    let place = [row / (4 * queries), row / queries % 4, row % queries];
                    let expected = case.expected(band, SAME, place);
                    let lse = expected.lse as f32;
                    case.compare(&expected, &o[row * depth..][..depth], lse, place);
                }
            }
        }
    }
    let case = Case::<bf16>::new([1, 1, 1, 2, 2, 8], &mut rng);
    let (q, mut o) = (upload(&case.q.values), poisoned::<bf16>(16));
    let q = Heads::new(&q, case.q.layout).unwrap();
    let to = HeadsMut::new(&mut o, case.q.layout).unwrap();
    let error = online_into(gpu(), q, q, q, to, Options::new().kernel(Kernel::Warps)).unwrap_err();
    assert!(error.to_string().contains("no other option"), "{error}");
}

#[test]
fn nan_and_infinity_reach_the_rows_that_see_them() {
    let mut rng = rng();
    for kernel in kernels() {
        let mut case = Case::<bf16>::new([1, 1, 1, 100, 100, 64], &mut rng).with(kernel);
        case.k.values[60 * 64] = bf16::NAN;
        let (o, _) = case.run(Band::CAUSAL).unwrap();
        let is_nan = |row: usize| o[row * 64..][..64].iter().all(|o| o.to_f32().is_nan());
        assert!(is_nan(60) && is_nan(99));
        assert!(o[..60 * 64].iter().all(|o| o.to_f32().is_finite()));
    }
}

/// The gradients of queries, keys and values by the device.
fn backward<T: Element, C: AttentionKernel<T> + AttentionBackwardKernel<T>>(
    case: &Case<T>,
    d_o: &Host<T>,
    score: C,
) -> GpuResult<[Vec<T>; 3]> {
    let (o, lse) = case.run(score)?;
    let (o, lse) = (upload(&o), upload(&lse));
    let [q, k, v, of_o] = [&case.q, &case.k, &case.v, d_o].map(|host| upload(&host.values));
    let heads = |memory, host: &Host<T>| Heads::new(memory, host.layout);
    let forward = Backward {
        q: heads(&q, &case.q)?,
        k: heads(&k, &case.k)?,
        v: heads(&v, &case.v)?,
        o: Heads::new(&o, HeadsLayout::by_head(d_o.layout.sizes()))?,
        d_o: heads(&of_o, d_o)?,
    };
    let mut to = [&case.q, &case.k, &case.v].map(|host| poisoned::<T>(host.values.len()));
    let [d_q, d_k, d_v] = &mut to;
    let gradients = Gradients {
        q: HeadsMut::new(d_q, case.q.layout)?,
        k: HeadsMut::new(d_k, case.k.layout)?,
        v: HeadsMut::new(d_v, case.v.layout)?,
    };
    let mut scratch = Scratch::new(gpu())?;
    scratch.reserve(gpu(), backward_scratch_bytes(&case.q.layout))?;
    let options = Options::new().score(score);
    attention_backward_into(gpu(), forward, &lse, gradients, options, &mut scratch)?;
    Ok(to.map(|gradients| gradients.to_vec().unwrap()))
}

/// Computes gradients, and compares every element with the reference.
fn check_backward<T: Element, C: AttentionKernel<T> + AttentionBackwardKernel<T>>(
    case: &Case<T>,
    score: C,
    exact: impl Fn(f64, Place) -> (f64, f64),
    rng: &mut StdRng,
) {
    let [batches, heads, queries, depth] = case.q.layout.sizes();
    let (kv_heads, keys) = (case.k.layout.heads, case.k.layout.rows);
    let of_o = HeadsLayout::by_row([batches, heads, queries, case.v.layout.depth]);
    let d_o = Host::<T>::new(of_o, || rng.random_range(-1.0..1.0));
    let found = backward(case, &d_o, score).unwrap();
    let lengths = case.lengths(0);
    for (batch, kv_head) in
        (0..batches).flat_map(|batch| (0..kv_heads).map(move |head| (batch, head)))
    {
        let mut of_keys: [Option<expected::Rows>; 2] = [None, None];
        for head in kv_head * heads / kv_heads..(kv_head + 1) * heads / kv_heads {
            let rows = |host: &Host<T>, head, len: usize| -> Vec<Vec<f64>> {
                (0..len).map(|row| host.row(batch, head, row).to_vec()).collect()
            };
            let all = [
                rows(&case.q, head, queries),
                rows(&case.k, kv_head, keys),
                rows(&case.v, kv_head, keys),
                rows(&d_o, head, queries),
            ];
            let [q, k, v, of_o] =
                all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let scale = 1.0 / f64::from((depth as f32).sqrt());
            let head_of = expected::Head { q: &q, k: &k, v: &v, d_o: &of_o, scale };
            let [d_q, d_k, d_v] = head_of.gradients(
                |query, key, value| {
                    let seen = score.band().of_query(query as u32, lengths);
                    let (query, key) = (query as u32, key as u32);
                    if !(seen.first..seen.end).contains(&key) && key >= score.band().prefix {
                        return (f64::NEG_INFINITY, 0.0);
                    }
                    let own = query as i32 + keys as i32 - queries as i32;
                    let (batch, head) = (batch as u32, head as u32);
                    exact(value, Place { batch, head, query, key, own })
                },
                T::ROUNDING,
            );
            compare_gradients("queries", &case.q, &found[0], &d_q, [batch, head]);
            for (sum, of_head) in of_keys.iter_mut().zip([d_k, d_v]) {
                match sum {
                    None => *sum = Some(of_head),
                    Some(sum) => sum.iter_mut().flatten().zip(of_head.iter().flatten()).for_each(
                        |(sum, one)| {
                            sum.value += one.value;
                            sum.bound += one.bound;
                        },
                    ),
                }
            }
        }
        let [d_k, d_v] = of_keys.map(Option::unwrap_or_default);
        compare_gradients("keys", &case.k, &found[1], &d_k, [batch, kv_head]);
        compare_gradients("values", &case.v, &found[2], &d_v, [batch, kv_head]);
    }
}

fn compare_gradients<T: Element>(
    what: &str,
    host: &Host<T>,
    found: &[T],
    expected: &expected::Rows,
    [batch, head]: [usize; 2],
) {
    let HeadsLayout { batch_stride, head_stride, row_stride, .. } = host.layout;
    for (row, of_row) in expected.iter().enumerate() {
        for (i, gradient) in of_row.iter().enumerate() {
            let found =
                found[batch * batch_stride + head * head_stride + row * row_stride + i].exact();
            let error = (found - gradient.value).abs();
            assert!(
                error <= gradient.bound,
                "{what} {batch} {head} {row} {i}: {found} instead of {gradient:?}"
            );
        }
    }
}

const SAME_SLOPE: fn(f64, Place) -> (f64, f64) = |score, _| (score, 1.0);

#[test]
fn gradients_of_lengths_around_tiles() {
    let mut rng = rng();
    for (queries, keys) in [(1, 1), (17, 64), (64, 65), (65, 127), (128, 63), (130, 150)] {
        let case = Case::<bf16>::new([1, 2, 2, queries, keys, 64], &mut rng);
        check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
        check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
    }
}

#[test]
fn gradients_of_bands() {
    let mut rng = rng();
    for band in [
        Band { before: 20, after: 0, prefix: 0 },
        Band { before: 30, after: 10, prefix: 3 },
        Band { before: u32::MAX, after: 0, prefix: 90 },
    ] {
        for (queries, keys) in [(150, 150), (40, 130), (140, 60)] {
            let case = Case::<bf16>::new([1, 1, 1, queries, keys, 64], &mut rng);
            check_backward(&case, band, SAME_SLOPE, &mut rng);
        }
    }
}

#[test]
fn gradients_of_shared_keys_depths_and_types() {
    let mut rng = rng();
    for depth in [3, 40, 80, 128] {
        let case = Case::<bf16>::new([2, 4, 2, 50, 90, depth], &mut rng);
        check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
    }
    let case = Case::<f16>::new([1, 6, 1, 40, 70, 64], &mut rng);
    check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
    let mut case = Case::<bf16>::new([1, 2, 1, 40, 70, 96], &mut rng);
    case.v = Host::new(HeadsLayout::by_row([1, 1, 70, 64]), || rng.random_range(-2.0..2.0));
    check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
}

#[test]
fn gradients_go_through_functors() {
    let mut rng = rng();
    let case = Case::<bf16>::new([1, 4, 2, 70, 100, 64], &mut rng);
    check_backward(
        &case,
        Alibi { band: Band::CAUSAL, heads: 4 },
        |score, at| {
            let slope = 2f64.powf(-8.0 * f64::from(at.head + 1) / 4.0);
            (score - slope * f64::from(at.own - at.key as i32).abs(), 1.0)
        },
        &mut rng,
    );
}

#[test]
fn gradients_of_capped_scores_are_near() {
    // The approximate tangent is off by 2^-11: no bound, but a hundredth of the largest gradient.
    let mut rng = rng();
    let case = Case::<bf16>::new([1, 1, 1, 30, 40, 64], &mut rng);
    let d_o =
        Host::<bf16>::new(HeadsLayout::by_head([1, 1, 30, 64]), || rng.random_range(-1.0..1.0));
    let found = backward(&case, &d_o, SoftCap { band: Band::ALL, cap: 1.5 }).unwrap();
    let rows = |host: &Host<bf16>, len: usize| -> Vec<Vec<f64>> {
        (0..len).map(|row| host.row(0, 0, row).to_vec()).collect()
    };
    let all = [rows(&case.q, 30), rows(&case.k, 40), rows(&case.v, 40), rows(&d_o, 30)];
    let [q, k, v, of_o] =
        all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let head = expected::Head { q: &q, k: &k, v: &v, d_o: &of_o, scale: 0.125 };
    let capped = |_, _, score: f64| {
        let tangent = (score / 1.5).tanh();
        (1.5 * tangent, 1.0 - tangent * tangent)
    };
    for (found, expected) in found.iter().zip(head.gradients(capped, Rounding::BF16)) {
        let expected: Vec<f64> = expected.iter().flatten().map(|gradient| gradient.value).collect();
        let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found.exact() - expected).abs() < largest / 100.0,
                "{found} instead of {expected}"
            );
        }
    }
}

#[test]
fn gradients_are_the_same_bits_again() {
    let mut rng = rng();
    let case = Case::<bf16>::new([2, 4, 2, 70, 90, 64], &mut rng);
    let d_o =
        Host::<bf16>::new(HeadsLayout::by_head([2, 4, 70, 64]), || rng.random_range(-1.0..1.0));
    let bits = || {
        let found = backward(&case, &d_o, Band::CAUSAL).unwrap();
        found.map(|of| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    assert_eq!(bits(), bits());
}

#[test]
fn gradients_of_what_sees_nothing_are_zero() {
    let mut rng = rng();
    // The first 60 of 100 queries stand before the first of 40 keys.
    let case = Case::<bf16>::new([1, 1, 1, 100, 40, 64], &mut rng);
    let d_o =
        Host::<bf16>::new(HeadsLayout::by_head([1, 1, 100, 64]), || rng.random_range(-1.0..1.0));
    let [d_q, ..] = backward(&case, &d_o, Band::CAUSAL).unwrap();
    assert!(d_q[..60 * 64].iter().all(|x| *x == bf16::ZERO));
    assert!(d_q[60 * 64..].iter().any(|x| *x != bf16::ZERO));
    let none = Case::<bf16>::new([1, 2, 1, 3, 0, 64], &mut rng);
    let d_o = Host::<bf16>::new(HeadsLayout::by_head([1, 2, 3, 64]), || 1.0);
    let [d_q, ..] = backward(&none, &d_o, Band::ALL).unwrap();
    assert!(d_q.iter().all(|x| *x == bf16::ZERO));
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let mut rng = rng();
    let refusal = |case: &Case<bf16>, of_o: HeadsLayout| {
        let d_o = Host::<bf16>::new(of_o, || 1.0);
        let GpuError::InvalidArgument { reason, .. } = backward(case, &d_o, Band::ALL).unwrap_err()
        else {
            panic!("another error")
        };
        reason
    };
    let case = Case::<bf16>::new([1, 1, 1, 4, 4, 192], &mut rng);
    assert!(refusal(&case, HeadsLayout::by_head([1, 1, 4, 192])).contains("1 to 128 elements"));
    let case = Case::<bf16>::new([1, 1, 1, 4, 4, 64], &mut rng);
    let reason = refusal(&case, HeadsLayout::by_head([1, 1, 3, 64]));
    assert!(reason.contains("queries are 1 × 1 × 4 × 64"), "{reason}");
    // An option of the forward pass alone.
    let x = upload(&case.q.values);
    let x = Heads::new(&x, case.q.layout).unwrap();
    let mut to = [0; 3].map(|_| poisoned::<bf16>(case.q.values.len()));
    let [d_q, d_k, d_v] = to.each_mut().map(|to| HeadsMut::new(to, case.q.layout).unwrap());
    let gradients = Gradients { q: d_q, k: d_k, v: d_v };
    let forward = Backward { q: x, k: x, v: x, o: x, d_o: x };
    let (lse, options) = (poisoned::<f32>(4), Options::new().kernel(Kernel::Warps));
    let mut scratch = Scratch::new(gpu()).unwrap();
    let result = attention_backward_into(gpu(), forward, &lse, gradients, options, &mut scratch);
    assert!(result.unwrap_err().to_string().contains("no other option"));
}

#[test]
fn the_same_bits_again() {
    let mut rng = rng();
    for kernel in kernels() {
        let case = Case::<bf16>::new([1, 4, 2, 40, 900, 64], &mut rng).with(kernel);
        let bits =
            || case.run(Band::ALL).unwrap().0.iter().map(|o| o.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(), bits());
    }
}

#[test]
fn nothing_to_do() {
    let mut rng = rng();
    let (o, lse) = Case::<bf16>::new([1, 2, 1, 3, 0, 64], &mut rng).run(Band::ALL).unwrap();
    assert!(o.iter().all(|o| *o == bf16::ZERO) && lse.iter().all(|lse| *lse == f32::NEG_INFINITY));
    assert!(Case::<bf16>::new([0, 2, 1, 3, 5, 64], &mut rng).run(Band::ALL).unwrap().0.is_empty());
    assert!(Case::<bf16>::new([1, 2, 1, 0, 5, 64], &mut rng).run(Band::ALL).unwrap().0.is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let memory: DeviceBuffer<bf16> = poisoned(1 << 16);
    let heads = |sizes| Heads::new(&memory, HeadsLayout::by_head(sizes)).unwrap();
    let refusal = |q, k, v, options| {
        let error = attention(gpu(), heads(q), heads(k), heads(v), options).unwrap_err();
        let GpuError::InvalidArgument { reason, .. } = error else { panic!("{error}") };
        reason
    };
    let new = Options::new;
    let [q, k] = [[1, 4, 8, 64], [1, 2, 8, 64]];
    assert_eq!(
        refusal(q, k, [1, 2, 9, 64], new()),
        "keys are 1 × 2 × 8 × 64, and values 1 × 2 × 9 × 64"
    );
    let three = [1, 3, 8, 64];
    assert_eq!(
        refusal(q, three, three, new()),
        "4 heads of queries are no multiple of 3 heads of keys"
    );
    let long = [1, 1, 2, 300];
    assert!(refusal(long, long, long, new()).contains("[64, 128, 192, 256]"));
    assert!(refusal(q, k, k, new().scale(0.0)).contains("positive and finite"));
    let short = [1, 2, 8, 32];
    assert_eq!(
        refusal(q, short, short, new()),
        "queries are 1 × 4 × 8 × 64, and keys 1 × 2 × 8 × 32"
    );
    let wide = [1, 4, 40, 64];
    assert!(refusal(wide, wide, wide, new().kernel(Kernel::FewRows)).contains("more than 16"));
    let pages: DeviceBuffer<u32> = upload(&[0]);
    assert!(refusal(q, k, k, new().pages(&pages)).contains("Options::lengths"));
    let lengths: DeviceBuffer<u32> = upload(&[1, 2]);
    let error =
        attention(gpu(), heads(q), heads(k), heads(k), new().lengths(&lengths)).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 1, found: 2, .. }), "{error}");
}
