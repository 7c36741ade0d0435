//! The choice of the backend, and calls before, after and without `cuInit`.

mod common;

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use common::{alloc, context, in_child, in_child_with};
use cuda_driver::*;

/// Whether the machine has a driver and a GPU, asked in a way that the front has no part in.
fn has_gpu() -> bool {
    std::path::Path::new("/dev/nvidia0").exists()
}

#[test]
fn the_emulator_is_taken_where_it_is_asked_for() {
    let name = "the_emulator_is_taken_where_it_is_asked_for";
    in_child_with(name, &[("FERROWARP_DEVICE", "emulator")], || {
        assert_eq!(backend(), None);
        ok!(cuInit(0));
        assert_eq!(backend(), Some(Backend::Emulator));
        let mut text = [0; 64];
        ok!(cuDeviceGetName(Out::from(&mut text[..]), 64, 0));
        let bytes: Vec<u8> = text.iter().map(|&byte| byte as u8).collect();
        let name = CStr::from_bytes_until_nul(&bytes).unwrap();
        assert_eq!(name, c"Ferrowarp emulator");
    });
}

#[test]
fn without_a_wish_something_answers() {
    in_child_with("without_a_wish_something_answers", &[("FERROWARP_DEVICE", "auto")], || {
        ok!(cuInit(0));
        let expected = if has_gpu() { Backend::Cuda } else { Backend::Emulator };
        assert_eq!(backend(), Some(expected));
        assert_eq!(cuda_passed_over().is_some(), !has_gpu());
        let mut count = 0;
        ok!(cuDeviceGetCount(Out::from(&mut count)));
        assert!(count > 0);
    });
}

#[test]
fn cuda_without_a_gpu_says_the_way_out() {
    if has_gpu() {
        println!("does not apply: this machine has a GPU");
        return;
    }
    let name = "cuda_without_a_gpu_says_the_way_out";
    in_child_with(name, &[("FERROWARP_DEVICE", "cuda")], || {
        assert_eq!(code!(cuInit(0)), CUDA_ERROR_NO_DEVICE);
        let detail = take_detail().unwrap();
        assert_eq!(detail.code, 100);
        for words in ["FERROWARP_DEVICE is `cuda`", "install the NVIDIA driver", "unset it"] {
            assert!(detail.text.contains(words), "{}", detail.text);
        }
        if cfg!(target_os = "linux") && detail.text.contains("under any of its names") {
            for name in [": libcuda.so.1, ", "/usr/lib/wsl/lib/libcuda.so.1", ", libcuda.so;"] {
                assert!(detail.text.contains(name), "{}", detail.text);
            }
        }
        assert_eq!(backend(), None);
        let mut count = 0;
        assert_eq!(code!(cuDeviceGetCount(Out::from(&mut count))), CUDA_ERROR_NOT_INITIALIZED);
    });
}

#[test]
fn cuda_on_a_gpu_is_the_driver() {
    if !has_gpu() {
        println!("does not apply: this machine has no GPU");
        return;
    }
    in_child_with("cuda_on_a_gpu_is_the_driver", &[("FERROWARP_DEVICE", "cuda")], || {
        ok!(cuInit(0));
        assert_eq!(backend(), Some(Backend::Cuda));
    });
}

#[test]
fn an_unknown_wish_names_the_known_ones() {
    let name = "an_unknown_wish_names_the_known_ones";
    in_child_with(name, &[("FERROWARP_DEVICE", "gpu")], || {
        assert_eq!(code!(cuInit(0)), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("FERROWARP_DEVICE is `gpu`"), "{text}");
        assert!(text.contains("`auto`, `cuda` or `emulator`"), "{text}");
    });
}

#[test]
fn a_bad_memory_size_is_named() {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_MEMORY", "lots")];
    in_child_with("a_bad_memory_size_is_named", &set, || {
        assert_eq!(code!(cuInit(0)), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("FERROWARP_EMULATOR_MEMORY is `lots`"), "{text}");
        assert!(text.contains("`256M`"), "{text}");
    });
}

#[test]
fn the_memory_size_is_obeyed() {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_MEMORY", "1M")];
    in_child_with("the_memory_size_is_obeyed", &set, || {
        context();
        let (mut free, mut total) = (0, 0);
        ok!(cuMemGetInfo_v2(Out::from(&mut free), Out::from(&mut total)));
        assert_eq!((free, total), (1 << 20, 1 << 20));
        let mut address = 0;
        let code = code!(cuMemAlloc_v2(Out::from(&mut address), (1 << 20) + 1));
        assert_eq!(code, CUDA_ERROR_OUT_OF_MEMORY);
        let text = take_detail().unwrap().text;
        assert!(text.contains("cannot allocate 1048577 bytes"), "{text}");
        alloc(1 << 20);
    });
}

#[test]
fn before_init_nothing_works() {
    in_child("before_init_nothing_works", || {
        let mut count = 0;
        assert_eq!(code!(cuDeviceGetCount(Out::from(&mut count))), CUDA_ERROR_NOT_INITIALIZED);
        let mut address = 0;
        let code = code!(cuMemAlloc_v2(Out::from(&mut address), 4));
        assert_eq!(code, CUDA_ERROR_NOT_INITIALIZED);
        assert!(take_detail().unwrap().text.contains("cuInit was not called"));
        assert_eq!(code!(cuInit(1)), CUDA_ERROR_INVALID_VALUE);
    });
}

