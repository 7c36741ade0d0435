//! The whole path once: text in, results out.

mod common;

use common::{Buffer, HEAD, device, launch};

const VECADD: &str = r#"
.visible .entry vecadd(
    .param .u64 .ptr .align 1 vecadd_param_0,
    .param .u64 vecadd_param_1,
    .param .u64 .ptr .align 1 vecadd_param_2,
    .param .u64 .ptr .align 1 vecadd_param_3
)
{
    .reg .pred  %p<2>;
    .reg .b32   %r<8>;
    .reg .b64   %rd<14>;
    ld.param.b64    %rd5, [vecadd_param_1];
    mov.u32         %r1, %tid.x;
    mov.u32         %r2, %ctaid.x;
    mov.u32         %r3, %ntid.x;
    mad.lo.s32      %r4, %r2, %r3, %r1;
    cvt.u64.u32     %rd1, %r4;
    setp.le.u64     %p1, %rd5, %rd1;
    @%p1 bra        $L__BB0_2;
    ld.param.b64    %rd2, [vecadd_param_0];
    ld.param.b64    %rd3, [vecadd_param_2];
    ld.param.b64    %rd4, [vecadd_param_3];
    cvta.to.global.u64  %rd6, %rd2;
    cvta.to.global.u64  %rd7, %rd3;
    cvta.to.global.u64  %rd8, %rd4;
    shl.b64         %rd9, %rd1, 2;
    add.s64         %rd10, %rd6, %rd9;
    add.s64         %rd11, %rd7, %rd9;
    add.s64         %rd12, %rd8, %rd9;
    ld.global.b32   %r5, [%rd10];
    ld.global.b32   %r6, [%rd11];
    add.s32         %r7, %r5, %r6;
    st.global.b32   [%rd12], %r7;
$L__BB0_2:
    ret;
}
"#;

#[test]
fn vecadd_adds_and_keeps_its_bounds() {
    let device = device();
    let text = format!("{HEAD}{VECADD}");
    for n in [1usize, 31, 32, 33, 255, 256, 257, 10_007] {
        let x: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let y: Vec<u32> = (0..n as u32).map(|i| i ^ 0x5a5a).collect();
        let (dx, dy) = (Buffer::of_u32(&device, &x), Buffer::of_u32(&device, &y));
        let out = Buffer::new(&device, 4 * n);
        let params = [dx.address, n as u64, dy.address, out.address];
        let grid = [(n as u32).div_ceil(256), 1, 1];
        let stats = launch(&device, &text, "vecadd", grid, [256, 1, 1], &params).unwrap();
        let expected: Vec<u32> = x.iter().zip(&y).map(|(a, b)| a.wrapping_add(*b)).collect();
        assert_eq!(out.u32s(), expected, "n = {n}");
        assert!(stats.lane_instructions >= 22 * n as u64);
    }
}
