//! Images that do not load, and launchers that do not fit what was loaded.

use std::env;
use std::ptr;
use std::sync::Barrier;

use cuda_driver::injection::{self, Call};
use cuda_driver::sys::{self, CUresult};
use cuda_std::launch::{Contract, Kernel};
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuError, GpuResult, Linear};

use crate::child::{child, lines};
use crate::kernels::{CHURN, FILL, IMAGES, TOO_FEW, TOO_MANY, TOO_WIDE, fill, image, launch};

/// What the first launch from this text says.
fn refusal(ptx: &str) -> GpuError {
    let ptx: &'static str = ptx.to_owned().leak();
    let gpu = Gpu::with_images(&[image(ptx)]).unwrap();
    let mut words = DeviceBuffer::zeroed(&gpu, 4).unwrap();
    let error = fill(&gpu, &mut words, 1).expect_err("it cannot load");
    // Nothing but the module is the worse for it.
    assert_eq!(words.to_vec().unwrap(), [0; 4]);
    error
}

/// The driver's code, and its log.
#[track_caller]
fn driver_says(ptx: &str) -> (u32, String) {
    let error = refusal(ptx);
    assert!(error.contexts().any(|what| what == "loading the kernels for sm_70"), "{error}");
    let driver = error.driver().unwrap_or_else(|| panic!("{error}"));
    (driver.code(), driver.detail().unwrap_or_default().to_owned())
}

#[test]
fn a_kernel_is_loaded_while_other_code_captures() {
    lines(&child("modules::a_load_does_not_end_a_capture", &[]), "");
}

#[test]
#[ignore = "run by the test above in a process of its own: the capture forbids calls to all threads"]
fn a_load_does_not_end_a_capture() {
    let gpu = Gpu::with_images(IMAGES).unwrap();
    let mut words = DeviceBuffer::zeroed(&gpu, 4).unwrap();
    let (mut stream, mut graph) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the places are writable, and the stream is this test's own.
    unsafe {
        assert_eq!(sys::cuStreamCreate(&mut stream, 1), CUresult::CUDA_SUCCESS);
        // Mode 0, global: calls that could disturb a capture are forbidden to all threads.
        assert_eq!(sys::cuStreamBeginCapture_v2(stream, 0), CUresult::CUDA_SUCCESS);
    }
    let filled = fill(&gpu, &mut words, 7);
    // SAFETY: as above.
    unsafe {
        assert_eq!(sys::cuStreamEndCapture(stream, &mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuGraphDestroy(graph), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuStreamDestroy_v2(stream), CUresult::CUDA_SUCCESS);
    }
    filled.unwrap();
    assert_eq!(words.to_vec().unwrap(), [7; 4]);
}

#[test]
fn a_text_for_a_newer_device_is_refused_with_both_architectures() {
    let error = refusal(&IMAGES[0].ptx().replace(".target sm_70", ".target sm_129"));
    let GpuError::UnsupportedArch { device, available } = error.root() else { panic!("{error}") };
    assert_eq!(available, &["sm_129".to_owned()]);
    let words = format!("compute capability {}.{} (embedded: sm_129)", device.0, device.1);
    assert!(error.to_string().contains(&words), "{error}");
}

#[test]
fn a_text_of_a_newer_version_names_the_driver_as_what_is_old() {
    let ptx = IMAGES[0].ptx().replace(".version 7.0", ".version 99.0");
    assert_eq!(driver_says(&ptx).0, 222);
    let error = refusal(&ptx).to_string();
    assert!(error.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION 222"), "{error}");
    assert!(error.contains("update the NVIDIA driver"), "{error}");
}

#[test]
fn a_text_that_is_cut_before_its_kernel_ends_is_refused() {
    let whole = IMAGES[0].ptx();
    let end = whole.find("\n}").expect("the end of `fill`");
    for at in (0..end).step_by(97).chain([end]) {
        let error = refusal(&whole[..at]);
        match error.root() {
            // What stands before the cut is whole, and has no kernel.
            GpuError::NotFound { kernel, .. } => assert_eq!(kernel, "fill"),
            GpuError::Driver(driver) => {
                assert!([200, 218, 300].contains(&driver.code()), "cut at {at}: {error}");
            }
            other => panic!("cut at {at}: {other}"),
        }
    }
}

#[test]
fn a_text_that_is_broken_has_the_drivers_log() {
    let (code, log) = driver_says(&IMAGES[0].ptx().replace("st.global.u32", "st.nowhere.u32"));
    assert!(code == 218 && log.contains("nowhere"), "{code}: {log}");
}

#[test]
fn a_function_that_nobody_defines_is_named() {
    let call = "    { .param .b32 x; st.param.b32 [x], %r1; call nobody_knows, (x); }\n$DONE:";
    let text = IMAGES[0].ptx().replacen("$DONE:", call, 1);
    let text = text
        .replace(".extern .shared", ".extern .func nobody_knows(.param .b32 x);\n.extern .shared");
    let (code, log) = driver_says(&text);
    assert!([218, 300].contains(&code) && log.contains("nobody_knows"), "{code}: {log}");
}

/// The first launcher of a name is known to fit; that says nothing of another one.
#[test]
fn a_second_launcher_of_a_kernel_is_checked_like_the_first() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
    launch(&gpu, &FILL, Linear::new(1, 4), &mut words, 5)?;
    for kernel in [&TOO_FEW, &TOO_MANY, &TOO_WIDE] {
        let error = launch(&gpu, kernel, Linear::new(1, 4), &mut words, 1).unwrap_err();
        assert!(
            matches!(error.root(), GpuError::WrongParameters { kernel: "fill", .. }),
            "{error}"
        );
    }
    launch(&gpu, &FILL, Linear::new(1, 4), &mut words, 6)?;
    assert_eq!(words.to_vec()?, [6; 4]);
    Ok(())
}

// ---- parts

/// A device with the kernels of a text, in parts.
fn parted(ptx: &str) -> Gpu {
    let ptx: &'static str = cuda_builder::with_parts(ptx).leak();
    assert!(cuda_builder::parts(ptx).is_some_and(|parts| parts.len() > 1));
    Gpu::with_images(&[image(ptx)]).unwrap()
}

/// How often this thread gives the driver something to compile.
fn loads<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let (result, calls) = injection::watch(work);
    (result, calls.iter().filter(|call| call.function == "cuLibraryLoadData").count())
}

