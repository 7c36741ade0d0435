//! Limits of launches, modules that do not fit, and what the errors say.

use std::ptr;
use std::sync::{Arc, LazyLock};

use cuda_driver::sys::{self, CUresult};
use cuda_std::launch::{DeviceWrite, Home, LaunchConfig, RawSlice};
use ferrowarp::error::LaunchLimit;
use ferrowarp::graph::GraphBuilder;
use ferrowarp::module::Image;
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuContext, GpuError, GpuResult, Linear};

use crate::child::{child, lines};
use crate::kernels::{
    ADD, FILL, IMAGES, LAST_WORD, MISSING, TOO_FEW, TOO_MANY, TOO_WIDE, fill, gpu, image, launch,
};

fn try_launch(config: LaunchConfig) -> GpuResult<()> {
    let mut words = DeviceBuffer::zeroed(gpu(), 4)?;
    launch(gpu(), &FILL, config, &mut words, 1)?;
    words.to_vec().map(drop)
}

fn config(grid: (u32, u32, u32), block: (u32, u32, u32), shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig { grid, block, shared_mem_bytes }
}

#[track_caller]
fn too_large(config: LaunchConfig, expected: LaunchLimit, expected_value: u64) {
    match try_launch(config).expect_err("too large").root() {
        GpuError::LaunchTooLarge { kernel: "fill", what, value, limit } => {
            assert_eq!((*what, *value), (expected, expected_value));
            assert!(value > limit || *value == 0);
        }
        other => panic!("{other}"),
    }
}

