//! What does not exist, and what is a fault.

use super::common::{HEAD, device, launch};
use emulator::LoadError;
use emulator::fault::TrapKind;

/// A kernel with some registers, for one instruction.
fn body(text: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 p)\n{{\n.shared .align 128 .b8 sm[4096];\n\
         .reg .b32 %r<16>, %s, %t;\n.reg .f32 %f<16>;\n.reg .b64 %x<4>;\n.reg .pred %p;\n\
         mov.u32 %t, %tid.x;\nmov.u32 %s, sm;\nsetp.lt.u32 %p, %t, 16;\ncvt.u64.u32 %x1, %t;\n{text}\nret;\n}}\n"
    )
}

fn load_error(text: &str) -> LoadError {
    device().load(&body(text)).err().unwrap_or_else(|| panic!("{text} was taken"))
}

#[test]
fn what_does_not_exist_is_not_loaded() {
    let quarter = "{%f0, %f1, %f2, %f3}";
    let unknown = [
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0, %r1, %r2}, [%s];",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1}, %x0, %x0, %p, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r0, %r1}, %x0, %x0, %p;",
    ];
    for text in unknown {
        let error = load_error(text);
        assert!(matches!(error, LoadError::UnknownInstruction { .. }), "{text}: {error}");
    }
    let blackwell = load_error("tcgen05.wait::ld.sync.aligned;");
    assert!(matches!(blackwell, LoadError::Unsupported { .. }), "{blackwell}");
    let invalid = [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4,%r5}, {%f0,%f1,%f2,%f3};".to_owned(),
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5,%r6,%r7}, {%f0,%f1,%f2,%f3}, %r8, 2;".to_owned(),
        "wgmma.wait_group.sync.aligned 8;".to_owned(),
        "wgmma.fence.sync.aligned 0;".to_owned(),
        format!("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {quarter}, %x0, %x0, %p, 2, 1, 0, 0;"),
        format!("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {quarter}, %x0, %x0, %p, 1, 1, 0;"),
        format!("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {quarter}, %x0, %x0, %p, 1, 1, 0, 1;"),
    ];
    for text in &invalid {
        let error = load_error(text);
        assert!(matches!(error, LoadError::Invalid { .. }), "{text}: {error}");
    }
}

fn trap(text: &str) -> TrapKind {
    let device = device();
    launch(&device, &body(text), "k", [1; 3], [32, 1, 1], &[0]).unwrap_err().kind
}

#[test]
fn bad_addresses_are_faults() {
    let misaligned = trap(
        "mad.lo.u32 %s, %t, 16, %s;\nadd.u32 %s, %s, 8;\n\
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%s];",
    );
    assert!(matches!(misaligned, TrapKind::Misaligned { bytes: 16, .. }), "{misaligned:?}");
    let outside = "mad.lo.u32 %s, %t, 144, %s;\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {%r0, %r1, %r2, %r3};";
    assert!(matches!(trap(outside), TrapKind::OutOfBounds { bytes: 16, .. }));
    let wgmma = |descriptor: &str| {
        format!(
            "mov.u64 %x0, {descriptor};\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %x0, %x0, %p, 1, 1, 0, 0;"
        )
    };
    // A stride of 16384 bytes leaves the 4096 that there are.
    assert!(matches!(trap(&wgmma("0x0000040000080000")), TrapKind::OutOfBounds { .. }));
    assert!(matches!(trap(&wgmma("%x1")), TrapKind::DivergentDescriptor));
    let device = device();
    let right = body(&wgmma("0x0000001000080000"));
    assert!(launch(&device, &right, "k", [1; 3], [32, 1, 1], &[0]).is_ok());
}

#[test]
fn a_missing_half_of_the_warp_is_waited_for() {
    let mma = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, {%f0,%f1,%f2,%f3};";
    let stuck = trap(&format!(
        "@%p bra SKIP;\n{mma}\nbar.sync 0;\nSKIP:\n@!%p bra END;\nbar.sync 1;\nEND:"
    ));
    assert!(matches!(stuck, TrapKind::Deadlock { .. }), "{stuck:?}");
    let device = device();
    let whole = body(&format!("@%p bra SKIP;\nadd.u32 %s, %s, 1;\nSKIP:\n{mma}"));
    assert!(launch(&device, &whole, "k", [1; 3], [32, 1, 1], &[0]).is_ok());
}
