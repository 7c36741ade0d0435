//! Attention of 8-bit floats with scales of heads, against f64 over the numbers times their scales.
//!
//! Tolerance: `reference::attention::Rounding::E4M3`, derived there, and for the errors of all elements together their root mean square: weights are rounded to
//! four bits, which is off by 2^-5 of a weight on the average at most.

use cuda_std::bf16;
use cuda_std::number::E4m3;
use ferrowarp::GpuError;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Band, HeadScales, Heads, HeadsLayout, HeadsMut, Kernel, Options, attention_scaled_into,
    attention_scaled_scratch_bytes,
};
use kernels_gpu::attention::Lengths;
use rand::RngExt;
use rand::rngs::StdRng;
use reference::attention::{self as expected, Rounding};

use crate::support::{gpu, poisoned, rng, upload};

/// 8-bit heads, and their scales: of all batches, or of one.
struct Host {
    layout: HeadsLayout,
    values: Vec<E4m3>,
    scales: Vec<f32>,
}

impl Host {
    fn new(layout: HeadsLayout, most: f32, rng: &mut StdRng) -> Self {
        let len = layout.batches * layout.batch_stride.max(layout.heads * layout.head_stride);
        let values = (0..len).map(|_| E4m3::saturating(rng.random_range(-most..most))).collect();
        // A scale for each head, or one for each head of each batch.
        let count = if rng.random() { layout.heads } else { layout.heads * layout.batches };
        let scales = (0..count).map(|_| rng.random_range(0.5..2.0)).collect();
        Self { layout, values, scales }
    }

    /// A row, times its scale.
    fn row(&self, batch: usize, head: usize, row: usize) -> Vec<f64> {
        let HeadsLayout { heads, batch_stride, head_stride, row_stride, depth, .. } = self.layout;
        let of_head = if self.scales.len() == heads { head } else { batch * heads + head };
        let scale = f64::from(self.scales[of_head]);
        let at = batch * batch_stride + head * head_stride + row * row_stride;
        self.values[at..at + depth].iter().map(|value| f64::from(value.widen()) * scale).collect()
    }
}

struct Case {
    q: Host,
    k: Host,
    v: Host,
    scale: f32,
    lengths: Option<Vec<u32>>,
}

impl Case {
    /// `[batches, heads, kv_heads, queries, keys, depth, depth of values]`.
    fn new(
        [batches, heads, kv_heads, queries, keys, depth, of_values]: [usize; 7],
        rng: &mut StdRng,
    ) -> Self {
        let mut host = |heads, rows, depth, most| {
            Host::new(HeadsLayout::by_head([batches, heads, rows, depth]), most, rng)
        };
        let q = host(heads, queries, depth, 1.0);
        let k = host(kv_heads, keys, depth, 1.0);
        Self { q, k, v: host(kv_heads, keys, of_values, 2.0), scale: 0.1, lengths: None }
    }

    fn run(&self, band: Band) -> (Vec<bf16>, Vec<f32>) {
        self.run_in(band, &mut Scratch::new(gpu()).unwrap())
    }

    fn run_in(&self, band: Band, scratch: &mut Scratch) -> (Vec<bf16>, Vec<f32>) {
        let [batches, heads, queries, _] = self.q.layout.sizes();
        let sizes = [batches, heads, queries, self.v.layout.depth];
        let hosts = [&self.q, &self.k, &self.v];
        let [q, k, v] = hosts.map(|host| upload(&host.values));
        let scales = hosts.map(|host| upload(&host.scales));
        let heads = |memory, host: &Host| Heads::new(memory, host.layout).unwrap();
        let (q, k, v) = (heads(&q, &self.q), heads(&k, &self.k), heads(&v, &self.v));
        let mut o = poisoned::<bf16>(sizes.iter().product());
        let mut lse = poisoned::<f32>(sizes[0] * sizes[1] * sizes[2]);
        let to = HeadsMut::new(&mut o, HeadsLayout::by_head(sizes)).unwrap();
        let lengths = self.lengths.as_ref().map(|lengths| upload(lengths));
        let mut options = Options::new().score(band).scale(self.scale).lse(&mut lse);
        if let Some(lengths) = &lengths {
            options = options.lengths(lengths);
        }
        let bytes = attention_scaled_scratch_bytes(gpu(), q, k, v, &to, &options).unwrap();
        scratch.reserve(gpu(), bytes).unwrap();
        let scales = HeadScales::new().q(&scales[0]).k(&scales[1]).v(&scales[2]);
        attention_scaled_into(gpu(), q, k, v, scales, to, options, scratch).unwrap();
        (o.to_vec().unwrap(), lse.to_vec().unwrap())
    }

