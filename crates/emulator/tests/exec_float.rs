//! Floating-point instructions on edge operands.

mod common;

use common::eval::{check1, check2, check3, d, f};

const NAN: u64 = 0x7fff_ffff;
const TINY: u64 = 1;
const INF: u64 = 0x7f80_0000;

#[test]
fn sums_round_as_asked() {
    let small = f(2f32.powi(-30));
    check2("add.rn.f32 d32, a32, b32;", &[(f(1.), small, f(1.)), (f(0.1), f(0.2), f(0.1 + 0.2))]);
    check2("add.rp.f32 d32, a32, b32;", &[(f(1.), small, f(1.) + 1)]);
    check2("add.rz.f32 d32, a32, b32;", &[(f(-1.), small, f(-1.) - 1)]);
    check2("add.rm.f32 d32, a32, b32;", &[(f(1.), f(-1.), f(-0.))]);
    check2("add.f32 d32, a32, b32;", &[(INF, INF | 1 << 31, NAN), (0x7f80_0001, 0, NAN)]);
    check2("add.ftz.f32 d32, a32, b32;", &[(TINY, TINY, 0), (TINY | 1 << 31, 1 << 31, 1 << 31)]);
    check2("add.f32 d32, a32, b32;", &[(TINY, TINY, 2)]);
    check2(
        "add.sat.f32 d32, a32, b32;",
        &[(f(0.75), f(0.75), f(1.)), (f(-3.), f(1.), 0), (NAN, 0, 0)],
    );
    check2("sub.rn.f32 d32, a32, b32;", &[(f(3.), f(5.), f(-2.))]);
    check2("mul.rn.f32 d32, a32, b32;", &[(f(3.), f(5.), f(15.)), (0, INF, NAN)]);
    check2("add.rn.f64 d64, a64, b64;", &[(d(0.1), d(0.2), d(0.1 + 0.2))]);
    check2("mul.rp.f64 d64, a64, b64;", &[(d(0.1), d(0.1), d(0.1 * 0.1))]);
    check2("sub.f64 d64, a64, b64;", &[(d(1.), d(3.), d(-2.))]);
}

#[test]
fn fma_rounds_once() {
    let a = 1. + 2f32.powi(-12);
    check3(
        "fma.rn.f32 d32, a32, b32, c32;",
        &[(f(a), f(a), f(-1.), f(libm::fmaf(a, a, -1.))), (f(2.), f(3.), f(4.), f(10.))],
    );
    check3("mad.rn.f32 d32, a32, b32, c32;", &[(f(2.), f(3.), f(4.), f(10.))]);
    let a = 1. + 2f64.powi(-30);
    check3("fma.rn.f64 d64, a64, b64, c64;", &[(d(a), d(a), d(-1.), d(libm::fma(a, a, -1.)))]);
}

#[test]
fn quotients_and_roots() {
    check2(
        "div.rn.f32 d32, a32, b32;",
        &[(f(1.), f(3.), f(1. / 3.)), (f(1.), 0, INF), (0, 0, NAN)],
    );
    check2("div.rz.f32 d32, a32, b32;", &[(f(1.), f(3.), f(1. / 3.) - 1)]);
    check2("div.rn.f64 d64, a64, b64;", &[(d(1.), d(3.), d(1. / 3.))]);
    check2("div.full.f32 d32, a32, b32;", &[(f(6.), f(3.), f(2.))]);
    check2("div.approx.ftz.f32 d32, a32, b32;", &[(f(6.), f(3.), f(2.))]);
    check1("rcp.rn.f32 d32, a32;", &[(f(3.), f(1. / 3.))]);
    check1("rcp.approx.ftz.f32 d32, a32;", &[(f(4.), f(0.25))]);
    check1("sqrt.rn.f32 d32, a32;", &[(f(2.), f(2f32.sqrt())), (f(-1.), NAN), (1 << 31, 1 << 31)]);
    check1("sqrt.rn.f64 d64, a64;", &[(d(2.), d(2f64.sqrt()))]);
    check1("sqrt.approx.f32 d32, a32;", &[(f(4.), f(2.))]);
    check1("rsqrt.approx.f32 d32, a32;", &[(f(4.), f(0.5)), (0, INF)]);
    check1("ex2.approx.f32 d32, a32;", &[(f(10.), f(1024.)), (INF | 1 << 31, 0)]);
    check1("lg2.approx.f32 d32, a32;", &[(f(1024.), f(10.))]);
    check1("sin.approx.f32 d32, a32;", &[(0, 0), (INF, NAN)]);
    check1("cos.approx.ftz.f32 d32, a32;", &[(0, f(1.))]);
    check1("tanh.approx.f32 d32, a32;", &[(INF, f(1.))]);
}

