//! Attention whose keys are divided among blocks, of which the last one to store its split of a tile combines all splits: against f64, and the same bits in every run.

use cuda_std::bf16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Band, Choice, Heads, HeadsLayout, HeadsMut, Kernel, Options, attention_into, explain,
    scratch_bytes,
};
use ferrowarp::{AsStream, GpuResult, graph_buffers};
use kernels_gpu::attention::{hopper, warps};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::attention::{Case, Host, SAME, kernels};
use crate::support::{gpu, poisoned, rng, upload};

/// All kernels of this device.
fn all_kernels() -> impl Iterator<Item = Kernel> {
    kernels().into_iter().chain([Kernel::FewRows])
}

/// Keys of which each of `splits` blocks has as few as there may be, and some more.
fn keys_of(kernel: Kernel, splits: usize, depth: usize) -> usize {
    let depth = depth.next_multiple_of(64);
    let keys = match kernel {
        Kernel::Hopper => hopper::keys_of_block(depth),
        _ => warps::keys_of_block(depth),
    };
    4 * splits * keys + 5
}

/// Tensors on the device.
struct Uploaded {
    q: DeviceBuffer<bf16>,
    k: DeviceBuffer<bf16>,
    v: DeviceBuffer<bf16>,
    o: DeviceBuffer<bf16>,
    lse: DeviceBuffer<f32>,
}

graph_buffers!(Uploaded { q, k, v, o, lse });

impl Uploaded {
    fn new(case: &Case<bf16>) -> Self {
        let [q, k, v] = [&case.q, &case.k, &case.v].map(|host| upload(&host.values));
        let [batches, heads, rows, depth] = case.q.layout.sizes();
        let len = batches * heads * rows;
        Self { q, k, v, o: poisoned(len * depth), lse: poisoned(len) }
    }

    /// How the keys are divided, and the bytes of scratch.
    fn explain(&mut self, case: &Case<bf16>) -> (Choice, usize) {
        let heads = |memory, host: &Host<bf16>| Heads::new(memory, host.layout).unwrap();
        let [q, k, v] = [(&self.q, &case.q), (&self.k, &case.k), (&self.v, &case.v)]
            .map(|(memory, host)| heads(memory, host));
        let (o, options) =
            (HeadsMut::new(&mut self.o, case.q.layout).unwrap(), case.options(Band::ALL));
        let choice = explain(gpu(), q, k, v, &o, &options).unwrap();
        (choice, scratch_bytes(gpu(), q, k, v, &o, &options).unwrap())
    }

    fn run(
        &mut self,
        on: &impl AsStream,
        case: &Case<bf16>,
        scratch: &mut Scratch,
    ) -> GpuResult<()> {
        let q = Heads::new(&self.q, case.q.layout)?;
        let k = Heads::new(&self.k, case.k.layout)?;
        let v = Heads::new(&self.v, case.v.layout)?;
        let o = HeadsMut::new(&mut self.o, case.q.layout)?;
        attention_into(on, q, k, v, o, case.options(Band::ALL).lse(&mut self.lse), scratch)
    }

    /// The bits of results and logarithms, which are poisoned for the next run.
    fn take(&mut self) -> (Vec<u16>, Vec<u32>) {
        let (o, lse) = (self.o.to_vec().unwrap(), self.lse.to_vec().unwrap());
        self.o.copy_from_host(&vec![bf16::MAX; o.len()]).unwrap();
        self.lse.copy_from_host(&vec![f32::MAX; lse.len()]).unwrap();
        (o.into_iter().map(bf16::to_bits).collect(), lse.into_iter().map(f32::to_bits).collect())
    }
}

/// A case whose keys are divided among `splits` blocks: `[batches, heads, kv_heads, queries, depth]`.
fn divided(
    kernel: Kernel,
    splits: usize,
    [batches, heads, kv_heads, queries, depth]: [usize; 5],
    rng: &mut StdRng,
) -> Case<bf16> {
    let keys = keys_of(kernel, splits, depth);
    let case = Case::new([batches, heads, kv_heads, queries, keys, depth], rng).with(kernel);
    let (choice, _) = Uploaded::new(&case).explain(&case);
    assert_eq!(choice.splits, splits as u32, "{choice}");
    assert!(choice.to_string().contains("divided among"));
    case
}

