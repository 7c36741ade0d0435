//! `y = silu(x · gateᵀ) · (x · upᵀ)`, the gated layer of a language model (SwiGLU), in one kernel: x is `[rows, depth]`, each weight
//! `[columns, depth]` and y `[rows, columns]`, row-major, bf16.

use cuda_std::copy::*;
use cuda_std::intrinsics::{fast_expf, fast_fdividef};
use cuda_std::matrix::*;
use cuda_std::number::Bf16x2;
use cuda_std::prelude::*;
use cuda_std::{bf16, unrolled, warp_specialized};

/// Rows and columns of y that a block computes at a time, what a stage has along the depth, and stages.
pub const TILE: usize = 128;
pub const DEPTH: usize = 64;
pub const STAGES: usize = 4;
/// A warpgroup copies, and two multiply 64 rows each.
pub const BLOCK: usize = 3 * WARPGROUP;
/// What a copy brings of x or of a weight, and what is stored of y.
pub type Rows = [[bf16; DEPTH]; TILE];
pub type Results = [[bf16; STORED_COLUMNS]; ROWS];

pub type Stored = Tile<Results, Swizzle128>;

/// A stage between the copies and the products.
#[repr(C)]
pub struct Stage {
    x: Tile<Rows, Swizzle128>,
    gate: Tile<Rows, Swizzle128>,
    up: Tile<Rows, Swizzle128>,
}

/// Dynamic shared memory of a block: the stages, and for each consumer tiles of y of which one is stored while the next is written.
#[repr(C)]
pub struct Memory {
    stages: [Stage; STAGES],
    y: [[Stored; 2]; 2],
}

/// Launch as many blocks as the device runs at once: each takes tile after tile.
///
/// # Safety
/// The maps are of matrices of these sizes, none of which is 0.
#[kernel(block = BLOCK, min_blocks = 1, dynamic_shared = size_of::<Memory>())]
pub unsafe fn swiglu(
    rows: u32,
    columns: u32,
    depth: u32,
    x: &TensorMap<Rows, Swizzle128>,
    gate: &TensorMap<Rows, Swizzle128>,
    up: &TensorMap<Rows, Swizzle128>,
    y: &TensorMapMut<Results, Swizzle128>,
) {
    let memory = DynamicSharedArray::<u8, 1024>::get().cast::<Memory>();
    let side = |elements: u32| elements.div_ceil(TILE as u32);
    let tiles = TileGrid { rows: side(rows), columns: side(columns), group: 8 };
    let place = |index| <[u32; 2]>::from(tiles.place(index)).map(|tile| tile as i32 * TILE as i32);
    let (steps, stride) = (depth.div_ceil(DEPTH as u32), thread::grid_dim_x());
    // SAFETY: the launch gives the memory. One warp fills the stages; each warp of the consumers releases them, after the wait for the products that read them.
    unsafe {
        let stages = SharedArray::<Stage, STAGES>::from_raw((&raw mut (*memory).stages).cast());
        let pipeline = TilePipeline::new(stages, shared_array![u64; 2 * STAGES], 8);
        let (group, mut index) = (warpgroup_of_warp(), thread::block_idx_x());
        warp_specialized! {
            group,
            producer with 40 registers => {
                let mut producer = pipeline.producer();
                while thread_in_warpgroup() < 32 && index < tiles.len() {
                    let [row, column] = place(index);
                    for k in (0..steps).map(|step| step as i32 * DEPTH as i32) {
                        producer.fill_by_warp(|slot| {
                            slot.load(x, [row, k], |stage| &mut stage.x);
                            slot.load(gate, [column, k], |stage| &mut stage.gate);
                            slot.load(up, [column, k], |stage| &mut stage.up);
                        });
                    }
                    index += stride;
                }
            },
            consumer own with 232 registers => {
                let mut consumer = pipeline.consumer();
                let own_tiles = (&raw mut (*memory).y).cast::<Stored>().add(2 * own);
                let mut stores = TileStores::<_, _, 2>::new(own_tiles);
                while index < tiles.len() {
                    let mut gates = Accumulator::<f32, TILE>::zeroed();
                    let mut ups = Accumulator::<f32, TILE>::zeroed();
                    let mut step = 0;
                    loop {
                        let stage = consumer.wait();
                        let x = &raw const (*stage).x;
                        gates.multiply(x, own * ROWS, &raw const (*stage).gate, step > 0);
                        ups.multiply(x, own * ROWS, &raw const (*stage).up, step > 0);
                        consumer.step();
                        // The products of the step before have read their stage.
                        wait_multiplications::<2>();
                        if step > 0 {
                            consumer.release_by_warp(2);
                        }
                        step += 1;
                        if step == steps {
                            break;
                        }
                    }
                    gates.wait::<0>();
                    ups.wait::<0>();
                    consumer.release_by_warp(1);
                    gates.combine(&ups, |_, gate, up| {
                        fast_fdividef(gate, 1.0 + fast_expf(-gate)) * up
                    });
                    let [row, column] = place(index);
                    unrolled!(TILE / STORED_COLUMNS, |part| {
                        let first = part * STORED_COLUMNS;
                        let at = [row + (own * ROWS) as i32, column + first as i32];
                        stores.store(y, at, |tile| {
                            gates.write_columns(first, tile, |_, _, [a, b]| Bf16x2::nearest(a, b));
                        });
                    });
                    index += stride;
                }
                stores.finish();
            },
        }
    }
}