#[test]
fn minimum_and_maximum_drop_nan_unless_told() {
    check2(
        "min.f32 d32, a32, b32;",
        &[(NAN, f(1.), f(1.)), (f(1.), f(2.), f(1.)), (0, 1 << 31, 1 << 31)],
    );
    check2("max.f32 d32, a32, b32;", &[(f(1.), NAN, f(1.)), (1 << 31, 0, 0)]);
    check2("min.NaN.f32 d32, a32, b32;", &[(NAN, f(1.), NAN)]);
    check2("max.ftz.f32 d32, a32, b32;", &[(TINY, 1 << 31, 0)]);
    check2(
        "max.xorsign.abs.f32 d32, a32, b32;",
        &[(f(-3.), f(2.), f(-3.)), (f(-3.), f(-2.), f(3.))],
    );
    check2("max.f64 d64, a64, b64;", &[(d(f64::NAN), d(2.), d(2.))]);
}

#[test]
fn signs_and_classes() {
    check1("abs.f32 d32, a32;", &[(f(-2.), f(2.))]);
    check1("neg.f32 d32, a32;", &[(f(2.), f(-2.)), (0, 1 << 31)]);
    check1("neg.ftz.f32 d32, a32;", &[(TINY, 1 << 31)]);
    check1("neg.f64 d64, a64;", &[(d(2.), d(-2.))]);
    check2("copysign.f32 d32, a32, b32;", &[(f(-1.), f(3.), f(-3.))]);
    check1("testp.finite.f32 pd, a32;", &[(INF, 0), (f(1.), 1), (NAN, 0)]);
    check1("testp.subnormal.f32 pd, a32;", &[(TINY, 1), (f(1.), 0)]);
    check1("testp.infinite.f64 pd, a64;", &[(d(f64::INFINITY), 1), (d(1.), 0)]);
    check1("testp.notanumber.f32 pd, a32;", &[(NAN, 1), (0, 0)]);
}

#[test]
fn comparisons_know_the_unordered() {
    for (name, less, equal, more, nan) in [
        ("eq", 0, 1, 0, 0),
        ("ne", 1, 0, 1, 0),
        ("lt", 1, 0, 0, 0),
        ("ge", 0, 1, 1, 0),
        ("equ", 0, 1, 0, 1),
        ("neu", 1, 0, 1, 1),
        ("ltu", 1, 0, 0, 1),
        ("leu", 1, 1, 0, 1),
        ("gtu", 0, 0, 1, 1),
        ("geu", 0, 1, 1, 1),
        ("num", 1, 1, 1, 0),
        ("nan", 0, 0, 0, 1),
    ] {
        let rows =
            [(f(1.), f(2.), less), (0, 1 << 31, equal), (f(2.), f(1.), more), (NAN, f(1.), nan)];
        check2(&format!("setp.{name}.f32 pd, a32, b32;"), &rows);
        let wide = [
            (d(1.), d(2.), less),
            (0, 1 << 63, equal),
            (d(2.), d(1.), more),
            (d(f64::NAN), 0, nan),
        ];
        check2(&format!("setp.{name}.f64 pd, a64, b64;"), &wide);
        let half =
            [(0x3c00, 0x4000, less), (0, 0x8000, equal), (0x4000, 0x3c00, more), (0x7fff, 0, nan)];
        check2(&format!("setp.{name}.f16 pd, a16, b16;"), &half);
    }
    check2("setp.eq.ftz.f32 pd, a32, b32;", &[(TINY, 0, 1)]);
    check2("setp.eq.f32 pd, a32, b32;", &[(TINY, 0, 0)]);
}

#[test]
fn conversions_from_integers() {
    check1("cvt.rn.f32.s32 d32, a32;", &[(0xffff_ffff, f(-1.)), (0x7fff_ffff, f(2147483648.))]);
    check1("cvt.rn.f32.u32 d32, a32;", &[(0xffff_ffff, f(4294967296.))]);
    check1("cvt.rz.f32.u32 d32, a32;", &[(0xffff_ffff, f(4294967040.))]);
    check1("cvt.rn.f32.u64 d32, a64;", &[(u64::MAX, f(18446744073709551616.))]);
    check1("cvt.rn.f64.s64 d64, a64;", &[(u64::MAX, d(-1.))]);
    check1("cvt.rn.f32.u8 d32, a16;", &[(0x1ff, f(255.))]);
    check1("cvt.rn.f16.u16 d16, a16;", &[(3, 0x4200)]);
    check1("cvt.rn.f32.u16 d32, a16;", &[(0xffff, f(65535.))]);
}

