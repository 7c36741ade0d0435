//! Arrays, 2D and 3D copies, memory pools, pointer attributes, memory advice, stream memory
//! operations, and virtual memory management.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

const FLOAT: u32 = 0x20;

/// A copy of a box with both ends empty.
fn no_box() -> Copy3D {
    // SAFETY: all fields are numbers and pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn array(width: usize, height: usize, depth: usize) -> CUarray {
    context();
    let descriptor =
        Array3DDescriptor { width, height, depth, format: FLOAT, channels: 1, flags: 0 };
    let (mut array, mut queried) = (null_mut(), Array3DDescriptor::default());
    ok!(cuArray3DCreate_v2(Out::from(&mut array), In::from(&descriptor)));
    ok!(cuArray3DGetDescriptor_v2(Out::from(&mut queried), array));
    assert_eq!(queried, descriptor);
    array
}

#[test]
fn an_array_of_one_dimension_is_copied_by_offset() {
    let array = array(16, 0, 0);
    let data: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let mut back = [0_f32; 4];
    ok!(cuMemcpyHtoA_v2(array, 0, host_slice(&data), 64));
    ok!(cuMemcpyAtoH_v2(host_slice_mut(&mut back), array, 20, 16));
    assert_eq!(back, [5.0, 6.0, 7.0, 8.0]);
    let block = alloc(64);
    ok!(cuMemcpyAtoD_v2(block, array, 0, 64));
    ok!(cuMemcpyDtoA_v2(array, 32, block, 32));
    ok!(cuMemcpyAtoA_v2(array, 0, array, 32, 4));
    ok!(cuMemcpyAtoH_v2(host_slice_mut(&mut back), array, 28, 16));
    assert_eq!(back, [7.0, 0.0, 1.0, 2.0]);
    let past = code!(cuMemcpyHtoA_v2(array, 60, host_slice(&data), 8));
    assert_eq!(past, CUDA_ERROR_INVALID_VALUE);
    ok!(cuArrayDestroy(array));
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    context();
    let mut array = null_mut();
    let create = |width, height, depth, format, channels, flags| {
        let descriptor = Array3DDescriptor { width, height, depth, format, channels, flags };
        code!(cuArray3DCreate_v2(Out::from(&mut array), In::from(&descriptor)))
    };
    let mut create = create;
    let codes = [
        create(0, 0, 0, FLOAT, 1, 0),
        create(4, 0, 2, FLOAT, 1, 0),
        create(4, 4, 0, FLOAT, 3, 0),
        create(4, 4, 0, 99, 1, 0),
        create(4, 4, 0, FLOAT, 1, 1 << 20),
        create(4, 4, 5, FLOAT, 1, 4),
    ];
    assert_eq!(codes, [CUDA_ERROR_INVALID_VALUE; 6]);
}

#[test]
fn boxes_go_into_an_array_and_out_of_it() {
    let (width, height, depth) = (5_usize, 4, 3);
    let array = array(width, height, depth);
    let data: Vec<f32> = (0..width * height * depth).map(|i| i as f32).collect();
    let into = Copy3D {
        src_memory_type: 1,
        src_host: data.as_ptr().cast(),
        src_pitch: 4 * width,
        src_height: height,
        dst_memory_type: 3,
        dst_array: array,
        width_bytes: 4 * width,
        height,
        depth,
        ..no_box()
    };
    ok!(cuMemcpy3D_v2(In::from(&into)));
    // A box of 2 by 2 by 2 from (1, 1, 1) on, with gaps in its target.
    let mut back = [-1_f32; 3 * 3 * 2];
    let out = Copy3D {
        src_memory_type: 3,
        src_array: array,
        src_x_bytes: 4,
        src_y: 1,
        src_z: 1,
        dst_memory_type: 1,
        dst_host: back.as_mut_ptr().cast(),
        dst_pitch: 12,
        dst_height: 3,
        width_bytes: 8,
        height: 2,
        depth: 2,
        ..no_box()
    };
    ok!(cuMemcpy3D_v2(In::from(&out)));
    let at = |x: usize, y: usize, z: usize| ((z * height + y) * width + x) as f32;
    for z in 0..2 {
        for y in 0..3 {
            for x in 0..3 {
                let expected = if x < 2 && y < 2 { at(x + 1, y + 1, z + 1) } else { -1.0 };
                assert_eq!(back[(z * 3 + y) * 3 + x], expected, "{x} {y} {z}");
            }
        }
    }
    let outside = Copy3D { src_z: 2, ..out };
    assert_eq!(code!(cuMemcpy3D_v2(In::from(&outside))), CUDA_ERROR_INVALID_VALUE);
    ok!(cuArrayDestroy(array));
}

