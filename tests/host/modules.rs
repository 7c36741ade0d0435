//! Images that do not load, and launchers that do not fit what was loaded.

use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, Linear};

use crate::kernels::{FILL, IMAGES, TOO_FEW, TOO_MANY, TOO_WIDE, fill, launch};

/// What the first launch from this text says.
fn refusal(ptx: &str) -> GpuError {
    let ptx: &'static str = ptx.to_owned().leak();
    let gpu = Gpu::with_images(&[Image { arch: "sm_70", ptx }]).unwrap();
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
fn a_text_for_a_newer_device_is_refused_with_both_architectures() {
    let error = refusal(&IMAGES[0].ptx.replace(".target sm_70", ".target sm_129"));
    let GpuError::UnsupportedArch { device, available } = error.root() else { panic!("{error}") };
    assert_eq!(available, &["sm_129".to_owned()]);
    let words = format!("compute capability {}.{} (embedded: sm_129)", device.0, device.1);
    assert!(error.to_string().contains(&words), "{error}");
}

#[test]
fn a_text_of_a_newer_version_names_the_driver_as_what_is_old() {
    let ptx = IMAGES[0].ptx.replace(".version 7.0", ".version 99.0");
    assert_eq!(driver_says(&ptx).0, 222);
    let error = refusal(&ptx).to_string();
    assert!(error.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION 222"), "{error}");
    assert!(error.contains("update the NVIDIA driver"), "{error}");
}

#[test]
fn a_text_that_is_cut_before_its_kernel_ends_is_refused() {
    let whole = IMAGES[0].ptx;
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
    let (code, log) = driver_says(&IMAGES[0].ptx.replace("st.global.u32", "st.nowhere.u32"));
    assert!(code == 218 && log.contains("nowhere"), "{code}: {log}");
}

#[test]
fn a_function_that_nobody_defines_is_named() {
    let call = "    { .param .b32 x; st.param.b32 [x], %r1; call nobody_knows, (x); }\n$DONE:";
    let text = IMAGES[0].ptx.replacen("$DONE:", call, 1);
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
