//! Matrix products, beside cuBLASLt's and PyTorch's, on normal data: what the tensor cores' power, and so their clock, depends
//! on.
//!
//! `nn`, `nt`, `tn` and `tt` say which of A and B is transposed in memory; the shape is `[m, n, k]`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytemuck::Pod;
use clap::ValueEnum;
use cuda_std::number::{E4m3, bf16, f16};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};

use crate::bench::check::{self, Fault};
use crate::bench::data::Normal;
use crate::bench::{Case, Random, Scale, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{
    self, Choice, Matrix, MatrixLayout, MatrixMut, Options, Order, Product as Multiplied, Scales,
    matmul_into,
};
use reference::matmul::{Product, Rounding};

type Sizes = [usize; 3];

/// Columns of D and lengths of the sums of layers of language models.
const LAYERS: [[usize; 2]; 8] = [
    [4096, 4096],
    [14_336, 4096],
    [4096, 14_336],
    [8192, 8192],
    [28_672, 8192],
    [8192, 28_672],
    [2112, 7168],
    [128_256, 4096],
];

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let small = vec![[64, 96, 32]];
    let quick = vec![[4096; 3], [8192; 3], [16, 4096, 14_336], [4095, 4097, 4099]];
    let shapes = scale.pick(small.clone(), quick, all_shapes());
    let mut cases: Vec<_> = shapes.into_iter().map(|sizes| multiplied_bf16("nn", sizes)).collect();
    let halves = scale.pick(small.clone(), vec![[4096; 3]], shapes_of_halves());
    let of_f16 = Rounding::TENSOR.to_f16();
    cases.extend(halves.into_iter().map(|sizes| multiplied::<f16>("nn", of_f16, sizes)));
    let square = scale.pick([40; 3], [4096; 3], [4096; 3]);
    cases.extend(["nt", "tn", "tt"].map(|form| multiplied_bf16(form, square)));
    let few_rows =
        scale.pick(vec![[8, 64, 72]], vec![[1, 8192, 8192], [16, 8192, 8192]], few_rows());
    cases.extend(few_rows.into_iter().map(|sizes| multiplied_bf16("nt", sizes)));
    cases.push(batched(scale.pick(
        [3, 40, 48, 32],
        [64, 1024, 1024, 1024],
        [64, 1024, 1024, 1024],
    )));
    let experts = [128, 65_536, 1536, 2048];
    cases.push(grouped(scale.pick([3, 40, 48, 32], experts, experts)));
    for sizes in scale.pick(small, vec![[4096; 3]], vec![[4096; 3], [8192; 3]]) {
        cases.extend(steps(sizes));
    }
    let layer = [4096, 7168, 16_384];
    for sizes in scale.pick(vec![[64, 96, 256]], vec![layer], vec![layer, [4096; 3], [8192; 3]]) {
        cases.push(scaled("fp8-blocks-nt", sizes));
        cases.push(scaled("fp8-lines-nt", sizes));
    }
    cases
}

/// Squares, layers at several numbers of rows, a long sum, and sizes that nothing divides.
fn all_shapes() -> Vec<Sizes> {
    let squares = [256, 512, 1024, 2048, 4096, 8192, 16_384].map(|side| [side; 3]);
    let rows = [1, 8, 16, 64, 128, 512, 2048, 8192];
    let layers = LAYERS.iter().flat_map(|&[n, k]| rows.map(|m| [m, n, k]));
    let odd = [[128, 128, 1 << 20], [4095, 4097, 4099]];
    squares.into_iter().chain(layers).chain(odd).collect()
}

/// Of f16, whose kernels are those of bf16 but for the type: the larger squares, and layers at two numbers of rows.
fn shapes_of_halves() -> Vec<Sizes> {
    let squares = [2048, 4096, 8192, 16_384].map(|side| [side; 3]);
    let layers = LAYERS.iter().flat_map(|&[n, k]| [512, 2048].map(|m| [m, n, k]));
    squares.into_iter().chain(layers).collect()
}

/// Layers of few tokens, whose weights are rows along K as they are stored.
fn few_rows() -> Vec<Sizes> {
    LAYERS.iter().flat_map(|&[n, k]| [1, 8, 16].map(|m| [m, n, k])).collect()
}

