//! Whole products, by warps and by warpgroups.

use super::common::{Buffer, HEAD, device, launch};
use super::{encode, small};
use std::fmt::Write;

fn halves(values: impl Iterator<Item = i64>) -> Vec<u8> {
    values.flat_map(|value| (encode("f16", value) as u16).to_le_bytes()).collect()
}

/// `C = A·B` of 32 × 48 and 48 × 24, f16 to f32: a warp for each tile of 16 × 8, A and B through
/// shared memory in their own orders, by `ldmatrix` and `ldmatrix.trans`.
const GEMM: &str = "
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)
{
.shared .align 16 .b8 sa[512];
.shared .align 16 .b8 sb[256];
.reg .b32 %t, %m, %n, %k, %u, %v, %w, %s, %a<4>, %b<2>;
.reg .f32 %d<4>;
.reg .b64 %pa, %pb, %pc, %x;
.reg .b64 %wide;
.reg .pred %p;
ld.param.u64 %pa, [pa];
ld.param.u64 %pb, [pb];
ld.param.u64 %pc, [pc];
mov.u32 %t, %tid.x;
mov.u32 %m, %ctaid.y;
mov.u32 %n, %ctaid.x;
mov.f32 %d0, 0f00000000;
mov.f32 %d1, 0f00000000;
mov.f32 %d2, 0f00000000;
mov.f32 %d3, 0f00000000;
mov.u32 %k, 0;
LOOP:
// A: lane t copies 16 bytes: row t / 2, half t % 2 of its 16 columns.
shr.u32 %u, %t, 1;
mad.lo.u32 %u, %m, 16, %u;
mul.lo.u32 %u, %u, 96;
and.b32 %v, %t, 1;
mad.lo.u32 %u, %v, 16, %u;
mad.lo.u32 %u, %k, 32, %u;
cvt.u64.u32 %x, %u;
add.u64 %x, %pa, %x;
mov.u32 %s, sa;
mad.lo.u32 %s, %t, 16, %s;
.reg .b32 %q<4>;
ld.global.v4.b32 {%q0, %q1, %q2, %q3}, [%x];
st.shared.v4.b32 [%s], {%q0, %q1, %q2, %q3};
// B: lanes 0 to 15 copy a row of 8.
mad.lo.u32 %u, %k, 16, %t;
mul.lo.u32 %u, %u, 48;
mad.lo.u32 %u, %n, 16, %u;
setp.lt.u32 %p, %t, 16;
cvt.u64.u32 %x, %u;
add.u64 %x, %pb, %x;
mov.u32 %s, sb;
mad.lo.u32 %s, %t, 16, %s;
@%p ld.global.v4.b32 {%q0, %q1, %q2, %q3}, [%x];
@%p st.shared.v4.b32 [%s], {%q0, %q1, %q2, %q3};
bar.warp.sync 0xffffffff;
// A's tiles: rows 0-7, 8-15 of the first 8 columns, then of the others.
and.b32 %u, %t, 15;
shr.u32 %v, %t, 4;
mul.lo.u32 %u, %u, 32;
mad.lo.u32 %u, %v, 16, %u;
mov.u32 %s, sa;
add.u32 %s, %s, %u;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, [%s];
and.b32 %u, %t, 15;
mov.u32 %s, sb;
mad.lo.u32 %s, %u, 16, %s;
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%b0, %b1}, [%s];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%d0, %d1, %d2, %d3};
bar.warp.sync 0xffffffff;
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, 3;
@%p bra LOOP;
shr.u32 %u, %t, 2;
mad.lo.u32 %u, %m, 16, %u;
mul.lo.u32 %u, %u, 24;
and.b32 %v, %t, 3;
mad.lo.u32 %u, %v, 2, %u;
mad.lo.u32 %u, %n, 8, %u;
mul.wide.u32 %x, %u, 4;
add.u64 %x, %pc, %x;
st.global.v2.f32 [%x], {%d0, %d1};
st.global.v2.f32 [%x+768], {%d2, %d3};
ret;
}
";

#[test]
fn a_product_by_ldmatrix_and_mma() {
    let device = device();
    let (m, n, k) = (32, 24, 48);
    let a = |row, column| small(row, column, 1, true);
    let b = |row, column| small(row, column, 2, true);
    let left = Buffer::of(&device, &halves((0..m * k).map(|i| a(i / k, i % k))));
    let right = Buffer::of(&device, &halves((0..k * n).map(|i| b(i / n, i % n))));
    let out = Buffer::new(&device, m * n * 4);
    let params = [left.address, right.address, out.address];
    launch(&device, &[HEAD, GEMM].concat(), "k", [3, 2, 1], [32, 1, 1], &params).unwrap();
    for (i, found) in out.f32s().into_iter().enumerate() {
        let expected: i64 = (0..k).map(|x| a(i / n, x) * b(x, i % n)).sum();
        assert_eq!(found, expected as f32, "at {i}");
    }
}

