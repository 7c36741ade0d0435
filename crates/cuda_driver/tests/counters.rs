//! Counters of launches, through the driver front.

mod common;

use common::*;
use cuda_driver::counters::{self, NotCounted, Space};

#[test]
fn launches_are_counted_between_start_and_take() {
    assert_eq!(counters::start(), Err(NotCounted::NotInitialized));
    force_emulator();
    context();
    let kernel = function(load(), "vecadd");
    let n = 257_u32;
    let [a, b, c] = [alloc(2048), alloc(2048), alloc(2048)];
    [a, b].iter().for_each(|input| ok!(cuMemsetD32_v2(*input, 0, 512)));
    let params = [host(&a), host(&b), host(&c), host(&n)];
    let launch = || {
        assert_eq!(launch_sized(kernel, [2, 1, 1], [256, 1, 1], 64, NULL, &params), 0);
        ok!(cuCtxSynchronize());
    };
    launch();
    counters::start().unwrap();
    launch();
    launch();
    let reports = counters::take();
    launch();
    assert_eq!(counters::take(), [], "nothing is counted before and after");
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0].counters, reports[1].counters);
    let report = &reports[0];
    assert_eq!(
        (report.kernel.as_str(), report.grid, report.block),
        ("vecadd", [2, 1, 1], [256, 1, 1])
    );
    assert_eq!((report.static_shared_bytes, report.dynamic_shared_bytes), (0, 64));
    // Two loads and a store of each element: 8 full warps, and one with a single lane.
    let own = report.counters.totals.of_space(Space::Global);
    assert_eq!((own.requests, own.lanes), (3 * 9, 3 * 257));
    assert_eq!((own.sectors, own.ideal_sectors), (3 * (8 * 4 + 1), 3 * (8 * 4 + 1)));
}

#[test]
fn a_gpus_launches_are_not_counted() {
    let words = NotCounted::OnGpu.to_string();
    assert!(words.contains("FERROWARP_DEVICE=emulator"), "{words}");
}
