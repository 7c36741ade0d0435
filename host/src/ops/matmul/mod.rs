//! Matrix products: `D = epilogue(alpha · A·B + beta · C)`, of one matrix or of a batch.
//!
//! | A and B | sums | D |
//! |---|---|---|
//! | [`bf16`](cuda_std::bf16), [`f16`](cuda_std::f16) | `f32` | of their type, or `f32` |
//! | [`E4m3`](cuda_std::number::E4m3): 8-bit floats; those with scales, and `E5m2`, have [`scaled_into`] | `f32`: those of tensor cores over 128 of K, added by ordinary cores | `bf16`, `f32` |
//! | [`Tf32`](cuda_std::matrix::Tf32): `f32` in memory, rounded to 11 bits as they are loaded ([`Matrix::as_tf32`]) | `f32` | `f32` |
//!
//! Other elements, and other accuracies of `f32`, have [operations of their own](three_tf32_into). Matrices are [views](Matrix) of device memory in
//! either order, with any leading dimension.
//!
//! ```
//! use cuda_std::bf16;
//! use ferrowarp::ops::matmul::{Matrix, matmul};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! // Two rows of eight times the transpose of two rows of eight.
//! let x = DeviceBuffer::from_slice(&gpu, &[bf16::ONE; 16])?;
//! let a = Matrix::row_major(&x, 2, 8)?;
//! let d = matmul(&gpu, a, a.transposed())?;
//! assert_eq!(d.to_vec()?, [bf16::from_f32(8.0); 4]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Results
//! - An element is rounded to D's type once, after the epilogue. The sum before it is off by at most `k · 2^-22 · Σ |a·b|` (tensor
//!   cores do not round each addition to nearest), and not a number of one fixed order that another device has too.
//! - The same call on the same device gives the same bits again and again; no atomic addition is used.
//! - NaN and infinity go through, also where `alpha` is 0. With `beta = 0`, C is not read for `beta · C`.
//! - With `k = 0` the product is 0: D is `epilogue(beta · C)`.
//!
//! # Which kernel runs
//! [`explain`] says it, and why, and [`explain_views`] for matrices that are not aligned:
//! - On Hopper (`sm_90a`) tiles of 128 × 256 to 128 × 16 by TMA and `wgmma`.
//!   An operand whose address or leading dimension is not a multiple of 16 bytes, which the copy engine cannot address, is copied to scratch
//!   memory first; so is one of 8-bit or 32-bit elements that is not contiguous along K, as `wgmma` multiplies those in one order alone. The copy
//!   costs about what a copy of its bytes by memory costs.
//! - On other devices since `sm_80`, and where a copy would not pay, tiles of 128 × 128 by `cp.async` and `mma`; with at most 16 rows or columns of
//!   D, a kernel that reads the larger matrix once.
//!
//! Where there are too few tiles for the device, K is divided, among the blocks of a cluster or by a second kernel, and the partial sums are added in
//! a fixed order. Where the tiles of 16-bit elements would leave a last round of blocks nearly empty, the steps of the last tiles are divided evenly among all blocks
//! (stream-K), which add their sums in a fixed order, too. [`choices`] lists all that may run, and [`Options::choice`] takes one of them. What `ferrowarp tune matmul` has measured counts more
//! than the cost model: see [`Tuning`].

mod backward;
mod choice;
mod doubles;
mod grouped;
mod integers;
mod matrix;
mod operands;
mod options;
mod scaled;
mod singles;
mod steps;
mod tuning;

use bytemuck::Pod;
use cuda_std::launch::DevicePtr;
use kernels_gpu::matmul::form::{self, Arguments, MatmulKernel};
use kernels_gpu::matmul::pack::Packing;
use kernels_gpu::matmul::{Factor, Plain, Problem, Strides, finish};

pub use backward::{
    Activation, activation_gradient_into, activation_gradient_scratch_bytes, backward_into,
};
pub use choice::{Choice, Kernel, Tile};
pub use doubles::{double_into, double_scratch_bytes};
pub use grouped::{grouped_into, grouped_scratch_bytes};
pub use integers::{integer_choices, integer_into, integer_scratch_bytes};
pub use matrix::{Matrix, MatrixLayout, MatrixMut, Order};
pub use options::Options;
pub use scaled::{Scale, Scales, scaled_choices, scaled_into, scaled_scratch_bytes};
pub use singles::{three_tf32_choices, three_tf32_into, three_tf32_scratch_bytes};
pub use steps::{naive_into, registers_into, tiled_into, warps_into};
pub use tuning::{Product, Tuning};

