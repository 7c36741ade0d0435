//! Sparse matrices times vectors, beside cuSPARSE's, by its own interface and through CuPy.

use crate::bench::check::Fault;
use crate::bench::{Case, Scale, check, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::spmv::{Csr, RowLanes, spmv_into, spmv_plain_into, spmv_rows_into};

/// Entries of a row of the banded matrix.
const BAND: usize = 27;
/// The longest row of the skewed matrix.
const LONGEST: u32 = 200_000;
/// How many lengths the rows of the skewed matrix have.
const LENGTHS: u32 = 1 << 16;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let rows = scale.pick(vec![300], vec![1 << 20], vec![1 << 20, 1 << 22]);
    let ways = [Way::Balanced, Way::Rows(RowLanes::Eight), Way::Rows(RowLanes::Warp), Way::Plain];
    let banded = rows.into_iter().flat_map(|rows| ways.map(|way| case(Shape::Banded, way, rows)));
    let rows = scale.pick(1 << 10, 1 << 20, 1 << 20);
    banded.chain(ways.map(|way| case(Shape::Skewed, way, rows))).collect()
}

/// What the matrix is like.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// [`BAND`] entries a row, about the diagonal.
    Banded,
    /// Few long rows and many short ones, with entries in random columns, which rise within a row.
    Skewed,
}

impl Shape {
    /// How many entries a row has.
    fn row_len(self, rows: usize, seed: u32, row: usize) -> usize {
        let longest = LONGEST.min(200 * rows as u32);
        match self {
            Self::Banded => BAND,
            Self::Skewed => rows.min((longest / (data::below(seed, LENGTHS, row) + 1)) as usize),
        }
    }
}

/// How it is multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Balanced,
    Rows(RowLanes),
    Plain,
}

/// A matrix in the host's memory.
struct Matrix {
    offsets: Vec<u32>,
    columns: Vec<u32>,
}

impl Matrix {
    fn new(shape: Shape, rows: usize, seed: u32) -> Self {
        let (mut offsets, mut columns) = (vec![0], Vec::new());
        for row in 0..rows {
            let len = shape.row_len(rows, seed, row);
            // A random column of each of as many equal parts of the row: CuPy would sort a matrix whose columns do not
            // rise, and multiply that one.
            let part = |i: usize| i * rows / len;
            for i in 0..len {
                let entry = columns.len();
                columns.push(match shape {
                    Shape::Banded => ((row + i).max(BAND / 2) - BAND / 2).min(rows - 1) as u32,
                    Shape::Skewed => {
                        let width = (part(i + 1) - part(i)) as u32;
                        part(i) as u32 + data::below(seed + 1, width, entry)
                    }
                });
            }
            offsets.push(columns.len() as u32);
        }
        Self { offsets, columns }
    }
}

fn case(shape: Shape, way: Way, rows: usize) -> Case {
    let form = match (shape, way) {
        (Shape::Banded, Way::Balanced) => "banded",
        (Shape::Banded, Way::Rows(RowLanes::Warp)) => "banded_warp",
        (Shape::Banded, Way::Rows(_)) => "banded_rows",
        (Shape::Banded, Way::Plain) => "banded_plain",
        (Shape::Skewed, Way::Balanced) => "skewed",
        (Shape::Skewed, Way::Rows(RowLanes::Warp)) => "skewed_warp",
        (Shape::Skewed, Way::Rows(_)) => "skewed_rows",
        (Shape::Skewed, Way::Plain) => "skewed_plain",
    };
    let entries: usize = (0..rows).map(|row| shape.row_len(rows, 0, row)).sum();
    let goal = if shape == Shape::Banded { 1.2 } else { 1.0 };
    // A column and a value each; an offset and a result each row; the vector.
    Case::new(["spmv", form, "f32"], [rows], 8 * entries + 12 * rows, move |gpu, seed| {
        rig(
            Product::new(gpu, shape, rows, seed)?,
            |product, _| data::poison(&mut product.y),
            move |product, gpu| product.run(way, gpu),
            move |product, _| product.check(seed),
        )
    })
    .goal_if(way == Way::Balanced && rows >= 1 << 20, "cuSPARSE", goal)
    .goal_if(way == Way::Balanced && rows >= 1 << 20, "cupy.sparse", goal)
}

/// All that a product takes.
struct Product {
    matrix: Matrix,
    a: Csr<f32>,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    scratch: Scratch,
}

impl Product {
    fn new(gpu: &Gpu, shape: Shape, rows: usize, seed: u32) -> GpuResult<Self> {
        // The same shape for all copies of the data, so that each moves as much.
        let matrix = Matrix::new(shape, rows, 0);
        let values: Vec<f32> = (0..matrix.columns.len()).map(|i| data::value(seed, i)).collect();
        let a = Csr::new(gpu, rows, &matrix.offsets, &matrix.columns, &values)?;
        let (x, y) = (data::random::<f32>(gpu, rows, seed + 2)?, data::poisoned(gpu, rows)?);
        Ok(Self { matrix, a, x, y, scratch: Scratch::new(gpu)? })
    }

    fn run(&mut self, way: Way, gpu: &Gpu) -> GpuResult<()> {
        let Self { a, x, y, scratch, .. } = self;
        match way {
            Way::Balanced => spmv_into(gpu, a, x, y, scratch),
            Way::Rows(lanes) => spmv_rows_into(gpu, lanes, a, x, y),
            Way::Plain => spmv_plain_into(gpu, a, x, y),
        }
    }

    fn check(&self, seed: u32) -> Result<(), Fault> {
        check::for_samples(&self.y, |row, found| {
            let entries = self.matrix.offsets[row] as usize..self.matrix.offsets[row + 1] as usize;
            let product = |i: usize| {
                let x = data::value::<f32>(seed + 2, self.matrix.columns[i] as usize);
                f64::from(data::value::<f32>(seed, i)) * f64::from(x)
            };
            // Products are below 1/4 in magnitude, so each addition rounds by that many units at most.
            let tolerance = (entries.len() as f64).powi(2) * f64::from(f32::EPSILON);
            check::near("a row", f64::from(found), entries.map(product).sum(), tolerance + 1e-30)
        })
    }
}
