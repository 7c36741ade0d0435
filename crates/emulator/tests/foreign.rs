//! What texts of other compilers and people have: modifiers in any order, addresses that wrap,
//! vectors of registers. NVIDIA's assembler takes all of it for `sm_90a`.

mod common;

use common::{Buffer, HEAD, device, launch};

/// What a kernel of one thread stores to `[out]`, from its body.
fn words(head: &str, body: &str, count: usize) -> Vec<u32> {
    let device = device();
    let out = Buffer::of_u32(&device, &vec![0; count]);
    let text = format!(
        "{HEAD}{head}.visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %rd<16>, out;
            .reg .f32 %f<16>; .reg .f64 %fd<16>;
            ld.param.u64 out, [k_out]; {body} ret; }}"
    );
    launch(&device, &text, "k", [1; 3], [1; 3], &[out.address]).unwrap();
    out.u32s()
}

/// Why a body is refused.
fn refusal(body: &str) -> String {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{ .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<8>;
            .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .f64 %fd<8>; .shared .b32 tile[8]; {body} ret; }}"
    );
    match device().load(&text) {
        Ok(_) => panic!("loaded: {body}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn scopes_of_atomics_stand_behind_the_space() {
    let atomics = |scope: &str| {
        format!(
            "atom.global.{scope}.add.u32 %r1, [out], 1; atom.global.{scope}.exch.b32 %r2, [out], 7;
             atom.global.{scope}.cas.b32 %r3, [out], 7, 9; atom.global.{scope}.max.s32 %r4, [out], 20;
             atom.global.{scope}.dec.u32 %r5, [out], 4; atom.global.{scope}.or.b32 %r6, [out], 8;
             atom.global.{scope}.add.u64 %rd1, [out+8], 5; atom.global.{scope}.add.f32 %f1, [out+16], 0f3F800000;
             atom.shared.{scope}.add.u32 %r7, [%r0], 3; atom.add.global.acq_rel.{scope}.u32 %r8, [out+4], %r7;
             atom.shared.{scope}.add.u32 %r7, [%r0], 3; st.global.u32 [out+20], %r7;"
        )
    };
    for scope in ["cta", "gpu", "sys", "cluster"] {
        let body = format!(
            ".shared .align 4 .u32 t; mov.u32 %r0, t; st.shared.u32 [%r0], 0; {}",
            atomics(scope)
        );
        let expected = [4 | 8, 0, 5, 0, 1f32.to_bits(), 3];
        assert_eq!(words("", &body, 6), expected, "{scope}");
    }
}

#[test]
fn modifiers_may_stand_in_any_order() {
    let float = |value: f32| value.to_bits();
    let body = "mov.f32 %f1, 0f40E00000; mov.f32 %f2, 0f40000000;
        div.ftz.rn.f32 %f3, %f1, %f2; st.global.f32 [out], %f3;
        add.sat.ftz.f32 %f3, %f1, %f2; st.f32.global [out+4], %f3;
        setp.ftz.and.gt.f32 %p1, %f1, %f2, 1; selp.u32 %r1, 5, 6, %p1; st.global.u32 [out+8], %r1;
        cvt.f64.f32 %fd1, %f1; cvt.f32.rz.f64 %f3, %fd1; st.global.f32 [out+12], %f3;
        setp.eq.u32 %p2, 1, 1; vote.ballot.sync.b32 %r2, %p2, 1; st.global.u32 [out+16], %r2;
        mad.lo.u32.cc %r3, 3, 4, 5; st.global.u32 [out+20], %r3;
        ld.u32.global.relaxed.gpu %r4, [out]; st.global.u32 [out+24], %r4;";
    let expected = [float(3.5), float(1.), 5, float(7.), 1, 17, float(3.5)];
    assert_eq!(words("", body, 7), expected);
}

#[test]
fn the_rounding_of_a_matrix_product_may_stand_last() {
    let body = "mov.f64 %fd1, 0d4000000000000000;
        wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn {%fd2, %fd3}, {%fd1}, {%fd1}, {%fd1, %fd1};
        cvt.rzi.u32.f64 %r1, %fd2; st.global.u32 [out], %r1;";
    let device = device();
    let out = Buffer::of_u32(&device, &[0]);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{ .reg .b32 %r<4>; .reg .b64 out; .reg .f64 %fd<4>;
            ld.param.u64 out, [k_out]; {body} ret; }}"
    );
    launch(&device, &text, "k", [1; 3], [32, 1, 1], &[out.address]).unwrap();
    assert_eq!(out.u32s(), [4 * 4 + 2]);
    let body = "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%r1, %r2, %r3, %r4}, [tile];";
    let text = format!(
        "{HEAD}.visible .entry k() {{ .reg .b32 %r<5>; .shared .align 16 .b8 tile[512]; {body} ret; }}"
    );
    device.load(&text).unwrap();
}

