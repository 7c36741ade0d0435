//! Matrix products whose last tiles are streamed: their steps along K are divided evenly among all blocks.
//!
//! Tolerance: as in `matmul.rs`. The cases are made for a device of 132 multiprocessors; on others some may have no tile to stream.

use cuda_std::grid_constant::MapWords;
use cuda_std::{bf16, f16};
use ferrowarp::GpuError;
use ferrowarp::graph::{Graph, GraphBuilder, GraphError, GraphNode};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::matmul::{
    Choice, Kernel, Matrix, MatrixMut, Options, Order, choices, matmul_into,
};
use ferrowarp::ops::{Scratch, reduce};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{ColumnBias, Factor, Gelu, Plain, Then};

use crate::matmul::{Element, Host, compare, many, product, uniform};
use crate::support::{assert_same_bits, gpu, rng, upload};

/// A batch of products: as many matrices, `m × k` times `k × n`.
#[derive(Clone, Copy)]
struct Case {
    batches: usize,
    sizes: [usize; 3],
    orders: [Order; 3],
}

/// Blocks of the device: one tile takes a whole multiprocessor, but for the slim ones, of which there are two at a time.
fn blocks() -> usize {
    gpu().info().multiprocessors as usize
}

/// The choices of a case that stream tiles. There is one on each device with warpgroups, so that no test passes for want of it.
fn streamed<T: Factor + Element, D: Element>(a: &Host<T>, b: &Host<T>, d: &Host<D>) -> Vec<Choice> {
    let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&d.values));
    let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let view = MatrixMut::new(&mut out, d.layout).unwrap();
    let all = choices(gpu(), x, y, &view).unwrap().into_iter();
    let all: Vec<Choice> = all.filter(|choice| choice.streamed > 0).collect();
    let has_warpgroups = gpu().info().compute_capability == (9, 0);
    assert_eq!(all.is_empty(), !has_warpgroups, "{} times {}", a.layout, b.layout);
    all
}

/// Each choice that streams tiles gives the product.
fn check<T: Element + Factor, D: Element>(case: Case, (alpha, beta): (f32, f32))
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (mut rng, Case { batches, sizes: [m, n, k], orders: [of_a, of_b, of_d] }) = (rng(), case);
    let a = Host::<T>::new(many(of_a, m, k, batches), uniform(&mut rng));
    let b = Host::<T>::new(many(of_b, k, n, batches), uniform(&mut rng));
    let d = Host::<D>::new(many(of_d, m, n, batches), uniform(&mut rng));
    for choice in streamed(&a, &b, &d) {
        let found = product(&a, &b, None, &d, (alpha, beta), Some(choice)).unwrap();
        compare(&a, &b, None, &d, (alpha, beta), &found, &format!("by {choice}"));
    }
}

const ROW: Order = Order::RowMajor;
const COLUMN: Order = Order::ColumnMajor;

#[test]
fn a_tile_of_many_blocks() {
    // Two tiles of any width, with a step or two for each block: 66 blocks have steps of a tile. The last step is one of 3 along K.
    let k = 64 * (blocks() / 2) + 64 + 3;
    let case = Case { batches: 1, sizes: [121, 377, k], orders: [ROW, COLUMN, ROW] };
    check::<bf16, f32>(case, (0.5, 0.0));
    check::<f16, f16>(Case { orders: [COLUMN, ROW, COLUMN], ..case }, (1.0, -2.0));
}

#[test]
fn tiles_of_two_blocks() {
    // Two tiles more than blocks, of two steps: each block ends one tile and begins another, and stores D beyond whose end no box may reach.
    let case = Case { batches: blocks() + 2, sizes: [20, 33, 100], orders: [ROW, ROW, ROW] };
    check::<bf16, bf16>(case, (1.0, 1.0));
    // Fewer tiles than blocks, of which two, or three, have steps.
    let case = Case { batches: blocks() - 40, sizes: [70, 8, 200], orders: [ROW, COLUMN, COLUMN] };
    check::<f16, f32>(case, (-1.0, 0.0));
}

#[test]
fn a_tile_of_all_blocks() {
    // One slim tile, with a step or two for each block: more blocks than a warp has lanes give sums to the last one.
    let k = 64 * (2 * blocks() + 36);
    let case = Case { batches: 1, sizes: [5, 100, k], orders: [ROW, ROW, ROW] };
    check::<bf16, bf16>(case, (1.0, 1.0));
    let case = Case { batches: 1, sizes: [120, 16, k], orders: [ROW, COLUMN, ROW] };
    check::<f16, f32>(case, (1.0, 0.0));
}

