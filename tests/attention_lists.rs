//! Lists of blocks of keys: results are those of the mask without lists, and of f64.
//!
//! Tolerance: a block whose scores are all negative infinity multiplies sums by `2^(m f - m f)`, of which one product is rounded and the other is not, so that f32 sums may differ in the
//! last bits with and without it, and results by a step of bf16.

use cuda_std::bf16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Band, BlockLists, Heads, HeadsLayout, HeadsMut, Kernel, ListsFor, Options, Strided,
    attention_into,
};
use rand::RngExt;

use crate::attention::{Case, Host};
use crate::support::{gpu, poisoned, rng, upload};

/// A case, and its tensors on the device.
struct Uploaded {
    case: Case<bf16>,
    q: DeviceBuffer<bf16>,
    k: DeviceBuffer<bf16>,
    v: DeviceBuffer<bf16>,
}

impl Uploaded {
    fn new(sizes: [usize; 6]) -> Self {
        let case = Case::<bf16>::new(sizes, &mut rng());
        let [q, k, v] = [&case.q, &case.k, &case.v].map(|host| upload(&host.values));
        Self { case, q, k, v }
    }

    fn heads<'a>(memory: &'a DeviceBuffer<bf16>, host: &Host<bf16>) -> Heads<'a, bf16> {
        Heads::new(memory, host.layout).unwrap()
    }

    /// The results with these options, and those with the lists that these options have.
    fn both(&self, mask: Strided, kernel: Kernel, lists_for: ListsFor) -> [Vec<f32>; 2] {
        let (q, k) = (Self::heads(&self.q, &self.case.q), Self::heads(&self.k, &self.case.k));
        let v = Self::heads(&self.v, &self.case.v);
        let mut scratch = Scratch::new(gpu()).unwrap();
        let new = || Options::new().kernel(kernel);
        let mut run = |is_listed: bool| {
            let mut memory = poisoned::<bf16>(self.case.q.values.len());
            let o = HeadsMut::new(&mut memory, self.case.q.layout).unwrap();
            let options = new().score(mask);
            let lists = BlockLists::new(gpu(), q, k, v, &o, &options, lists_for).unwrap();
            let (listed, all) = lists.count().unwrap();
            assert!(listed < all, "{listed} of {all} blocks");
            let options = if is_listed { new().block_lists(&lists) } else { options };
            attention_into(gpu(), q, k, v, o, options, &mut scratch).unwrap();
            memory.to_vec().unwrap().iter().map(|o| o.to_f32()).collect()
        };
        [run(false), run(true)]
    }
}

fn kernels() -> Vec<Kernel> {
    match gpu().info().compute_capability {
        (9, 0) => vec![Kernel::Hopper, Kernel::Warps],
        _ => vec![Kernel::Warps],
    }
}

/// Whether all elements differ by a step of bf16 at most.
fn are_near(expected: &[f32], found: &[f32]) -> bool {
    let pairs = expected.iter().zip(found);
    expected.len() == found.len()
        && pairs.into_iter().all(|(a, b)| (a - b).abs() <= a.abs().max(b.abs()) / 128.0)
}

#[test]
fn skipped_blocks_change_nothing() {
    let masks = [
        Strided::new(Band::CAUSAL, 256, 3),
        Strided::new(Band { before: 300, after: 20, prefix: 5 }, 200, 0),
    ];
    for kernel in kernels() {
        for (sizes, lists_for) in [
            ([1, 2, 1, 200, 440, 64], ListsFor::All),
            ([2, 2, 2, 70, 400, 128], ListsFor::EachHead),
            ([2, 3, 1, 150, 430, 64], ListsFor::EachBatch),
        ] {
            let uploaded = Uploaded::new(sizes);
            for mask in masks {
                let [expected, found] = uploaded.both(mask, kernel, lists_for);
                assert!(are_near(&expected, &found), "{kernel:?}, {sizes:?}, {mask:?}");
            }
        }
    }
}

#[test]
fn a_mask_alone_is_that_of_the_reference() {
    for kernel in kernels() {
        let mask = Strided::new(Band::CAUSAL, 30, 4);
        Case::<bf16>::new([1, 2, 1, 100, 150, 64], &mut rng()).with(kernel).check(
            mask,
            |score, at| {
                let is_own = at.own >= 0 && at.key / 30 == at.own as u32 / 30;
                if is_own || at.key % 30 >= 26 { score } else { f64::NEG_INFINITY }
            },
        );
    }
}

/// Rows that see no key of any block are 0; with a stride of one key and an own key that there is not.
#[test]
fn tiles_without_a_block_are_zero() {
    let mask = Strided::new(Band::ALL, 100, 0);
    let uploaded = Uploaded::new([1, 1, 1, 300, 100, 64]);
    for kernel in kernels() {
        let [expected, found] = uploaded.both(mask, kernel, ListsFor::All);
        // Queries of the first 200 rows stand before the first key.
        assert!(found[..200 * 64].iter().all(|o| *o == 0.0));
        assert!(are_near(&expected, &found));
    }
}

#[test]
fn lists_of_other_sizes_are_refused() {
    let layout = |rows| HeadsLayout::by_head([1, 1, rows, 64]);
    let memory: DeviceBuffer<bf16> = upload(&vec![bf16::ONE; 300 * 64]);
    let heads = |rows| Heads::new(&memory, layout(rows)).unwrap();
    let mut memory_of_o = poisoned::<bf16>(300 * 64);
    let mask = Strided::new(Band::ALL, 50, 0);
    let mut options = Options::new().score(mask);
    let (x, y) = (heads(300), heads(200));
    let o = HeadsMut::new(&mut memory_of_o, layout(300)).unwrap();
    let lists = BlockLists::new(gpu(), x, x, x, &o, &options, ListsFor::All).unwrap();
    options = Options::new().block_lists(&lists);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let error = attention_into(gpu(), x, y, y, o, options, &mut scratch).unwrap_err();
    assert!(error.to_string().contains("lists of 1 × 1 ×"), "{error}");
    let lengths: DeviceBuffer<u32> = upload(&[rng().random_range(0..300)]);
    let o = HeadsMut::new(&mut memory_of_o, layout(300)).unwrap();
    let options = Options::new().block_lists(&lists).lengths(&lengths);
    let error = attention_into(gpu(), x, x, x, o, options, &mut scratch).unwrap_err();
    assert!(error.to_string().contains("one length"), "{error}");
}