use self::choice::{Allows, Machine};
use self::operands::Prepared;
use self::steps::grid_blocks;
use super::scan::unwritten;
use super::scratch::{Scratch, size_of_parts};
use super::views::{As, AsMut};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::{AsStream, Stream};

/// What errors name.
const OPERATION: &str = "multiplying matrices";

/// `A·B` as a new row-major matrix without gaps: `[batches, m, n]`. Asynchronous.
///
/// # Errors
/// As [`matmul_into`]; out of memory.
pub fn matmul<T: Factor>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) -> GpuResult<DeviceBuffer<T>>
where
    Plain: MatmulKernel<T, T> + MatmulKernel<T, f32>,
{
    let (x, y) = (a.layout(), b.layout());
    let batches = x.batches.max(y.batches);
    let len = x.rows.checked_mul(y.columns).and_then(|len| len.checked_mul(batches));
    let mut out = unwritten(on, len.unwrap_or(usize::MAX))?;
    let d =
        MatrixMut::row_major(&mut out, x.rows, y.columns)?.batched(batches, x.rows * y.columns)?;
    let mut scratch = Scratch::new(on)?;
    matmul_into(on, a, b, d, Options::new(), &mut scratch)?;
    Ok(out)
}

/// `D = epilogue(alpha · A·B + beta · C)`. A is `m × k`, B `k × n`, C and D `m × n`, each a batch of as many matrices, or, of A, B and
/// C, one for all. Asynchronous; allocates only where `scratch` is too small: see [`scratch_bytes`].
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) if shapes do not fit (the message has both), for a size of 2^31 or more, if D overlaps A, B or
/// itself, for a [choice](Options::choice) that is not one of this product or takes more scratch than [allowed](Options::most_scratch_bytes), for a
/// file of [measured choices](Tuning) that is none; [`SizeMismatch`](GpuError::SizeMismatch) if a vector of the epilogue has
/// another length than D's rows or columns or is missing; errors of the driver.
pub fn matmul_into<T: Factor, D: Pod, E>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: MatrixMut<'_, D>,
    options: Options<'_, D, E>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    E: MatmulKernel<T, D>,
    Plain: MatmulKernel<T, f32>,
{
    let prepared = Prepared::new::<T, D, E>(&a, &b, &d, &options)?;
    if prepared.problem.m == 0 || prepared.problem.n == 0 || prepared.problem.batches == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let machine = Machine::of(stream.inner().context().info())?.limited(&options);
    prepared.run(stream, &machine, a, b, d, options, scratch)
}

/// The scratch of [`matmul_into`] for these sizes of aligned 16-bit matrices in any order, in bytes: partial sums where K is divided. For others see
/// [`scratch_bytes_of_views`].
#[must_use]
pub fn scratch_bytes(on: &impl AsStream, [m, n, k]: [usize; 3], batches: usize) -> usize {
    let info = on.as_stream().inner().context().info();
    // An error of the file of measurements is that of the product.
    let machine = Machine::of(info).unwrap_or(Machine::untuned(info));
    let of = |m, n| {
        let sizes = [m, n, k];
        let choice = Choice::new(&machine, sizes, batches, Allows::ALL);
        let measured = machine
            .tuning
            .map_or(0, |tuning| tuning.most_partial_bytes(machine.multiprocessors, sizes, batches));
        size_of_parts(&[choice.partial_bytes(m, n, batches).max(measured)])
    };
    // A product of a column-major D is that of the transposes.
    of(m, n).max(of(n, m))
}

/// The scratch of [`matmul_into`] for these matrices, in bytes: partial sums where K is divided, and copies of A and B where their order or their
/// alignment asks for them.
///
/// # Errors
/// As [`matmul_into`] for shapes and overlaps.
pub fn scratch_bytes_of_views<T: Factor, D: Pod>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<usize> {
    let prepared = Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::of(on.as_stream().inner().context().info())?;
    let choice = prepared.choice::<T>(&machine, true);
    Ok(size_of_parts(&prepared.scratch_parts::<T>(&choice)))
}