#[test]
fn orders_that_mean_something_else_are_refused() {
    for body in [
        "cvt.rn.f64.f32 %fd1, %f1;",
        "mul.u32.lo %r1, %r2, %r3;",
        "add.sat.sat.s32 %r1, %r2, %r3;",
        "add.rn.rz.f32 %f1, %f2, %f3;",
        "add.frob.f32 %f1, %f2, %f3;",
        "cp.wait_group.async 0;",
        "cp.async.ca.global.shared [%rd1], [%r1], 4;",
        "bar.popc.red.u32 %r1, 0, %p1;",
        "atom.global.shared.add.u32 %r1, [%rd1], 1;",
        "mma.sync.aligned.m16n8k8.col.row.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%f1,%f2,%f3,%f4};",
    ] {
        let error = refusal(body);
        assert!(error.contains("unknown instruction"), "{body}: {error}");
    }
}

#[test]
fn a_bf16_becomes_a_byte_and_back() {
    // 200.5, -3.75 and 7 as bf16, in NVIDIA's headers' spelling with an 8-bit register.
    let body = "mov.b16 %h1, 0x4348; mov.b16 %h2, 0xC070;
        { .reg .b8 byte; cvt.rzi.u8.bf16 byte, %h1; mov.b16 %h3, {byte, 0}; cvt.rzi.s8.bf16 byte, %h2; mov.b16 %h4, {byte, 0};
          cvt.rn.bf16.s8 %h5, byte; }
        st.global.u16 [out], %h3; st.global.u16 [out+2], %h4; st.global.u16 [out+4], %h5; st.global.u16 [out+6], %h1;";
    assert_eq!(words("", body, 2), [200 | 0xfd << 16, 0xC040 | 0x4348 << 16]);
}

#[test]
fn a_32_bit_address_wraps() {
    let head = ".extern .shared .align 16 .b8 smem[];";
    let body = "mov.u32 %r1, smem; .shared .align 4 .b32 room[4]; mov.u32 %r1, room; st.shared.u32 [%r1], 42;
        sub.u32 %r2, %r1, 8; ld.shared.u32 %r3, [%r2+8]; st.global.u32 [out], %r3;
        .local .align 4 .b32 own[4]; mov.u32 %r4, own; sub.u32 %r4, %r4, 64; st.local.u32 [%r4+68], 43;
        ld.local.u32 %r5, [own+4]; st.global.u32 [out+4], %r5;";
    assert_eq!(words(head, body, 2), [42, 43]);
}

#[test]
fn what_wraps_past_shared_memory_is_still_out_of_bounds() {
    for address in ["sub.u32 %r1, %r1, 8; st.shared.u32 [%r1+4], 0;", "st.shared.u32 [%r1+16], 0;"]
    {
        let text = format!(
            "{HEAD}.visible .entry k() {{ .reg .b32 %r1; .shared .align 4 .b32 room[4]; mov.u32 %r1, room; {address} ret; }}"
        );
        let trap = launch(&device(), &text, "k", [1; 3], [1; 3], &[]).unwrap_err();
        assert!(matches!(trap.kind, emulator::TrapKind::OutOfBounds { .. }), "{trap}");
    }
}

