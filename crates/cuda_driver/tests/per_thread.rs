//! The per-thread variants of functions, for which the null stream is the thread's default stream.

mod common;

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use common::*;
use cuda_driver::*;

unsafe extern "C" fn wait_at_gate(data: *mut c_void) {
    // SAFETY: `gate` made this box for this one call.
    let gate = unsafe { Box::from_raw(data.cast::<Receiver<()>>()) };
    let _ = gate.recv();
}

/// What holds a stream until it is dropped, and the argument of the function that waits for that.
fn gate() -> (Sender<()>, HostPtr) {
    let (sender, receiver) = channel::<()>();
    (sender, HostPtr(Box::into_raw(Box::new(receiver)).cast()))
}

#[test]
fn copies_do_not_wait_for_other_streams() {
    in_child("copies_do_not_wait_for_other_streams", || {
        context();
        let (other, cell) = (stream(0), alloc(8));
        let (gate, data) = gate();
        ok!(cuLaunchHostFunc(other, Some(wait_at_gate), data));
        // The plain functions would wait here for ever.
        let mut back = [0_u32; 2];
        ok!(cuMemcpyHtoD_v2_ptds(cell, host_slice(&[7_u32, 8]), 8));
        ok!(cuMemcpyDtoH_v2_ptds(host_slice_mut(&mut back), cell, 8));
        assert_eq!(back, [7, 8]);
        ok!(cuMemsetD2D32_v2_ptds(cell, 4, 9, 1, 2));
        ok!(cuMemcpyDtoH_v2_ptds(host_slice_mut(&mut back), cell, 8));
        assert_eq!(back, [9, 9]);
        assert_eq!(code!(cuStreamQuery(other)), CUDA_ERROR_NOT_READY);
        drop(gate);
        ok!(cuStreamSynchronize(other));
    });
}

#[test]
fn each_thread_has_its_own() {
    in_child("each_thread_has_its_own", || {
        context();
        let (gate, data) = gate();
        ok!(cuLaunchHostFunc_ptsz(NULL, Some(wait_at_gate), data));
        assert_eq!(code!(cuStreamQuery_ptsz(NULL)), CUDA_ERROR_NOT_READY);
        thread::spawn(|| {
            context();
            ok!(cuStreamQuery_ptsz(NULL));
            ok!(cuStreamSynchronize_ptsz(NULL));
        })
        .join()
        .unwrap();
        drop(gate);
        ok!(cuStreamSynchronize_ptsz(NULL));
        ok!(cuStreamQuery_ptsz(NULL));
    });
}

#[test]
fn launches_are_in_order_with_the_threads_copies() {
    context();
    let (kernel, cell) = (function(load(), "double_and_add"), alloc(4));
    let (null, extra) = (NULL, In::NULL);
    ok!(cuMemsetD32_v2_ptds(cell, 20, 1));
    let addend = 1_u32;
    let args = [host(&cell), host(&addend)];
    ok!(cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, null, In::from(&args[..]), extra));
    let config = CUlaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_mem_bytes: 0,
        stream: NULL,
        attributes: In::NULL,
        n_attributes: 0,
    };
    ok!(cuLaunchKernelEx_ptsz(In::from(&config), kernel, In::from(&args[..]), extra));
    let mut value = [0_u32];
    ok!(cuMemcpyDtoHAsync_v2_ptsz(host_slice_mut(&mut value), cell, 4, NULL));
    ok!(cuStreamSynchronize_ptsz(NULL));
    assert_eq!(value, [(20 * 2 + 1) * 2 + 1]);
    // A null configuration is refused by the function itself.
    let code = code!(cuLaunchKernelEx_ptsz(In::NULL, kernel, In::from(&args[..]), extra));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}
