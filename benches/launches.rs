//! What one launch costs the host, and what each of its parts does: medians, in nanoseconds.
//!
//! The kernel does nothing on one thread, so that the host is what is measured; every hundredth launch
//! waits for the device, off the clock. `the driver alone` is `cuLaunchKernel` in a bare loop.

use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

use cuda_driver::Backend;
use cuda_driver::sys;
use cuda_std::launch::{Args, Contract, DeviceWrite, Kernel, Launch, Linear, Param, ParamKind};
use ferrowarp::completion::block_on;
use ferrowarp::module::Image;
use ferrowarp::operation::{DeviceOperation, operation};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, Stream};

const PTX: &str = ".version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .u64 p, .param .u64 len)
{
    ret;
}
";

// SAFETY: the kernel does nothing.
const IMAGES: &[Image] = &[unsafe { Image::from_ptx("sm_70", PTX) }];

static NOTHING: Kernel = Kernel {
    name: "nothing",
    params: &[
        Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
        Param { name: "len", kind: ParamKind::Length, size_bytes: 8 },
    ],
    contract: Contract::NONE,
};

/// Launches between waits.
const BATCH: u32 = 100;

fn nothing(on: &impl Launch<Error = GpuError>, words: &mut impl DeviceWrite<u32>) -> GpuResult<()> {
    let mut args = Args::new();
    args.push_write(words);
    // SAFETY: the arguments are the kernel's, which does nothing.
    unsafe { on.launch(&NOTHING, Linear::new(1, 1).into(), &args) }
}

/// Nanoseconds of one call: the median of batches.
fn measure(
    gpu: &Gpu,
    batches: usize,
    mut batch: impl FnMut(u32) -> GpuResult<()>,
) -> GpuResult<f64> {
    let mut times = Vec::with_capacity(batches);
    for _ in 0..batches + 3 {
        let start = Instant::now();
        batch(BATCH)?;
        times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
        gpu.synchronize()?;
    }
    let mut times = times.split_off(3);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn checked(code: sys::CUresult) {
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
}

/// A module, a function and a stream of the driver's own.
struct Bare {
    function: sys::CUfunction,
    stream: sys::CUstream,
    context: sys::CUcontext,
}

impl Bare {
    /// Of the context that is current.
    fn new() -> Self {
        let ptx = std::ffi::CString::new(PTX).expect("no NUL in there");
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let (mut stream, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the places are writable, and the texts end with a NUL.
        unsafe {
            checked(sys::cuCtxGetCurrent(&mut context));
            checked(sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast_mut().cast()));
            checked(sys::cuModuleGetFunction(&mut function, module, c"nothing".as_ptr()));
            checked(sys::cuStreamCreate(&mut stream, 1));
        }
        Self { function, stream, context }
    }

    fn launch(&self) {
        let (mut p, mut len) = (256u64, 0u64);
        let values: [*mut c_void; 2] =
            [ptr::from_mut(&mut p).cast(), ptr::from_mut(&mut len).cast()];
        let (f, s) = (self.function, self.stream);
        // SAFETY: the values are the kernel's parameters.
        checked(unsafe {
            sys::cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, values.as_ptr().cast(), ptr::null())
        });
    }

    fn bind(&self) {
        // SAFETY: the context lives as long as the device that the program holds.
        checked(unsafe { sys::cuCtxSetCurrent(self.context) });
    }

    fn ask(&self) {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is writable.
        checked(unsafe { sys::cuCtxGetCurrent(&mut current) });
        assert_eq!(current, self.context);
    }
}