#[test]
fn conversions_to_integers_clamp() {
    check1("cvt.rzi.s32.f32 d32, a32;", &[(f(-1.9), 0xffff_ffff), (f(3e9), 0x7fff_ffff), (NAN, 0)]);
    check1(
        "cvt.rzi.u32.f32 d32, a32;",
        &[(f(-5.), 0), (f(3e9), 3_000_000_000), (INF, 0xffff_ffff)],
    );
    check1(
        "cvt.rni.s32.f32 d32, a32;",
        &[(f(2.5), 2), (f(3.5), 4), (f(-2.5), (-2i32) as u32 as u64)],
    );
    check1("cvt.rmi.s32.f32 d32, a32;", &[(f(-0.5), 0xffff_ffff)]);
    check1("cvt.rpi.s64.f64 d64, a64;", &[(d(1.1), 2)]);
    check1("cvt.rzi.u8.f32 d32, a32;", &[(f(300.), 255), (f(7.9), 7)]);
    check1("cvt.rzi.s8.f32 d32, a32;", &[(f(-300.), 0xffff_ff80)]);
    check1("cvt.rzi.u64.f64 d64, a64;", &[(d(1e30), u64::MAX)]);
    check1("cvt.rzi.s32.f16 d32, a16;", &[(0x4200, 3)]);
}

#[test]
fn conversions_between_formats() {
    check1("cvt.f64.f32 d64, a32;", &[(f(1.5), d(1.5))]);
    check1("cvt.rn.f32.f64 d32, a64;", &[(d(0.1), f(0.1))]);
    check1("cvt.rp.f32.f64 d32, a64;", &[(d(1. + 1e-12), f(1.) + 1)]);
    check1("cvt.f32.f16 d32, a16;", &[(0x3c00, f(1.)), (1, f(2f32.powi(-24)))]);
    check1("cvt.rn.f16.f32 d16, a32;", &[(f(1.), 0x3c00), (f(1e6), 0x7c00), (NAN, 0x7fff)]);
    check1("cvt.f32.bf16 d32, a16;", &[(0x3f80, f(1.))]);
    check1(
        "cvt.rn.bf16.f32 d16, a32;",
        &[(f(1.), 0x3f80), (0x3f80_8000, 0x3f80), (0x3f81_8000, 0x3f82)],
    );
    check1("cvt.rmi.f32.f32 d32, a32;", &[(f(-1.5), f(-2.))]);
    check1("cvt.rzi.f64.f64 d64, a64;", &[(d(-1.5), d(-1.))]);
    check1("cvt.sat.f32.f32 d32, a32;", &[(f(7.), f(1.)), (f(-7.), 0)]);
    check1("cvt.ftz.f32.f32 d32, a32;", &[(TINY, 0)]);
    check2("cvt.rn.f16x2.f32 d32, a32, b32;", &[(f(1.), f(2.), 0x3c00_4000)]);
    check2("cvt.rn.relu.bf16x2.f32 d32, a32, b32;", &[(f(-1.), f(1.), 0x3f80)]);
    check1("cvt.rna.tf32.f32 d32, a32;", &[(0x3f80_1000, 0x3f80_2000)]);
    check2("cvt.rn.satfinite.e4m3x2.f32 d16, a32, b32;", &[(f(1.), f(1e9), 0x387e)]);
    check1("cvt.rn.f16x2.e5m2x2 d32, a16;", &[(0x3c40, 0x3c00_4000)]);
}

#[test]
fn halves_alone_and_in_pairs() {
    check2("add.f16 d16, a16, b16;", &[(0x3c00, 0x3c00, 0x4000), (0x7bff, 0x7bff, 0x7c00)]);
    check2("add.rn.f16x2 d32, a32, b32;", &[(0x3c00_4000, 0x3c00_3c00, 0x4000_4200)]);
    check2("sub.f16x2 d32, a32, b32;", &[(0x3c00_4000, 0x3c00_3c00, 0x3c00)]);
    check2("mul.sat.f16 d16, a16, b16;", &[(0x4000, 0x4000, 0x3c00)]);
    check3("fma.rn.f16 d16, a16, b16, c16;", &[(0x4000, 0x4000, 0x3c00, 0x4500)]);
    check3("fma.rn.relu.f16x2 d32, a32, b32, c32;", &[(0x4000_4000, 0xc000_4000, 0, 0x4400)]);
    check3("fma.rn.bf16 d16, a16, b16, c16;", &[(0x4000, 0x4000, 0x3f80, 0x40a0)]);
    check2("add.bf16x2 d32, a32, b32;", &[(0x3f80_4000, 0x3f80_3f80, 0x4000_4040)]);
    check2("min.f16 d16, a16, b16;", &[(0x7fff, 0x3c00, 0x3c00)]);
    check2("max.NaN.bf16x2 d32, a32, b32;", &[(0x7fff_3f80, 0x3f80_4000, 0x7fff_4000)]);
    check1("neg.f16x2 d32, a32;", &[(0x3c00_8000, 0xbc00_0000)]);
    check1("abs.bf16 d16, a16;", &[(0xbf80, 0x3f80)]);
    check1("ex2.approx.f16 d16, a16;", &[(0x4000, 0x4400)]);
}