#[test]
fn codes_have_names_and_meanings_at_any_time() {
    let (mut name, mut meaning) = (null(), null());
    ok!(cuGetErrorName(700, Out::from(&mut name)));
    ok!(cuGetErrorString(700, Out::from(&mut meaning)));
    // SAFETY: the call gave a text that lives for ever.
    let (name, meaning) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(meaning)) };
    assert_eq!(name, c"CUDA_ERROR_ILLEGAL_ADDRESS");
    assert!(!meaning.is_empty());
    let mut unknown = null();
    assert_eq!(code!(cuGetErrorName(12345, Out::from(&mut unknown))), CUDA_ERROR_INVALID_VALUE);
    assert!(unknown.is_null());
    assert_eq!(code!(cuGetErrorName(0, Out::NULL)), CUDA_ERROR_INVALID_VALUE);
}

#[cfg(unix)]
#[test]
fn after_a_fork_the_child_gets_3_and_the_parent_goes_on() {
    in_child("after_a_fork_the_child_gets_3_and_the_parent_goes_on", || {
        context();
        let address = alloc(256);
        // SAFETY: the child only makes driver calls that are refused, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut other = 0;
            let codes = [
                code!(cuMemAlloc_v2(Out::from(&mut other), 256)),
                code!(cuMemFree_v2(address)),
                code!(cuCtxSynchronize()),
                code!(cuInit(0)),
            ];
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(codes != [CUDA_ERROR_NOT_INITIALIZED; 4])) };
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child's calls did not all return 3");
        ok!(cuMemFree_v2(address));
    });
}

#[test]
fn functions_that_the_emulator_lacks_say_so() {
    let name = "functions_that_the_emulator_lacks_say_so";
    in_child_with(name, &[("FERROWARP_DEVICE", "emulator")], || {
        context();
        let codes = [
            code!(cuTexObjectDestroy(1)),
            code!(cuSurfObjectDestroy(1)),
            code!(cuDestroyExternalMemory(null_mut())),
        ];
        assert_eq!(codes, [CUDA_ERROR_NOT_SUPPORTED; 3]);
        let text = take_detail().unwrap().text;
        assert!(text.contains("does not have cuDestroyExternalMemory"), "{text}");
    });
}

/// The functions that `cust` 0.3.2 calls.
const CALLED_BY_CUST: &str = "cuInit cuDriverGetVersion \
    cuDeviceGet cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetName cuDeviceTotalMem_v2 \
    cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 \
    cuDevicePrimaryCtxSetFlags_v2 cuCtxSetCurrent cuCtxGetApiVersion cuCtxGetCacheConfig \
    cuCtxGetDevice cuCtxGetFlags cuCtxGetLimit cuCtxGetSharedMemConfig \
    cuCtxGetStreamPriorityRange cuCtxSetCacheConfig cuCtxSetLimit cuCtxSetSharedMemConfig \
    cuCtxSynchronize cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 \
    cuCtxGetCurrent cuGetErrorString cuModuleLoad cuModuleLoadData cuModuleLoadDataEx \
    cuModuleUnload cuModuleGetFunction cuModuleGetGlobal_v2 cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 \
    cuLinkCreate_v2 cuLinkAddData_v2 cuLinkComplete cuLinkDestroy cuFuncGetAttribute \
    cuFuncSetCacheConfig cuFuncSetSharedMemConfig cuOccupancyAvailableDynamicSMemPerBlock \
    cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxPotentialBlockSize \
    cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamGetFlags cuStreamGetPriority \
    cuStreamSynchronize cuStreamWaitEvent cuLaunchKernel cuLaunchHostFunc cuEventCreate \
    cuEventDestroy_v2 cuEventElapsedTime cuEventQuery cuEventRecord cuEventSynchronize \
    cuMemAlloc_v2 cuMemAllocAsync cuMemFreeAsync cuMemAllocManaged cuMemFree_v2 \
    cuMemAllocHost_v2 cuMemFreeHost cuMemGetInfo_v2 cuMemcpyDtoD_v2 cuMemcpyHtoDAsync_v2 \
    cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2 \
    cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemPrefetchAsync cuMemAdvise \
    cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayDestroy cuMemcpy2D_v2 cuMemcpyAtoH_v2 \
    cuMemcpyHtoA_v2 cuImportExternalMemory cuExternalMemoryGetMappedBuffer \
    cuDestroyExternalMemory cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc \
    cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuGraphCreate \
    cuGraphDestroy cuGraphAddKernelNode cuGraphGetNodes cuGraphGetEdges cuGraphNodeGetType \
    cuGraphKernelNodeGetParams cuGraphDebugDotPrint";

#[test]
fn all_that_cust_calls_is_exported() {
    let missing: Vec<_> =
        CALLED_BY_CUST.split_whitespace().filter(|name| !FUNCTIONS.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(CALLED_BY_CUST.split_whitespace().count(), 104);
}
