//! Every option shows in the PTX, or is refused.

mod common;

use std::fs;

use common::Fixture;
use cuda_builder::{CudaBuilder, CudaBuilderError, DebugInfo, NvvmArch};

#[test]
fn numeric_options_show_in_the_ptx() {
    let fixture = Fixture::copy("plain", "numeric_options");
    let plain = fixture.ptx(|b| b);
    let has = |ptx: &str, opcodes: &[&str]| {
        for opcode in opcodes {
            assert!(ptx.contains(&format!("\t{opcode} ")), "no {opcode} in\n{ptx}");
        }
    };
    has(&plain, &["fma.rn.f32", "sqrt.rn.f32", "div.rn.f32"]);
    assert!(!plain.contains(".ftz"));
    has(&fixture.ptx(|b| b.fma_contraction(false)), &["mul.rn.f32", "add.rn.f32"]);
    has(&fixture.ptx(|b| b.fast_sqrt(true)), &["sqrt.approx.f32", "div.rn.f32"]);
    has(&fixture.ptx(|b| b.fast_div(true)), &["sqrt.rn.f32", "div.full.f32"]);
    let flushing = ["fma.rn.ftz.f32", "sqrt.rn.ftz.f32", "div.rn.ftz.f32", "abs.ftz.f32"];
    has(&fixture.ptx(|b| b.ftz(true)), &flushing);
}

#[test]
fn line_information_can_be_left_out() {
    let fixture = Fixture::copy("plain", "line_information");
    let with = fixture.ptx(|b| b);
    assert!(with.contains("\t.loc\t1 ") && with.contains("src/lib.rs\""), "{with}");
    assert!(!with.contains("debug\n"), "`.target …, debug` turns the assembler's optimiser off");
    assert!(!fixture.ptx(|b| b.generate_line_info(false)).contains(".loc"));
}

#[test]
fn build_args_reach_cargo() {
    let fixture = Fixture::copy("plain", "build_arguments");
    let unknown = fixture.compile(|b| b.build_args(&["--features=no-such-feature"]));
    assert!(matches!(unknown, Err(CudaBuilderError::BuildFailed)));
}

#[test]
fn ir_and_bitcode_are_written_beside_the_ptx() {
    let fixture = Fixture::copy("plain", "emitted");
    let ir = fixture.compile(|b| b.emit_llvm_ir(true)).unwrap().modules[0].path.clone();
    let text = fs::read_to_string(ir.with_extension("ll")).unwrap();
    assert!(text.contains("define ptx_kernel void @arithmetic"));
    let bitcode = fixture.compile(|b| b.emit_llvm_bitcode(true)).unwrap().modules[0].path.clone();
    assert!(fs::read(bitcode.with_extension("bc")).unwrap().starts_with(b"BC\xC0\xDE"));
    let last = fixture.dir.join("out/final.bc");
    fixture.compile(|b| b.final_module_path(&last)).unwrap();
    assert!(fs::read(last).unwrap().starts_with(b"BC\xC0\xDE"));
}

#[test]
fn copies_bear_the_name_given() {
    let fixture = Fixture::copy("plain", "copies");
    let path = fixture.dir.join("out/kernels.ptx");
    assert_eq!(fixture.builder().copy_to(&path).build().unwrap(), path);
    assert!(fs::read_to_string(&path).unwrap().contains(".target sm_75\n"));
}

#[test]
fn several_copies_bear_their_architectures() {
    let fixture = Fixture::copy("plain", "several_copies");
    let path = fixture.dir.join("out/kernels.ptx");
    let archs = [NvvmArch::Compute80, NvvmArch::Compute90a];
    let first = fixture.builder().archs(archs).copy_to(&path).build().unwrap();
    assert_eq!(first, fixture.dir.join("out/kernels.sm_80.ptx"));
    let second = fs::read_to_string(fixture.dir.join("out/kernels.sm_90a.ptx")).unwrap();
    assert!(second.contains(".target sm_90a\n"));
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let refused = |f: fn(CudaBuilder) -> CudaBuilder, expected: &str| match f(CudaBuilder::new("."))
        .compile()
        .unwrap_err()
    {
        CudaBuilderError::Unsupported { option, .. } => assert_eq!(option, expected),
        other => panic!("{other}"),
    };
    refused(|b| b.nvvm_opts(false), "nvvm_opts(false)");
    refused(|b| b.optix(true), "optix(true)");
    refused(|b| b.override_libm(true), "override_libm(true)");
    refused(|b| b.use_constant_memory_space(true), "use_constant_memory_space(true)");
}

#[test]
fn embed_needs_a_build_script() {
    let fixture = Fixture::copy("plain", "no_out_dir");
    assert!(matches!(fixture.builder().embed(), Err(CudaBuilderError::NoOutDir)));
}

#[test]
#[ignore = "compiles core a second and a third time, which takes a minute"]
fn debugging_options_reach_the_library() {
    let fixture = Fixture::copy("plain", "debugging");
    let checked = fixture.ptx(|b| b.release(false));
    assert!(checked.contains("panic_const_add_overflow"), "{checked}");
    assert!(!fixture.ptx(|b| b).contains("panic_const_add_overflow"));
    let lines = fixture.ptx(|b| b.debug(DebugInfo::LineTables));
    assert!(lines.contains("helper/src/lib.rs\""), "{lines}");
    assert!(!lines.contains("debug\n"));
}