#[test]
fn a_part_is_loaded_when_a_kernel_of_it_is_launched() -> GpuResult<()> {
    let gpu = parted(IMAGES[0].ptx());
    let mut words = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    if gpu.backend() != Backend::Emulator {
        return Ok(());
    }
    let mut compiled = |kernel| {
        let (result, loads) = loads(|| launch(&gpu, kernel, Linear::new(1, 4), &mut words, 3));
        result.map(|()| loads)
    };
    assert_eq!([compiled(&FILL)?, compiled(&FILL)?, compiled(&CHURN)?], [1, 0, 1]);
    let whole = Gpu::with_images(IMAGES)?;
    let (result, loads) = loads(|| {
        launch(&whole, &FILL, Linear::new(1, 4), &mut words, 3)?;
        launch(&whole, &CHURN, Linear::new(1, 4), &mut words, 3)
    });
    result?;
    assert_eq!(loads, 1);
    Ok(())
}

#[test]
fn all_parts_are_loaded_at_once_where_that_is_asked() -> GpuResult<()> {
    let gpu = parted(IMAGES[0].ptx());
    assert_eq!(gpu.load_kernels()?.arch, "sm_70");
    let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
    let (result, later) = loads(|| {
        launch(&gpu, &CHURN, Linear::new(1, 4), &mut words, 1)?;
        fill(&gpu, &mut words, 8)
    });
    result?;
    assert_eq!((words.to_vec()?, later), (vec![8; 4], 0));
    Ok(())
}

