//! The backward pass of a product: gradients before an activation, of a bias, and of A and B.

use bytemuck::Pod;
use cuda_std::launch::{Grid1, Instance, LaunchConfig};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::gradient::{Gradient, activation_gradient, bias_gradient};
use kernels_gpu::matmul::{Factor, Plain, Value};

use super::steps::grid_blocks;
use super::{Matrix, MatrixLayout, MatrixMut, OPERATION, Options, matmul_into};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceSliceMut;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

pub use kernels_gpu::matmul::gradient::Activation;

/// The first half of the backward pass of `D = f(Z)`, `Z = A·B + bias`: `dZ = dD · f'(Z)`, and the gradient of the bias.
///
/// `of_d` is dD; `z` is Z, which [`ColumnBias`](kernels_gpu::matmul::ColumnBias) alone stores, and is not read for [`Activation::Identity`]; `of_z`
/// becomes dZ. All are `m × n`, in any order. `bias`, if there is one, becomes the sum of dZ's rows, before they are rounded: an element for each
/// column. Asynchronous; allocates only where `scratch` is smaller than [`activation_gradient_scratch_bytes`].
///
/// Where the next operation back is the product of another layer, the derivative can be its epilogue, and takes no kernel of its own:
/// [`GeluGradient`](kernels_gpu::matmul::GeluGradient) with Z as C, for one.
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) for matrices of different sizes (the message has both), for batches, and where dZ's elements are not
/// apart; [`SizeMismatch`](GpuError::SizeMismatch) for a bias of another length than columns; errors of the launch.
pub fn activation_gradient_into<T: Value>(
    on: &impl AsStream,
    activation: Activation,
    of_d: Matrix<'_, T>,
    z: Matrix<'_, T>,
    mut of_z: MatrixMut<'_, T>,
    bias: Option<DeviceSliceMut<'_, T>>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    activation_gradient<T>: Instance,
    bias_gradient<T>: Instance,
{
    let layouts = [of_d.layout(), z.layout(), of_z.layout()];
    let addresses = [of_d.raw().address, z.raw().address, of_z.raw().address];
    check(["dD", "Z", "dZ"], layouts)?;
    super::operands::check_own_elements(&layouts[2])?;
    let gradient = gradient::<T>(activation, layouts, addresses);
    if let Some(bias) = &bias {
        same_len("the gradient of a bias", layouts[0].columns, bias.len())?;
    }
    let stream = on.as_stream();
    let bytes = bias.as_ref().map_or(0, |_| sums_bytes(&gradient));
    let (_, [sums]) = scratch.parts(stream, [bytes])?;
    let mut sums = sums.into_cast::<f32>()?;
    let blocks = gradient.tiles().iter().product();
    if blocks > 0 {
        let grid = Grid1::new(grid_blocks(blocks)?);
        let (of_d, z) = (As::<T>::new(&of_d.memory), As::<T>::new(&z.memory));
        let mut to = AsMut::<T>::new(&mut of_z.memory);
        // SAFETY: all matrices have the sizes of the gradient, elements of dZ are apart, and no other view has its memory.
        unsafe {
            activation_gradient::<T>::launch(
                stream, grid, gradient, &of_d, &z, &mut sums, &mut to,
            )?;
        }
    }
    match bias {
        Some(mut bias) if !bias.is_empty() => bias_gradient::<T>::launch(
            stream,
            LaunchConfig::for_num_elems(bias.len()),
            &sums,
            &mut bias,
        ),
        _ => Ok(()),
    }
}

/// The scratch of [`activation_gradient_into`] with a bias, for this many rows and columns, in bytes.
#[must_use]
pub fn activation_gradient_scratch_bytes(rows: usize, columns: usize) -> usize {
    let gradient = Gradient { rows: rows as u32, columns: columns as u32, ..Default::default() };
    crate::ops::scratch::size_of_parts(&[sums_bytes(&gradient)])
}

fn sums_bytes(gradient: &Gradient) -> usize {
    gradient.tiles()[0] * gradient.columns as usize * size_of::<f32>()
}

/// An error if the matrices are not of one size, or are batches.
fn check(names: [&str; 3], layouts: [MatrixLayout; 3]) -> GpuResult<()> {
    let wrong = |reason| Err(GpuError::InvalidArgument { operation: OPERATION, reason });
    let [first, ..] = layouts;
    for (name, layout) in names.into_iter().zip(layouts) {
        if (layout.rows, layout.columns) != (first.rows, first.columns) {
            return wrong(format!("{} is {first}, and {name} is {layout}", names[0]));
        }
        if layout.batches != 1 {
            return wrong(format!("{name} is {layout}: a gradient is of one matrix"));
        }
        if layout.rows >= 1 << 31 || layout.columns >= 1 << 31 {
            return wrong(format!("{name} is {layout}, and the limit is 2^31"));
        }
    }
    Ok(())
}

fn gradient<T: Value>(
    activation: Activation,
    layouts: [MatrixLayout; 3],
    addresses: [u64; 3],
) -> Gradient {
    let strides = layouts.map(|layout| layout.strides());
    let pair = size_of::<T::Pair>() as u64;
    let is_paired = |(strides, address): (&kernels_gpu::matmul::Strides, &u64)| {
        strides.column == 1 && strides.row.is_multiple_of(2) && address.is_multiple_of(pair)
    };
    let [of_d, z, of_z] = strides;
    Gradient {
        of_d,
        z,
        of_z,
        rows: layouts[0].rows as u32,
        columns: layouts[0].columns as u32,
        activation: activation as u32,
        has_pairs: u32::from(strides.iter().zip(&addresses).all(is_paired)),
    }
}

/// The second half of the backward pass of `Z = alpha · A·B`: `dA = alpha · dZ·Bᵀ` and `dB = alpha · Aᵀ·dZ`, those of both that are asked for, in any
/// order. Each is a [`matmul_into`] of its own, which reads its operands as they lie. With `beta`, a gradient is added to `beta` times what it was:
/// 1 adds up those of several products. Asynchronous; `scratch` as there.
///
/// # Errors
/// Those of [`matmul_into`] for shapes and overlaps.
pub fn backward_into<T: Factor, G: Pod>(
    on: &impl AsStream,
    [a, b]: [Matrix<'_, T>; 2],
    of_z: Matrix<'_, T>,
    (of_a, of_b): (Option<MatrixMut<'_, G>>, Option<MatrixMut<'_, G>>),
    (alpha, beta): (f32, f32),
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    Plain: MatmulKernel<T, G> + MatmulKernel<T, f32>,
{
    let options = Options::new().alpha(alpha).beta(beta);
    if let Some(of_a) = of_a {
        matmul_into(on, of_z, b.transposed(), of_a, options, scratch)?;
    }
    if let Some(of_b) = of_b {
        matmul_into(on, a.transposed(), of_z, of_b, options, scratch)?;
    }
    Ok(())
}
