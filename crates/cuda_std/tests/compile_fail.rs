//! Wrong kernels and wrong launches do not compile, and the compiler says what to do.

#[test]
fn mistakes_are_told() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
