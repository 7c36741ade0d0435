//! Contexts, and the stack of them that each thread has.

mod common;

use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

fn current() -> CUcontext {
    let mut current = null_mut();
    ok!(cuCtxGetCurrent(Out::from(&mut current)));
    current
}

#[test]
fn the_stack_is_a_stack() {
    let primary = context();
    let (mut second, mut popped) = (null_mut(), null_mut());
    ok!(cuCtxCreate_v2(Out::from(&mut second), 0, 0));
    assert_eq!(current(), second);
    ok!(cuCtxPopCurrent_v2(Out::from(&mut popped)));
    assert_eq!((popped, current()), (second, primary));
    ok!(cuCtxPushCurrent_v2(second));
    assert_eq!(current(), second);
    ok!(cuCtxDestroy_v2(second));
    assert_eq!(current(), primary);
    ok!(cuCtxSetCurrent(null_mut()));
    assert!(current().is_null());
    let mut device = 7;
    assert_eq!(code!(cuCtxGetDevice(Out::from(&mut device))), CUDA_ERROR_INVALID_CONTEXT);
}

#[test]
fn the_primary_context_lives_as_long_as_it_is_retained() {
    in_child("the_primary_context_lives_as_long_as_it_is_retained", || {
        let first = context();
        assert_eq!(context(), first);
        let (mut flags, mut active) = (9, 9);
        let state = |flags: &mut u32, active: &mut i32| {
            ok!(cuDevicePrimaryCtxGetState(0, Out::from(flags), Out::from(active)));
        };
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        state(&mut flags, &mut active);
        assert_eq!((flags, active), (0, 1));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        state(&mut flags, &mut active);
        assert_eq!(active, 0);
        let code = code!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(code, CUDA_ERROR_INVALID_CONTEXT);
        context();
        ok!(cuCtxSynchronize());
    });
}

#[test]
fn settings_are_kept_and_checked() {
    in_child("settings_are_kept_and_checked", || {
        context();
        let mut value = 0;
        ok!(cuCtxSetLimit(0, 4096));
        ok!(cuCtxGetLimit(Out::from(&mut value), 0));
        assert!(value >= 4096, "{value}");
        assert_ne!(code!(cuCtxSetLimit(77, 1)), 0);
        let mut config = -1;
        ok!(cuCtxSetCacheConfig(2));
        ok!(cuCtxGetCacheConfig(Out::from(&mut config)));
        assert!((0..=3).contains(&config));
        let mut version = 0;
        ok!(cuCtxGetApiVersion(current(), Out::from(&mut version)));
        assert!(version >= 3010);
        let mut flags = 99;
        ok!(cuCtxGetFlags(Out::from(&mut flags)));
        ok!(cuDevicePrimaryCtxSetFlags_v2(0, 4));
    });
}

#[test]
fn the_device_describes_itself() {
    context();
    let attribute = |number: i32| {
        let mut value = -1;
        ok!(cuDeviceGetAttribute(Out::from(&mut value), number, 0));
        value
    };
    for number in 1..=119 {
        attribute(number);
    }
    assert_eq!((attribute(1), attribute(10)), (1024, 32));
    assert_eq!((attribute(2), attribute(3), attribute(4)), (1024, 1024, 64));
    assert_eq!((attribute(5), attribute(6), attribute(7)), (i32::MAX, 65535, 65535));
    assert!(attribute(16) > 0 && attribute(39) >= 1024 && attribute(41) == 1);
    let mut value = 0;
    let code = code!(cuDeviceGetAttribute(Out::from(&mut value), 100_000, 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    let (mut bytes, mut version, mut device) = (0, 0, 9);
    ok!(cuDeviceTotalMem_v2(Out::from(&mut bytes), 0));
    assert!(bytes > 0);
    ok!(cuDriverGetVersion(Out::from(&mut version)));
    assert!(version >= 12_000);
    ok!(cuDeviceGet(Out::from(&mut device), 0));
    assert_eq!(device, 0);
    let code = code!(cuDeviceGet(Out::from(&mut device), 4096));
    assert_eq!(code, CUDA_ERROR_INVALID_DEVICE);
}

#[test]
fn the_device_has_an_identity() {
    context();
    let mut uuid = CUuuid { bytes: [0; 16] };
    ok!(cuDeviceGetUuid_v2(Out::from(&mut uuid), 0));
    assert_ne!(uuid.bytes, [0; 16]);
    let (mut id, mut device) = ([0; 32], 9);
    ok!(cuDeviceGetPCIBusId(Out::from(&mut id[..]), 32, 0));
    ok!(cuDeviceGetByPCIBusId(Out::from(&mut device), In::from(&id[..])));
    assert_eq!(device, 0);
    let mut short = [1; 4];
    ok!(cuDeviceGetName(Out::from(&mut short[..]), 4, 0));
    assert_eq!(short[3], 0);
}
