//! Integer, logic, shift and selection instructions on edge operands.

mod common;

use common::eval::{check1, check2, check3, eval};

const M32: u64 = 0xffff_ffff;
const MIN32: u64 = 0x8000_0000;
const MIN64: u64 = 1 << 63;

#[test]
fn sums_and_differences_wrap() {
    check2("add.s32 d32, a32, b32;", &[(M32, 1, 0), (0x7fff_ffff, 1, MIN32), (2, 3, 5)]);
    check2("add.u16 d16, a16, b16;", &[(0xffff, 1, 0), (0x1_0001, 2, 3)]);
    check2("add.s64 d64, a64, b64;", &[(u64::MAX, 1, 0), (M32, 1, 1 << 32)]);
    check2("sub.s32 d32, a32, b32;", &[(0, 1, M32), (MIN32, 1, 0x7fff_ffff)]);
    check2("sub.u16 d16, a16, b16;", &[(0, 1, 0xffff)]);
    check2("sub.s64 d64, a64, b64;", &[(0, 1, u64::MAX)]);
    check2("add.sat.s32 d32, a32, b32;", &[(0x7fff_ffff, 1, 0x7fff_ffff), (MIN32, M32, MIN32)]);
    check2("sub.sat.s32 d32, a32, b32;", &[(MIN32, 1, MIN32), (0, MIN32, 0x7fff_ffff)]);
    check2("add.u16x2 d32, a32, b32;", &[(0xffff_ffff, 0x0001_0002, 0x0000_0001)]);
    check2("add.s32 d32, a32, -5;", &[(3, 0, 0xffff_fffe)]);
}

#[test]
fn products_have_two_halves() {
    check2("mul.lo.s32 d32, a32, b32;", &[(0x1_0000, 0x1_0000, 0), (M32, 5, 0xffff_fffb)]);
    check2("mul.hi.u32 d32, a32, b32;", &[(M32, M32, 0xffff_fffe), (0x1_0000, 0x1_0000, 1)]);
    check2("mul.hi.s32 d32, a32, b32;", &[(M32, M32, 0), (MIN32, 2, M32)]);
    check2("mul.hi.u64 d64, a64, b64;", &[(u64::MAX, u64::MAX, u64::MAX - 1)]);
    check2("mul.hi.s64 d64, a64, b64;", &[(u64::MAX, u64::MAX, 0)]);
    check2("mul.hi.u16 d16, a16, b16;", &[(0xffff, 0xffff, 0xfffe)]);
    check2("mul.wide.u16 d32, a16, b16;", &[(0xffff, 0xffff, 0xfffe_0001)]);
    check2("mul.wide.s16 d32, a16, b16;", &[(0xffff, 2, 0xffff_fffe)]);
    check2("mul.wide.u32 d64, a32, b32;", &[(M32, M32, 0xffff_fffe_0000_0001)]);
    check2("mul.wide.s32 d64, a32, b32;", &[(M32, 7, (-7i64) as u64)]);
    check3("mad.lo.s32 d32, a32, b32, c32;", &[(3, 4, 5, 17), (M32, 1, 1, 0)]);
    check3("mad.hi.u32 d32, a32, b32, c32;", &[(M32, M32, 2, 0)]);
    check3(
        "mad.hi.sat.s32 d32, a32, b32, c32;",
        &[(0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff)],
    );
    check3("mad.wide.s32 d64, a32, b32, c64;", &[(M32, 2, 10, 8)]);
    check3("mad.wide.u16 d32, a16, b16, c32;", &[(0xffff, 2, M32, 0x1_fffd)]);
    check2("mul24.lo.u32 d32, a32, b32;", &[(0xff00_0003, 5, 15)]);
    check3("mad24.lo.s32 d32, a32, b32, c32;", &[(0x00ff_ffff, 2, 3, 1)]);
}

#[test]
fn quotients_go_towards_zero() {
    check2(
        "div.s32 d32, a32, b32;",
        &[(-7i32 as u32 as u64, 2, -3i32 as u32 as u64), (MIN32, M32, MIN32)],
    );
    check2(
        "rem.s32 d32, a32, b32;",
        &[(-7i32 as u32 as u64, 2, M32), (7, -2i32 as u32 as u64, 1), (MIN32, M32, 0)],
    );
    check2("div.u64 d64, a64, b64;", &[(u64::MAX, 10, u64::MAX / 10)]);
    check2("rem.u64 d64, a64, b64;", &[(u64::MAX, 10, 5)]);
    check2("div.u16 d16, a16, b16;", &[(0xffff, 0x10, 0xfff)]);
    check2("rem.s64 d64, a64, b64;", &[(-9i64 as u64, 4, -1i64 as u64)]);
}

