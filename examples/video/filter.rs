//! The filters: each frame is three planes, brightness (luma) and two of colour (chroma) of half the width and height.

use std::ops::Range;
use std::sync::Arc;

use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::ops::{blur, fill, sobel};
use ferrowarp::{DeviceBuffer, DeviceSlice, Frame, Gpu, GpuResult, Stream};

/// The value of chroma that is grey.
const GREY: u8 = 128;

/// The shape of a film in YUV 4:2:0 with 8 bits.
#[derive(Clone, Copy, Debug)]
pub struct Film {
    pub width: usize,
    pub height: usize,
    /// Frames a second, as a fraction.
    pub rate: [usize; 2],
}

impl Film {
    /// Width and height of a plane.
    fn plane(self, index: usize) -> [usize; 2] {
        let [width, height] = [self.width, self.height];
        if index == 0 { [width, height] } else { [width.div_ceil(2), height.div_ceil(2)] }
    }

    /// Where a plane lies in a frame.
    pub fn range(self, index: usize) -> Range<usize> {
        let len = |index| self.plane(index).iter().product::<usize>();
        let start = (0..index).map(len).sum();
        start..start + len(index)
    }

    /// Bytes of a frame.
    pub fn frame_len(self) -> usize {
        self.range(2).end
    }
}

/// What to do with each frame. The blur's standard deviation is in pixels of luma.
#[derive(Clone, Copy, Debug)]
pub enum Filter {
    Blur {
        sigma: f32,
    },
    /// The edges of the blurred luma, in grey.
    Edges {
        sigma: f32,
    },
}

impl Filter {
    /// The function that a pipeline calls for each frame.
    pub fn of(self, gpu: &Gpu, film: Film) -> impl FnMut(Frame<'_, u8, u8>) -> GpuResult<()> {
        let memory = MemoryPool::new(gpu);
        move |mut frame| {
            let plane = |index| frame.input.as_slice().slice(film.range(index));
            for index in 0..3 {
                let (size, source, stream) = (film.plane(index), plane(index), frame.stream);
                let mut target = frame.output.slice_mut(film.range(index));
                match self {
                    Self::Edges { .. } if index > 0 => fill(stream, &GREY, &mut target)?,
                    Self::Edges { sigma } => {
                        let soft = blurred(&memory, stream, &source, size, sigma)?;
                        let mut edges = DeviceBuffer::zeroed_in(&memory, stream, soft.len())?;
                        sobel(stream, &soft, &mut edges, size[0], size[1])?;
                        target.copy_from_device(&edges)?;
                    }
                    Self::Blur { sigma } => {
                        let sigma = if index == 0 { sigma } else { sigma / 2.0 };
                        target
                            .copy_from_device(&blurred(&memory, stream, &source, size, sigma)?)?;
                    }
                }
            }
            Ok(())
        }
    }
}

/// The blurred plane, in memory of the pool: it goes back there in the order of the stream, for the next frame.
fn blurred(
    memory: &Arc<MemoryPool>,
    stream: &Stream,
    plane: &DeviceSlice<'_, u8>,
    [width, height]: [usize; 2],
    sigma: f32,
) -> GpuResult<DeviceBuffer<u8>> {
    let mut soft = DeviceBuffer::zeroed_in(memory, stream, width * height)?;
    blur(stream, plane, &mut soft, width, height, sigma)?;
    Ok(soft)
}