/// The steps from a loop to tensor cores, and the other types of elements.
fn steps(sizes: Sizes) -> Vec<Case> {
    let bf16_rounding = Rounding::TENSOR.to_bf16();
    vec![
        step::<bf16, bf16>("naive", bf16_rounding, sizes, |gpu, a, b, d| {
            matmul::naive_into(gpu, a, b, d, Options::new())
        }),
        step::<bf16, bf16>("tiled", bf16_rounding, sizes, |gpu, a, b, d| {
            matmul::tiled_into(gpu, a, b, d, Options::new())
        }),
        step::<bf16, bf16>("registers", bf16_rounding, sizes, |gpu, a, b, d| {
            matmul::registers_into(gpu, a, b, d, Options::new())
        }),
        step::<bf16, bf16>("warps", bf16_rounding, sizes, |gpu, a, b, d| {
            matmul::warps_into(gpu, a, b, d, Options::new())
        }),
        step::<f16, f16>("warps", Rounding::TENSOR.to_f16(), sizes, |gpu, a, b, d| {
            matmul::warps_into(gpu, a, b, d, Options::new())
        }),
        step::<f32, f32>("nn", Rounding::ORDINARY, sizes, |gpu, a, b, d| {
            matmul::registers_into(gpu, a, b, d, Options::new())
        })
        .goal_if(sizes[0] >= 4096, "cuBLASLt", 1.0),
        on_normals::<f32, f32>("tf32", Rounding::TF32, sizes, None, tf32),
        on_normals::<f32, f32>("tf32-nt", Rounding::TF32, sizes, None, tf32).goal_if(
            sizes[0] >= 4096,
            "cuBLASLt",
            1.0,
        ),
        on_normals::<E4m3, bf16>("fp8-nt", Rounding::FP8.to_bf16(), sizes, None, fp8)
            .goal_if(sizes[0] >= 8192, "cuBLASLt", 1.0)
            .goal_if(sizes[0] >= 8192, "torch", 1.0),
        on_normals::<f32, f32>("three-tf32", Rounding::THREE_TF32, sizes, None, three_tf32)
            .goal_if(sizes[0] >= 4096, "cuBLASLt", 2.2),
        on_normals::<f64, f64>("nn", Rounding::DOUBLE, sizes, None, double).goal_if(
            sizes[0] >= 4096,
            "cuBLASLt",
            0.98,
        ),
        bytes(sizes).goal_if(sizes[0] >= 4096, "cuBLASLt", 1.0),
    ]
}

/// A product on normal data, with its buffers: A, B and D, `batches` of each.
struct Rigged<T: Pod, D: Pod> {
    a: DeviceBuffer<T>,
    b: DeviceBuffer<T>,
    d: DeviceBuffer<D>,
    scratch: Scratch,
}

/// The layouts of A, B and D of a form.
fn layouts(form: &str, [m, n, k]: Sizes, batches: usize) -> [MatrixLayout; 3] {
    // The last word of a form, if it has two letters.
    let letters = form.rsplit('-').next().filter(|word| word.len() == 2).unwrap_or("nn");
    let order = |letter: usize| match letters.as_bytes()[letter] {
        b't' => Order::ColumnMajor,
        _ => Order::RowMajor,
    };
    let layout = |order, rows, columns| MatrixLayout {
        batches,
        batch_stride: rows * columns,
        ..MatrixLayout::new(order, rows, columns)
    };
    [layout(order(0), m, k), layout(order(1), k, n), layout(Order::RowMajor, m, n)]
}

/// Compares samples of D with sums in f64.
fn compare<D: Random + Into<f64>>(
    d: &DeviceBuffer<D>,
    layouts: [MatrixLayout; 3],
    rounding: Rounding,
    value: impl Fn(u32, usize) -> f64,
    seed: u32,
) -> Result<(), Fault> {
    let [a, b, of_d] = layouts;
    let (m, n) = (of_d.rows, of_d.columns);
    let at = |layout: &MatrixLayout, batch: usize, i: usize, j: usize| {
        let (major, minor) = if layout.order == Order::RowMajor { (i, j) } else { (j, i) };
        batch * layout.batch_stride + major * layout.leading + minor
    };
    let places = |index: usize, step: usize| {
        let (batch, row, column) = (index / (m * n), index / n % m, index % n);
        [at(&a, batch, row, step), at(&b, batch, step, column)]
    };
    compare_at(d, a.columns, rounding, places, value, seed)
}

