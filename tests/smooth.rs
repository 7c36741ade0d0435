//! The four forms of `smooth` against a plain loop, bit for bit: the products are exact, and the sums have one order.

use ferrowarp::graph::GraphBuilder;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::{Grid1, LaunchConfig};
use kernels_gpu::stencil::smoothing::{
    CLUSTER, CLUSTER_CELLS, smooth, smooth_cluster, smooth_cooperative, smooth_dependent,
};

use crate::support::{SIZES, assert_same_bits, floats, gpu, poisoned, rng, upload};

const ROUNDS: [usize; 4] = [0, 1, 2, 9];

/// Sizes that all forms take as one array, and one beside each end of a block.
fn sizes() -> impl Iterator<Item = usize> {
    SIZES.into_iter().chain([1023, 1024, 1025, 8191, 8192]).filter(|n| *n <= CLUSTER_CELLS)
}

/// Runs a form that does one round in each launch.
fn one_by_one(x: &[f32], rounds: usize, round: impl Fn(&Cells, &mut Cells)) -> Vec<f32> {
    let (mut cells, mut next) = (upload(x), poisoned(x.len()));
    for _ in 0..rounds {
        round(&cells, &mut next);
        std::mem::swap(&mut cells, &mut next);
    }
    cells.to_vec().unwrap()
}

type Cells = DeviceBuffer<f32>;

fn by_launches(x: &[f32], rounds: usize) -> Vec<f32> {
    let all = LaunchConfig::for_num_elems(x.len());
    one_by_one(x, rounds, |cells, next| smooth::launch(gpu(), all, cells, next).unwrap())
}

fn dependent(x: &[f32], rounds: usize) -> Vec<f32> {
    let all = LaunchConfig::for_num_elems(x.len());
    one_by_one(x, rounds, |cells, next| smooth_dependent::launch(gpu(), all, cells, next).unwrap())
}

/// A graph of as many launches, each behind the one before.
fn dependent_graph(x: &[f32], rounds: usize) -> Vec<f32> {
    let all = LaunchConfig::for_num_elems(x.len());
    let (mut from, mut to) = (upload(x), poisoned(x.len()));
    let builder = GraphBuilder::new(gpu());
    for _ in 0..rounds {
        smooth_dependent::launch(&builder, all, &from, &mut to).unwrap();
        std::mem::swap(&mut from, &mut to);
    }
    let mut graph = builder.build((from, to)).unwrap();
    graph.launch(gpu()).unwrap();
    graph.wait().unwrap().0.to_vec().unwrap()
}

/// With a barrier that `before` launches have used.
fn cooperative(x: &[f32], rounds: usize, blocks: u32, before: usize) -> Vec<f32> {
    let mut counter = DeviceBuffer::zeroed(gpu(), 1).unwrap();
    let mut found = Vec::new();
    for _ in 0..=before {
        let (mut cells, mut next) = (upload(x), poisoned(x.len()));
        let (grid, rounds) = (Grid1::new(blocks), rounds as u32);
        smooth_cooperative::launch(gpu(), grid, rounds, &mut counter, &mut cells, &mut next)
            .unwrap();
        found = if rounds.is_multiple_of(2) { cells } else { next }.to_vec().unwrap();
    }
    found
}

fn cluster(x: &[f32], rounds: usize) -> Vec<f32> {
    let mut cells = upload(x);
    let grid = Grid1::new(CLUSTER * x.len().div_ceil(CLUSTER_CELLS) as u32);
    smooth_cluster::launch(gpu(), grid, rounds as u32, &mut cells).unwrap();
    cells.to_vec().unwrap()
}

/// Whether the device has clusters; the others are told so.
fn has_clusters() -> bool {
    let has = gpu().compute_capability() >= (9, 0);
    if !has {
        println!("does not apply: clusters begin with compute capability 9.0");
    }
    has
}

#[test]
fn every_size_and_form() {
    let (mut rng, clusters) = (rng(), has_clusters());
    for n in sizes() {
        let x = floats(&mut rng, n);
        for rounds in ROUNDS {
            let expected = reference::smooth::smooth(&x, rounds);
            let grid = smooth_cooperative::grid_for(n).blocks;
            assert_same_bits(&by_launches(&x, rounds), &expected);
            assert_same_bits(&dependent(&x, rounds), &expected);
            assert_same_bits(&dependent_graph(&x, rounds), &expected);
            assert_same_bits(&cooperative(&x, rounds, grid, 0), &expected);
            if clusters {
                assert_same_bits(&cluster(&x, rounds), &expected);
            }
        }
    }
}

#[test]
fn a_cooperative_grid_of_any_size_strides_and_uses_its_barrier_again() {
    let x = floats(&mut rng(), 5003);
    let expected = reference::smooth::smooth(&x, 5);
    for blocks in [1, 2, 3, 7] {
        for before in [0, 1, 2] {
            assert_same_bits(&cooperative(&x, 5, blocks, before), &expected);
        }
    }
}

#[test]
fn each_cluster_has_an_array_of_its_own() {
    if !has_clusters() {
        return;
    }
    let x = floats(&mut rng(), 2 * CLUSTER_CELLS + 1500);
    let expected: Vec<f32> =
        x.chunks(CLUSTER_CELLS).flat_map(|own| reference::smooth::smooth(own, 4)).collect();
    assert_same_bits(&cluster(&x, 4), &expected);
}

#[test]
fn nan_and_infinity_spread_by_one_cell_in_a_round() {
    let mut x = vec![1.0f32; 2100];
    (x[0], x[1024], x[2099]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let expected = reference::smooth::smooth(&x, 3);
    assert!(expected[3].is_nan() && expected[4] == 1.0 && expected[1027].is_infinite());
    assert_same_bits(&by_launches(&x, 3), &expected);
    assert_same_bits(&dependent(&x, 3), &expected);
    assert_same_bits(&cooperative(&x, 3, 2, 0), &expected);
    if has_clusters() {
        assert_same_bits(&cluster(&x, 3), &expected);
    }
}