#[test]
fn whole_tiles_come_first() {
    // A round of whole tiles, and then a round and two tiles whose steps are divided.
    let case = Case { batches: 2 * blocks() + 2, sizes: [9, 16, 72], orders: [ROW, COLUMN, ROW] };
    check::<bf16, bf16>(case, (1.0, 0.0));
    // Tiles of one step, which no two blocks share: some blocks have one tile, others two.
    let case = Case { batches: 2 * blocks() - 7, sizes: [9, 16, 40], orders: [COLUMN, ROW, ROW] };
    check::<bf16, bf16>(case, (2.0, 1.0));
    // A round of slim tiles, and two tiles more.
    let case = Case { batches: 4 * blocks() + 2, sizes: [9, 16, 72], orders: [ROW, COLUMN, ROW] };
    check::<f16, f16>(case, (1.0, 0.0));
}

#[test]
fn an_epilogue_is_applied_once_to_the_whole_sum() {
    let (mut rng, batches, [m, n, k]) = (rng(), blocks() + 1, [17, 24, 100]);
    let a = Host::<bf16>::new(many(ROW, m, k, batches), uniform(&mut rng));
    let b = Host::<bf16>::new(many(COLUMN, k, n, batches), uniform(&mut rng));
    let d = Host::<bf16>::new(many(ROW, m, n, batches), || 7.0);
    let bias: Vec<bf16> = (0..n).map(|j| bf16::from_f32(j as f32 / 8.0 - 1.0)).collect();
    let (x, y, vector) = (upload(&a.values), upload(&b.values), upload(&bias));
    let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let run = |choice: Choice| {
        let mut out = upload(&d.values);
        let options = Options::new().alpha(0.5).per_column(&vector).choice(choice);
        let options = options.epilogue(Then(ColumnBias, Gelu));
        let view = MatrixMut::new(&mut out, d.layout).unwrap();
        matmul_into(gpu(), x, y, view, options, &mut Scratch::new(gpu()).unwrap()).unwrap();
        out.to_vec().unwrap()
    };
    for choice in streamed(&a, &b, &d) {
        // By the kernel whose tiles are not shared: sums are added in another order, and rounded to bf16 in the end.
        let whole = run(unstreamed(&a, &b, &d, choice));
        for (place, (one, other)) in run(choice).iter().zip(whole).enumerate() {
            let (one, other) = (one.to_f32(), other.to_f32());
            // Sums of 100 products below 1, halved, are off by less than 2^-10, which GELU's slope of at most 1.13 may enlarge; bf16 has 8 bits.
            let allowed = 2f32.powi(-9) + one.abs().max(other.abs()) * 2f32.powi(-7);
            // What lies between the rows of D is NaN, and stays.
            let is_near = (one - other).abs() <= allowed || one.to_bits() == other.to_bits();
            assert!(is_near, "{place}: {one} and {other} by {choice}");
        }
    }
}

/// The choice with the tile of `choice` that streams none.
fn unstreamed(a: &Host<bf16>, b: &Host<bf16>, d: &Host<bf16>, choice: Choice) -> Choice {
    let (x, y, mut out) = (upload(&a.values), upload(&b.values), upload(&d.values));
    let (x, y) = (Matrix::new(&x, a.layout).unwrap(), Matrix::new(&y, b.layout).unwrap());
    let view = MatrixMut::new(&mut out, d.layout).unwrap();
    let is_whole = |other: &Choice| {
        other.kernel == choice.kernel && (other.streamed, other.splits, other.parts) == (0, 1, 1)
    };
    choices(gpu(), x, y, &view).unwrap().into_iter().find(is_whole).unwrap()
}

/// What [`scratch_is_used_again`] multiplies: D grows by the product each time.
struct Buffers {
    a: DeviceBuffer<bf16>,
    b: DeviceBuffer<bf16>,
    d: DeviceBuffer<f32>,
    scratch: Scratch,
}

ferrowarp::graph_buffers!(Buffers { a, b, d, scratch });

/// The first node of a captured graph, which has the name of its kernel.
fn first_node(graph: &Graph<Buffers>) -> GraphNode {
    let GpuError::Graph(error) = graph.node("").unwrap_err() else { panic!("another error") };
    let GraphError::NoNode { known, .. } = *error else { panic!("{error}") };
    graph.node(&known[0]).unwrap()
}

