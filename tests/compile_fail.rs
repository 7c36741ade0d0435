//! Memory that the device still uses cannot be touched: the compiler says so.

#[test]
fn mistakes_are_told() {
    trybuild::TestCases::new().compile_fail("tests/host/compile_fail/*.rs");
}