fn run() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let batches = if gpu.backend() == Backend::Cuda { 300 } else { 10 };
    let stream = gpu.create_stream()?;
    let mut here = DeviceBuffer::<u32>::zeroed(&stream, 16)?;
    let mut there = DeviceBuffer::<u32>::zeroed(&gpu, 16)?;
    nothing(&stream, &mut here)?;
    let bare = Bare::new();
    let loops = |count: u32, mut call: Box<dyn FnMut() -> GpuResult<()> + '_>| {
        (0..count).try_for_each(|_| call())
    };
    let mut rows = vec![
        (
            "the driver alone",
            measure(&gpu, batches, |n| {
                (0..n).for_each(|_| bare.launch());
                Ok(())
            })?,
        ),
        (
            "binding a context",
            measure(&gpu, batches, |n| {
                (0..n).for_each(|_| bare.bind());
                Ok(())
            })?,
        ),
        (
            "asking which context is current",
            measure(&gpu, batches, |n| {
                (0..n).for_each(|_| bare.ask());
                Ok(())
            })?,
        ),
        (
            "a launch, buffers at home",
            measure(&gpu, batches, |n| loops(n, Box::new(|| nothing(&stream, &mut here))))?,
        ),
        (
            "the same as an operation, enqueued",
            measure(&gpu, batches, |n| {
                loops(
                    n,
                    Box::new(|| {
                        operation(|on: &Stream| nothing(on, &mut here)).enqueue_on(&stream)
                    }),
                )
            })?,
        ),
        (
            "one of two operations, chained",
            measure(&gpu, batches, |n| {
                loops(
                    n / 2,
                    Box::new(|| {
                        let here = &mut here;
                        let first = operation(move |on: &Stream| {
                            nothing(on, here)?;
                            Ok(here)
                        });
                        let both = first.then(|here: &mut DeviceBuffer<u32>| {
                            operation(move |on: &Stream| nothing(on, here))
                        });
                        both.enqueue_on(&stream)
                    }),
                )
            })?,
        ),
    ];
    rows.push((
        "a launch, a buffer of another stream",
        measure(&gpu, batches, |n| loops(n, Box::new(|| nothing(&stream, &mut there))))?,
    ));
    rows.push((
        "the same, adopted for 100 launches",
        measure(&gpu, batches, |n| {
            stream.rehome(there.as_mut_slice(), |mut there| {
                loops(n, Box::new(|| nothing(&stream, &mut there)))
            })
        })?,
    ));
    rows.push((
        "one of a batch of 100",
        measure(&gpu, batches, |n| {
            stream.batch(&mut here, |batch, here| (0..n).try_for_each(|_| nothing(batch, *here)))
        })?,
    ));
    rows.push((
        "the same, a buffer of another stream",
        measure(&gpu, batches, |n| {
            stream.batch(&mut there, |batch, there| (0..n).try_for_each(|_| nothing(batch, *there)))
        })?,
    ));
    rows.push((
        "an event recorded",
        measure(&gpu, batches, |n| loops(n, Box::new(|| stream.record_event().map(drop))))?,
    ));
    rows.push((
        "a future made",
        measure(&gpu, batches, |n| {
            loops(
                n,
                Box::new(|| {
                    drop(stream.completed());
                    Ok(())
                }),
            )
        })?,
    ));
    rows.push((
        "a launch, awaited",
        measure(&gpu, batches, |n| {
            loops(
                n,
                Box::new(|| {
                    nothing(&stream, &mut here)?;
                    block_on(stream.completed())
                }),
            )
        })?,
    ));
    rows.push((
        "an operation, awaited",
        measure(&gpu, batches, |n| {
            loops(
                n,
                Box::new(|| {
                    let launch = operation(|on: &Stream| nothing(on, &mut here));
                    block_on(launch.async_on(&stream))
                }),
            )
        })?,
    ));
    rows.push((
        "a launch, waited for",
        measure(&gpu, batches, |n| {
            loops(
                n,
                Box::new(|| {
                    nothing(&stream, &mut here)?;
                    stream.synchronize()
                }),
            )
        })?,
    ));
    rows.push((
        "a host function, waited for",
        measure(&gpu, batches, |n| loops(n, Box::new(|| stream.launch_host_func(|| ())?.wait())))?,
    ));
    println!("{}: {batches} batches of {BATCH}", gpu.name());
    for (name, ns) in rows {
        println!("{name:<40} {ns:>10.0} ns");
    }
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("launches: {error}");
        std::process::exit(1);
    }
}
