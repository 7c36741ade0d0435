//! Memory of every kind, copies and fills, and what the driver says about an address.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

fn read(address: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut read = vec![0xaa; bytes];
    ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut read), address, bytes));
    read
}

#[test]
fn copies_go_there_between_and_back() {
    context();
    let data: Vec<u8> = (0..=255).cycle().take(100_003).collect();
    let (from, to) = (alloc(data.len()), alloc(data.len()));
    ok!(cuMemcpyHtoD_v2(from, host_slice(&data), data.len()));
    ok!(cuMemcpyDtoD_v2(to, from, data.len()));
    assert_eq!(read(to, data.len()), data);
    ok!(cuMemcpyDtoD_v2(to + 1, from + 4, 1000));
    assert_eq!(read(to, 1001)[1..], data[4..1004]);
}

#[test]
fn async_copies_keep_their_order() {
    context();
    let (stream, a, b) = (stream(0), alloc(1 << 20), alloc(1 << 20));
    let data: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let mut back = vec![0; 1 << 20];
    ok!(cuMemcpyHtoDAsync_v2(a, host_slice(&data), data.len(), stream));
    ok!(cuMemcpyDtoDAsync_v2(b, a, data.len(), stream));
    ok!(cuMemsetD8Async(a, 0, data.len(), stream));
    ok!(cuMemcpyDtoHAsync_v2(host_slice_mut(&mut back), b, data.len(), stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(back, data);
}

#[test]
fn a_unified_copy_finds_out_where_it_goes() {
    context();
    let (source, mut target, middle) = ([1_u32, 2, 3, 4], [0_u32; 4], alloc(16));
    ok!(cuMemcpy(middle, source.as_ptr().expose_provenance() as u64, 16));
    ok!(cuMemcpy(target.as_mut_ptr().expose_provenance() as u64, middle, 16));
    assert_eq!(target, source);
}

#[test]
fn copies_past_an_end_are_refused() {
    context();
    let (block, data) = (alloc(64 << 20), [0_u8; 64]);
    let code = code!(cuMemcpyHtoD_v2(1 << 40, host_slice(&data), 64));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemcpyHtoD_v2(block, host_slice(&data), 0));
    if on_emulator() {
        let code = code!(cuMemcpyHtoD_v2(block + (64 << 20) - 63, host_slice(&data), 64));
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("64 bytes at"), "{text}");
    }
    ok!(cuMemFree_v2(block));
}

#[test]
fn no_bytes_are_copied_from_and_to_nowhere() {
    context();
    let (block, nowhere) = (alloc(64), HostPtr(null_mut()));
    for (bytes, answer) in [(0, 0), (4, CUDA_ERROR_INVALID_VALUE)] {
        assert_eq!(code!(cuMemcpyHtoD_v2(block, nowhere, bytes)), answer);
        assert_eq!(code!(cuMemcpyDtoH_v2(nowhere, block, bytes)), answer);
    }
    ok!(cuMemFree_v2(block));
}

