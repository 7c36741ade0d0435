//! Loads, stores, atomics, address spaces, module variables.

mod common;

use common::eval::check1;
use common::{Buffer, HEAD, device, launch};
use emulator::Launch;

/// Runs a kernel of one output buffer of `n` words, one thread for each.
fn words(body: &str, n: u32) -> Vec<u32> {
    let device = device();
    let out = Buffer::new(&device, 4 * n as usize);
    let text = kernel("", body);
    launch(&device, &text, "k", [1, 1, 1], [n, 1, 1], &[out.address])
        .unwrap_or_else(|trap| panic!("{trap}"));
    out.u32s()
}

/// A kernel whose thread `r0` writes `r1` to its word of the output.
fn kernel(module: &str, body: &str) -> String {
    format!(
        "{HEAD}{module}
        .visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x;
            {body}
            mad.wide.u32 %rd0, %r0, 4, %rd0;
            st.global.b32 [%rd0], %r1;
            ret;
        }}"
    )
}

#[test]
fn narrow_loads_extend_to_their_register() {
    let body =
        |load: &str| format!("{{ .local .align 8 .b8 x[8]; st.local.b64 [x], a64; {load} }}");
    check1(&body("ld.local.s8 d32, [x];"), &[(0x80, 0xffff_ff80), (0x7f, 0x7f)]);
    check1(&body("ld.local.u8 d32, [x+1];"), &[(0x8000, 0x80)]);
    check1(&body("ld.local.s16 d64, [x];"), &[(0x8000, 0xffff_ffff_ffff_8000)]);
    check1(&body("ld.local.s8 d16, [x];"), &[(0x80, 0xff80)]);
    check1(&body("ld.local.u16 d64, [x+2];"), &[(0xabcd_0000, 0xabcd)]);
    check1(&body("ld.local.s32 d64, [x];"), &[(0x8000_0000, 0xffff_ffff_8000_0000)]);
    check1(&body("ld.local.v2.b32 {e32, d32}, [x];"), &[(7 << 32 | 3, 7)]);
    check1(&body("st.local.b8 [x], 0x1ff; ld.local.b64 d64, [x];"), &[(0, 0xff)]);
    check1(
        &body("st.local.v2.b16 [x+4], {a16, a16}; ld.local.b64 d64, [x];"),
        &[(5, 5 | 5 << 32 | 5 << 48)],
    );
}

#[test]
fn local_memory_is_each_threads_own_and_generic() {
    let body = ".local .align 4 .b8 own[8];
        mov.b64 %rd1, own; cvta.local.u64 %rd2, %rd1;
        mul.lo.s32 %r2, %r0, 3;
        st.b32 [%rd2+4], %r2;
        cvta.to.local.u64 %rd3, %rd2;
        ld.local.b32 %r1, [%rd3+4];";
    assert_eq!(words(body, 40), (0..40).map(|i| 3 * i).collect::<Vec<_>>());
}

#[test]
fn shared_memory_is_seen_through_generic_addresses() {
    let body = ".shared .align 4 .b8 tile[256];
        mov.b64 %rd1, tile; cvta.shared.u64 %rd2, %rd1;
        mad.wide.u32 %rd3, %r0, 4, %rd2;
        st.b32 [%rd3], %r0;
        bar.sync 0;
        sub.s32 %r2, 63, %r0;
        mad.wide.u32 %rd4, %r2, 4, %rd1;
        ld.shared.b32 %r1, [%rd4];
        isspacep.shared %p1, %rd3; @!%p1 mov.b32 %r1, 999;
        isspacep.global %p2, %rd3; @%p2 mov.b32 %r1, 998;";
    assert_eq!(words(body, 64), (0..64).rev().collect::<Vec<_>>());
}

#[test]
fn vectors_of_floats_load_at_once() {
    let device = device();
    let input = Buffer::of_u32(&device, &(0..128).collect::<Vec<_>>());
    let out = Buffer::new(&device, 4 * 128);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 from, .param .u64 to) {{
            .reg .b32 %r<8>; .reg .b64 %rd<8>;
            ld.param.b64 %rd0, [from]; ld.param.b64 %rd1, [to];
            mov.u32 %r0, %tid.x;
            mad.wide.u32 %rd2, %r0, 16, %rd0; mad.wide.u32 %rd3, %r0, 16, %rd1;
            ld.global.nc.L1::no_allocate.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd2];
            st.global.v4.b32 [%rd3], {{%r4, %r3, %r2, %r1}};
            ret; }}"
    );
    launch(&device, &text, "k", [1, 1, 1], [32, 1, 1], &[input.address, out.address]).unwrap();
    let expected: Vec<u32> = (0..128).map(|i| i / 4 * 4 + 3 - i % 4).collect();
    assert_eq!(out.u32s(), expected);
}