/// Other code in the process may have made another context current, or none. A launch that is checked already does not ask.
#[test]
fn launches_reach_their_stream_whatever_context_is_current() {
    // A driver that makes a context waits for the work of all tests.
    let told = lines(&child("launches::launch_beside_other_contexts", &[]), "right: ");
    assert_eq!(told, ["2", "3", "4", "5"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn launch_beside_other_contexts() -> GpuResult<()> {
    let done = |code| assert_eq!(code, CUresult::CUDA_SUCCESS);
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 33)?;
    let builder = GraphBuilder::new(gpu());
    let mut of_graph = DeviceBuffer::<u32>::zeroed(gpu(), 5)?;
    fill(&builder, &mut of_graph, 7)?;
    let mut graph = builder.build(of_graph)?;
    fill(gpu(), &mut words, 1)?;
    let (mut own, mut other) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: both places are writable, and no flags are set; the new context is current from then on.
    unsafe {
        done(sys::cuCtxGetCurrent(&mut own));
        done(sys::cuCtxCreate_v2(&mut other, 0, gpu().info().ordinal as i32));
    }
    for (value, current) in [(2, ptr::null_mut()), (3, other), (4, own), (5, other)] {
        // SAFETY: they are contexts that live, or none.
        let make_current = || unsafe { done(sys::cuCtxSetCurrent(current)) };
        make_current();
        fill(gpu(), &mut words, value)?;
        make_current();
        graph.launch(gpu())?;
        make_current();
        assert_eq!(words.to_vec()?, [value; 33]);
        assert_eq!(graph.wait()?.to_vec()?, [7; 5]);
        println!("right: {value}");
    }
    // SAFETY: nothing of it is used any more.
    unsafe {
        done(sys::cuCtxDestroy_v2(other));
        done(sys::cuCtxSetCurrent(own));
    }
    Ok(())
}

#[test]
fn what_no_device_can_launch_is_refused_before_the_driver() {
    use LaunchLimit::{BlockDim, BlockThreads, GridDim, SharedMemory};
    too_large(config((1, 1, 1), (1025, 1, 1), 0), BlockDim(0), 1025);
    too_large(config((1, 1, 1), (1, 1, 65), 0), BlockDim(2), 65);
    too_large(config((1, 1, 1), (33, 32, 1), 0), BlockThreads, 1056);
    too_large(config((1, 1, 1), (1024, 1024, 64), 0), BlockThreads, 1 << 26);
    too_large(config((1, 65_536, 1), (1, 1, 1), 0), GridDim(1), 65_536);
    too_large(config((1, 1, 65_536), (1, 1, 1), 0), GridDim(2), 65_536);
    too_large(config((1 << 31, 1, 1), (1, 1, 1), 0), GridDim(0), 1 << 31);
    too_large(config((1, 1, 1), (0, 1, 1), 0), BlockDim(0), 0);
    too_large(config((1, 1, 1), (32, 1, 1), 1 << 20), SharedMemory, 1 << 20);
    too_large(config((1, 1, 1), (32, 1, 1), u32::MAX), SharedMemory, u32::MAX.into());
}

#[test]
fn a_refusal_says_the_limit() {
    let error = try_launch(config((1, 1, 1), (2000, 1, 1), 0)).unwrap_err();
    let line = "`fill` cannot be launched with 2000 threads a block in x: the limit is 1024";
    assert_eq!(error.to_string(), line);
}

#[test]
fn the_largest_that_fits_is_launched() -> GpuResult<()> {
    try_launch(config((1, 1, 1), (1024, 1, 1), 0))?;
    try_launch(config((1, 1, 1), (4, 4, 64), 0))?;
    try_launch(config((3, 65_535, 1), (1, 1, 1), 0))
}

#[test]
fn a_kernel_gets_more_shared_memory_than_the_ordinary_limit() -> GpuResult<()> {
    let limit = gpu().info().shared_mem_per_block_optin_bytes;
    for bytes in [1024, 48 << 10, (48 << 10) + 4, limit] {
        let mut word = DeviceBuffer::zeroed(gpu(), 1)?;
        let config = Linear::new(1, 1).shared_mem(bytes);
        launch(gpu(), &LAST_WORD, config, &mut word, bytes)?;
        assert_eq!(word.to_vec()?, [77], "{bytes} bytes");
    }
    Ok(())
}

#[test]
fn a_kernel_that_is_not_there_is_named_with_those_that_are() {
    let mut words = DeviceBuffer::zeroed(gpu(), 4).unwrap();
    let error = launch(gpu(), &MISSING, Linear::new(1, 4), &mut words, 1).unwrap_err();
    let GpuError::NotFound { kernel, candidates, .. } = error.root() else { panic!("{error}") };
    assert_eq!((kernel.as_str(), candidates[0].as_str(), candidates.len()), ("fil", "fill", 5));
    let line = "launching `fil`: there is no kernel `fil` in the module; it has `fill`, ";
    assert!(error.to_string().starts_with(line), "{error}");
}

/// A launcher that was made for another entry of the same name; the driver would read what is not there.
#[test]
fn parameters_that_the_ptx_does_not_have_are_refused_before_the_launch() {
    let mut words = DeviceBuffer::zeroed(gpu(), 4).unwrap();
    for (kernel, sizes) in
        [(&TOO_FEW, vec![8, 8]), (&TOO_MANY, vec![8, 8, 4, 8]), (&TOO_WIDE, vec![8, 8, 8])]
    {
        // A device of its own has looked no kernel up yet.
        let fresh = Gpu::with_images(IMAGES).unwrap();
        let error = launch(&fresh, kernel, Linear::new(1, 4), &mut words, 1).unwrap_err();
        let GpuError::WrongParameters { kernel: "fill", expected, found } = error.root() else {
            // A driver older than CUDA 12.4 does not tell; then the arguments are compared.
            panic!("{error}")
        };
        assert!(*found == sizes || *expected == sizes, "{error}");
    }
    let error = launch(gpu(), &ADD, Linear::new(1, 4), &mut words, 1).unwrap_err();
    let line = "launching `add`: `add` takes 5 parameters of [8, 8, 8, 8, 8] bytes, and is launched with \
                [8, 8, 4]: parameter 2 has 8 bytes, and its argument 4";
    assert_eq!(error.to_string(), line);
    assert_eq!(words.to_vec().unwrap(), [0; 4]);
}

fn first_launch(images: &[Image]) -> GpuError {
    let gpu = Gpu::with_images(images).unwrap();
    let mut words = DeviceBuffer::zeroed(&gpu, 4).unwrap();
    fill(&gpu, &mut words, 1).unwrap_err()
}

#[test]
fn images_that_do_not_fit_are_refused() {
    let error = first_launch(&[]);
    assert!(
        matches!(error.root(), GpuError::NoKernels { kernel: Some(kernel) } if kernel == "fill"),
        "{error}"
    );

    // SAFETY: it has no kernel.
    let unknown = unsafe { Image::from_ptx("sm_999", "") };
    let error = first_launch(&[unknown]);
    let (major, minor) = gpu().compute_capability();
    let line = format!("runs on compute capability {major}.{minor} (embedded: sm_999)");
    assert!(error.to_string().contains(&line), "{error}");
}

#[test]
fn ptx_that_does_not_compile_shows_the_compilers_words() {
    let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n\
               .visible .entry fill()\n{\n    frobnicate.u32 %r1, 2;\n    ret;\n}\n";
    let error = first_launch(&[image(ptx)]);
    let driver = error.driver().expect("a driver error");
    assert_eq!((driver.code(), driver.name()), (218, "CUDA_ERROR_INVALID_PTX"));
    assert!(driver.detail().is_some_and(|log| log.contains("frobnicate")), "{error}");
    let contexts: Vec<_> = error.contexts().collect();
    assert_eq!(contexts, ["launching `fill`", "loading the kernels for sm_70"]);
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}

#[test]
fn a_broken_module_breaks_nothing_else() -> GpuResult<()> {
    first_launch(&[image("nonsense")]);
    let mut words = DeviceBuffer::zeroed(gpu(), 4)?;
    fill(gpu(), &mut words, 6)?;
    assert_eq!(words.to_vec()?, [6; 4]);
    Ok(())
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let error = Gpu::on(99).unwrap_err();
    assert!(error.to_string().starts_with("opening GPU 99: "), "{error}");
    assert_eq!(error.driver().map(|driver| driver.code()), Some(101));
}

/// Memory that something else than this crate's streams keeps in order.
struct Foreign<'a>(&'a mut DeviceBuffer<u32>);

// SAFETY: the buffer's own description, with a home that nobody knows.
unsafe impl DeviceWrite<u32> for Foreign<'_> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        static HOME: LazyLock<Arc<u32>> = LazyLock::new(|| Arc::new(7));
        RawSlice { home: Some(Home::from(&*HOME)), ..self.0.raw_mut() }
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn memory_of_another_runtime_is_refused() {
    let mut words = DeviceBuffer::zeroed(gpu(), 4).unwrap();
    let error = fill(gpu(), &mut Foreign(&mut words), 1).unwrap_err();
    assert!(matches!(error.root(), GpuError::ForeignStream { kernel: "fill" }), "{error}");
}

#[test]
fn the_device_describes_itself() -> GpuResult<()> {
    let gpu = gpu();
    let info = gpu.info();
    assert!(!gpu.name().is_empty() && info.multiprocessors > 0 && info.warp_size == 32);
    assert!(gpu.compute_capability() >= (7, 0));
    let (free, total) = gpu.memory_info()?;
    assert!(free <= total && total == info.total_memory_bytes, "{free} {total} {info:?}");
    assert_eq!(gpu.backend(), ferrowarp::backend()?);
    if std::env::var("FERROWARP_DEVICE").is_ok_and(|device| device == "emulator") {
        assert_eq!(gpu.backend(), Backend::Emulator);
    }
    assert_eq!(gpu.load_kernels()?.arch, "sm_70");
    Ok(())
}

#[test]
fn context_is_added_to_results() {
    let error = Gpu::on(99).gpu_context("starting").unwrap_err();
    assert!(error.to_string().starts_with("starting: opening GPU 99: "), "{error}");
}
