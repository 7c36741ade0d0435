//! Fault injection.

mod common;

use common::*;
use cuda_driver::injection::{self, Call};
use cuda_driver::*;

/// Three calls, each made whatever the previous one returned.
fn work() -> Vec<ResultCode> {
    let mut address = 0;
    let all = [
        code!(cuMemAlloc_v2(Out::from(&mut address), 256)),
        code!(cuMemsetD8_v2(address, 1, 256)),
        code!(cuMemFree_v2(address)),
    ];
    all.to_vec()
}

#[test]
fn calls_are_seen_and_made_to_fail() {
    force_emulator();
    context();
    let (codes, calls) = injection::watch(work);
    assert_eq!(codes, [0; 3]);
    let names = ["cuMemAlloc_v2", "cuMemsetD8_v2", "cuMemFree_v2"];
    assert_eq!(calls, names.map(|function| Call { function, code: 0 }));
    let before = injection::live();
    let (codes, calls) = injection::fail(1, 912, work);
    assert_eq!((codes, calls[1].code), (vec![0, CUDA_ERROR_UNKNOWN, 0], 912));
    assert_eq!(take_detail().map(|detail| detail.code), Some(912));
    assert_eq!(injection::live(), before);
    let (codes, _) = injection::fail(2, 1, work);
    assert_eq!(codes, [0, 0, 1]);
    assert_eq!(injection::live().allocations, before.allocations + 1);
    assert_eq!(work(), [0; 3], "it fails only there");
}

#[test]
fn the_nth_call_of_a_function_is_named_in_the_environment() {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", "cuMemAlloc_v2#2:46")];
    in_child_with("the_nth_call_of_a_function_is_named_in_the_environment", &set, || {
        context();
        let mut address = 0;
        let mut allocate = || code!(cuMemAlloc_v2(Out::from(&mut address), 1));
        assert_eq!([allocate(), allocate(), allocate()], [0, CUDA_ERROR_UNKNOWN, 0]);
        assert_eq!(take_detail().map(|detail| detail.code), Some(46));
    });
}