/// Which kernel [`matmul_into`] launches for these sizes on this device with D in row-major order and aligned operands, and why: `Display`
/// prints it. By the cost model: what was [measured](Tuning) depends on more than sizes, and is [`explain_views`]'s.
#[must_use]
pub fn explain(on: &impl AsStream, sizes: [usize; 3], batches: usize) -> Choice {
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    Choice::new(&machine, sizes, batches, Allows::ALL)
}

/// Everything that [`matmul_into`] may launch for these matrices, the fastest first by the cost model, for [`Options::choice`]. The scratch of another
/// choice than the first may be larger than [`scratch_bytes`].
///
/// # Errors
/// As [`matmul_into`] for shapes and overlaps.
pub fn choices<T: Factor, D: Pod>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<Vec<Choice>> {
    let prepared = Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::of(on.as_stream().inner().context().info())?;
    let mut found = prepared.choices::<T>(&machine, true);
    found.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    Ok(found)
}

/// What [`Tuning`] knows the product of these matrices by; `None` for elements that it does not know.
///
/// # Errors
/// As [`matmul_into`] for shapes and overlaps.
pub fn product<T: Factor, D: Pod>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<Option<Product>> {
    Ok(Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?.product::<T>())
}

/// As [`explain`], for these matrices: their orders and their alignment count. (Sizes are those of the kernel, which computes the transpose
/// of a column-major D.)
///
/// # Errors
/// As [`matmul_into`] for shapes and overlaps.
pub fn explain_views<T: Factor, D: Pod>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<Choice> {
    let prepared = Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::of(on.as_stream().inner().context().info())?;
    Ok(prepared.choice::<T>(&machine, true))
}

/// The bytes of the copies of A and of B.
fn copies_bytes<T>(packings: &[Option<Packing>; 2]) -> [usize; 2] {
    packings.map(|packing| packing.map_or(0, |packing| packing.len() * size_of::<T>()))
}

/// The fastest one by the model.
fn fastest(choices: impl Iterator<Item = Choice>) -> Option<Choice> {
    choices.min_by(|one, other| one.cycles.total_cmp(&other.cycles))
}

/// The choice of `options`, or the `best` one, or, where its scratch, of this many `bytes`, is too large, the next one of `all`.
fn pick_by<D: Pod, E>(
    options: &Options<'_, D, E>,
    best: impl FnOnce() -> Choice,
    all: impl Fn() -> Vec<Choice>,
    bytes: impl Fn(&Choice) -> usize,
) -> GpuResult<Choice> {
    let most = options.most_scratch_bytes;
    let fits = |choice: &Choice| bytes(choice) <= most;
    let refused = |reason| Err(GpuError::InvalidArgument { operation: OPERATION, reason });
    match options.choice {
        Some(own) if !all().contains(&Choice { is_measured: false, ..own }) => {
            refused(format!("not a choice for this product: {own}. `choices` has all"))
        }
        Some(own) if !fits(&own) => {
            refused(format!("the scratch would be more than {most} bytes: {own}"))
        }
        Some(own) => Ok(own),
        None => {
            let best = best();
            if fits(&best) {
                return Ok(best);
            }
            let best = fastest(all().into_iter().filter(fits));
            best.map_or_else(|| refused(format!("no kernel takes {most} bytes of scratch")), Ok)
        }
    }
}

impl Prepared {
    /// What was measured to be the fastest, or is by the cost model.
    fn choice<T: Factor>(&self, machine: &Machine, can_split: bool) -> Choice {
        let measured = machine.tuning.zip(self.product::<T>()).and_then(|(tuning, product)| {
            tuning.find(&product, || self.choices::<T>(machine, can_split))
        });
        let (sizes, batches) = self.sizes();
        let by_model = || Choice::new(machine, sizes, batches, self.allows::<T>(can_split));
        measured.unwrap_or_else(by_model)
    }

    fn product<T: Factor>(&self) -> Option<Product> {
        let (sizes, batches) = self.sizes();
        let order = |strides: Strides| match strides.column {
            1 => Order::RowMajor,
            _ => Order::ColumnMajor,
        };
        Product::of::<T>([order(self.a.strides), order(self.b.strides)], sizes, batches)
    }

    fn choices<T: Factor>(&self, machine: &Machine, can_split: bool) -> Vec<Choice> {
        let (sizes, batches) = self.sizes();
        let mut found = Vec::new();
        let allows = self.allows::<T>(can_split);
        Choice::for_each(machine, sizes, batches, allows, |c| found.push(c));
        found
    }