    /// Keys, or values, of a head of a batch.
    fn rows(&self, host: &Host, batch: usize, head: usize) -> Vec<Vec<f64>> {
        let len = self.lengths.as_ref().map_or(host.layout.rows, |all| all[batch] as usize);
        let kv_head = head / (self.q.layout.heads / host.layout.heads);
        (0..len).map(|key| host.row(batch, kv_head, key)).collect()
    }

    /// The row of a query of this head, with its keys and values.
    fn expected(
        &self,
        band: Band,
        [batch, head, query]: [usize; 3],
        [k, v]: &[Vec<Vec<f64>>; 2],
    ) -> expected::Row {
        let (queries, len) = (self.q.layout.rows, k.len());
        let lengths = Lengths { queries: queries as u32, keys: len as u32 };
        let keys = band.of_query(query as u32, lengths);
        let sees = |key: usize| {
            (keys.first..keys.end).contains(&(key as u32)) || key < band.prefix as usize
        };
        expected::row(
            &self.q.row(batch, head, query),
            len,
            |key| &k[key],
            |key| &v[key],
            f64::from(self.scale),
            |key, score| if sees(key) { score } else { f64::NEG_INFINITY },
        )
    }

    /// Compares every element with the reference.
    fn check(&self, band: Band) {
        let (o, lse) = self.run(band);
        let ([_, heads, queries, depth], of_values) = (self.q.layout.sizes(), self.v.layout.depth);
        let (mut of_errors, mut of_weights) = (0.0, 0.0);
        let mut of_head = [vec![], vec![]];
        for (index, lse) in lse.iter().enumerate() {
            let place = [index / queries / heads, index / queries % heads, index % queries];
            if place[2] == 0 {
                of_head = [&self.k, &self.v].map(|host| self.rows(host, place[0], place[1]));
            }
            let row = self.expected(band, place, &of_head);
            for (i, found) in o[index * of_values..][..of_values].iter().enumerate() {
                let value = row.values.get(i).copied().unwrap_or(0.0);
                let bound = if row.seen == 0 { 0.0 } else { Rounding::E4M3.bound(&row, depth, i) };
                let error = found.to_f64() - value;
                assert!(error.abs() <= bound, "{place:?}, {i}: {found} for {value} ± {bound}");
                of_errors += error * error;
                of_weights += row.values.get(i).map_or(0.0, |_| row.magnitudes[i].powi(2));
            }
            let is_right = f64::from(*lse) == row.lse
                || (f64::from(*lse) - row.lse).abs() <= Rounding::E4M3.bound_of_lse(&row, depth);
            assert!(is_right, "{place:?}: a logarithm of {lse} instead of {}", row.lse);
        }
        assert!(of_errors <= of_weights / 1024.0, "{of_errors} of {of_weights}");
    }
}

/// Whether this device has the kernels; else the operation says that it has not.
fn is_hopper() -> bool {
    gpu().info().compute_capability == (9, 0)
}

#[test]
fn lengths_around_tiles() {
    let mut rng = rng();
    for (queries, keys) in [(1, 1), (17, 33), (64, 127), (129, 128), (130, 300)] {
        if is_hopper() {
            Case::new([1, 2, 1, queries, keys, 64, 64], &mut rng).check(Band::ALL);
        }
    }
}

#[test]
fn depths_and_bands() {
    let mut rng = rng();
    let window = Band { before: 20, after: 3, prefix: 2 };
    for (depth, of_values, band) in [
        (32, 16, window),
        (96, 80, Band::CAUSAL),
        (128, 128, Band::ALL),
        (192, 128, Band::CAUSAL),
        (256, 256, window),
    ] {
        if is_hopper() {
            Case::new([1, 1, 1, 40, 200, depth, of_values], &mut rng).check(band);
        }
    }
}

#[test]
fn values_that_do_not_fill_registers() {
    let mut rng = rng();
    if is_hopper() {
        let mut case = Case::new([1, 1, 1, 20, 70, 32, 32], &mut rng);
        // The last register of a row has one element.
        let layout = HeadsLayout { depth: 29, ..HeadsLayout::by_head([1, 1, 70, 32]) };
        case.v = Host::new(layout, 2.0, &mut rng);
        case.check(Band::ALL);
    }
}

