//! Several devices: each with its memory and its primary context, and access from one to another.

mod common;

use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

/// Runs `body` with two devices at least, in a process of its own; a machine's own devices are
/// taken where it has them.
fn with_devices(name: &str, body: impl FnOnce(&[CUcontext])) {
    in_child_with(name, &[("FERROWARP_EMULATOR_DEVICES", "4")], || {
        ok!(cuInit(0));
        let mut count = 0;
        ok!(cuDeviceGetCount(Out::from(&mut count)));
        if count < 2 {
            println!("does not apply: this machine has one device");
            return;
        }
        let contexts: Vec<_> = (0..count).map(primary).collect();
        ok!(cuCtxSetCurrent(contexts[0]));
        body(&contexts);
    });
}

fn primary(device: CUdevice) -> CUcontext {
    let mut context = null_mut();
    ok!(cuDevicePrimaryCtxRetain(Out::from(&mut context), device));
    context
}

/// Memory of a device with a word in it.
fn word_on(context: CUcontext, value: u32) -> CUdeviceptr {
    ok!(cuCtxSetCurrent(context));
    let address = alloc(256);
    ok!(cuMemsetD32_v2(address, value, 1));
    // The memset may still run in this context's null stream, with which another context's streams
    // do not synchronize.
    ok!(cuCtxSynchronize());
    address
}

/// Stores through a kernel of the current context; gives what synchronising answers.
fn store(address: CUdeviceptr, value: u32) -> ResultCode {
    assert_eq!(launch(function(load(), "store"), NULL, &[host(&address), host(&value)]), 0);
    code!(cuCtxSynchronize())
}

#[test]
fn devices_are_counted_and_told_apart() {
    let name = "devices_are_counted_and_told_apart";
    with_devices(name, |contexts| {
        let (mut ids, mut buses) = (Vec::new(), Vec::new());
        for (ordinal, context) in (0..).zip(contexts) {
            let (mut device, mut uuid, mut bus) = (-1, CUuuid { bytes: [0; 16] }, [0; 32]);
            ok!(cuCtxSetCurrent(*context));
            ok!(cuCtxGetDevice(Out::from(&mut device)));
            assert_eq!(device, ordinal);
            ok!(cuDeviceGetUuid_v2(Out::from(&mut uuid), ordinal));
            ok!(cuDeviceGetPCIBusId(Out::from(&mut bus[..]), 32, ordinal));
            let mut found = -1;
            ok!(cuDeviceGetByPCIBusId(Out::from(&mut found), In::from(&bus[..])));
            assert_eq!(found, ordinal);
            if on_emulator() {
                assert_eq!(uuid.bytes, format!("ferrowarp-emu-{ordinal:02}").as_bytes());
            }
            ids.push(uuid.bytes);
            buses.push(bus);
        }
        ids.dedup();
        buses.dedup();
        assert_eq!((ids.len(), buses.len()), (contexts.len(), contexts.len()));
        let mut device = 0;
        let past = contexts.len() as i32;
        assert_eq!(code!(cuDeviceGet(Out::from(&mut device), past)), CUDA_ERROR_INVALID_DEVICE);
        assert_eq!(code!(cuDeviceGet(Out::from(&mut device), -1)), CUDA_ERROR_INVALID_DEVICE);
    });
}

#[test]
fn a_bad_number_of_devices_is_named() {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_DEVICES", "17")];
    in_child_with("a_bad_number_of_devices_is_named", &set, || {
        assert_eq!(code!(cuInit(0)), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("FERROWARP_EMULATOR_DEVICES is `17`"), "{text}");
    });
}

