//! A kernel that faults ends its process's device, so these run in a process of their own.

use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};

use cuda_std::launch::Kernel;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, Linear, Stream};

use crate::child::{child, lines};
use crate::kernels::{FILL, WILD, fill, gpu, image, launch};

const EMULATOR: [(&str, &str); 1] = [("FERROWARP_DEVICE", "emulator")];

#[test]
fn a_fault_is_reported_and_the_device_is_lost() {
    let output = child("faults::fault_and_go_on", &[]);
    let causes = lines(&output, "lost: ");
    assert_eq!(causes.len(), 6, "{causes:?}");
    assert!(causes.iter().all(|cause| *cause == causes[0]), "the first cause stays: {causes:?}");
}

#[test]
fn the_emulator_names_kernel_thread_and_address() {
    let output = child("faults::fault_and_go_on", &EMULATOR);
    let cause = &lines(&output, "lost: ")[0];
    for words in ["`wild`", "block (2,0,0)", "thread (0,0,0)", "store of 4 bytes"] {
        assert!(cause.contains(words), "{words} in {cause}");
    }
}

#[test]
#[ignore = "run in a process of its own by the tests above"]
fn fault_and_go_on() {
    let mut words = DeviceBuffer::zeroed(gpu(), 4).unwrap();
    let fault =
        launch(gpu(), &WILD, Linear::new(3, 1), &mut words, 1).and_then(|()| gpu().synchronize());
    report(fault);
    report(gpu().synchronize());
    report(words.to_vec());
    report(fill(gpu(), &mut words, 1));
    report(DeviceBuffer::<u8>::zeroed(gpu(), 1));
    report(gpu().create_stream());
    // Drops must neither panic nor hang.
}

/// `deep(n, out)` puts `n + n - 1 + … + 1` to `out`; each call has its result in a frame of its own.
const RECURSION: &str = "\
.version 7.0
.target sm_70
.address_size 64

.func deep(.param .b32 n, .param .b64 out)
{
    .local .align 8 .b8 frame[1024];
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.b32 %r1, [n];
    ld.param.b64 %rd1, [out];
    mov.b32 %r2, 0;
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra $END;
    add.s32 %r3, %r1, -1;
    mov.u64 %rd2, frame;
    cvta.local.u64 %rd2, %rd2;
    {
        .param .b32 less;
        .param .b64 place;
        st.param.b32 [less], %r3;
        st.param.b64 [place], %rd2;
        call deep, (less, place);
    }
    ld.b32 %r2, [%rd2];
    add.s32 %r2, %r2, %r1;
$END:
    st.b32 [%rd1], %r2;
    ret;
}

.visible .entry recurse(.param .u64 p, .param .u64 len, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [value];
    {
        .param .b32 n;
        .param .b64 out;
        st.param.b32 [n], %r1;
        st.param.b64 [out], %rd1;
        call deep, (n, out);
    }
    ret;
}
";

static RECURSE: Kernel = Kernel { name: "recurse", ..FILL };

#[test]
fn a_stack_that_overflows_is_a_fault_and_one_that_does_not_is_none() {
    let output = child("faults::recurse_too_deep", &[]);
    assert_eq!(lines(&output, "sum: "), ["36"]);
    let error = lines(&output, "deep: ");
    assert_eq!(error.len(), 1, "{error:?}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn recurse_too_deep() {
    let gpu = Gpu::with_images(&[image(RECURSION)]).unwrap();
    let mut word = DeviceBuffer::zeroed(&gpu, 1).unwrap();
    launch(&gpu, &RECURSE, Linear::new(1, 1), &mut word, 8).unwrap();
    println!("sum: {}", word.to_vec().unwrap()[0]);
    let fault = launch(&gpu, &RECURSE, Linear::new(1, 1), &mut word, 1 << 22)
        .and_then(|()| gpu.synchronize())
        .expect_err("four gigabytes of stack");
    assert!(matches!(fault.root(), GpuError::DeviceLost { .. }), "{fault}");
    println!("deep: {fault}");
}

/// Codes that `cust` lacks, and one that nobody has, in the place of an allocation's answer.
#[test]
fn codes_of_newer_drivers_keep_their_number() {
    for (code, name, lost) in [
        (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", false),
        (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", false),
        (226, "CUDA_ERROR_CONTAINED", true),
        (4321, "an unknown code", false),
    ] {
        let fail = format!("cuMemAlloc_v2:{code}");
        let variables = [EMULATOR[0], ("FERROWARP_EMULATOR_FAIL", fail.as_str())];
        let told = lines(&child("faults::fail_to_allocate", &variables), "failed: ");
        assert_eq!(told, [format!("{code} {name} {lost}")]);
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fail_to_allocate() {
    let Err(error) = DeviceBuffer::<u8>::zeroed(gpu(), 1) else { panic!("it was told to fail") };
    let driver = error.driver().expect("a driver error");
    let lost = matches!(error.root(), GpuError::DeviceLost { .. });
    println!("failed: {} {} {lost}", driver.code(), driver.name());
}

fn report<T>(result: GpuResult<T>) {
    let error = result.err().expect("the device is lost");
    let GpuError::DeviceLost { cause } = error.root() else { panic!("{error}") };
    assert_eq!(cause.driver().expect("a driver error").code(), 700, "{error}");
    println!("lost: {cause}");
}

/// What a panic goes past is whole afterwards, so it may be used behind a `catch_unwind`.
#[test]
fn devices_streams_and_errors_are_unwind_safe() -> GpuResult<()> {
    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<Gpu>();
    check::<Stream>();
    check::<GpuError>();
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 4)?;
    let (gpu, stream) = (gpu().clone(), gpu().create_stream()?);
    let caught = catch_unwind(|| {
        stream.synchronize().unwrap();
        gpu.synchronize().unwrap();
        panic!("on purpose");
    });
    assert!(caught.is_err());
    fill(&stream, &mut words, 5)?;
    assert_eq!(words.to_vec()?, [5; 4]);
    gpu.synchronize()
}