/// `C = A·B` of 64 × 64 and 64 × 64, bf16 to f32, by `wgmma`, both matrices in lines of 128 bytes
/// along `k` whose pieces are permuted. A is given by rows, B by columns.
fn wgmma_gemm() -> String {
    let list = |name: &str| -> String {
        let names: Vec<_> = (0..32).map(|index| format!("%{name}{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let mut text = format!(
        "{HEAD}.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)\n{{\n\
         .shared .align 1024 .b8 tiles[16384];\n.reg .b32 %t, %i, %u, %v, %s, %q<4>;\n.reg .f32 %d<32>;\n\
         .reg .b64 %pa, %pb, %pc, %x, %da, %db;\n.reg .pred %p;\n\
         ld.param.u64 %pa, [pa];\nld.param.u64 %pb, [pb];\nld.param.u64 %pc, [pc];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %i, %t;\n\
         FILL:\n\
         // Piece i of 16 bytes belongs at line i / 8, at the piece i ^ line of eight.\n\
         shr.u32 %u, %i, 3;\nxor.b32 %u, %u, %i;\nand.b32 %u, %u, 7;\nand.b32 %v, %i, 0xfffffff8;\n\
         or.b32 %u, %u, %v;\nshl.b32 %u, %u, 4;\nmov.u32 %s, tiles;\nadd.u32 %s, %s, %u;\n\
         mul.wide.u32 %x, %i, 16;\nadd.u64 %x, %pa, %x;\n\
         ld.global.v4.b32 {{%q0, %q1, %q2, %q3}}, [%x];\nst.shared.v4.b32 [%s], {{%q0, %q1, %q2, %q3}};\n\
         mul.wide.u32 %x, %i, 16;\nadd.u64 %x, %pb, %x;\n\
         ld.global.v4.b32 {{%q0, %q1, %q2, %q3}}, [%x];\nst.shared.v4.b32 [%s+8192], {{%q0, %q1, %q2, %q3}};\n\
         add.u32 %i, %i, 128;\nsetp.lt.u32 %p, %i, 512;\n@%p bra FILL;\n\
         bar.sync 0;\n\
         // Start, leading stride (unused), 1024 bytes from eight rows to the next, lines of 128
         // bytes.\n\
         mov.u32 %s, tiles;\nshr.u32 %s, %s, 4;\ncvt.u64.u32 %x, %s;\n\
         or.b64 %da, %x, {:#x};\nadd.u64 %db, %da, 512;\n",
        1u64 << 62 | 64 << 32 | 1 << 16
    );
    (0..32).for_each(|index| writeln!(text, "mov.f32 %d{index}, 0f7fc00000;").unwrap());
    text += "wgmma.fence.sync.aligned;\n";
    for step in 0..4 {
        let adds = u32::from(step > 0);
        writeln!(
            text,
            "setp.ne.u32 %p, {adds}, 0;\n\
             wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {}, %da, %db, %p, 1, 1, 0, 0;\n\
             add.u64 %da, %da, 2;\nadd.u64 %db, %db, 2;",
            list("d")
        )
        .unwrap();
    }
    text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
             shr.u32 %u, %t, 5;\nshl.b32 %u, %u, 4;\nshr.u32 %v, %t, 2;\nand.b32 %v, %v, 7;\nadd.u32 %u, %u, %v;\n\
             shl.b32 %u, %u, 6;\nand.b32 %v, %t, 3;\nmad.lo.u32 %u, %v, 2, %u;\n\
             mul.wide.u32 %x, %u, 4;\nadd.u64 %pc, %pc, %x;\n";
    for tile in 0..8 {
        let d = |index: usize| 4 * tile + index;
        writeln!(
            text,
            "st.global.v2.f32 [%pc+{}], {{%d{}, %d{}}};\nst.global.v2.f32 [%pc+{}], {{%d{}, %d{}}};",
            32 * tile,
            d(0),
            d(1),
            32 * tile + 2048,
            d(2),
            d(3)
        )
        .unwrap();
    }
    text + "ret;\n}\n"
}

#[test]
fn a_product_by_wgmma_from_permuted_lines() {
    let device = device();
    let bf16 = |value: i64| ((value as f32).to_bits() >> 16) as u16;
    let matrix = |salt: usize| -> Vec<u8> {
        (0..4096).flat_map(|i| bf16(small(i / 64, i % 64, salt, true)).to_le_bytes()).collect()
    };
    let (a, b) = (Buffer::of(&device, &matrix(1)), Buffer::of(&device, &matrix(2)));
    let out = Buffer::new(&device, 4096 * 4);
    let params = [a.address, b.address, out.address];
    launch(&device, &wgmma_gemm(), "k", [1; 3], [128, 1, 1], &params).unwrap();
    for (i, found) in out.f32s().into_iter().enumerate() {
        let product = |k| small(i / 64, k, 1, true) * small(i % 64, k, 2, true);
        assert_eq!(found, (0..64).map(product).sum::<i64>() as f32, "at {i}");
    }
}