#[test]
fn module_variables_are_initialised_with_addresses_too() {
    let module = ".global .align 4 .u32 table[4] = {10, 20, 30};
        .const .align 8 .b8 letters[4] = {1, 2, 3, 4};
        .global .align 8 .u64 pointers[2] = {generic(table), table+8};";
    let body = "mov.b64 %rd1, pointers; ld.global.b64 %rd2, [%rd1+8]; ld.b32 %r1, [%rd2];
        ld.global.b32 %r2, [table+4]; add.s32 %r1, %r1, %r2;
        ld.const.u8 %r3, [letters+3]; add.s32 %r1, %r1, %r3;
        ld.global.b32 %r4, [table+12]; add.s32 %r1, %r1, %r4;";
    let device = device();
    let out = Buffer::new(&device, 4);
    let text = kernel(module, body);
    launch(&device, &text, "k", [1, 1, 1], [1, 1, 1], &[out.address]).unwrap();
    assert_eq!(out.u32s(), [54]);
    let module = device.load(&text).unwrap();
    assert_eq!(module.global("table").unwrap().size_bytes, 16);
    assert!(module.global("absent").is_none());
}

#[test]
fn dynamic_shared_memory_follows_the_static() {
    let module = ".shared .align 4 .b8 fixed[20];\n.extern .shared .align 16 .b8 tail[];";
    let body = "mov.b32 %r2, fixed; mov.u32 %r1, tail; sub.s32 %r1, %r1, %r2;
        mov.b64 %rd1, tail; mad.wide.u32 %rd1, %r0, 4, %rd1; st.shared.b32 [%rd1], %r0;
        mov.u32 %r3, %dynamic_smem_size; add.s32 %r1, %r1, %r3;";
    let device = device();
    let out = Buffer::new(&device, 4 * 32);
    let module = device.load(&kernel(module, body)).unwrap();
    let function = module.function("k").unwrap();
    assert_eq!(function.static_shared_bytes, 32);
    let params = out.address.to_le_bytes();
    let mut launch = Launch {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        dynamic_shared_bytes: 128,
        params: &params,
        ..Launch::new(&function)
    };
    device.launch(&launch).unwrap();
    assert_eq!(out.u32s(), [32 + 128; 32]);
    launch.dynamic_shared_bytes = 124;
    assert!(device.launch(&launch).is_err());
}

#[test]
fn atomics_return_what_was_there() {
    let shared = ".shared .align 8 .b8 cell[8]; setp.eq.s32 %p1, %r0, 0; @%p1 st.shared.b64 [cell], 0; bar.sync 0;";
    let olds = words(&format!("{shared} atom.shared.add.u32 %r1, [cell], 2;"), 32);
    assert_eq!(olds, (0..32).map(|i| 2 * i).collect::<Vec<_>>());
    let last = |op: &str| {
        let body = format!("{shared} {op} bar.sync 0; ld.shared.b32 %r1, [cell];");
        words(&body, 64)[0]
    };
    assert_eq!(last("red.shared.max.s32 [cell], %r0;"), 63);
    assert_eq!(last("neg.s32 %r2, %r0; red.shared.min.s32 [cell], %r2;"), -63i32 as u32);
    assert_eq!(last("red.shared.or.b32 [cell], %r0;"), 63);
    assert_eq!(last("red.shared.inc.u32 [cell], 4;"), 64 % 5);
    assert_eq!(last("red.shared.dec.u32 [cell], 2;"), 2);
    assert_eq!(
        last("cvt.rn.f32.u32 %r2, %r0; red.shared.add.f32 [cell], %r2;"),
        (63f32 * 32.).to_bits()
    );
    assert_eq!(last("atom.shared.exch.b32 %r3, [cell], 77;"), 77);
    assert_eq!(
        last("atom.shared.cas.b32 %r3, [cell], 0, 5; atom.shared.cas.b32 %r3, [cell], 5, 6;"),
        6
    );
    assert_eq!(last("red.shared.add.noftz.f16x2 [cell], 0x3c003c00;"), 0x5400_5400);
}