    /// The kernels of elements of this many bytes that have no epilogue, and of which K is not split: that of warps, and those of Hopper with
    /// these tiles.
    fn unsplit_choices(
        &self,
        machine: &Machine,
        element_bytes: usize,
        tiles: &[Tile],
    ) -> Vec<Choice> {
        let (sizes, batches) = self.sizes();
        let packings = if self.problem.k == 0 { [None; 2] } else { self.packings() };
        let allows = Allows {
            copy_engine: self.is_addressed(),
            few_along_k: self.has_few_along_k(),
            packed: packings.map(|packing| packing.map_or(0, |packing| packing.len())),
            element_bytes,
            skinny: false,
            ..Allows::ALL
        };
        let mut found = Vec::new();
        Choice::for_each(machine, sizes, batches, allows, |choice| match choice.kernel {
            Kernel::Warps => found.push(choice),
            Kernel::Hopper { tile, .. }
                if tiles.contains(&tile) && choice.splits == 1 && choice.parts == 1 =>
            {
                found.push(choice);
            }
            _ => {}
        });
        if found.is_empty() {
            // K is 0: warps store `beta · C`.
            found.push(Choice::warps(machine, sizes, batches, allows));
        }
        found
    }

    /// The choice that `options` ask for.
    fn choice_for<T: Factor, D: Pod, E>(
        &self,
        machine: &Machine,
        options: &Options<'_, D, E>,
    ) -> GpuResult<Choice>
    where
        E: MatmulKernel<T, D>,
    {
        let all = || self.choices::<T>(machine, E::CAN_SPLIT);
        self.pick::<T, D, E>(options, || self.choice::<T>(machine, E::CAN_SPLIT), all)
    }

    /// The choice of `options`, or the `best` one, or, where its scratch is too large, the next one of `all`.
    fn pick<T, D: Pod, E>(
        &self,
        options: &Options<'_, D, E>,
        best: impl FnOnce() -> Choice,
        all: impl Fn() -> Vec<Choice>,
    ) -> GpuResult<Choice> {
        let bytes = |choice: &Choice| size_of_parts(&self.scratch_parts::<T>(choice));
        pick_by(options, best, all, bytes)
    }

    /// The scratch of a choice: partial sums, and copies of A and of B, in bytes.
    fn scratch_parts<T>(&self, choice: &Choice) -> [usize; 3] {
        let [a, b] = copies_bytes::<T>(&self.packings_for(choice));
        [self.partial_bytes(choice), a, b]
    }

    fn partial_bytes(&self, choice: &Choice) -> usize {
        let ([m, n, _], batches) = self.sizes();
        choice.partial_bytes(m, n, batches)
    }

    /// The copies that the choice takes.
    fn packings_for(&self, choice: &Choice) -> [Option<Packing>; 2] {
        if choice.packs { self.packings() } else { [None; 2] }
    }

    fn sizes(&self) -> ([usize; 3], usize) {
        let Problem { m, n, k, batches, .. } = self.problem;
        ([m, n, k].map(|size| size as usize), batches as usize)
    }

    fn allows<T: Factor>(&self, can_split: bool) -> Allows {
        let packings = if self.problem.k == 0 { [None; 2] } else { self.packings() };
        Allows {
            splits: can_split,
            copy_engine: self.is_addressed(),
            few_along_k: self.has_few_along_k(),
            packed: packings.map(|packing| packing.map_or(0, |packing| packing.len())),
            element_bytes: size_of::<T>(),
            widest: T::WIDEST,
            skinny: T::HAS_SKINNY,
        }
    }

    /// The arguments of the kernel that multiplies, to D at `d_address`, whose elements have `d_bytes`.
    fn arguments(
        &self,
        stream: &Stream,
        choice: &Choice,
        d_address: u64,
        d_bytes: usize,
    ) -> GpuResult<Arguments> {
        let (form, blocks) = (choice.kernel.form(), grid_blocks(choice.blocks)?);
        let (maps, schedule) = match choice.kernel {
            Kernel::Hopper { tile, .. } => {
                self.schedule(stream, (tile, choice), Some((d_address, d_bytes)))?
            }
            _ => Default::default(),
        };
        Ok(Arguments { form, blocks, cluster: choice.parts, maps, schedule, problem: self.problem })
    }

