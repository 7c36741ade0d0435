//! A picture of spheres.

use cuda_std::launch::DeviceRead;
use cuda_std::vector::Vec4;
use kernels_gpu::image::spheres as kernels;
pub use kernels_gpu::image::spheres::Camera;

use super::same_len;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::{AsStream, Stream};

/// Pictures of one size, drawn one after the other.
pub struct Canvas {
    stream: Stream,
    words: DeviceBuffer<u32>,
    rgba: DeviceBuffer<[u8; 4]>,
}

impl Canvas {
    /// Memory for pictures of `width` times `height` pixels.
    ///
    /// # Errors
    /// Errors of the driver, such as out of memory.
    pub fn new(on: &impl AsStream, [width, height]: [u32; 2]) -> GpuResult<Self> {
        let pixels = width as usize * height as usize;
        let (words, rgba) = (DeviceBuffer::zeroed(on, pixels)?, DeviceBuffer::zeroed(on, pixels)?);
        Ok(Self { stream: on.as_stream().clone(), words, rgba })
    }

    /// Enqueues the drawing of spheres of diameter 1 at `position: [n]`, coloured by the speeds `velocity: [n]`, and
    /// gives the picture: rows from the top, red, green, blue and alpha. The fourth components are ignored.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ or the camera's picture has another
    /// size; errors of the driver.
    pub fn draw(
        &mut self,
        camera: &Camera,
        position: &impl DeviceRead<Vec4<f32>>,
        velocity: &impl DeviceRead<Vec4<f32>>,
    ) -> GpuResult<&DeviceBuffer<[u8; 4]>> {
        let n = position.len();
        same_len("the speeds of spheres", n, velocity.len())?;
        let [width, height] = camera.size.map(|side| side as usize);
        same_len("the pixels of a canvas", width * height, self.words.len())?;
        let Self { stream, words, rgba } = self;
        words.clear()?;
        let spheres = kernels::spheres_draw::grid_for(n);
        kernels::spheres_draw::launch(stream, spheres, *camera, position, velocity, words)?;
        let pixels = kernels::spheres_colour::grid_for(words.len());
        kernels::spheres_colour::launch(stream, pixels, &*words, rgba)?;
        Ok(&self.rgba)
    }
}
