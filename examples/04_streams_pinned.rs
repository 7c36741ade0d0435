//! Streams and pinned memory: copies of one half overlap with the kernel of the other.
//!
//! An asynchronous copy needs page-locked (pinned) host memory. The copy takes the `PinnedBuffer` and its `wait` returns it,
//! so that no code can touch the memory while the copy engine uses it.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig, PinnedBuffer};
use kernels_gpu::elementwise::vecadd;

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let half = 1 << 16;
    let inputs = [vec![1.0f32; half], vec![2.0f32; half]];

    let start = gpu.stream().record_event()?;
    let mut streams = Vec::new();
    let mut pending = Vec::new();
    for input in &inputs {
        let stream = gpu.create_stream()?;
        let source = PinnedBuffer::from_slice(&stream, input)?;
        let target = PinnedBuffer::<f32>::zeroed(&stream, half)?;
        let mut x = DeviceBuffer::<f32>::zeroed(&stream, half)?;
        let mut sum = DeviceBuffer::<f32>::zeroed(&stream, half)?;

        // Three operations on one stream: they run in order, and none of these calls waits.
        let upload = x.copy_from_pinned_async(&stream, source)?;
        vecadd::launch(&stream, LaunchConfig::for_num_elems(half), &x, &x, &mut sum)?;
        let download = sum.copy_to_pinned_async(&stream, target)?;
        pending.push((upload, download));
        streams.push(stream);
    }

    // What is enqueued on the device's own stream from here on comes after both.
    gpu.stream().join(&streams)?;
    let end = gpu.stream().record_event()?;

    for ((upload, download), input) in pending.into_iter().zip(&inputs) {
        let (source, result) = (upload.wait()?, download.wait()?);
        assert_eq!(source[..], input[..]);
        assert!(result.iter().zip(input).all(|(sum, x)| *sum == x + x));
    }
    println!("device: {}", gpu.name());
    println!("two streams, {half} elements each: {:.3} ms", end.milliseconds_since(&start)?);
    Ok(())
}