/// [`compare`], where `places(index, step)` of A and B are multiplied for element `index` of D.
fn compare_at<D: Random + Into<f64>>(
    d: &DeviceBuffer<D>,
    k: usize,
    rounding: Rounding,
    places: impl Fn(usize, usize) -> [usize; 2],
    value: impl Fn(u32, usize) -> f64,
    seed: u32,
) -> Result<(), Fault> {
    compare_terms(d, k, rounding, |index, step| {
        let [a, b] = places(index, step);
        value(seed, a) * value(seed + 1, b)
    })
}

/// [`compare`], where `term(index, step)` are added for element `index` of D.
fn compare_terms<D: Random + Into<f64>>(
    d: &DeviceBuffer<D>,
    k: usize,
    rounding: Rounding,
    term: impl Fn(usize, usize) -> f64,
) -> Result<(), Fault> {
    check::for_samples(d, |index, found: D| {
        // Each sample is a run of neighbours; a few of them suffice, as each is a sum over K.
        if !index.is_multiple_of(31) {
            return Ok(());
        }
        let mut product = Product { value: 0.0, magnitude: 0.0, addend: 0.0 };
        for step in 0..k {
            let term = term(index, step);
            product.value += term;
            product.magnitude += term.abs();
        }
        check::near("element of D", found.into(), product.value, rounding.bound(k, &product))
    })
}

/// A case of `form` on normal data, which `run` multiplies.
fn on_normals<T: Normal + Into<f64>, D: Random + Into<f64>>(
    form: &'static str,
    rounding: Rounding,
    sizes: Sizes,
    batches: Option<usize>,
    run: impl Fn(&Gpu, [MatrixLayout; 3], &mut Rigged<T, D>) -> GpuResult<()> + Clone + 'static,
) -> Case {
    let [m, n, k] = sizes;
    let count = batches.unwrap_or(1);
    let layouts = layouts(form, sizes, count);
    let bytes = count * ((m * k + k * n) * size_of::<T>() + m * n * size_of::<D>());
    let shape: Vec<usize> = batches.into_iter().chain(sizes).collect();
    Case::new(["matmul", form, T::NAME], shape, bytes, move |gpu, seed| {
        let state = Rigged::<T, D> {
            a: data::normal(gpu, count * m * k, seed)?,
            b: data::normal(gpu, count * k * n, seed + 1)?,
            d: data::poisoned(gpu, count * m * n)?,
            scratch: Scratch::new(gpu)?,
        };
        let run = run.clone();
        let run = run.clone();
        rig(
            state,
            |state, _| data::poison(&mut state.d),
            move |state, gpu| run(gpu, layouts, state),
            move |state, _| {
                let value = |seed, index| data::normal_value::<T>(seed, index).into();
                compare::<D>(&state.d, layouts, rounding, value, seed)
            },
        )
    })
    .in_operations(2 * (count * m * n * k) as u64)
}

fn multiplied_bf16(form: &'static str, sizes: Sizes) -> Case {
    multiplied::<bf16>(form, Rounding::TENSOR.to_bf16(), sizes)
}

fn multiplied<T: Normal + Factor + Into<f64>>(
    form: &'static str,
    rounding: Rounding,
    sizes: Sizes,
) -> Case
where
    Plain: MatmulKernel<T, T> + MatmulKernel<T, f32>,
{
    let is_square = sizes == [4096; 3] || sizes == [8192; 3];
    on_normals::<T, T>(form, rounding, sizes, None, chosen)
        .goal_if(is_square, "cuBLASLt", 1.0)
        .goal_if(!is_square, "cuBLASLt", 0.9)
}

fn batched([batches, m, n, k]: [usize; 4]) -> Case {
    on_normals::<bf16, bf16>(
        "batched",
        Rounding::TENSOR.to_bf16(),
        [m, n, k],
        Some(batches),
        chosen,
    )
}