#[test]
fn rectangles_go_between_an_array_and_pitched_memory() {
    let array = array(6, 4, 0);
    let data: Vec<u32> = (0..24).collect();
    let block = alloc(32 * 4);
    ok!(cuMemsetD8_v2(block, 0, 128));
    let mut copy = Copy2D {
        src_x_bytes: 0,
        src_y: 0,
        src_memory_type: 1,
        src_host: data.as_ptr().cast(),
        src_device: 0,
        src_array: null_mut(),
        src_pitch: 24,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_memory_type: 3,
        dst_host: null_mut(),
        dst_device: 0,
        dst_array: array,
        dst_pitch: 0,
        width_bytes: 24,
        height: 4,
    };
    ok!(cuMemcpy2D_v2(In::from(&copy)));
    (copy.src_memory_type, copy.src_array, copy.src_x_bytes, copy.src_y) = (3, array, 8, 1);
    (copy.dst_memory_type, copy.dst_device, copy.dst_pitch) = (2, block, 32);
    (copy.width_bytes, copy.height) = (12, 2);
    ok!(cuMemcpy2D_v2(In::from(&copy)));
    let mut back = [0_u32; 16];
    ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut back), block, 64));
    assert_eq!((&back[..4], &back[8..12]), (&[8, 9, 10, 0][..], &[14, 15, 16, 0][..]));
    ok!(cuArrayDestroy(array));
}

fn pool_props() -> PoolProps {
    PoolProps {
        kind: 1,
        handle_types: 0,
        location: MemLocation { kind: 1, id: 0 },
        security: null_mut(),
        max_bytes: 0,
        usage: 0,
        reserved: [0; 54],
    }
}