#[test]
fn vectors_of_registers_are_operands() {
    let body = ".reg .v2 .b32 v; .reg .v4 .u16 w, x; .reg .v2 .f32 %q<2>;
        mov.v2.u32 v, {3, 4}; st.global.v2.u32 [out], v; mov.b64 %rd1, v; st.global.u64 [out+8], %rd1;
        ld.global.v2.u32 v, [out+8]; add.u32 v.x, v.x, v.y; st.global.u32 [out+16], v.x;
        mov.b64 v, %rd1; mov.v2.u32 v, {v.y, v.x}; st.global.v2.b32 [out+24], v;
        mov.v4.u16 w, {1, 2, 3, 4}; mov.v4.u16 x, w; mov.b64 %rd2, x; add.u16 w.r, w.a, w.b; mov.b16 %h1, w.x;
        st.global.u64 [out+32], %rd2; st.global.u16 [out+20], %h1; mov.b16 %h2, 0; st.global.u16 [out+22], %h2;
        ld.global.v2.f32 %q1, [out]; st.global.v2.f32 [out+40], %q1;";
    let expected = [3, 4, 3, 4, 7, 7, 4, 3, 1 | 2 << 16, 3 | 4 << 16, 3, 4];
    assert_eq!(words("", body, 12), expected);
    for wrong in [
        ".reg .v4 .u16 w, x; mov.u16 w, x;",
        ".reg .v2 .b32 v; add.u32 v, v, v;",
        ".reg .v2 .b32 v; mov.u32 %r1, v.z;",
        ".reg .v4 .f64 v; mov.v4.f64 v, v;",
        ".reg .v2 .b32 v; ld.global.v4.u32 v, [%rd1];",
    ] {
        refusal(wrong);
    }
}

#[test]
fn vectors_of_registers_are_passed_and_returned() {
    let head = ".func (.reg .v2 .b32 r) swap(.reg .v2 .b32 q, .reg .b32 more) {
        add.u32 r.x, q.y, more; add.u32 r.y, q.x, more; ret; }";
    let body = ".reg .v2 .b32 v; mov.v2.u32 v, {3, 4}; call (v), swap, (v, 10); st.global.v2.u32 [out], v;";
    assert_eq!(words(head, body, 2), [14, 13]);
}

#[test]
fn addresses_plus_an_offset_are_values() {
    let body = ".local .align 4 .b8 temp[16]; .shared .align 4 .b8 tile[16];
        mov.u64 %rd1, temp; mov.u32 %r1, tile;
        st.global.u64 [out], temp + 1; ld.global.u64 %rd2, [out]; sub.u64 %rd2, %rd2, %rd1; st.global.u64 [out], %rd2;
        st.global.u32 [out+8], temp + 2; ld.global.u32 %r2, [out+8]; cvt.u32.u64 %r3, %rd1; sub.u32 %r2, %r2, %r3; st.global.u32 [out+8], %r2;
        st.global.u32 [out+12], tile+3; ld.global.u32 %r2, [out+12]; sub.u32 %r2, %r2, %r1; st.global.u32 [out+12], %r2;
        add.u32 %r2, %r1, tile+5; sub.u32 %r2, %r2, %r1; sub.u32 %r2, %r2, %r1; st.global.u32 [out+16], %r2;
        st.global.u64 [out+24], table+4; ld.global.u64 %rd3, [out+24]; mov.u64 %rd4, table; sub.u64 %rd3, %rd3, %rd4; st.global.u64 [out+24], %rd3;";
    assert_eq!(words(".global .b32 table[2];", body, 8), [1, 0, 2, 3, 5, 0, 4, 0]);
}

#[test]
fn a_function_may_declare_global_and_constant_memory() {
    let head = ".func (.param .b32 r) count() { .global .u32 calls = 5; .reg .b32 a;
        ld.global.u32 a, [calls]; add.u32 a, a, 1; st.global.u32 [calls], a; st.param.b32 [r], a; ret; }";
    let body = "{ .param .b32 r; call (r), count, (); ld.param.b32 %r1, [r]; call (r), count, (); ld.param.b32 %r2, [r]; }
        { .const .u32 calls[2] = {8, 9}; ld.const.u32 %r3, [calls+4]; }
        st.global.u32 [out], %r1; st.global.u32 [out+4], %r2; st.global.u32 [out+8], %r3;";
    assert_eq!(words(head, body, 3), [6, 7, 9]);
}

#[test]
fn predicates_are_neither_passed_nor_returned() {
    // "In ABI compilation, returning predicate, 8-bit and 16-bit values … is not supported".
    for function in [".func (.reg .pred r) f() { ret; }", ".func f(.reg .pred q) { ret; }"] {
        let error = device().load(&format!("{HEAD}{function}")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("a predicate cannot be passed"), "{error}");
    }
}
