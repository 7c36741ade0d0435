//! Memory that the device still uses cannot be touched: the compiler says so.

#[test]
fn mistakes_are_told() {
    // The fixtures are checked and never run, so the library needs no kernels for them, which take minutes to compile.
    // SAFETY: this is the only test of the program, and no other thread reads the environment yet.
    unsafe { std::env::set_var("DOCS_RS", "1") };
    trybuild::TestCases::new().compile_fail("tests/host/compile_fail/*.rs");
}