#[test]
fn a_pool_counts_what_it_hands_out() {
    context();
    let (mut pool, mut block, stream) = (null_mut(), 0, stream(1));
    ok!(cuMemPoolCreate(Out::from(&mut pool), In::from(&pool_props())));
    let attribute = |id| {
        let mut value = 0_u64;
        ok!(cuMemPoolGetAttribute(pool, id, Out::from(&mut value).cast()));
        value
    };
    ok!(cuMemAllocFromPoolAsync(Out::from(&mut block), 1 << 20, pool, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((attribute(7), attribute(8)), (1 << 20, 1 << 20));
    assert!(attribute(5) >= 1 << 20);
    let mut owner: CUmemoryPool = null_mut();
    ok!(cuPointerGetAttribute(Out::from(&mut owner).cast(), 17, block));
    assert_eq!(owner, pool);
    ok!(cuMemFreeAsync(block, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((attribute(7), attribute(8)), (0, 1 << 20));
    let (zero, threshold, one) = (0_u64, 4096_u64, 1_u64);
    ok!(cuMemPoolSetAttribute(pool, 8, In::from(&zero).cast()));
    assert_eq!(attribute(8), 0);
    ok!(cuMemPoolSetAttribute(pool, 4, In::from(&threshold).cast()));
    assert_eq!(attribute(4), 4096);
    let code = code!(cuMemPoolSetAttribute(pool, 8, In::from(&one).cast()));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemPoolTrimTo(pool, 0));
    ok!(cuMemPoolDestroy(pool));
}

#[test]
fn a_device_has_a_pool_and_may_get_another() {
    in_child("a_device_has_a_pool_and_may_get_another", || {
        context();
        let (mut default, mut now, mut made) = (null_mut(), null_mut(), null_mut());
        ok!(cuDeviceGetDefaultMemPool(Out::from(&mut default), 0));
        ok!(cuDeviceGetMemPool(Out::from(&mut now), 0));
        assert_eq!(default, now);
        ok!(cuMemPoolCreate(Out::from(&mut made), In::from(&pool_props())));
        ok!(cuDeviceSetMemPool(0, made));
        ok!(cuDeviceGetMemPool(Out::from(&mut now), 0));
        assert_eq!(now, made);
        ok!(cuDeviceSetMemPool(0, default));
        ok!(cuMemPoolDestroy(made));
        assert_eq!(code!(cuMemPoolDestroy(default)), CUDA_ERROR_INVALID_VALUE);
        let mut access = 0;
        let own = MemLocation { kind: 1, id: 0 };
        ok!(cuMemPoolGetAccess(Out::from(&mut access), default, In::from(&own)));
        assert_eq!(access, 3);
    });
}

/// An attribute as a number of 64 bits, or the code.
fn pointer(address: CUdeviceptr, attribute: i32) -> Result<u64, ResultCode> {
    let mut value = [0_u64; 2];
    match code!(cuPointerGetAttribute(Out::from(&mut value[..]).cast(), attribute, address)) {
        0 => Ok(value[0]),
        code => Err(code),
    }
}

#[test]
fn pointers_tell_what_they_are() {
    context();
    let (device, mut pinned, mut managed) = (alloc(1000), null_mut(), 0);
    ok!(cuMemHostAlloc(Out::from(&mut pinned), 1000, 0));
    ok!(cuMemAllocManaged(Out::from(&mut managed), 1000, 1));
    let pinned = pinned as u64;
    for (address, kind) in [(device, 2), (pinned, 1), (managed, 2)] {
        assert_eq!(pointer(address + 10, 2), Ok(kind));
        assert_eq!(pointer(address + 10, 3), Ok(address + 10));
        assert_eq!(pointer(address + 10, 11), Ok(address));
        assert_eq!(pointer(address + 10, 12), Ok(1000));
        assert_eq!(pointer(address, 13), Ok(1));
        assert_eq!(pointer(address, 16), Ok(3));
        assert_eq!(pointer(address, 8), Ok((address == managed).into()));
    }
    assert_eq!(pointer(device, 4), Err(CUDA_ERROR_INVALID_VALUE));
    assert_eq!(pointer(pinned + 3, 4), Ok(pinned + 3));
    let unknown = 0_u32;
    let unknown = std::ptr::from_ref(&unknown) as u64;
    assert_eq!(pointer(unknown, 2), Err(CUDA_ERROR_INVALID_VALUE));
    let (mut kind, mut at, mut ordinal) = (7_u32, 7_u64, 7_i32);
    let values =
        [Out::from(&mut kind).cast(), Out::from(&mut at).cast(), Out::from(&mut ordinal).cast()];
    let ids = [2, 4, 9];
    ok!(cuPointerGetAttributes(3, In::from(&ids[..]), In::from(&values[..]), unknown));
    assert_eq!((kind, at, ordinal), (0, unknown, -2));
    for on in [0_i32, 1] {
        ok!(cuPointerSetAttribute(In::from(&on).cast(), 6, device));
        assert_eq!(pointer(device, 6), Ok(on as u64));
    }
    let off = 0_i32;
    let code = code!(cuPointerSetAttribute(In::from(&off).cast(), 2, device));
    assert_ne!(code, 0);
}

#[test]
fn advice_is_for_one_allocation_however_near_others_lie() {
    context();
    let managed = |bytes| {
        let mut address = 0;
        ok!(cuMemAllocManaged(Out::from(&mut address), bytes, 1));
        address
    };
    let read_mostly = |address| {
        let mut word = -1;
        ok!(cuMemRangeGetAttribute(Out::from(&mut word).cast(), 4, 1, address, 100));
        word
    };
    let blocks = [managed(100), managed(100), managed(100)];
    ok!(cuMemAdvise(blocks[1], 100, 1, 0));
    // A GPU keeps advice for whole pages, which small allocations share.
    assert_eq!(read_mostly(blocks[1]), 1);
    if on_emulator() {
        assert_eq!(blocks.map(read_mostly), [0, 1, 0]);
    }
    ok!(cuMemFree_v2(blocks[0]));
    ok!(cuMemFree_v2(blocks[2]));
    if on_emulator() {
        assert_eq!(read_mostly(blocks[1]), 1);
    }
    ok!(cuMemFree_v2(blocks[1]));
}

#[test]
fn advice_is_told_again() {
    context();
    let mut block = 0;
    ok!(cuMemAllocManaged(Out::from(&mut block), 4 << 20, 1));
    let range = |attribute, bytes| {
        let mut value = 9_i32;
        let place = Out::from(&mut value).cast();
        ok!(cuMemRangeGetAttribute(place, 4, attribute, block, bytes));
        value
    };
    assert_eq!([1, 2, 3, 4].map(|attribute| range(attribute, 4 << 20)), [0, -2, -2, -2]);
    ok!(cuMemAdvise(block, 2 << 20, 1, 0));
    ok!(cuMemAdvise(block, 4 << 20, 3, -1));
    ok!(cuMemAdvise(block, 4 << 20, 5, 0));
    ok!(cuMemPrefetchAsync(block, 4 << 20, 0, NULL));
    ok!(cuCtxSynchronize());
    assert_eq!((range(1, 2 << 20), range(1, 4 << 20)), (1, 0));
    assert_eq!([2, 3, 4].map(|attribute| range(attribute, 4 << 20)), [-1, 0, 0]);
    ok!(cuMemAdvise(block, 4 << 20, 6, 0));
    ok!(cuMemAdvise(block, 4 << 20, 4, 0));
    assert_eq!([2, 3].map(|attribute| range(attribute, 4 << 20)), [-2, -2]);
    ok!(cuMemFree_v2(block));
}

#[test]
fn a_stream_waits_for_a_word_that_another_writes() {
    context();
    let (first, second, words) = (stream(1), stream(1), alloc(16));
    ok!(cuMemsetD8_v2(words, 0, 16));
    ok!(cuCtxSynchronize());
    ok!(cuStreamWaitValue32_v2(first, words, 3, 0));
    ok!(cuMemsetD32Async(words + 4, 9, 1, first));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(code!(cuStreamQuery(first)), CUDA_ERROR_NOT_READY);
    ok!(cuStreamWriteValue32_v2(second, words, 4, 0));
    ok!(cuStreamSynchronize(first));
    assert_eq!((read_u32(words), read_u32(words + 4)), (4, 9));
    ok!(cuStreamWriteValue64_v2(second, words + 8, 1 << 40, 0));
    ok!(cuStreamWaitValue64_v2(second, words + 8, 1 << 40, 1));
    ok!(cuStreamSynchronize(second));
    let codes = [
        code!(cuStreamWriteValue32_v2(first, words, 1, 1)),
        code!(cuStreamWriteValue32_v2(first, words + 2, 1, 0)),
        code!(cuStreamWriteValue32_v2(first, 0x1000, 1, 0)),
    ];
    assert_eq!(codes, [CUDA_ERROR_INVALID_VALUE; 3]);
}

#[test]
fn a_batch_of_waits_and_writes_is_done_in_order() {
    context();
    let (stream, words) = (stream(1), alloc(8));
    ok!(cuMemsetD8_v2(words, 0, 8));
    // The stream does not synchronize with the null stream, in which the memset runs.
    ok!(cuCtxSynchronize());
    let op = |operation, address, value, flags| StreamMemOp {
        operation,
        barrier_flags: 0,
        address,
        value,
        flags,
        pad: [0; 5],
    };
    let batch = [op(2, words, 6, 0), op(1, words, 2, 2), op(2, words + 4, 8, 0)];
    ok!(cuStreamBatchMemOp_v2(stream, 3, In::from(&batch[..]), 0));
    ok!(cuStreamSynchronize(stream));
    assert_eq!((read_u32(words), read_u32(words + 4)), (6, 8));
}

#[test]
fn streams_have_attributes_and_numbers() {
    context();
    let (first, second) = (stream(1), stream(1));
    let mut ids = [0_u64; 3];
    for (id, stream) in ids.iter_mut().zip([first, second, first]) {
        ok!(cuStreamGetId(stream, Out::from(id)));
    }
    assert!(ids[0] != ids[1] && ids[0] == ids[2]);
    let mut device = -1;
    ok!(cuStreamGetDevice(first, Out::from(&mut device)));
    assert_eq!(device, 0);
    let mut value = [0_u32; 16];
    ok!(cuStreamGetAttribute(first, 9, Out::from(&mut value)));
    assert_eq!(value[0], 0x100);
    // Each of the two logical domains is one of the device's four.
    for (domains, code) in
        [(0x302, 0), (0x004, CUDA_ERROR_INVALID_VALUE), (0x400, CUDA_ERROR_INVALID_VALUE)]
    {
        value[0] = domains;
        assert_eq!(code!(cuStreamSetAttribute(first, 9, In::from(&value))), code, "{domains:#x}");
    }
    ok!(cuStreamGetAttribute(first, 9, Out::from(&mut value)));
    assert_eq!(value[0], 0x302);
    // The second logical domain.
    value[0] = 1;
    ok!(cuStreamSetAttribute(first, 10, In::from(&value)));
    ok!(cuStreamCopyAttributes(second, first));
    ok!(cuStreamGetAttribute(second, 10, Out::from(&mut value)));
    assert_eq!(value[0], 1);
    let code = code!(cuStreamGetAttribute(first, 77, Out::from(&mut value)));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn tensor_maps_are_checked() {
    context();
    let block = alloc(64 * 64 * 4);
    let mut map = CUtensorMap { words: [0; 16] };
    let mut encode = |element, rank: u32, stride: u64, box_width: u32| {
        let (dims, strides) = ([64_u64, 64], [stride]);
        let (boxes, steps) = ([box_width, 16], [1_u32, 1]);
        code!(cuTensorMapEncodeTiled(
            Out::from(&mut map),
            element,
            rank,
            HostPtr(block as *mut c_void),
            In::from(&dims[..]),
            In::from(&strides[..]),
            In::from(&boxes[..]),
            In::from(&steps[..]),
            0,
            0,
            0,
            0,
        ))
    };
    // f32, rows of 256 bytes, boxes of 16 by 16.
    assert_eq!(encode(7, 2, 256, 16), 0);
    assert_eq!(encode(7, 6, 256, 16), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(encode(7, 2, 100, 16), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(encode(7, 2, 256, 257), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(encode(77, 2, 256, 16), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(encode(7, 2, 256, 16), 0);
    ok!(cuTensorMapReplaceAddress(Out::from(&mut map), HostPtr((block + 4096) as *mut c_void)));
    let code =
        code!(cuTensorMapReplaceAddress(Out::from(&mut map), HostPtr((block + 4) as *mut c_void)));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn physical_memory_is_mapped_where_the_program_says() {
    context();
    let prop = AllocationProp {
        kind: 1,
        handle_types: 0,
        location: MemLocation { kind: 1, id: 0 },
        security: null_mut(),
        flags: [0; 8],
    };
    let (mut unit, mut base, mut memory) = (0, 0, 0_u64);
    ok!(cuMemGetAllocationGranularity(Out::from(&mut unit), In::from(&prop), 0));
    let bytes = unit as u64;
    let mut odd = 0;
    let code = code!(cuMemAddressReserve(Out::from(&mut odd), unit + 1, 0, 0, 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemAddressReserve(Out::from(&mut base), 4 * unit, 0, 0, 0));
    let code = code!(cuMemCreate(Out::from(&mut memory), unit + 1, In::from(&prop), 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemCreate(Out::from(&mut memory), unit, In::from(&prop), 0));
    // One physical memory mapped at two addresses.
    ok!(cuMemMap(base, unit, 0, memory, 0));
    assert_eq!(code!(cuMemMap(base, unit, 0, memory, 0)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemMap(base + bytes, unit, 0, memory, 0));
    let outside = code!(cuMemMap(base + 4 * bytes, unit, 0, memory, 0));
    assert_eq!(outside, CUDA_ERROR_INVALID_VALUE);
    // No device has access yet.
    assert_eq!(code!(cuMemsetD8_v2(base, 1, 64)), CUDA_ERROR_INVALID_VALUE);
    let access = MemAccess { location: prop.location, flags: 3 };
    ok!(cuMemSetAccess(base, 2 * unit, In::from(&access), 1));
    let mut flags = 0_u64;
    ok!(cuMemGetAccess(Out::from(&mut flags), In::from(&access.location), base));
    assert_eq!(flags, 3);
    // A copy over the border of the two.
    ok!(cuMemsetD8_v2(base, 0, 2 * unit));
    ok!(cuMemsetD32_v2(base + bytes - 4, 0x1234, 2));
    assert_eq!((read_u32(base + bytes - 4), read_u32(base)), (0x1234, 0x1234));
    let kernel = function(load(), "store");
    assert_eq!(launch(kernel, NULL, &[host(&(base + 64)), host(&77_u32)]), 0);
    ok!(cuCtxSynchronize());
    assert_eq!(read_u32(base + bytes + 64), 77);
    assert_eq!(code!(cuMemAddressFree(base, 4 * unit)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemFree_v2(base)), CUDA_ERROR_INVALID_VALUE);
    // The mappings keep the memory.
    ok!(cuMemRelease(memory));
    assert_eq!(read_u32(base + 64), 77);
    assert_eq!(code!(cuMemUnmap(base, unit / 2)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemUnmap(base, 2 * unit));
    ok!(cuMemUnmap(base, unit));
    assert_eq!(code!(cuMemRelease(memory)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemsetD8_v2(base, 1, 64)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemAddressFree(base, 4 * unit));
}