#[test]
fn order_and_magnitude() {
    check2("min.s32 d32, a32, b32;", &[(M32, 1, M32), (MIN32, 0x7fff_ffff, MIN32)]);
    check2("min.u32 d32, a32, b32;", &[(M32, 1, 1)]);
    check2("max.s64 d64, a64, b64;", &[(u64::MAX, 1, 1)]);
    check2("max.u16 d16, a16, b16;", &[(0xffff, 1, 0xffff)]);
    check2("max.s16 d16, a16, b16;", &[(0xffff, 1, 1)]);
    check2("min.s16x2 d32, a32, b32;", &[(0xffff_0005, 0x0001_0003, 0xffff_0003)]);
    check2("max.relu.s32 d32, a32, b32;", &[(M32, MIN32, 0), (3, M32, 3)]);
    check1("abs.s32 d32, a32;", &[(M32, 1), (MIN32, MIN32), (5, 5)]);
    check1("abs.s64 d64, a64;", &[(u64::MAX, 1), (MIN64, MIN64)]);
    check1("neg.s32 d32, a32;", &[(1, M32), (MIN32, MIN32)]);
    check1("neg.s16 d16, a16;", &[(1, 0xffff)]);
    check3("sad.u32 d32, a32, b32, c32;", &[(3, 10, 1, 8)]);
    check3("sad.s32 d32, a32, b32, c32;", &[(M32, 1, 0, 2)]);
}

#[test]
fn carries_run_through_a_chain() {
    let body = "add.cc.u32 e32, a32, b32; addc.u32 d32, c32, 0;";
    check3(body, &[(M32, 1, 7, 8), (M32, 0, 7, 7)]);
    let body = "sub.cc.u32 e32, a32, b32; subc.u32 d32, c32, 0;";
    check3(body, &[(0, 1, 7, 6), (1, 1, 7, 7)]);
    let body = "add.cc.u64 e64, a64, b64; addc.cc.u64 e64, c64, -1; addc.u64 d64, 0, 0;";
    check3(body, &[(u64::MAX, 1, 0, 1), (1, 1, 0, 0), (1, 1, 1, 1)]);
    let body = "mad.lo.cc.u32 e32, a32, b32, c32; madc.hi.u32 d32, a32, b32, 0;";
    check3(body, &[(M32, M32, M32, 0xffff_ffff), (2, 3, 4, 0)]);
}

#[test]
fn logic_is_bitwise() {
    check2("and.b32 d32, a32, b32;", &[(0xff0f, 0x0ff0, 0x0f00)]);
    check2("or.b64 d64, a64, b64;", &[(1 << 63, 1, 1 << 63 | 1)]);
    check2("xor.b16 d16, a16, b16;", &[(0xffff, 0x0ff0, 0xf00f)]);
    check1("not.b16 d16, a16;", &[(0, 0xffff)]);
    check1("cnot.b32 d32, a32;", &[(0, 1), (9, 0)]);
    for (name, table) in [("and", [0, 0, 0, 1]), ("or", [0, 1, 1, 1]), ("xor", [0, 1, 1, 0])] {
        let rows = [(0, 0, table[0]), (0, 1, table[1]), (1, 0, table[2]), (1, 1, table[3])];
        check2(&format!("{name}.pred pd, pa, pb;"), &rows);
    }
    check1("not.pred pd, pa;", &[(0, 1), (1, 0)]);
    check1("mov.pred pd, pa;", &[(0, 0), (1, 1)]);
    check1("xor.pred pd, pa, -1;", &[(0, 1), (1, 0)]);
    check3("lop3.b32 d32, a32, b32, c32, 0x96;", &[(0xf0, 0xcc, 0xaa, 0x96)]);
    check3("lop3.b32 d32, a32, b32, c32, 0xe8;", &[(0xf0, 0xcc, 0xaa, 0xe8)]);
}

#[test]
fn shifts_clamp() {
    check2("shl.b32 d32, a32, b32;", &[(1, 31, MIN32), (1, 32, 0), (1, 1000, 0)]);
    check2("shl.b64 d64, a64, b32;", &[(1, 63, MIN64), (1, 64, 0)]);
    check2("shl.b16 d16, a16, b32;", &[(1, 15, 0x8000), (1, 16, 0)]);
    check2("shr.u32 d32, a32, b32;", &[(MIN32, 31, 1), (MIN32, 32, 0)]);
    check2("shr.s32 d32, a32, b32;", &[(MIN32, 31, M32), (MIN32, 1000, M32), (4, 1, 2)]);
    check2("shr.s64 d64, a64, b32;", &[(MIN64, 100, u64::MAX)]);
    check2("shr.s16 d16, a16, b32;", &[(0x8000, 3, 0xf000)]);
    check3("shf.l.wrap.b32 d32, a32, b32, c32;", &[(0x8000_0000, 1, 1, 3), (5, 6, 32, 6)]);
    check3("shf.l.clamp.b32 d32, a32, b32, c32;", &[(5, 6, 33, 5)]);
    check3("shf.r.wrap.b32 d32, a32, b32, c32;", &[(2, 1, 1, 0x8000_0001)]);
    check3("shf.r.clamp.b32 d32, a32, b32, c32;", &[(2, 1, 99, 1)]);
}