#[test]
fn threads_that_launch_a_kernel_at_once_load_its_part_once() {
    const THREADS: usize = 4;
    let store = "    st.global.u32 [%rd5], %r1;";
    // Long enough to be compiled by several at once, if several did.
    let long = "    mov.u32 %r1, %r1;\n".repeat(30_000) + store;
    assert!(IMAGES[0].ptx().contains(store));
    let gpu = parted(&IMAGES[0].ptx().replacen(store, &long, 1));
    let (gpu, begin) = (&gpu, &Barrier::new(THREADS));
    let launched = || {
        let stream = gpu.create_stream().unwrap();
        let mut words = DeviceBuffer::zeroed(&stream, 4).unwrap();
        begin.wait();
        let ((), loads) = loads(|| fill(&stream, &mut words, 9).unwrap());
        assert_eq!(words.to_vec().unwrap(), [9; 4]);
        loads
    };
    let loads: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(launched)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(loads, usize::from(gpu.backend() == Backend::Emulator));
}

#[test]
fn a_part_that_does_not_load_is_named_and_the_others_work() -> GpuResult<()> {
    let gpu = parted(&IMAGES[0].ptx().replacen("st.global.u32", "st.nowhere.u32", 1));
    let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
    for _ in 0..2 {
        let error = fill(&gpu, &mut words, 1).expect_err("its part is broken");
        let named = "loading the kernel `fill` for sm_70";
        assert!(error.contexts().any(|what| what == named), "{error}");
        assert!(error.driver().is_some_and(|driver| driver.code() == 218), "{error}");
    }
    launch(&gpu, &CHURN, Linear::new(1, 4), &mut words, 1)?;
    assert!(gpu.load_kernels().is_err());
    gpu.synchronize()
}

/// Several parts do not load, on whichever thread, in whatever order they end.
#[test]
fn of_several_parts_that_do_not_load_the_first_is_named() {
    // The first one takes the compiler longer.
    let kernel = |at: usize| {
        let (work, before) = match at {
            7 => ("nowhere", 3_000),
            8 => ("nowhere", 0),
            _ => ("add", 0),
        };
        let lines = "add.u32 %r1, %r1, 1;\n".repeat(before) + work + ".u32 %r1, %r1, 1;\n";
        format!(".visible .entry k{at}()\n{{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\n{lines}ret;\n}}\n")
    };
    let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
    let text = (0..40).map(kernel).fold(head.to_owned(), |text, kernel| text + &kernel);
    for _ in 0..10 {
        let error = parted(&text).load_kernels().expect_err("two parts are broken");
        let named = "loading the kernel `k7` for sm_70";
        assert!(error.contexts().any(|what| what == named), "{error}");
        assert!(error.driver().is_some_and(|driver| driver.code() == 218), "{error}");
    }
}

// ---- libraries, and modules where there are none

const LOADED_BY: &str = "FERROWARP_TEST_LOADED_BY";
const LIBRARY: [&str; 2] = ["cuLibraryLoadData", "cuLibraryUnload"];
const MODULE: [&str; 2] = ["cuModuleLoadData", "cuModuleUnload"];

/// Runs the test below in a process with these variables.
fn loads_by(functions: [&str; 2], variables: &[(&str, &str)]) {
    let variables = [&[(LOADED_BY, functions[0])], variables].concat();
    lines(&child("modules::what_is_loaded_is_unloaded_once", &variables), "");
}

#[test]
fn a_text_is_loaded_as_a_library() {
    loads_by(LIBRARY, &[("CUDA_MODULE_LOADING", "LAZY")]);
}

#[test]
fn where_code_is_loaded_eagerly_it_is_a_module() {
    loads_by(MODULE, &[("CUDA_MODULE_LOADING", "EAGER")]);
}

/// What the front answers where the driver lacks a function (500), and what a driver may say.
#[test]
fn a_driver_without_libraries_loads_modules() {
    for fail in [
        "cuLibraryLoadData:500",
        "cuLibraryLoadData:801",
        "cuLibraryGetModule:801",
        "cuModuleGetLoadingMode:500",
    ] {
        loads_by(MODULE, &[("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", fail)]);
    }
}

