//! What kernels take of a multiprocessor, and what does not fit.

use std::sync::OnceLock;

use cuda_std::launch::{Args, Contract, Kernel, Launch, LaunchConfig, Param, ParamKind};
use ferrowarp::error::LaunchLimit;
use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, Linear};

use crate::kernels::image;

/// `narrow` has at most 64 threads a block, `wide` takes 40,000 bytes of shared memory, and `last` writes
/// the last byte of memory that may be longer than 4 GiB.
const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64

.visible .entry narrow() .maxntid 64,1,1
{
    ret;
}

.visible .entry wide(.param .u64 p)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    .shared .align 4 .b8 room[40000];
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    st.shared.u32 [room], %r1;
    ld.shared.u32 %r2, [room];
    st.global.u32 [%rd1], %r2;
    ret;
}

.visible .entry last(.param .u64 p, .param .u64 len, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [len];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd1, %rd1;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3+-1], %r1;
    ret;
}
";

const IMAGES: &[Image] = &[image(PTX)];

static NARROW: Kernel = Kernel { name: "narrow", params: &[], contract: Contract::NONE };
static WIDE: Kernel = Kernel {
    name: "wide",
    params: &[Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 }],
    contract: Contract::NONE,
};
static LAST: Kernel = Kernel {
    name: "last",
    params: &[
        Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
        Param { name: "len", kind: ParamKind::Length, size_bytes: 8 },
        Param { name: "value", kind: ParamKind::Value, size_bytes: 4 },
    ],
    contract: Contract::NONE,
};

fn own() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::with_images(IMAGES).unwrap_or_else(|error| panic!("{error}")))
}

fn launch_narrow(threads: u32) -> GpuResult<()> {
    // SAFETY: the kernel has no parameters.
    unsafe { own().launch(&NARROW, Linear::new(1, threads).into(), &Args::new()) }
}

#[test]
fn more_threads_than_the_kernel_allows_are_refused_before_the_driver() -> GpuResult<()> {
    launch_narrow(64)?;
    let error = launch_narrow(65).unwrap_err();
    let GpuError::LaunchTooLarge { kernel: "narrow", what, value: 65, limit: 64 } = error.root()
    else {
        panic!("{error}")
    };
    assert_eq!(*what, LaunchLimit::KernelThreads);
    let line =
        "`narrow` cannot be launched with 65 threads a block of this kernel: the limit is 64";
    assert!(error.to_string().contains(line), "{error}");
    own().synchronize()
}

#[test]
fn static_and_dynamic_shared_memory_count_together() -> GpuResult<()> {
    let most = own().info().shared_mem_per_block_optin_bytes;
    let mut word = DeviceBuffer::from_slice(own(), &[9u32])?;
    let mut run = |dynamic: u32| {
        let mut args = Args::new();
        args.push_pointer(word.as_mut_slice().as_device_ptr());
        // SAFETY: the argument is the kernel's, and the one word lives until the wait below.
        unsafe { own().launch(&WIDE, Linear::new(1, 1).shared_mem(dynamic).into(), &args) }
    };
    run(0)?;
    run(most - 40_000)?;
    let error = run(most - 39_999).unwrap_err();
    let GpuError::LaunchTooLarge { what: LaunchLimit::SharedMemory, value, .. } = error.root()
    else {
        panic!("{error}")
    };
    assert_eq!(*value, u64::from(most) + 1);
    own().synchronize()?;
    assert_eq!(word.to_vec()?, [0]);
    Ok(())
}

#[test]
fn occupancy_says_what_fits() -> GpuResult<()> {
    let (gpu, info) = (own(), own().info());
    let narrow = gpu.occupancy(&NARROW, 0)?;
    assert!((1..=64).contains(&narrow.block_threads), "{narrow:?}");
    assert_eq!(narrow.multiprocessors, info.multiprocessors);
    assert_eq!(narrow.blocks_per_multiprocessor, gpu.active_blocks(&NARROW, narrow.resident())?);
    assert!(narrow.share() > 0.5 && narrow.share() <= 1.0, "{narrow:?}");
    let covering = narrow.for_num_elems(1000);
    assert!((covering.grid - 1) * covering.block < 1000 && covering.grid * covering.block >= 1000);
    assert!(LaunchConfig::from(narrow.for_num_elems(0)).is_empty());
    assert_eq!(narrow.resident().grid, info.multiprocessors * narrow.blocks_per_multiprocessor);

    // Shared memory is what limits this one.
    let wide = gpu.occupancy(&WIDE, 0)?;
    assert_eq!(wide.static_shared_bytes, 40_000);
    let small = |dynamic| gpu.active_blocks(&WIDE, Linear::new(1, 64).shared_mem(dynamic));
    let by_shared = info.shared_mem_per_multiprocessor_bytes / 40_000;
    assert_eq!((small(0)?, small(40_000)?), (by_shared, by_shared / 2));
    let more = gpu.occupancy(&WIDE, 40_000)?;
    assert!((1..=by_shared / 2).contains(&more.blocks_per_multiprocessor), "{more:?}");
    assert_eq!(more.resident().shared_mem_bytes, 40_000);
    Ok(())
}

#[test]
fn what_never_fits_has_no_occupancy() {
    let most = own().info().shared_mem_per_block_optin_bytes;
    assert!(own().occupancy(&WIDE, most).is_err());
    assert_eq!(own().active_blocks(&NARROW, Linear::new(1, 65)).unwrap_or(0), 0);
}

/// The shipped kernels, by their own names.
#[test]
fn kernels_tell_their_occupancy() -> GpuResult<()> {
    use kernels_gpu::elementwise::saxpy;
    let gpu = Gpu::new()?;
    let occupancy = saxpy::occupancy(&gpu)?;
    let n = 10_007;
    let x = DeviceBuffer::from_slice(&gpu, &vec![3.0f32; n])?;
    let mut y = DeviceBuffer::from_slice(&gpu, &vec![1.0f32; n])?;
    saxpy::launch(&gpu, occupancy.for_num_elems(n), 2.0, &x, &mut y)?;
    assert!(y.to_vec()?.into_iter().all(|y| y == 7.0));
    Ok(())
}

/// Lengths, offsets and addresses beyond 32 bits. Only the ends are touched, so that the memory need not
/// be there in the host that emulates it.
#[test]
fn buffers_may_be_longer_than_4_gib() -> GpuResult<()> {
    const LEN: usize = (1 << 32) + 17;
    // SAFETY: only what was written is read.
    let mut bytes = match unsafe { DeviceBuffer::<u8>::uninitialized(own(), LEN) } {
        Err(error) if matches!(error.root(), GpuError::OutOfMemory { .. }) => {
            panic!("this test needs 4 GiB of device memory: {error}")
        }
        other => other?,
    };
    bytes.slice_mut(..16).copy_from_host(&[1; 16])?;
    bytes.slice_mut(LEN - 16..).copy_from_host(&[2; 16])?;
    let mut args = Args::new();
    args.push_write(&mut bytes);
    args.push_value(77u32);
    // SAFETY: the arguments are the kernel's, which writes the last byte.
    unsafe { own().launch(&LAST, Linear::new(1, 1).into(), &args) }?;
    let mut end = [2; 16];
    end[15] = 77;
    assert_eq!(bytes.slice(LEN - 16..).to_vec()?, end);
    assert_eq!(bytes.slice(..16).to_vec()?, [1; 16]);
    Ok(())
}
