//! Errors and panics: what a host program sees when something goes wrong, and how it goes on.
//!
//! The kernel is `kernels/src/errors_panics.rs`. A panic in a kernel becomes an error of the next wait, with message, file, line
//! and thread; the device remains usable.

use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, LaunchConfig, Linear};
use kernels::gather;

fn main() -> GpuResult<()> {
    let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;
    println!("device: {}", gpu.name());
    let x = DeviceBuffer::from_slice(&gpu, &[10.0f32, 11.0, 12.0, 13.0])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&gpu, 4)?;
    let config = LaunchConfig::for_num_elems(4);

    // Thread 2 reads x[7].
    let wrong = DeviceBuffer::from_slice(&gpu, &[3u32, 2, 7, 0])?;
    gather::launch(&gpu, config, &x, &wrong, &mut out)?; // asynchronous: succeeds
    let error = gpu.synchronize().expect_err("thread 2 panicked");
    println!("kernel panic: {error}");
    let panic = error.panic().expect("the error is a panic of a kernel");
    assert_eq!((panic.kernel.as_str(), panic.thread), ("gather", [2, 0, 0]));
    assert!(panic.file.ends_with("errors_panics.rs") && panic.message.contains("the index is 7"));

    // The device goes on.
    let right = DeviceBuffer::from_slice(&gpu, &[3u32, 2, 1, 0])?;
    gather::launch(&gpu, config, &x, &right, &mut out)?;
    assert_eq!(out.to_vec()?, [13.0, 12.0, 11.0, 10.0]);

    // A launch that the device cannot run is refused before the driver sees it.
    let error = gather::launch(&gpu, Linear::new(1, 5000), &x, &right, &mut out).unwrap_err();
    println!("launch: {error}");
    assert!(matches!(error, GpuError::LaunchTooLarge { value: 5000, .. }));

    // Lengths are checked, too.
    let error = out.copy_from_host(&[0.0; 3]).unwrap_err();
    println!("copy: {error}");
    assert!(matches!(error, GpuError::SizeMismatch { expected: 4, found: 3, .. }));

    // So is memory: this asks for a petabyte.
    let error = DeviceBuffer::<u8>::zeroed(&gpu, 1 << 50).unwrap_err();
    println!("allocation: {error}");
    assert!(matches!(error, GpuError::OutOfMemory { .. }));
    Ok(())
}