#[test]
#[ignore = "run in processes of its own by the tests above"]
fn what_is_loaded_is_unloaded_once() -> GpuResult<()> {
    let by = env::var(LOADED_BY).expect("a function is named");
    let functions = if by == LIBRARY[0] { LIBRARY } else { MODULE };
    let before = {
        // Its context stays, and with it what the emulator keeps for a context.
        let first = crate::kernels::gpu();
        fill(first, &mut DeviceBuffer::zeroed(first, 1)?, 1)?;
        first.synchronize()?;
        injection::live()
    };
    let (result, calls) = injection::watch(|| {
        let gpu = parted(IMAGES[0].ptx());
        let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
        fill(&gpu, &mut words, 3)?;
        launch(&gpu, &CHURN, Linear::new(1, 4), &mut words, 3)?;
        fill(&gpu, &mut words, 8)?;
        assert_eq!(words.to_vec()?, [8; 4]);
        Ok::<_, GpuError>(gpu)
    });
    let ((), unloads) = injection::watch(|| drop(result));
    let gpu = parted(IMAGES[0].ptx());
    gpu.load_kernels()?;
    drop(gpu);
    let (code, log) = driver_says(&IMAGES[0].ptx().replace("st.global.u32", "st.nowhere.u32"));
    assert!(code == 218 && log.contains("nowhere"), "{code}: {log}");
    if crate::kernels::gpu().backend() != Backend::Emulator {
        return Ok(());
    }
    let done = |calls: &[Call], function| {
        calls.iter().filter(|call| call.function == function && call.code == 0).count()
    };
    assert_eq!((done(&calls, functions[0]), done(&unloads, functions[1])), (2, 2));
    let other = if functions == LIBRARY { MODULE } else { LIBRARY };
    assert_eq!(done(&unloads, other[1]), 0, "{unloads:?}");
    assert_eq!(injection::live(), before);
    Ok(())
}

// ---- what parts share

/// Kernels of different parts, and a counter that two of one part share.
const COUNTER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
.visible .global .align 4 .u32 COUNT = 40;\n\
.visible .entry count(.param .u64 p, .param .u64 len, .param .u32 value)\n{\n\
.reg .b32 %r<3>;\nld.param.u32 %r1, [value];\natom.global.add.u32 %r2, [COUNT], %r1;\nret;\n}\n\
.visible .entry nothing()\n{\nret;\n}\n\
.visible .entry tell(.param .u64 p, .param .u64 len, .param .u32 value)\n{\n\
.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [COUNT];\n\
st.global.u32 [%rd1], %r1;\nret;\n}\n";
static COUNT: Kernel = Kernel { name: "count", ..FILL };
static TELL: Kernel = Kernel { name: "tell", ..FILL };
static NOWHERE: Kernel = Kernel { name: "tells", params: &[], contract: Contract::NONE };

#[test]
fn kernels_that_share_a_variable_see_each_others_writes() -> GpuResult<()> {
    let gpu = parted(COUNTER);
    let mut word = DeviceBuffer::zeroed(&gpu, 1)?;
    launch(&gpu, &COUNT, Linear::new(1, 1), &mut word, 2)?;
    launch(&gpu, &TELL, Linear::new(1, 1), &mut word, 0)?;
    assert_eq!(word.to_vec()?, [42]);
    let error = launch(&gpu, &NOWHERE, Linear::new(1, 1), &mut word, 0).unwrap_err();
    let GpuError::NotFound { kernel, candidates, .. } = error.root() else { panic!("{error}") };
    assert_eq!(
        (kernel.as_str(), &candidates[..]),
        ("tells", &["tell", "count", "nothing"].map(str::to_owned)[..])
    );
    Ok(())
}

#[test]
fn the_shipped_kernels_are_in_parts_each_in_one() {
    for image in ferrowarp::shipped::IMAGES {
        let parts = cuda_builder::parts(image.ptx()).expect("the build wrote them");
        let mut kernels: Vec<_> = parts.iter().flat_map(|part| &part.kernels).collect();
        let count = kernels.len();
        kernels.sort();
        kernels.dedup();
        assert_eq!(kernels.len(), count);
        assert_eq!(count, image.ptx().matches("\n.visible .entry ").count());
        let longest = parts.iter().map(|part| part.text(image.ptx()).len()).max();
        assert!(longest.is_some_and(|longest| longest < image.ptx().len() * 2 / 3), "{longest:?}");
    }
}