#[test]
fn global_atomics_meet_across_blocks_and_workers() {
    let device = emulator::Device::new(emulator::Profile {
        worker_threads: 4,
        ..emulator::Profile::hopper()
    });
    let out = Buffer::of_u64(&device, &[0, 0, 0]);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{
            .reg .b32 %r<4>; .reg .b64 %rd<4>;
            ld.param.b64 %rd0, [k_out];
            atom.acq_rel.gpu.global.add.u32 %r1, [%rd0], 1;
            red.relaxed.sys.add.f64 [%rd0+8], 0d3FF0000000000000;
            red.global.add.u64 [%rd0+16], 3;
            ret; }}"
    );
    launch(&device, &text, "k", [100, 1, 1], [96, 1, 1], &[out.address]).unwrap();
    assert_eq!(out.u64s(), [9600, 9600f64.to_bits(), 28800]);
}

#[test]
fn volatile_relaxed_and_fenced_accesses_work() {
    let body = ".shared .align 4 .b8 x[4]; .local .align 4 .b8 y[4];
        st.volatile.local.b32 [y], 5; ld.volatile.local.b32 %r4, [y];
        st.volatile.shared.b32 [x], %r4; fence.sc.cta; membar.gl; fence.acq_rel.gpu;
        ld.volatile.shared.b32 %r1, [x];
        st.release.cta.shared.b32 [x], 6; ld.acquire.cta.shared.b32 %r2, [x]; ld.relaxed.gpu.shared.b32 %r3, [x];
        add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3; prefetch.global.L2 [%rd0];";
    assert_eq!(words(body, 1), [17]);
}

#[test]
fn parameters_may_be_narrow_and_read_by_address() {
    let device = device();
    let out = Buffer::new(&device, 16);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u8 a, .param .u16 b, .param .align 4 .b8 c[8], .param .u64 d) {{
            .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
            ld.param.b64 %rd0, [d];
            ld.param.u8 %r0, [a]; ld.param.u16 %r1, [b]; ld.param.v2.b32 {{%r2, %r3}}, [c];
            mov.b64 %rd1, c; ld.param.b32 %r4, [%rd1+4];
            cvta.param.u64 %rd2, %rd1; ld.b32 %r5, [%rd2];
            add.s32 %r3, %r3, %r4; add.s32 %r2, %r2, %r5;
            st.global.v4.b32 [%rd0], {{%r0, %r1, %r2, %r3}};
            ret; }}"
    );
    let module = device.load(&text).unwrap();
    let function = module.function("k").unwrap();
    let offsets: Vec<usize> = function.params.iter().map(|param| param.offset).collect();
    assert_eq!((offsets, function.param_bytes), (vec![0, 2, 4, 16], 24));
    let mut params = vec![0; 24];
    params[0] = 200;
    params[2..4].copy_from_slice(&60000u16.to_le_bytes());
    params[4..8].copy_from_slice(&7u32.to_le_bytes());
    params[8..12].copy_from_slice(&9u32.to_le_bytes());
    params[16..].copy_from_slice(&out.address.to_le_bytes());
    let launch = Launch { grid: [1; 3], block: [1; 3], params: &params, ..Launch::new(&function) };
    device.launch(&launch).unwrap();
    assert_eq!(out.u32s(), [200, 60000, 14, 18]);
}

#[test]
fn special_registers_say_where_a_thread_is() {
    let device = device();
    let out = Buffer::new(&device, 4 * 2 * 3 * 24);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 k_out) {{
            .reg .b32 %r<16>; .reg .b64 %rd<4>;
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;
            mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
            mad.lo.s32 %r5, %r2, %ntid.y, %r1; mad.lo.s32 %r5, %r5, %ntid.x, %r0;
            mad.lo.s32 %r6, %r4, %nctaid.x, %r3;
            mad.lo.s32 %r7, %r6, 24, %r5;
            mad.wide.u32 %rd1, %r7, 4, %rd0;
            mad.lo.s32 %r8, %laneid, 100, %r6;
            st.global.b32 [%rd1], %r8;
            ret; }}"
    );
    launch(&device, &text, "k", [2, 3, 1], [2, 3, 4], &[out.address]).unwrap();
    let expected: Vec<u32> =
        (0..6).flat_map(|block| (0..24).map(move |lane| lane * 100 + block)).collect();
    assert_eq!(out.u32s(), expected);
}