#[test]
fn memory_knows_its_device_and_copies_cross() {
    let name = "memory_knows_its_device_and_copies_cross";
    with_devices(name, |contexts| {
        let (first, second) = (word_on(contexts[0], 5), word_on(contexts[1], 6));
        for (address, device) in [(first, 0), (second, 1)] {
            let mut ordinal = -1;
            let place = Out::from(&mut ordinal).cast();
            ok!(cuPointerGetAttribute(place, 9, address));
            assert_eq!(ordinal, device);
        }
        ok!(cuMemcpyPeer(first, contexts[0], second, contexts[1], 4));
        assert_eq!(read_u32(first), 6);
        ok!(cuMemsetD32_v2(second, 7, 1));
        ok!(cuCtxSynchronize());
        ok!(cuCtxSetCurrent(contexts[0]));
        let stream = stream(0);
        ok!(cuMemcpyPeerAsync(first, contexts[0], second, contexts[1], 4, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(first), 7);
    });
}

#[test]
fn peer_access_is_opened_once_and_closed_once() {
    let name = "peer_access_is_opened_once_and_closed_once";
    with_devices(name, |contexts| {
        let mut can = -1;
        ok!(cuDeviceCanAccessPeer(Out::from(&mut can), 0, 1));
        if can == 0 {
            println!("does not apply: the devices cannot reach each other");
            return;
        }
        ok!(cuDeviceCanAccessPeer(Out::from(&mut can), 0, 0));
        assert_eq!(can, 0);
        ok!(cuDeviceGetP2PAttribute(Out::from(&mut can), 2, 0, 1));
        assert_eq!(can, 1);
        let code = code!(cuDeviceGetP2PAttribute(Out::from(&mut can), 2, 0, 0));
        assert_eq!(code, CUDA_ERROR_INVALID_DEVICE);
        let code = code!(cuCtxDisablePeerAccess(contexts[1]));
        assert_eq!(code, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
        assert_eq!(code!(cuCtxEnablePeerAccess(contexts[1], 1)), CUDA_ERROR_INVALID_VALUE);
        let own = code!(cuCtxEnablePeerAccess(contexts[0], 0));
        assert_eq!(own, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        ok!(cuCtxEnablePeerAccess(contexts[1], 0));
        let code = code!(cuCtxEnablePeerAccess(contexts[1], 0));
        assert_eq!(code, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        let far = word_on(contexts[1], 1);
        ok!(cuCtxSetCurrent(contexts[0]));
        assert_eq!(store(far, 8), 0);
        assert_eq!(read_u32(far), 8);
        ok!(cuCtxDisablePeerAccess(contexts[1]));
    });
}

#[test]
fn without_peer_access_another_devices_memory_is_700() {
    let name = "without_peer_access_another_devices_memory_is_700";
    with_devices(name, |contexts| {
        let far = word_on(contexts[1], 1);
        ok!(cuCtxSetCurrent(contexts[0]));
        assert_eq!(store(far, 8), CUDA_ERROR_ILLEGAL_ADDRESS);
        if on_emulator() {
            let text = take_detail().unwrap().text;
            assert!(text.contains("allocation of another device"), "{text}");
        }
        // The other device works on.
        ok!(cuCtxSetCurrent(contexts[1]));
        assert_eq!(store(far, 9), 0);
        assert_eq!(read_u32(far), 9);
    });
}

#[test]
fn host_and_managed_memory_are_everyones() {
    let name = "host_and_managed_memory_are_everyones";
    with_devices(name, |contexts| {
        let (mut pinned, mut managed) = (null_mut(), 0);
        ok!(cuMemHostAlloc(Out::from(&mut pinned), 4, 3));
        ok!(cuMemAllocManaged(Out::from(&mut managed), 4, 1));
        ok!(cuCtxSetCurrent(contexts[1]));
        for address in [pinned as u64, managed] {
            assert_eq!(store(address, 21), 0);
            assert_eq!(read_u32(address), 21);
        }
    });
}

#[test]
fn a_pool_is_opened_to_another_device() {
    let name = "a_pool_is_opened_to_another_device";
    with_devices(name, |contexts| {
        let (mut pool, mut block, stream) = (null_mut(), 0, stream(0));
        ok!(cuDeviceGetDefaultMemPool(Out::from(&mut pool), 0));
        ok!(cuMemAllocAsync(Out::from(&mut block), 256, stream));
        ok!(cuStreamSynchronize(stream));
        let access = MemAccess { location: MemLocation { kind: 1, id: 1 }, flags: 3 };
        let mut flags = -1;
        ok!(cuMemPoolGetAccess(Out::from(&mut flags), pool, In::from(&access.location)));
        assert_eq!(flags, 0);
        ok!(cuMemPoolSetAccess(pool, In::from(&access), 1));
        ok!(cuMemPoolGetAccess(Out::from(&mut flags), pool, In::from(&access.location)));
        assert_eq!(flags, 3);
        ok!(cuCtxSetCurrent(contexts[1]));
        assert_eq!(store(block, 4), 0);
        ok!(cuCtxSetCurrent(contexts[0]));
        assert_eq!(read_u32(block), 4);
    });
}

/// What an H200 with driver 580 says of itself, by the attributes' numbers.
const H200: &str = "1:1024 2:1024 3:1024 4:64 5:2147483647 6:65535 7:65535 8:49152 9:65536 10:32 \
    11:2147483647 12:65536 13:1980000 14:512 15:1 16:132 17:0 18:0 19:1 20:0 21:131072 22:131072 \
    23:65536 24:16384 25:16384 26:16384 27:32768 28:32768 29:2048 30:512 31:1 32:1 35:0 \
    36:3201000 37:6016 38:62914560 39:2048 40:3 41:1 42:32768 43:2048 44:1 45:32768 46:32768 \
    47:8192 48:8192 49:32768 51:32 52:32768 53:32768 54:2046 55:32768 56:131072 57:65536 58:16384 \
    59:16384 60:16384 61:32768 62:2048 63:32768 64:32768 65:2048 66:32768 67:32768 68:2046 \
    69:268435456 70:131072 71:65000 72:2097120 73:32768 74:32768 75:9 76:0 77:32768 78:1 79:1 80:1 \
    81:233472 82:65536 83:1 84:0 85:0 86:0 87:2 88:0 89:1 90:1 91:1 92:0 93:0 94:0 95:1 97:232448 \
    98:0 99:1 100:0 101:0 102:1 104:0 105:0 106:32 108:39321600 109:134217728 111:1024 113:1 115:1 \
    120:1 122:1 123:1 126:4 127:1 130:0 131:-1 132:0 133:0 134:0 135:0 136:0 137:0 138:0 143:0";

/// What reaches other processes, other machines, graphics or files, and what the emulator does
/// otherwise: it says 0, and its calls answer that they are not supported.
const NOT_THERE: [i32; 21] = [
    96, 103, 107, 110, 112, 114, 116, 117, 118, 119, 121, 124, 125, 128, 129, 139, 140, 141, 142,
    144, 145,
];

#[test]
fn an_emulated_device_has_an_h200s_sizes() {
    in_child("an_emulated_device_has_an_h200s_sizes", || {
        force_emulator();
        ok!(cuInit(0));
        let attribute = |number| {
            let mut value = -7;
            ok!(cuDeviceGetAttribute(Out::from(&mut value), number, 0));
            value
        };
        for pair in H200.split_whitespace() {
            let (number, value) = pair.split_once(':').unwrap();
            let number = number.parse().unwrap();
            assert_eq!(attribute(number).to_string(), value, "attribute {number}");
        }
        assert_eq!(NOT_THERE.map(attribute), [0; 21]);
        let mut value = 0;
        for number in [0, -1, 146, 1000] {
            let code = code!(cuDeviceGetAttribute(Out::from(&mut value), number, 0));
            assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "attribute {number}");
        }
    });
}

/// An allocation has a handle for other processes on a real device; the emulator's memory is its process's own.
#[test]
fn memory_of_other_processes_is_refused_by_the_emulator() {
    context();
    let (mut address, mut handle) = (0, IpcMemHandle { reserved: [0; 64] });
    ok!(cuMemAlloc_v2(Out::from(&mut address), 2 << 20));
    let code = code!(cuIpcGetMemHandle(Out::from(&mut handle), address));
    if on_emulator() {
        assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
        let code = code!(cuIpcOpenMemHandle_v2(Out::from(&mut address), handle, 1));
        assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(code!(cuIpcCloseMemHandle(address)), CUDA_ERROR_NOT_SUPPORTED);
    } else {
        assert_eq!(code, 0);
        assert_ne!(handle.reserved, [0; 64]);
    }
    ok!(cuMemFree_v2(address));
}
