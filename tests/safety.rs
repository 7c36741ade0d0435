//! The kernels that a newcomer reads first contain no `unsafe`.

#[test]
fn kernels_of_every_kind_have_no_unsafe() {
    for (name, source) in [
        ("vecadd", include_str!("../kernels-gpu/src/grid/vecadd.rs")),
        ("saxpy", include_str!("../kernels-gpu/src/grid/saxpy.rs")),
        ("grayscale", include_str!("../kernels-gpu/src/grid/grayscale.rs")),
        ("histogram", include_str!("../kernels-gpu/src/grid/histogram.rs")),
        ("transpose", include_str!("../kernels-gpu/src/grid/transpose.rs")),
    ] {
        assert!(!source.contains("unsafe"), "{name} contains `unsafe`");
    }
}
