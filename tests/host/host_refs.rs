//! One value of the host as a kernel's argument, in place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use bytemuck::{Pod, Zeroable};
use cuda_std::launch::{
    Args, Contract, DeviceRead, DeviceReadOne, DeviceWrite, Kernel, Launch, LaunchConfig, Param,
    ParamKind,
};
use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, HostPages};

use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu, image};

const SIZES: [usize; 8] = [0, 1, 31, 32, 33, 255, 257, 1009];
const ROUNDS: u32 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Config {
    unused: u64,
    factor: u32,
    offset: u32,
}

const IMAGES: &[Image] = &[image(
    "
.version 7.0
.target sm_70
.address_size 64

// p[i] = p[i] * config.factor + config.offset
.visible .entry affine(.param .u64 config, .param .u64 p, .param .u64 len)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [config];
    ld.param.u64 %rd2, [p];
    ld.param.u64 %rd3, [len];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd4, %r4;
    setp.ge.u64 %p1, %rd4, %rd3;
    @%p1 bra $DONE;
    shl.b64 %rd4, %rd4, 2;
    add.s64 %rd5, %rd2, %rd4;
    ld.u32 %r5, [%rd1+8];
    ld.u32 %r6, [%rd1+12];
    ld.u32 %r7, [%rd5];
    mad.lo.s32 %r7, %r7, %r5, %r6;
    st.u32 [%rd5], %r7;
$DONE:
    ret;
}
",
)];

const fn param(name: &'static str, kind: ParamKind) -> Param {
    Param { name, kind, size_bytes: 8 }
}

static AFFINE: Kernel = Kernel {
    name: "affine",
    params: &[
        param("config", ParamKind::Pointer),
        param("p", ParamKind::Pointer),
        param("len", ParamKind::Length),
    ],
    contract: Contract::NONE,
};

fn affine_gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::with_images(IMAGES).unwrap_or_else(|error| panic!("{error}")))
}

fn affine(
    on: &impl Launch<Error = GpuError>,
    config: &impl DeviceReadOne<Config>,
    words: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    let all = LaunchConfig::for_num_elems(words.len());
    let mut args = Args::new();
    args.push_read_one(config);
    args.push_write(words);
    // SAFETY: the arguments are those of `AFFINE`, which stays inside the words and reads the two fields.
    unsafe { on.launch(&AFFINE, all.into(), &args) }
}

/// Whether kernels reach plain host memory; elsewhere `refused` says what to do.
fn is_usable(refused: &GpuResult<()>) -> bool {
    if HostPages::detect(gpu()).are_usable() {
        return true;
    }
    let error = refused.as_ref().unwrap_err();
    assert!(matches!(error, GpuError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("DeviceBuffer"), "{error}");
    println!("this device does not reach plain host memory: {error}");
    false
}

#[test]
fn a_kernel_reads_a_structure_of_the_stack() -> GpuResult<()> {
    let gpu = affine_gpu();
    for len in SIZES {
        let config = Config { unused: u64::MAX, factor: 3, offset: len as u32 };
        let mut words = DeviceBuffer::from_slice(gpu, &vec![5u32; len])?;
        let result = gpu.host_scope(|scope| {
            let config = scope.host_ref(gpu, &config)?;
            assert_eq!(DeviceRead::len(&config), 1);
            // A clone is the same value.
            affine(gpu, &config.clone(), &mut words)?;
            affine(gpu, &config, &mut words)
        });
        if !is_usable(&result) {
            return Ok(());
        }
        result?;
        let once = 15 + len as u32;
        assert_eq!(words.to_vec()?, vec![3 * once + len as u32; len]);
        assert_eq!(config, Config { unused: u64::MAX, factor: 3, offset: len as u32 });
    }
    Ok(())
}

#[test]
fn a_field_and_an_element_are_lent_by_themselves() -> GpuResult<()> {
    let all =
        [Config { unused: 0, factor: 0, offset: 7 }, Config { unused: 1, factor: 0, offset: 9 }];
    let mut sum = DeviceBuffer::<u32>::zeroed(gpu(), 33)?;
    let one = DeviceBuffer::from_slice(gpu(), &[1u32; 33])?;
    let result = gpu().host_scope(|scope| {
        add(gpu(), &scope.host_ref(gpu(), &all[0].offset)?, &one, &mut sum)?;
        let copy = sum.try_clone()?;
        // The whole was not lent yet, and its other field is another value.
        add(gpu(), &scope.host_ref(gpu(), &all[1].offset)?, &copy, &mut sum)
    });
    if is_usable(&result) {
        result?;
        assert_eq!(sum.to_vec()?, [1 + 7 + 9; 33]);
    }
    Ok(())
}

#[test]
fn a_kernel_writes_a_value_of_the_host_and_the_scope_waits() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    // The kernels are loaded now, and not behind the gate.
    churn(&stream, &mut DeviceBuffer::<u32>::zeroed(gpu(), 1)?, 1)?;
    fill(&stream, &mut DeviceBuffer::<u32>::zeroed(gpu(), 1)?, 1)?;
    gpu().synchronize()?;
    let (before, mut value, after) = (1u32, 0u32, 1u32);
    let result = gpu().host_scope(|scope| {
        let mut value = scope.host_ref_mut(&stream, &mut value)?;
        let gate = Gate::on(&stream);
        fill(&stream, &mut value, 5)?;
        churn(&stream, &mut value, ROUNDS)?;
        assert!(!stream.is_idle()?);
        gate.open();
        Ok(())
    });
    if is_usable(&result) {
        result?;
        assert_eq!((before, value, after), (1, churned(5, ROUNDS), 1));
    }
    Ok(())
}

