//! What it takes until a task has its first result: with a device from a pool, with the primary context and a module that is loaded
//! again, and with a context of its own.

use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_driver::sys::{self, CUresult};
use cuda_std::launch::{Args, Contract, DeviceWrite, Kernel, Launch, Linear, Param, ParamKind};

use crate::bench::check::{Fault, element};
use crate::bench::{Case, Rig, Scale, rig};
use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuPool, GpuResult};

/// Each thread of the block writes its number.
const PTX: &CStr = c".version 7.0
.target sm_70
.address_size 64
.visible .entry numbers(.param .u64 p, .param .u64 len)
{
    .reg .u32 %i;
    .reg .u64 %a, %b;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %a, %i, 4;
    ld.param.u64 %b, [p];
    add.u64 %a, %a, %b;
    st.global.u32 [%a], %i;
    ret;
}
";

// SAFETY: the kernel writes one word for each thread of a block, and `numbers` has a word for each.
const IMAGES: &[Image] = &[unsafe { Image::from_ptx("sm_70", text(PTX)) }];

static NUMBERS: Kernel = Kernel {
    name: "numbers",
    params: &[
        Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
        Param { name: "len", kind: ParamKind::Length, size_bytes: 8 },
    ],
    contract: Contract::NONE,
};

/// Threads, and words.
const N: usize = 32;

const fn text(ptx: &'static CStr) -> &'static str {
    match ptx.to_str() {
        Ok(text) => text,
        Err(_) => panic!("the text has no other characters than ASCII"),
    }
}

pub(super) fn cases(_: &Scale) -> Vec<Case> {
    let pool = |gpu: &Gpu, _| {
        let pool = GpuPool::of([Gpu::on_with_images(gpu.info().ordinal, IMAGES)?])?;
        task(move |_| {
            let gpu = pool.acquire()?;
            first_result(&gpu)
        })
    };
    let primary =
        |_: &Gpu, _| task(|gpu| first_result(&Gpu::on_with_images(gpu.info().ordinal, IMAGES)?));
    let fresh = |_: &Gpu, _| task(|gpu| fresh_context(gpu.info().ordinal));
    vec![
        Case::new(["startup", "pool", "u32"], [N], 4 * N, pool)
            .timed_on_host()
            .beside("module loaded again", primary)
            .beside("fresh context", fresh)
            .goal("fresh context", 3.33),
    ]
}

/// A task whose result is checked.
fn task(work: impl Fn(&Gpu) -> GpuResult<Vec<u32>> + 'static) -> GpuResult<Box<dyn Rig>> {
    rig(
        Vec::new(),
        |found, _| {
            *found = Vec::new();
            Ok(())
        },
        move |found, gpu| {
            *found = work(gpu)?;
            Ok(())
        },
        |found, _| match (0..N).find(|&i| found.get(i) != Some(&(i as u32))) {
            Some(i) => Err(element(i, format!("{:?}", found.get(i)), i)),
            None => Ok::<(), Fault>(()),
        },
    )
}

/// Allocates, launches, and reads the result.
fn first_result(gpu: &Gpu) -> GpuResult<Vec<u32>> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, N)?;
    numbers(gpu, &mut words)?;
    words.to_vec()
}

fn numbers(on: &impl Launch<Error = GpuError>, words: &mut impl DeviceWrite<u32>) -> GpuResult<()> {
    let mut args = Args::new();
    args.push_write(words);
    // SAFETY: the arguments are the kernel's, and there is a word for each of its threads.
    unsafe { on.launch(&NUMBERS, Linear::new(1, N as u32).into(), &args) }
}

/// As [`first_result`], with the driver's functions, in a context that is created for it and destroyed.
fn fresh_context(ordinal: u32) -> GpuResult<Vec<u32>> {
    let (mut device, mut context) = (0, ptr::null_mut());
    // SAFETY: the handle is writable.
    checked("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
    // SAFETY: the handle is writable, and the device's is the driver's.
    checked("cuCtxCreate", unsafe { sys::cuCtxCreate_v2(&mut context, 0, device) })?;
    let result = in_context();
    // SAFETY: the context is this function's own, and nothing of it is used again.
    checked("cuCtxDestroy", unsafe { sys::cuCtxDestroy_v2(context) })?;
    result
}

/// Loads, allocates, launches and reads in the current context, whose end frees what this leaves.
fn in_context() -> GpuResult<Vec<u32>> {
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let (mut address, mut len, mut found) = (0_u64, N as u64, vec![0_u32; N]);
    // SAFETY: the handle is writable, and the text ends with a zero.
    checked("cuModuleLoadData", unsafe {
        sys::cuModuleLoadData(&mut module, PTX.as_ptr().cast_mut().cast())
    })?;
    // SAFETY: the handle is writable, the module is loaded, and the name ends with a zero.
    checked("cuModuleGetFunction", unsafe {
        sys::cuModuleGetFunction(&mut function, module, c"numbers".as_ptr())
    })?;
    // SAFETY: the address is writable.
    checked("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, 4 * N) })?;
    let mut params: [*mut c_void; 2] = [(&raw mut address).cast(), (&raw mut len).cast()];
    // SAFETY: the parameters are the kernel's, and there is a word for each of its threads.
    checked("cuLaunchKernel", unsafe {
        let (stream, extra) = (ptr::null_mut(), ptr::null_mut());
        sys::cuLaunchKernel(
            function,
            1,
            1,
            1,
            N as u32,
            1,
            1,
            0,
            stream,
            params.as_mut_ptr().cast(),
            extra,
        )
    })?;
    // SAFETY: source and target have as many bytes.
    checked("cuMemcpyDtoH", unsafe {
        sys::cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, 4 * N)
    })?;
    Ok(found)
}

fn checked(function: &'static str, code: CUresult) -> GpuResult<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let reason = format!("{function} returned error {}", code.0);
    Err(GpuError::InvalidArgument { operation: "starting with a fresh context", reason })
}