/// Groups of rows of A, each multiplied by a matrix of its own, which is stored transposed: `[groups, rows, n, k]`. The last group has three times the
/// rows of the first.
fn grouped([groups, rows, n, k]: [usize; 4]) -> Case {
    let offset = move |group: usize| rows * group * (group + groups) / (2 * groups * groups);
    let bytes = 2 * (rows * k + groups * k * n + rows * n);
    Case::new(["matmul", "grouped", "bf16"], [groups, rows, n, k], bytes, move |gpu, seed| {
        let offsets: Vec<u32> = (0..=groups).map(|group| offset(group) as u32).collect();
        let state = Rigged::<bf16, bf16> {
            a: data::normal(gpu, rows * k, seed)?,
            b: data::normal(gpu, groups * k * n, seed + 1)?,
            d: data::poisoned(gpu, rows * n)?,
            scratch: Scratch::new(gpu)?,
        };
        rig(
            (state, DeviceBuffer::from_slice(gpu, &offsets)?),
            |(state, _), _| data::poison(&mut state.d),
            move |(state, offsets), gpu| {
                let Rigged { a, b, d, scratch } = state;
                let a = Matrix::row_major(&*a, rows, k)?;
                let b = Matrix::column_major(&*b, k, n)?.batched(groups, k * n)?;
                let d = MatrixMut::row_major(d, rows, n)?;
                matmul::grouped_into(gpu, a, b, offsets, d, Options::new(), scratch)
            },
            move |(state, _), _| {
                let group_of = |row| (1..groups).take_while(|group| offset(*group) <= row).count();
                let places = |index: usize, step: usize| {
                    let (row, column) = (index / n, index % n);
                    [row * k + step, (group_of(row) * n + column) * k + step]
                };
                compare_at(
                    &state.d,
                    k,
                    Rounding::TENSOR.to_bf16(),
                    places,
                    |seed, index| data::normal_value::<bf16>(seed, index).into(),
                    seed,
                )
            },
        )
    })
    .in_operations(2 * (rows * n * k) as u64)
    .goal_if(rows >= 65_536, "torch", 1.2)
}

/// 8-bit floats with scales: `fp8-blocks-nt` for each row of A and 128 along K, `[k/128, m]` in memory, and for 128 along K and 128 columns of B,
/// `[n/128, k/128]`; `fp8-lines-nt` for each row of A, and each column of B.
fn scaled(form: &'static str, sizes: Sizes) -> Case {
    let [m, n, k] = sizes;
    let [a, b, of_d] = layouts(form, sizes, 1);
    let (of_k, is_blocks) = (k / 128, form == "fp8-blocks-nt");
    let lens = if is_blocks { [m * of_k, n.div_ceil(128) * of_k] } else { [m, n] };
    let bytes = m * k + k * n + 2 * m * n + 4 * (lens[0] + lens[1]);
    Case::new(["matmul", form, "E4m3"], sizes, bytes, move |gpu, seed| {
        let state = Rigged::<E4m3, bf16> {
            a: data::normal(gpu, m * k, seed)?,
            b: data::normal(gpu, k * n, seed + 1)?,
            d: data::poisoned(gpu, m * n)?,
            scratch: Scratch::new(gpu)?,
        };
        let scales = [
            data::normal::<f32>(gpu, lens[0], seed + 2)?,
            data::normal::<f32>(gpu, lens[1], seed + 3)?,
        ];
        rig(
            (state, scales),
            |(state, _), _| data::poison(&mut state.d),
            move |(state, [of_a, of_b]), gpu| {
                let scales = if is_blocks {
                    let of_a = Matrix::column_major(&*of_a, m, of_k)?;
                    let of_b = Matrix::column_major(&*of_b, of_k, n.div_ceil(128))?;
                    Scales::new().a(matmul::Scale::Blocks(of_a)).b(matmul::Scale::Blocks(of_b))
                } else {
                    let [of_a, of_b] = [of_a, of_b].map(|x| matmul::Scale::Vector(x.as_slice()));
                    Scales::new().a(of_a).b(of_b)
                };
                let Rigged { a: x, b: y, d, scratch } = state;
                let (x, y) = (Matrix::new(&*x, a)?, Matrix::new(&*y, b)?);
                let d = MatrixMut::new(d, of_d)?;
                matmul::scaled_into(gpu, x, y, scales, d, Options::new(), scratch)
            },
            move |(state, _), _| {
                let element = |seed, at| f64::from(data::normal_value::<E4m3>(seed, at));
                let scale = |seed, at| f64::from(data::normal_value::<f32>(seed, at));
                let term = |row: usize, column: usize, step: usize| {
                    let (at_a, at_b) = match is_blocks {
                        true => (step / 128 * m + row, column / 128 * of_k + step / 128),
                        false => (row, column),
                    };
                    let numbers =
                        element(seed, row * k + step) * element(seed + 1, column * k + step);
                    numbers * scale(seed + 2, at_a) * scale(seed + 3, at_b)
                };
                compare_terms(&state.d, k, Rounding::SCALED_FP8.to_bf16(), |index, step| {
                    term(index / n, index % n, step)
                })
            },
        )
    })
    .in_operations(2 * (m * n * k) as u64)
    .goal_if(is_blocks && sizes == [4096, 7168, 16_384], "cuBLASLt", 1.0)
    .goal_if(sizes[0] >= 4096, "torch", 1.0)
}