    #[allow(clippy::too_many_arguments)]
    fn run<T: Factor, D: Pod, E>(
        self,
        stream: &Stream,
        machine: &Machine,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        mut d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
        scratch: &mut Scratch,
    ) -> GpuResult<()>
    where
        E: MatmulKernel<T, D>,
        Plain: MatmulKernel<T, f32>,
    {
        let choice = self.choice_for::<T, D, E>(machine, &options)?;
        let partial_bytes = self.partial_bytes(&choice);
        let this = if choice.is_exchanged() { self.exchanged() } else { self }.of_factors::<T>();
        let (a, b) = if this.is_exchanged { (b, a) } else { (a, b) };
        let packings = this.packings_for(&choice);
        let [bytes_of_a, bytes_of_b] = copies_bytes::<T>(&packings);
        let (flags, [partials, mut copy_of_a, mut copy_of_b]) =
            scratch.parts(stream, [partial_bytes, bytes_of_a, bytes_of_b])?;
        let this = this.packed(stream, packings, [&a, &b], [&mut copy_of_a, &mut copy_of_b])?;
        let a = if packings[0].is_some() { As::<T>::new(&copy_of_a) } else { As::new(&a.memory) };
        let b = if packings[1].is_some() { As::<T>::new(&copy_of_b) } else { As::new(&b.memory) };
        let c = As::<D>::optional(options.c.as_ref().map(|c| &c.memory));
        let c_from = DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address));
        let per_row = As::<D>::optional(options.per_row.as_ref());
        let per_column = As::<D>::optional(options.per_column.as_ref());
        let (mut no_flags, mut no_sums) = (AsMut::<u32>::none(), AsMut::<f32>::none());
        if choice.splits == 1 {
            let exchanged = Some((flags, partials)).filter(|_| choice.streamed > 0);
            let (mut flags, mut sums) = exchanged.unzip();
            let mut flags = AsMut::<u32>::optional(flags.as_mut());
            let mut sums = AsMut::<f32>::optional(sums.as_mut());
            let arguments = this.arguments(stream, &choice, d.raw().address, size_of::<D>())?;
            // SAFETY: the shapes were checked, the maps and the schedule are of them.
            return unsafe {
                options.epilogue.launch(
                    stream,
                    &arguments,
                    &a,
                    &b,
                    &c,
                    c_from,
                    &per_row,
                    &per_column,
                    &mut d.memory,
                    &mut flags,
                    &mut sums,
                )
            };
        }
        let mut partials = partials.into_cast::<f32>()?;
        let (m, n) = (u64::from(this.problem.m), u64::from(this.problem.n));
        let leading = n.next_multiple_of(PARTIAL_ALIGN as u64);
        let strides = Strides { row: leading, column: 1, batch: m * leading };
        let splits = choice.splits;
        if splits > 1 {
            let problem = Problem { d: strides, alpha: 1.0, beta: 0.0, splits, ..this.problem };
            let address = partials.as_device_ptr().address();
            let parts = Self { problem, ..this };
            let arguments = parts.arguments(stream, &choice, address, size_of::<f32>())?;
            let (none, nowhere) = (As::<f32>::none(), DevicePtr::from_raw(address));
            // SAFETY: as above; D is a matrix for each split.
            unsafe {
                Plain.launch(
                    stream,
                    &arguments,
                    &a,
                    &b,
                    &none,
                    nowhere,
                    &none,
                    &none,
                    &mut partials,
                    &mut no_flags,
                    &mut no_sums,
                )?;
            }
        }
        let problem = Problem { a: strides, splits, ..this.problem };
        let most = machine.multiprocessors * FINISH_BLOCKS;
        let blocks = finish::blocks(&problem).min(u64::from(most)) as u32;
        let arguments = Arguments { form: form::FINISH, blocks, problem, ..Arguments::default() };
        let (sums, none) = (As::<T>::new(&partials), As::<T>::none());
        // SAFETY: the partial sums were written by the previous launch, or there are none; the rest as above.
        unsafe {
            options.epilogue.launch(
                stream,
                &arguments,
                &sums,
                &none,
                &c,
                c_from,
                &per_row,
                &per_column,
                &mut d.memory,
                &mut no_flags,
                &mut no_sums,
            )
        }
    }
}

/// Rows of partial sums begin at multiples of this many, 16 bytes: the copy engine stores them.
const PARTIAL_ALIGN: usize = 4;
/// Blocks that add partial sums, for each multiprocessor.
const FINISH_BLOCKS: u32 = 8;

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../book/src/matmul.md")]
struct Chapter;