/// So many keys that sums go to shared memory, with maxima that grow on the way there.
#[test]
fn sums_of_many_keys() {
    let mut rng = rng();
    if is_hopper() {
        // Seven blocks of keys, which are too few to be divided.
        let mut case = Case::new([1, 2, 1, 3, 1300, 16, 16], &mut rng);
        // The first keys, which come last, have the largest scores.
        for (at, value) in case.k.values.iter_mut().enumerate() {
            let grown = 1.0 + 3.0 * (1300.0 - (at / 16) as f32) / 1300.0;
            *value = E4m3::saturating(value.widen() * grown);
        }
        case.check(Band::ALL);
    }
}

#[test]
fn keys_are_divided_among_blocks() {
    let mut rng = rng();
    if is_hopper() {
        let mut case = Case::new([2, 2, 1, 5, 1500, 32, 32], &mut rng);
        case.check(Band::CAUSAL);
        // Fewer blocks of keys than splits.
        case.lengths = Some(vec![1500, 7]);
        case.check(Band::CAUSAL);
        // Counters are 0 again after each launch.
        let mut scratch = Scratch::new(gpu()).unwrap();
        let first = case.run_in(Band::CAUSAL, &mut scratch);
        assert!(case.run_in(Band::CAUSAL, &mut scratch) == first);
    }
}

#[test]
fn batches_of_different_lengths() {
    let mut rng = rng();
    if is_hopper() {
        let mut case = Case::new([4, 2, 2, 20, 200, 64, 64], &mut rng);
        case.lengths = Some(vec![200, 0, 1, 77]);
        // Values of keys that a batch does not have are not looked at.
        for value in &mut case.v.values[2 * 200 * 64 + 64..][..64] {
            *value = E4m3::from_bits(0x7f);
        }
        case.check(Band::CAUSAL);
    }
}

#[test]
fn no_keys() {
    if is_hopper() {
        let (o, lse) = Case::new([1, 2, 1, 3, 0, 64, 64], &mut rng()).run(Band::ALL);
        assert!(o.iter().all(|o| *o == bf16::ZERO));
        assert!(lse.iter().all(|lse| *lse == f32::NEG_INFINITY));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let memory: DeviceBuffer<E4m3> = upload(&vec![E4m3::saturating(1.0); 1 << 14]);
    let refusal = |sizes, change: &dyn Fn(&mut HeadsLayout), options, scales| {
        let mut layout = HeadsLayout::by_head(sizes);
        change(&mut layout);
        let x = Heads::new(&memory, layout).unwrap();
        let mut o = poisoned::<bf16>(1 << 14);
        let o = HeadsMut::new(&mut o, HeadsLayout::by_head(sizes)).unwrap();
        let mut scratch = Scratch::new(gpu()).unwrap();
        attention_scaled_into(gpu(), x, x, x, scales, o, options, &mut scratch).unwrap_err()
    };
    let no_change: &dyn Fn(&mut HeadsLayout) = &|_| ();
    let (sizes, none) = ([1, 4, 8, 64], HeadScales::new());
    if !is_hopper() {
        let error = refusal(sizes, no_change, Options::new(), none);
        assert!(error.to_string().contains("no `wgmma`"), "{error}");
        return;
    }
    let error = refusal(sizes, no_change, Options::new().kernel(Kernel::Warps), none);
    assert!(error.to_string().contains("by warps"), "{error}");
    let error = refusal(sizes, &|layout| layout.row_stride = 72, Options::new(), none);
    assert!(error.to_string().contains("16 bytes"), "{error}");
    let error = refusal([1, 1, 2, 272], no_change, Options::new(), none);
    assert!(error.to_string().contains("[128, 256]"), "{error}");
    let offsets: DeviceBuffer<u32> = upload(&[0, 8]);
    let error = refusal(sizes, no_change, Options::new().key_offsets(&offsets), none);
    assert!(error.to_string().contains("packed"), "{error}");
    let three: DeviceBuffer<f32> = upload(&[1.0; 3]);
    let error = refusal(sizes, no_change, Options::new(), HeadScales::new().k(&three));
    assert!(matches!(error, GpuError::SizeMismatch { expected: 4, found: 3, .. }), "{error}");
}