/// What `ops::matmul` chooses.
fn chosen<T: Factor>(
    gpu: &Gpu,
    layouts: [MatrixLayout; 3],
    state: &mut Rigged<T, T>,
) -> GpuResult<()>
where
    Plain: MatmulKernel<T, T> + MatmulKernel<T, f32>,
{
    let Rigged { a, b, d, scratch } = state;
    let (a, b) = (Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?);
    matmul_into(gpu, a, b, MatrixMut::new(d, layouts[2])?, Options::new(), scratch)
}

/// [`chosen`] for f32 as TF32.
fn tf32(gpu: &Gpu, layouts: [MatrixLayout; 3], state: &mut Rigged<f32, f32>) -> GpuResult<()> {
    let Rigged { a, b, d, scratch } = state;
    let [a, b] = [(&*a, layouts[0]), (&*b, layouts[1])].map(|(x, layout)| Matrix::new(x, layout));
    let (a, b, d) = (a?.as_tf32(), b?.as_tf32(), MatrixMut::new(d, layouts[2])?);
    matmul_into(gpu, a, b, d, Options::new(), scratch)
}

/// f32 as three products of TF32.
fn three_tf32(
    gpu: &Gpu,
    layouts: [MatrixLayout; 3],
    state: &mut Rigged<f32, f32>,
) -> GpuResult<()> {
    let Rigged { a, b, d, scratch } = state;
    let (a, b) = (Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?);
    let d = MatrixMut::new(d, layouts[2])?;
    matmul::three_tf32_into(gpu, a, b, d, Options::new(), scratch)
}

/// [`chosen`] for 8-bit floats.
fn fp8(gpu: &Gpu, layouts: [MatrixLayout; 3], state: &mut Rigged<E4m3, bf16>) -> GpuResult<()> {
    let Rigged { a, b, d, scratch } = state;
    let (a, b) = (Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?);
    matmul_into(gpu, a, b, MatrixMut::new(d, layouts[2])?, Options::new(), scratch)
}

fn double(gpu: &Gpu, layouts: [MatrixLayout; 3], state: &mut Rigged<f64, f64>) -> GpuResult<()> {
    let Rigged { a, b, d, scratch } = state;
    let (a, b) = (Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?);
    matmul::double_into(gpu, a, b, MatrixMut::new(d, layouts[2])?, (1.0, 0.0), None, scratch)
}

/// The elements of a product that can be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Elements {
    /// A and B of bf16, D too.
    Bf16,
    /// A and B of f16, D too.
    F16,
    /// A and B of 8-bit floats, D of bf16.
    E4m3,
    /// A and B of f32 as TF32, D of f32.
    Tf32,
}

impl Elements {
    /// The name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::E4m3 => "e4m3",
            Self::Tf32 => "tf32",
        }
    }
}

/// A product whose kernels are measured one by one.
#[derive(Debug, Default)]
pub struct Tunable {
    /// The choices, the fastest first by the cost model; known after the first run.
    pub choices: RefCell<Vec<Choice>>,
    /// What a file of measurements knows the product by; known after the first run.
    pub product: Cell<Option<Multiplied>>,
    /// The choice of the next run; `None` leaves it to the library.
    pub taken: Cell<Option<Choice>>,
}