#[test]
fn fields_and_counts() {
    check3(
        "bfe.u32 d32, a32, b32, c32;",
        &[(0xabcd, 4, 8, 0xbc), (M32, 28, 8, 0xf), (M32, 0, 0, 0)],
    );
    check3("bfe.s32 d32, a32, b32, c32;", &[(0xabcd, 4, 8, 0xffff_ffbc)]);
    check3("bfe.u64 d64, a64, b32, c32;", &[(0xabcd << 32, 36, 8, 0xbc)]);
    check3("bfi.b32 d32, a32, b32, c32, 8;", &[(0xff, 0, 4, 0xff0)]);
    check3("bfi.b64 d64, a64, b64, c32, 8;", &[(0xff, 0, 60, 0xf << 60)]);
    check1("popc.b32 d32, a32;", &[(M32, 32), (0, 0), (0x101, 2)]);
    check1("popc.b64 d32, a64;", &[(u64::MAX, 64)]);
    check1("clz.b32 d32, a32;", &[(0, 32), (1, 31)]);
    check1("clz.b64 d32, a64;", &[(0, 64), (1, 63)]);
    check1("brev.b32 d32, a32;", &[(1, MIN32)]);
    check1("brev.b64 d64, a64;", &[(1, MIN64)]);
    check1("bfind.u32 d32, a32;", &[(0, M32), (0x80, 7)]);
    check1("bfind.s32 d32, a32;", &[(M32, M32), (0xffff_ff00, 7)]);
    check1("bfind.shiftamt.u32 d32, a32;", &[(0x80, 24)]);
    check3("prmt.b32 d32, a32, b32, c32;", &[(0x3322_1100, 0x7766_5544, 0x7065, 0x7700_6655)]);
    check2("prmt.b32 d32, a32, b32, 0x5410;", &[(0x1111_2222, 0x3333_4444, 0x4444_2222)]);
    check2("bmsk.clamp.b32 d32, a32, b32;", &[(4, 8, 0xff0)]);
    check2("szext.wrap.s32 d32, a32, b32;", &[(0x80, 8, 0xffff_ff80)]);
    check3("fns.b32 d32, a32, b32, c32;", &[(0b1010, 0, 2, 3)]);
    check3("dp4a.s32.s32 d32, a32, b32, c32;", &[(0x0102_03ff, 0x0101_0101, 10, 15)]);
    check3("dp4a.u32.u32 d32, a32, b32, c32;", &[(0x0102_03ff, 0x0101_0101, 10, 271)]);
    check3("dp2a.lo.u32.u32 d32, a32, b32, c32;", &[(0x0002_0003, 0x0000_0504, 1, 23)]);
}

#[test]
fn comparisons_of_integers() {
    check2("setp.lt.s32 pd, a32, b32;", &[(M32, 0, 1), (0, M32, 0), (5, 5, 0)]);
    check2("setp.lt.u32 pd, a32, b32;", &[(M32, 0, 0), (0, M32, 1)]);
    check2("setp.hs.u32 pd, a32, b32;", &[(M32, 0, 1), (3, 3, 1), (2, 3, 0)]);
    check2("setp.ge.s64 pd, a64, b64;", &[(u64::MAX, 0, 0), (1, 1, 1)]);
    check2("setp.eq.b16 pd, a16, b16;", &[(0x1_0005, 5, 1)]);
    check2("setp.gt.s16 pd, a16, b16;", &[(0xffff, 1, 0)]);
    check2("setp.ne.b64 pd, a64, b64;", &[(1 << 40, 0, 1)]);
    check2("setp.lt.s32 pe|pd, a32, b32;", &[(M32, 0, 0), (0, M32, 1)]);
    check3("setp.lt.and.s32 pd, a32, b32, pc;", &[(0, 1, 1, 1), (0, 1, 0, 0), (1, 0, 1, 0)]);
    check3("setp.lt.or.s32 pd, a32, b32, !pc;", &[(0, 1, 1, 1), (1, 0, 1, 0), (1, 0, 0, 1)]);
    check3("setp.lt.xor.s32 pd, a32, b32, pc;", &[(0, 1, 1, 0), (1, 0, 1, 1)]);
    check2("set.lt.u32.s32 d32, a32, b32;", &[(M32, 0, M32), (0, 0, 0)]);
    check2("set.eq.f32.u32 d32, a32, b32;", &[(4, 4, 0x3f80_0000), (4, 5, 0)]);
    check3("selp.b32 d32, a32, b32, pc;", &[(7, 9, 1, 7), (7, 9, 0, 9)]);
    check3("selp.b64 d64, a64, b64, pc;", &[(1 << 40, 9, 1, 1 << 40)]);
    check3("selp.b16 d16, a16, b16, pc;", &[(7, 9, 0, 9)]);
    check3("slct.b32.s32 d32, a32, b32, c32;", &[(7, 9, 0, 7), (7, 9, M32, 9)]);
    check3(
        "slct.u64.f32 d64, a64, b64, c32;",
        &[(7, 9, 0x8000_0000, 7), (7, 9, 0xbf80_0000, 9), (7, 9, 0x7fc0_0000, 9)],
    );
}

