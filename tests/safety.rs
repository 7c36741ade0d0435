//! The kernels that a newcomer reads first contain no `unsafe`.

#[test]
fn kernels_of_every_kind_have_no_unsafe() {
    for (name, source) in [
        ("vecadd", include_str!("../kernels-gpu/src/elementwise/add.rs")),
        ("saxpy", include_str!("../kernels-gpu/src/elementwise/axpy.rs")),
        ("grayscale", include_str!("../kernels-gpu/src/image/luma.rs")),
        ("histogram", include_str!("../kernels-gpu/src/histogram/mod.rs")),
        ("transpose", include_str!("../kernels-gpu/src/transpose/mod.rs")),
    ] {
        assert!(!source.contains("unsafe"), "{name} contains `unsafe`");
    }
}