impl Tunable {
    fn run<T: Factor, D: Pod>(
        &self,
        gpu: &Gpu,
        [a, b]: [Matrix<'_, T>; 2],
        d: MatrixMut<'_, D>,
        scratch: &mut Scratch,
    ) -> GpuResult<()>
    where
        Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
    {
        if self.choices.borrow().is_empty() {
            self.product.set(matmul::product(a, b, &d)?);
            self.choices.replace(matmul::choices(gpu, a, b, &d)?);
        }
        let options = Options::new();
        let options = self.taken.get().map_or(options, |choice| options.choice(choice));
        matmul_into(gpu, a, b, d, options, scratch)
    }
}

/// The case of a product that `own` makes. `form` says which of A and B is transposed in memory.
#[must_use]
pub fn tunable(
    elements: Elements,
    form: &'static str,
    sizes: Sizes,
    batches: usize,
    own: &Rc<Tunable>,
) -> Case {
    /// A and B as they are.
    macro_rules! as_they_are {
        ($t:ty, $d:ty, $rounding:expr) => {{
            let own = own.clone();
            on_normals::<$t, $d>(
                form,
                $rounding,
                sizes,
                Some(batches),
                move |gpu, layouts, state| {
                    let Rigged { a, b, d, scratch } = state;
                    let operands = [Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?];
                    own.run(gpu, operands, MatrixMut::new(d, layouts[2])?, scratch)
                },
            )
        }};
    }
    match elements {
        Elements::Bf16 => as_they_are!(bf16, bf16, Rounding::TENSOR.to_bf16()),
        Elements::F16 => as_they_are!(f16, f16, Rounding::TENSOR.to_f16()),
        Elements::E4m3 => as_they_are!(E4m3, bf16, Rounding::FP8.to_bf16()),
        Elements::Tf32 => {
            let own = own.clone();
            let run = move |gpu: &Gpu, layouts: [MatrixLayout; 3], state: &mut Rigged<f32, f32>| {
                let Rigged { a, b, d, scratch } = state;
                let (a, b) = (Matrix::new(&*a, layouts[0])?, Matrix::new(&*b, layouts[1])?);
                let operands = [a.as_tf32(), b.as_tf32()];
                own.run(gpu, operands, MatrixMut::new(d, layouts[2])?, scratch)
            };
            on_normals::<f32, f32>(form, Rounding::TF32, sizes, Some(batches), run)
        }
    }
}

/// An operation without options, which needs no scratch.
type Operation<T, D> = fn(&Gpu, Matrix<'_, T>, Matrix<'_, T>, MatrixMut<'_, D>) -> GpuResult<()>;

fn step<T: Normal + Into<f64>, D: Random + Into<f64>>(
    form: &'static str,
    rounding: Rounding,
    sizes: Sizes,
    run: Operation<T, D>,
) -> Case {
    on_normals::<T, D>(form, rounding, sizes, None, move |gpu, layouts, state| {
        let (a, b) = (Matrix::new(&state.a, layouts[0])?, Matrix::new(&state.b, layouts[1])?);
        run(gpu, a, b, MatrixMut::new(&mut state.d, layouts[2])?)
    })
}

/// Bytes over their whole range, which are multiplied exactly.
fn bytes(sizes: Sizes) -> Case {
    let [m, n, k] = sizes;
    let layouts = layouts("nt", sizes, 1);
    Case::new(["matmul", "nt", "i8"], sizes, m * k + k * n + 4 * m * n, move |gpu, seed| {
        let state = Rigged::<i8, i32> {
            a: data::random(gpu, m * k, seed)?,
            b: data::random(gpu, k * n, seed + 1)?,
            d: data::poisoned(gpu, m * n)?,
            scratch: Scratch::new(gpu)?,
        };
        rig(
            state,
            |state, _| data::poison(&mut state.d),
            move |state, gpu| {
                let (a, b) =
                    (Matrix::new(&state.a, layouts[0])?, Matrix::new(&state.b, layouts[1])?);
                let d = MatrixMut::new(&mut state.d, layouts[2])?;
                matmul::integer_into(gpu, a, b, d, Options::new(), &mut state.scratch)
            },
            move |state, _| {
                let exact = Rounding { sum: 0.0, scale: 0.0, output: 0.0, ..Rounding::DOUBLE };
                let value = |seed, index| f64::from(data::value::<i8>(seed, index));
                compare::<i32>(&state.d, layouts, exact, value, seed)
            },
        )
    })
    .in_operations(2 * (m * n * k) as u64)
}
