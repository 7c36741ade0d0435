//! Attention against f64.
//!
//! Tolerance: `reference::attention::Rounding`, derived there.

use bytemuck::Pod;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Alibi, Band, Heads, HeadsLayout, HeadsMut, Kernel, Options, SoftCap, attention, attention_into,
    online_into, scratch_bytes, textbook_into,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::attention::form::AttentionKernel;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::{Lengths, Place, Score};
use rand::RngExt;
use rand::rngs::StdRng;
use reference::attention as expected;
use reference::attention::Rounding;

use crate::support::{gpu, poisoned, rng, upload};

/// An element of a test.
pub trait Element: Pod + PartialEq + Half {
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
pub struct Host<T> {
    pub layout: HeadsLayout,
    pub values: Vec<T>,
    exact: Vec<f64>,
}

impl<T: Element> Host<T> {
    pub fn new(layout: HeadsLayout, mut value: impl FnMut() -> f32) -> Self {
        let len = layout.batches * layout.batch_stride.max(layout.heads * layout.head_stride);
        let values: Vec<T> = (0..len).map(|_| T::of(value())).collect();
        let exact = values.iter().map(|value| value.exact()).collect();
        Self { layout, values, exact }
    }

    pub fn row(&self, batch: usize, head: usize, row: usize) -> &[f64] {
        let HeadsLayout { batch_stride, head_stride, row_stride, depth, .. } = self.layout;
        let at = batch * batch_stride + head * head_stride + row * row_stride;
        &self.exact[at..at + depth]
    }
}

/// What a test computes.
#[derive(Clone)]
pub struct Case<T> {
    pub q: Host<T>,
    pub k: Host<T>,
    pub v: Host<T>,
    kernel: Option<Kernel>,
    /// Keys of each batch.
    pub lengths: Option<Vec<u32>>,
    /// The pages of each batch.
    pub pages: Option<Vec<u32>>,
}

impl<T: Element> Case<T> {
    /// `[batches, heads, kv_heads, queries, keys, depth]`.
    pub fn new(
        [batches, heads, kv_heads, queries, keys, depth]: [usize; 6],
        rng: &mut StdRng,
    ) -> Self {
        let mut host = |heads, rows| {
            let layout = HeadsLayout::by_head([batches, heads, rows, depth]);
            Host::new(layout, || rng.random_range(-2.0..2.0))
        };
        let (q, k, v) = (host(heads, queries), host(kv_heads, keys), host(kv_heads, keys));
        Self { q, k, v, kernel: None, lengths: None, pages: None }
    }

    pub fn with(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    pub fn lengths(&self, batch: usize) -> Lengths {
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

    pub fn options<C: Score>(&self, score: C) -> Options<'static, C> {
        let options = Options::new().score(score);
        match self.kernel {
            Some(kernel) => options.kernel(kernel),
            None => options,
        }
    }

    /// Runs it, and compares every element with the reference.
    pub fn check<C: AttentionKernel<T>>(&self, score: C, exact: impl Fn(f64, Place) -> f64) {
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

    pub fn run<C: AttentionKernel<T>>(&self, score: C) -> GpuResult<(Vec<T>, Vec<f32>)> {
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

    pub fn expected(
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

    pub fn compare(&self, row: &expected::Row, found: &[T], lse: f32, place: [usize; 3]) {
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
pub fn kernels() -> Vec<Kernel> {
    match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    }
}

pub const SAME: fn(f64, Place) -> f64 = |score, _| score;

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
fn blocks_that_are_done_take_further_tiles() {
    // A few more than there are blocks, by a counter that is 0 again afterwards.
    let heads = gpu().info().multiprocessors as usize + 3;
    let case = Case::<bf16>::new([1, heads, heads, 3, 5, 64], &mut rng());
    case.check(Band::ALL, SAME);
    let (expected, _) = case.run(Band::ALL).unwrap();
    let [q, k, v] = [&case.q, &case.k, &case.v].map(|host| upload(&host.values));
    let view = |memory, host: &Host<bf16>| Heads::new(memory, host.layout).unwrap();
    let (q, k, v) = (view(&q, &case.q), view(&k, &case.k), view(&v, &case.v));
    let mut scratch = Scratch::new(gpu()).unwrap();
    for _ in 0..2 {
        let mut o = poisoned::<bf16>(expected.len());
        let to = HeadsMut::new(&mut o, case.q.layout).unwrap();
        attention_into(gpu(), q, k, v, to, Options::new(), &mut scratch).unwrap();
        assert!(o.to_vec().unwrap() == expected);
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
