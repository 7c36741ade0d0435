//! What the tests of the device library share.
//!
//! Each file under `tests/` runs the kernels of the crate of its name under `kernels/`, through the
//! typed launchers and the host crate: on a GPU where there is one, else on the emulator. The PTX
//! lies inside the test executables, so that they run on a machine without a compiler.

use bytemuck::Pod;
use cuda_std::launch::DevicePtr;
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuResult};

use std::env;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lanes of a warp.
pub const WARP: usize = 32;

/// Declares `fn gpu()`: the device of a file's tests, with the kernels of the crate in that folder.
#[macro_export]
macro_rules! device {
    ($kernels:literal) => {
        /// The device that all tests here share.
        fn gpu() -> &'static ferrowarp::Gpu {
            static IMAGES: &[ferrowarp::module::Image] =
                ferrowarp::include_kernels!(concat!($kernels, ".rs"));
            static GPU: std::sync::LazyLock<ferrowarp::Gpu> = std::sync::LazyLock::new(|| {
                ferrowarp::Gpu::with_images(IMAGES)
                    .unwrap_or_else(|error| panic!("no device to test on: {error}"))
            });
            &GPU
        }
    };
}

/// A copy of `values` on the device.
pub fn upload<T: Pod>(gpu: &Gpu, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(gpu, values).unwrap_or_else(|error| panic!("{error}"))
}

/// `n` elements full of bytes `0xA5`, which no kernel here would write by itself.
pub fn poisoned<T: Pod>(gpu: &Gpu, n: usize) -> DeviceBuffer<T> {
    upload(gpu, &vec![bytemuck::pod_read_unaligned(&vec![0xA5; size_of::<T>()]); n])
}

/// What a buffer holds once the kernels before have run; panics with the fault of one.
pub fn download<T: Pod>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    buffer.to_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a kernel of one warp that writes `rows` results a lane; gives a row of 32 lanes for each.
pub fn warp_rows(
    gpu: &Gpu,
    rows: usize,
    launch: impl FnOnce(DevicePtr<u64>) -> GpuResult<()>,
) -> Vec<Vec<u64>> {
    let out = poisoned(gpu, rows * WARP);
    launch(out.as_device_ptr()).unwrap_or_else(|error| panic!("{error}"));
    download(&out).chunks(WARP).map(<[u64]>::to_vec).collect()
}

/// What every lane computes.
pub fn lanes(f: impl Fn(u64) -> u64) -> Vec<u64> {
    (0..WARP as u64).map(f).collect()
}

/// Whether the tests run on a real GPU.
pub fn on_gpu() -> bool {
    matches!(ferrowarp::backend(), Ok(Backend::Cuda))
}

/// A lock for tests in which kernels panic, so that they run one at a time: any wait for the device that they share
/// returns the panic.
pub fn alone(gpu: &Gpu) -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    done(gpu.synchronize());
    guard
}

/// Panics with the error's own words.
pub fn done(result: GpuResult<()>) {
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Prints the error that a test expects, for [`error_of`]; panics if there is none.
pub fn fails(result: GpuResult<()>) {
    println!("error: {}", result.expect_err("nothing went wrong"));
}

/// Runs the ignored test `name` of this executable in a process of its own, with these environment variables, and
/// returns what it printed; panics unless it passed.
///
/// A fault costs a process its device, and a process chooses device and checks when it starts.
pub fn run_alone(name: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(env::current_exe().expect("this executable"))
        .envs(variables.iter().copied())
        .args(["--ignored", "--exact", "--nocapture", name])
        .output()
        .expect("the executable starts again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_passed = output.status.success() && text.contains("1 passed");
    assert!(has_passed, "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What the ignored test `name` of this executable says through [`fails`].
pub fn error_of(name: &str) -> String {
    let text = run_alone(name, &[]);
    let line = text.lines().find_map(|line| line.split_once("error: "));
    line.unwrap_or_else(|| panic!("no error in: {text}")).1.to_owned()
}
