//! A polynomial of each element of an array.

use std::sync::Arc;

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::elementwise::horner::COEFFICIENTS;
use kernels_gpu::elementwise::polynomial as kernel;

pub use kernels_gpu::elementwise::horner::MAX_COEFFICIENTS;

use super::same_len;
use crate::capture;
use crate::error::{GpuError, GpuResult};
use crate::module::{Global, KernelModule, Module};
use crate::shipped;
use crate::stream::{AsStream, Stream};

/// `y = c[0] + c[1] x + c[2] x² + …` (0 without coefficients), with the coefficients in constant memory: a calibration curve, say, that is set once and
/// used by many launches.
///
/// ```
/// use ferrowarp::ops::polynomial::Polynomial;
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let mut curve = Polynomial::new(&gpu, &[1.0, 0.0, 0.5])?; // 1 + x² / 2
/// let x = DeviceBuffer::from_slice(&gpu, &[0.0f32, 1.0, 2.0])?;
/// let mut y = DeviceBuffer::zeroed(&gpu, 3)?;
/// curve.evaluate(&gpu, &x, &mut y)?;
/// assert_eq!(y.to_vec()?, [1.0, 1.5, 3.0]);
/// curve.set(&[2.0, 1.0])?; // 2 + x, after the launches until now
/// # curve.evaluate(&gpu, &x, &mut y)?;
/// # assert_eq!(y.to_vec()?, [2.0, 3.0, 4.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// A variable in constant memory is one for all launches of a module. So each polynomial has a module of its own, which
/// the driver compiles when it is made, and its launches on any streams are ordered with its changes.
#[derive(Debug)]
pub struct Polynomial {
    /// It orders launches and changes, and has the kernel of this polynomial alone.
    stream: Stream,
    coefficients: Global<[f32; MAX_COEFFICIENTS]>,
    count: u32,
}

impl Polynomial {
    /// A polynomial with these coefficients, that of the lowest power first; 16 at most.
    ///
    /// # Errors
    /// As [`set`](Self::set); a kernel that cannot be loaded.
    pub fn new(on: &impl AsStream, coefficients: &[f32]) -> GpuResult<Self> {
        let module = KernelModule::new(on.as_stream().inner().context(), shipped::IMAGES);
        let stream = on.as_stream().with_module(Arc::clone(&module));
        // Loads the kernel's part, in which the variable then is found at once.
        module.function(&kernel::KERNEL)?;
        let variable = Module::of(&stream).global(COEFFICIENTS)?;
        let mut own = Self { stream, coefficients: variable, count: 0 };
        own.set(coefficients).map(|()| own)
    }

    /// Replaces the coefficients, after the launches until now and before later ones. Waits for the copy.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for more than [`MAX_COEFFICIENTS`]; the fault of a kernel.
    pub fn set(&mut self, coefficients: &[f32]) -> GpuResult<()> {
        let mut all = [0.0; MAX_COEFFICIENTS];
        let Some(place) = all.get_mut(..coefficients.len()) else {
            let found = coefficients.len();
            return Err(GpuError::InvalidArgument {
                operation: "setting a polynomial",
                reason: format!(
                    "{found} coefficients were given, and {MAX_COEFFICIENTS} is the most"
                ),
            });
        };
        place.copy_from_slice(coefficients);
        // SAFETY: the variable is a `static mut` of this type. The module is this polynomial's own, so that `evaluate`
        // alone launches its kernel, which the stream of the copy waits for; no graph has it.
        unsafe { self.coefficients.copy_from(&all)? };
        self.count = coefficients.len() as u32;
        Ok(())
    }

    /// Writes the polynomial's value at each `x: [n]` to `y: [n]`. Asynchronous.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch) if lengths differ; [`WrongDevice`](GpuError::WrongDevice) for a stream
    /// of another device; in a capture [`NotCapturable`](crate::error::GraphError::NotCapturable), because a graph
    /// would be in no order with [`set`](Self::set); errors of the driver.
    pub fn evaluate(
        &self,
        on: &impl AsStream,
        x: &impl DeviceRead<f32>,
        y: &mut impl DeviceWrite<f32>,
    ) -> GpuResult<()> {
        capture::check("a launch whose coefficients may be set between launches")?;
        let (n, stream) = (x.len(), on.as_stream());
        same_len("evaluating a polynomial", n, y.len())?;
        stream.inner().check_device(self.stream.inner().context(), "the stream")?;
        let own = stream.with_module(Arc::clone(self.stream.module()));
        stream.inner().ordered(&[self.stream.inner()], || {
            kernel::launch(&own, LaunchConfig::for_num_elems(n), self.count, x, y)
        })
    }
}