#[test]
fn numbers_of_parts_and_of_queries() {
    let mut rng = rng();
    for kernel in all_kernels() {
        for (splits, heads, kv_heads, queries) in
            [(2, 3, 3, 1), (3, 4, 2, 8), (7, 5, 1, 1), (2, 1, 1, 16)]
        {
            let sizes = [1, heads, kv_heads, queries, 64];
            let case = divided(kernel, splits, sizes, &mut rng);
            case.check(Band::ALL, SAME);
            case.check(Band { before: 300, after: 0, prefix: 0 }, SAME);
        }
    }
    // More than a warp has lanes.
    divided(Kernel::FewRows, 37, [1, 1, 1, 2, 64], &mut rng).check(Band::CAUSAL, SAME);
}

#[test]
fn many_rows() {
    let mut rng = rng();
    for kernel in kernels() {
        // A whole tile, and some rows of the next one.
        divided(kernel, 2, [1, 2, 1, 100, 64], &mut rng).check(Band::CAUSAL, SAME);
    }
}

#[test]
fn depths() {
    let mut rng = rng();
    for kernel in all_kernels() {
        for depth in [33, 40, 128, 192, 256] {
            if depth % 8 == 0 || kernel != Kernel::Hopper {
                divided(kernel, 2, [1, 2, 1, 3, depth], &mut rng).check(Band::ALL, SAME);
            }
        }
    }
}

#[test]
fn fewer_blocks_of_keys_than_parts() {
    let mut rng = rng();
    for kernel in all_kernels() {
        let [page, pages] = [64, keys_of(kernel, 7, 64).div_ceil(64)];
        let mut case = Case::<bf16>::new([4, 4, 2, 3, page, 64], &mut rng).with(kernel);
        let layout = HeadsLayout::by_row([4 * pages, 2, page, 64]);
        case.k = Host::new(layout, || rng.random_range(-2.0..2.0));
        case.v = Host::new(layout, || rng.random_range(-2.0..2.0));
        // All, some blocks, none, and one key.
        case.lengths = Some(vec![(pages * page) as u32, 300, 0, 1]);
        case.pages = Some((0..4 * pages as u32).rev().collect());
        case.check(Band::CAUSAL, SAME);
    }
}

#[test]
fn packed_batches() {
    let mut rng = rng();
    let (of_queries, of_keys) = ([0, 3, 3, 20], [0, 600, 800, 1900]);
    // The last two rows are of no batch.
    let (rows, heads, kv_heads) = (22, 4, 2);
    for kernel in kernels() {
        let cases = [0, 1, 2].map(|batch| {
            let len = |of: &[usize; 4]| of[batch + 1] - of[batch];
            let sizes = [1, heads, kv_heads, len(&of_queries), len(&of_keys), 64];
            Case::<bf16>::new(sizes, &mut rng)
        });
        // `[rows, heads, depth]`.
        let packed = |host: fn(&Case<bf16>) -> &Host<bf16>| {
            let mut values = Vec::new();
            for host in cases.iter().map(host) {
                let [_, heads, rows, depth] = host.layout.sizes();
                for at in 0..rows * heads {
                    let first = (at % heads * rows + at / heads) * depth;
                    values.extend_from_slice(&host.values[first..first + depth]);
                }
            }
            values
        };
        let mut of_q = packed(|case| &case.q);
        of_q.resize(rows * heads * 64, bf16::ONE);
        let [q, k, v] =
            [of_q, packed(|case| &case.k), packed(|case| &case.v)].map(|of| upload(&of));
        let of_o = HeadsLayout::by_row([1, heads, rows, 64]);
        let layout = HeadsLayout::by_row([1, kv_heads, 1900, 64]);
        let (mut o, mut lse) = (poisoned::<bf16>(rows * heads * 64), poisoned::<f32>(rows * heads));
        let poison = o.to_vec().unwrap()[0].to_bits();
        let offsets = [of_queries, of_keys].map(|of| upload(&of.map(|row| row as u32)));
        let options = Options::new().score(Band::CAUSAL).kernel(kernel);
        let options = options.query_offsets(&offsets[0]).key_offsets(&offsets[1]).lse(&mut lse);
        let (q, k) = (Heads::new(&q, of_o).unwrap(), Heads::new(&k, layout).unwrap());
        let (v, to) = (Heads::new(&v, layout).unwrap(), HeadsMut::new(&mut o, of_o).unwrap());
        assert!(explain(gpu(), q, k, v, &to, &options).unwrap().splits > 1);
        attention_into(gpu(), q, k, v, to, options, &mut Scratch::new(gpu()).unwrap()).unwrap();
        let (o, lse) = (o.to_vec().unwrap(), lse.to_vec().unwrap());
        for (batch, case) in cases.iter().enumerate() {
            for at in 0..(of_queries[batch + 1] - of_queries[batch]) * heads {
                let (query, head) = (at / heads, at % heads);
                let row = of_queries[batch] + query;
                let expected = case.expected(Band::CAUSAL, SAME, [0, head, query]);
                let found = &o[(row * heads + head) * 64..][..64];
                case.compare(&expected, found, lse[head * rows + row], [batch, head, query]);
            }
        }
        assert!(o[20 * heads * 64..].iter().all(|o| o.to_bits() == poison));
    }
}