#[test]
fn scratch_is_used_again() {
    // Two tiles of 192 columns, with a step or two for each block.
    let (mut rng, [m, n, k]) = (rng(), [10, 200, 64 * (blocks() / 2) + 64]);
    let a = Host::<bf16>::new(many(ROW, m, k, 1), uniform(&mut rng));
    let b = Host::<bf16>::new(many(COLUMN, k, n, 1), uniform(&mut rng));
    let d = Host::<f32>::new(many(ROW, m, n, 1), || 1.0);
    let Some(&choice) = streamed(&a, &b, &d).first() else { return };
    let new = || Buffers {
        a: upload(&a.values),
        b: upload(&b.values),
        d: upload(&d.values),
        scratch: Scratch::new(gpu()).unwrap(),
    };
    let run = |buffers: &mut Buffers| {
        let x = Matrix::new(&buffers.a, a.layout)?;
        let y = Matrix::new(&buffers.b, b.layout)?;
        let view = MatrixMut::new(&mut buffers.d, d.layout)?;
        let options = Options::new().beta(1.0).choice(choice);
        matmul_into(gpu(), x, y, view, options, &mut buffers.scratch)
    };
    // Each time with a scratch that no product has used.
    let mut fresh = new();
    for _ in 0..3 {
        fresh.scratch = Scratch::new(gpu()).unwrap();
        run(&mut fresh).unwrap();
    }
    let expected = fresh.d.to_vec().unwrap();

    let mut again = new();
    let ones = upload(&vec![1i32; 300_000]);
    for _ in 0..3 {
        run(&mut again).unwrap();
        // The flags are the counters of other operations, which find them 0.
        let mut sum = upload(&[0i32]);
        reduce::sum_into(gpu(), &ones, &mut sum, &mut again.scratch).unwrap();
        assert_eq!(sum.to_vec().unwrap(), [300_000]);
    }
    assert_same_bits(&again.d.to_vec().unwrap(), &expected);

    // A graph has the launch, and its replays find what the last one left.
    let (builder, mut captured) = (GraphBuilder::new(gpu()), new());
    captured.scratch.reserve(gpu(), again.scratch.size_bytes()).unwrap();
    builder.capture(|| run(&mut captured)).unwrap();
    let mut graph = builder.build(captured).unwrap();
    for _ in 0..3 {
        graph.launch(gpu()).unwrap();
    }
    assert_same_bits(&graph.wait().unwrap().d.to_vec().unwrap(), &expected);
    // The maps of the launch have the addresses of its matrices.
    let own = std::mem::replace(&mut graph.buffers_mut().a, upload(&a.values));
    let error = graph.launch(gpu()).unwrap_err();
    // The kernel's B is A where it computes the transpose.
    let name =
        if matches!(choice.kernel, Kernel::Hopper { is_exchanged: true, .. }) { "b" } else { "a" };
    let text = format!("would use other memory as `{name}` than the graph was made for");
    assert!(error.to_string().contains(&text), "{error}");
    graph.buffers_mut().a = own;
    // Other maps have other addresses, too.
    let maps = graph.parameter::<[MapWords; 3]>(&first_node(&graph), "maps").unwrap();
    let error = graph.set(maps, [MapWords::default(); 3]).unwrap_err();
    assert!(error.to_string().contains("whose launch is unsafe"), "{error}");
    graph.launch(gpu()).unwrap();
    graph.wait().unwrap();
}

#[test]
fn no_more_scratch_is_taken_than_allowed() {
    let (m, n, k) = (67 * 128, 192, 128);
    let (a, b) = (upload(&vec![bf16::ONE; m * k]), upload(&vec![bf16::ONE; k * n]));
    let (a, b) = (Matrix::row_major(&a, m, k).unwrap(), Matrix::row_major(&b, k, n).unwrap());
    let mut d = upload(&vec![0.0f32; m * n]);
    let all = choices(gpu(), a, b, &MatrixMut::row_major(&mut d, m, n).unwrap()).unwrap();
    for choice in all.into_iter().filter(|choice| choice.streamed > 0) {
        let Kernel::Hopper { tile, .. } = choice.kernel else { panic!("{choice}") };
        let bytes = choice.blocks * 128 * tile.columns() * size_of::<f32>();
        let mut scratch = Scratch::new(gpu()).unwrap();
        let mut run = |most| {
            let options = Options::new().choice(choice).most_scratch_bytes(most);
            let view = MatrixMut::row_major(&mut d, m, n).unwrap();
            matmul_into(gpu(), a, b, view, options, &mut scratch)
        };
        let error = run(bytes - 1).unwrap_err();
        assert!(error.to_string().contains("the scratch would be more than"), "{error}");
        run(bytes).unwrap();
        assert!(d.to_vec().unwrap().iter().all(|x| *x == k as f32), "{choice}");
    }
}