#[test]
fn fills_of_every_width() {
    context();
    let block = alloc(64);
    ok!(cuMemsetD8_v2(block, 0xff, 64));
    ok!(cuMemsetD8_v2(block + 1, 0x11, 3));
    ok!(cuMemsetD16_v2(block + 6, 0x2233, 2));
    ok!(cuMemsetD32_v2(block + 12, 0x4455_6677, 1));
    let expected = [
        0xff, 0x11, 0x11, 0x11, 0xff, 0xff, 0x33, 0x22, 0x33, 0x22, 0xff, 0xff, 0x77, 0x66, 0x55,
        0x44, 0xff,
    ];
    assert_eq!(read(block, 17), expected);
    ok!(cuMemsetD32_v2(block, 9, 0));
    assert_eq!(code!(cuMemsetD32_v2(block + 2, 9, 1)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn rectangles_are_filled_and_copied() {
    context();
    let (mut pitch, mut block) = (0, 0);
    ok!(cuMemAllocPitch_v2(Out::from(&mut block), Out::from(&mut pitch), 10, 3, 4));
    assert!(pitch >= 10 && pitch % 256 == 0, "{pitch}");
    ok!(cuMemsetD8_v2(block, 0, pitch * 3));
    ok!(cuMemsetD2D8_v2(block + 2, pitch, 7, 5, 2));
    let mut host = [9_u8; 3 * 8];
    let copy = Copy2D {
        src_x_bytes: 1,
        src_y: 0,
        src_memory_type: 2,
        src_host: null_mut(),
        src_device: block,
        src_array: null_mut(),
        src_pitch: pitch,
        dst_x_bytes: 2,
        dst_y: 0,
        dst_memory_type: 1,
        dst_host: host.as_mut_ptr().cast(),
        dst_device: 0,
        dst_array: null_mut(),
        dst_pitch: 8,
        width_bytes: 4,
        height: 3,
    };
    ok!(cuMemcpy2D_v2(In::from(&copy)));
    let rows: Vec<&[u8]> = host.chunks(8).collect();
    assert_eq!(rows[0], [9, 9, 0, 7, 7, 7, 9, 9]);
    assert_eq!(rows[1], rows[0]);
    assert_eq!(rows[2], [9, 9, 0, 0, 0, 0, 9, 9]);
    // Without columns or without rows nothing is touched, wherever it is.
    for (width_bytes, height) in [(0, 3), (4, 0)] {
        let empty = Copy2D { src_device: 16, dst_host: null_mut(), width_bytes, height, ..copy };
        ok!(cuMemcpy2D_v2(In::from(&empty)));
    }
    ok!(cuMemFree_v2(block));
}

#[test]
fn managed_memory_is_the_hosts_and_the_kernels() {
    context();
    let (kernel, mut block) = (function(load(), "double_and_add"), 0);
    ok!(cuMemAllocManaged(Out::from(&mut block), 4096, 1));
    let cell = block as *mut u32;
    // SAFETY: managed memory, and no kernel runs.
    unsafe { cell.write(20) };
    assert_eq!(launch(kernel, NULL, &[host(&block), host(&2_u32)]), 0);
    ok!(cuCtxSynchronize());
    // SAFETY: managed memory, and the kernel is done.
    assert_eq!(unsafe { cell.read() }, 42);
    ok!(cuMemAdvise(block, 4096, 1, 0));
    assert_eq!(code!(cuMemAdvise(block, 4096, 99, 0)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemPrefetchAsync(block, 4096, 0, NULL));
    ok!(cuCtxSynchronize());
    ok!(cuMemFree_v2(block));
    let code = code!(cuMemAllocManaged(Out::from(&mut block), 4096, 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    let code = code!(cuMemAllocManaged(Out::from(&mut block), 0, 1));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn pinned_memory_is_reached_by_kernels() {
    context();
    let (kernel, mut pinned, mut address) = (function(load(), "store"), null_mut(), 0);
    ok!(cuMemHostAlloc(Out::from(&mut pinned), 4096, 0));
    let mut flags = 0;
    ok!(cuMemHostGetFlags(Out::from(&mut flags), HostPtr(pinned)));
    assert_eq!(flags, 2, "mapped, without being asked");
    ok!(cuMemHostGetDevicePointer_v2(Out::from(&mut address), HostPtr(pinned), 0));
    assert_eq!(launch(kernel, NULL, &[host(&address), host(&5_u32)]), 0);
    ok!(cuCtxSynchronize());
    // SAFETY: memory that the driver gave; the kernel is done.
    assert_eq!(unsafe { pinned.cast::<u32>().read() }, 5);
    ok!(cuMemFreeHost(HostPtr(pinned)));
    ok!(cuMemFreeHost(HostPtr(null_mut())));
    ok!(cuMemAllocHost_v2(Out::from(&mut null_mut()), 0));
    assert_eq!(code!(cuMemFreeHost(HostPtr(pinned))), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn registered_memory_is_reached_by_kernels() {
    context();
    let kernel = function(load(), "double_and_add");
    let mut own = vec![0_u32; 4096];
    own[0] = 4;
    let (pointer, mut address) = (host_slice_mut(&mut own), 0);
    ok!(cuMemHostRegister_v2(pointer, 4096 * 4, 2));
    let again = code!(cuMemHostRegister_v2(pointer, 4096 * 4, 2));
    assert_eq!(again, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok!(cuMemHostGetDevicePointer_v2(Out::from(&mut address), pointer, 0));
    assert_eq!(launch(kernel, NULL, &[host(&address), host(&1_u32)]), 0);
    ok!(cuCtxSynchronize());
    ok!(cuMemHostUnregister(pointer));
    assert_eq!(own[0], 9);
    let again = code!(cuMemHostUnregister(pointer));
    assert_eq!(again, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

#[test]
fn an_address_tells_what_it_is() {
    context();
    let block = alloc(1000);
    let (mut base, mut bytes) = (0, 0);
    ok!(cuMemGetAddressRange_v2(Out::from(&mut base), Out::from(&mut bytes), block + 999));
    assert_eq!((base, bytes), (block, 1000));
    let mut kind = 0_u32;
    ok!(cuPointerGetAttribute(void(&mut kind), 2, block));
    assert_eq!(kind, 2);
    let mut managed = 7_u32;
    ok!(cuPointerGetAttribute(void(&mut managed), 8, block));
    assert_eq!(managed & 0xff, 0);
    let code = code!(cuPointerGetAttribute(void(&mut kind), 2, 0x1234));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

/// A place whose type the attribute says.
fn void<T>(place: &mut T) -> Out<c_void> {
    Out::from(place).cast()
}

#[test]
fn free_memory_goes_down_and_up() {
    in_child("free_memory_goes_down_and_up", || {
        // A GPU has other users.
        force_emulator();
        context();
        let free = || {
            let (mut free, mut total) = (0, 0);
            ok!(cuMemGetInfo_v2(Out::from(&mut free), Out::from(&mut total)));
            assert!(free <= total);
            free
        };
        let before = free();
        let block = alloc(64 << 20);
        assert!(before - free() >= 64 << 20);
        ok!(cuMemFree_v2(block));
        assert_eq!(free(), before);
    });
}

#[test]
fn a_destroyed_context_takes_its_memory_along() {
    in_child("a_destroyed_context_takes_its_memory_along", || {
        force_emulator();
        context();
        let mut own = null_mut();
        ok!(cuCtxCreate_v2(Out::from(&mut own), 0, 0));
        let (block, stream) = (alloc(4096), stream(0));
        ok!(cuCtxDestroy_v2(own));
        assert_eq!(code!(cuMemFree_v2(block)), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(code!(cuCtxSetCurrent(own)), CUDA_ERROR_INVALID_CONTEXT);
    });
}