#[test]
fn special_numbers() {
    let mut rng = rng();
    for kernel in all_kernels() {
        let mut case = divided(kernel, 3, [1, 1, 1, 16, 64], &mut rng);
        // The key of query 13 is in the last split.
        let key = case.k.layout.rows - 3;
        case.k.values[key * 64] = bf16::NAN;
        let (o, lse) = case.run(Band::CAUSAL).unwrap();
        for (row, lse) in lse.into_iter().enumerate() {
            let is_nan = o[row * 64..][..64].iter().map(|o| o.to_f32().is_nan());
            assert!(is_nan.chain([lse.is_nan()]).all(|is_nan| is_nan == (row >= 13)), "{row}");
        }
        for scale in [100.0, 1e4] {
            let mut case = divided(kernel, 3, [1, 1, 1, 4, 64], &mut rng);
            case.q = Host::new(case.q.layout, || scale * if rng.random() { 1.0 } else { -1.0 });
            case.k = Host::new(case.k.layout, || if rng.random() { 1.0 } else { -1.0 });
            case.v = Host::new(case.v.layout, || 1e4 * if rng.random() { 1.0 } else { -1.0 });
            let (o, lse) = case.run(Band::ALL).unwrap();
            assert!(o.iter().all(|o| o.to_f32().is_finite()));
            for (query, lse) in lse.into_iter().enumerate() {
                let row = case.expected(Band::ALL, SAME, [0, 0, query]);
                let error = (f64::from(lse) - row.lse).abs();
                let bound = reference::attention::Rounding::BF16.bound_of_lse(&row, 64);
                assert!(error <= bound, "{error}");
            }
        }
    }
}

/// Counters are 0 again after each launch, and bits do not depend on which block is the last.
#[test]
fn launches_with_the_same_scratch() {
    let mut rng = rng();
    for kernel in all_kernels() {
        let [one, other] = [(7, [2, 3, 1, 2, 64]), (2, [1, 5, 5, 3, 64])]
            .map(|(splits, sizes)| divided(kernel, splits, sizes, &mut rng));
        let mut scratch = Scratch::new(gpu()).unwrap();
        let [mut on_one, mut on_other] = [Uploaded::new(&one), Uploaded::new(&other)];
        let mut found = Vec::new();
        for _ in 0..3 {
            on_one.run(gpu(), &one, &mut scratch).unwrap();
            on_other.run(gpu(), &other, &mut scratch).unwrap();
            found.push((on_one.take(), on_other.take()));
        }
        on_one.run(gpu(), &one, &mut Scratch::new(gpu()).unwrap()).unwrap();
        on_other.run(gpu(), &other, &mut Scratch::new(gpu()).unwrap()).unwrap();
        let expected = (on_one.take(), on_other.take());
        assert!(found.iter().all(|found| *found == expected), "{kernel:?}");
    }
}

#[test]
fn a_captured_launch_is_replayed() -> GpuResult<()> {
    let mut rng = rng();
    for kernel in [Kernel::Hopper, Kernel::Warps, Kernel::FewRows] {
        let case = divided(kernel, 3, [1, 3, 1, 2, 64], &mut rng);
        let mut tensors = Uploaded::new(&case);
        let (_, bytes) = tensors.explain(&case);
        tensors.run(gpu(), &case, &mut Scratch::new(gpu())?)?;
        let expected = tensors.take();
        let mut scratch = Scratch::new(gpu())?;
        scratch.reserve(gpu(), bytes)?;
        let captured = gpu().stream().capture(|stream| tensors.run(stream, &case, &mut scratch))?;
        let mut graph = captured.build((tensors, scratch))?;
        // One launch.
        assert_eq!(graph.len(), 1);
        for _ in 0..2 {
            graph.launch(gpu())?;
            graph.wait()?;
            assert!(graph.buffers_mut().0.take() == expected, "{kernel:?}");
        }
    }
    Ok(())
}
