//! The kernels that a newcomer reads first contain no `unsafe`.

#[test]
fn element_wise_kernels_and_the_histogram_have_no_unsafe() {
    for (name, source) in [
        ("vecadd", include_str!("../kernels-gpu/src/grid/vecadd.rs")),
        ("saxpy", include_str!("../kernels-gpu/src/grid/saxpy.rs")),
        ("grayscale", include_str!("../kernels-gpu/src/grid/grayscale.rs")),
        ("histogram", include_str!("../kernels-gpu/src/grid/histogram.rs")),
    ] {
        assert!(!source.contains("unsafe"), "{name} contains `unsafe`");
    }
}