/// What was written is an argument that is read, in the same scope.
#[test]
fn a_written_value_is_read_by_the_next_kernel() -> GpuResult<()> {
    let (other, mut value) = (gpu().create_stream()?, 0u32);
    let one = DeviceBuffer::from_slice(gpu(), &[1u32; 31])?;
    let mut sum = DeviceBuffer::<u32>::zeroed(gpu(), 31)?;
    let result = gpu().host_scope(|scope| {
        let mut value = scope.host_ref_mut(gpu(), &mut value)?;
        assert_eq!((DeviceRead::len(&value), DeviceWrite::len(&value)), (1, 1));
        fill(&other, &mut value, 4)?;
        churn(&other, &mut value, ROUNDS)?;
        add(gpu(), &value, &one, &mut sum)
    });
    if is_usable(&result) {
        result?;
        assert_eq!(value, churned(4, ROUNDS));
        assert_eq!(sum.to_vec()?, [value.wrapping_add(1); 31]);
    }
    Ok(())
}

#[test]
fn a_scope_that_panics_waits_too() {
    let stream = gpu().create_stream().unwrap();
    let mut value = 3u32;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        gpu().host_scope(|scope| {
            let mut value = scope.host_ref_mut(&stream, &mut value)?;
            churn(&stream, &mut value, ROUNDS)?;
            if true {
                panic!("on purpose");
            }
            Ok(())
        })
    }));
    if HostPages::detect(gpu()).are_usable() {
        assert!(panicked.is_err());
        assert_eq!(value, churned(3, ROUNDS));
    }
}

/// A value of no bytes has nothing that a device could not reach.
#[test]
fn a_value_of_no_bytes_is_lent_everywhere() -> GpuResult<()> {
    gpu().host_scope(|scope| {
        let lent = scope.host_ref(gpu(), &())?;
        assert_eq!(lent.raw_one().len, 1);
        Ok(())
    })
}

/// The way out that the error names.
#[test]
fn registered_memory_is_lent_everywhere() -> GpuResult<()> {
    const WORDS: usize = 4096 / 4;
    let mut pages = vec![6u32; 2 * WORDS];
    let start = pages.as_ptr().align_offset(4096);
    let mut sum = DeviceBuffer::<u32>::zeroed(gpu(), 2)?;
    let one = DeviceBuffer::from_slice(gpu(), &[1u32; 2])?;
    gpu().host_scope(|scope| {
        let page = scope.register(&mut pages[start..start + WORDS])?;
        add(gpu(), &scope.host_ref(gpu(), &page[3])?, &one, &mut sum)
    })?;
    assert_eq!(sum.to_vec()?, [7; 2]);
    Ok(())
}