#[test]
fn moves_pack_and_unpack() {
    check2("mov.b64 d64, {a32, b32};", &[(1, 2, 2 << 32 | 1)]);
    check1("mov.b64 {_, d32}, a64;", &[(7 << 32 | 3, 7)]);
    check1("mov.b64 {d32, e32}, a64;", &[(7 << 32 | 3, 3)]);
    check2("mov.b32 d32, {a16, b16};", &[(0x1234, 0xabcd, 0xabcd_1234)]);
    check1("mov.b32 {e16, d16}, a32;", &[(0xabcd_1234, 0xabcd)]);
    check1(
        "{ .reg .b16 x, y, z, w; mov.b64 {x, y, z, w}, a64; mov.b64 d64, {w, z, y, x}; }",
        &[(0x1111_2222_3333_4444, 0x4444_3333_2222_1111)],
    );
    // A part may be the whole's own register.
    check1(
        "mov.b64 a64, a64; mov.b64 {a32, e32}, a64; add.s32 d32, a32, e32;",
        &[(5 << 32 | 6, 11)],
    );
    check1("mov.b32 d32, 0f3F800000;", &[(0, 0x3f80_0000)]);
    check1("mov.u32 d32, WARP_SZ;", &[(0, 32)]);
    check1("mov.b16 d16, -1;", &[(0, 0xffff)]);
}

#[test]
fn guards_leave_other_lanes_alone() {
    let body = "mov.b32 d32, 5; @pa mov.b32 d32, 6; @!pa add.s32 d32, d32, 10;";
    check1(body, &[(0, 15), (1, 6), (2, 15), (3, 6)]);
}

#[test]
fn integer_conversions() {
    check1("cvt.u64.u32 d64, a32;", &[(M32, M32)]);
    check1("cvt.s64.s32 d64, a32;", &[(M32, u64::MAX)]);
    check1("cvt.s32.s8 d32, a32;", &[(0x80, 0xffff_ff80), (0x17f, 0x7f)]);
    check1("cvt.u32.u8 d32, a16;", &[(0x1ff, 0xff)]);
    check1("cvt.s16.s8 d16, a16;", &[(0x80, 0xff80)]);
    check1("cvt.u16.u64 d16, a64;", &[(0x1_2345, 0x2345)]);
    check1("cvt.s8.s32 d32, a32;", &[(0x80, 0xffff_ff80)]);
    check1("cvt.u8.u32 d16, a32;", &[(0x1ff, 0xff)]);
    check1("cvt.s8.s64 d64, a64;", &[(0x80, (-128i64) as u64)]);
    check1("cvt.sat.u8.s32 d32, a32;", &[(M32, 0), (300, 255), (77, 77)]);
    check1("cvt.sat.s8.s32 d32, a32;", &[(1000, 127), (-1000i32 as u32 as u64, 0xffff_ff80)]);
    check1("cvt.sat.u32.s64 d32, a64;", &[(u64::MAX, 0), (1 << 40, M32)]);
    check1("cvt.sat.s32.u64 d32, a64;", &[(u64::MAX, 0x7fff_ffff)]);
}

#[test]
fn partial_warps_compute_like_full_ones() {
    let rows: Vec<[u64; 3]> = (0..77).map(|i| [i * 0x9e37_79b9, i ^ 0x55, i % 40]).collect();
    let expected: Vec<u64> = rows
        .iter()
        .map(|[a, b, c]| {
            u64::from((*a as u32).wrapping_mul(*b as u32).checked_shr(*c as u32).unwrap_or(0))
        })
        .collect();
    assert_eq!(eval("mul.lo.u32 e32, a32, b32; shr.u32 d32, e32, c32;", &rows), expected);
}
