//! Fragments that are loaded, multiplied and stored.

use super::common::{Buffer, HEAD, device, launch};
use super::{bits, decode, encode, small};
use emulator::Device;

/// A kernel that loads fragments of A, B and C, multiplies, and stores D.
fn wmma_kernel(shape: &str, layouts: [&str; 3], formats: [&str; 2], strides: [usize; 3]) -> String {
    let [a, b, c] = layouts;
    let [factor, sum] = formats;
    let (word, counts) = match (factor, shape) {
        ("f64", _) => (64, [1, 1, 2]),
        ("f16", _) => (32, [8, 8, if sum == "f16" { 4 } else { 8 }]),
        ("bf16", "m16n16k16") => (32, [4, 4, 8]),
        ("bf16", _) => (32, [2, 8, 8]),
        ("tf32", _) => (32, [4, 4, 8]),
        ("s8", "m32n8k16") => (32, [4, 1, 8]),
        ("s4" | "b1", _) => (32, [1, 1, 2]),
        other => panic!("{other:?}"),
    };
    let braces = |name: &str, count: usize| {
        let names: Vec<_> = (0..count).map(|index| format!("%{name}{index}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let (op, types) = match factor {
        "f16" => ("wmma.mma".to_owned(), format!("{sum}.{sum}")),
        "b1" => ("wmma.mma.and.popc".to_owned(), "s32.b1.b1.s32".to_owned()),
        _ => ("wmma.mma".to_owned(), format!("{sum}.{factor}.{factor}.{sum}")),
    };
    let [fa, fb] = [braces("a", counts[0]), braces("b", counts[1])];
    let fc = braces("c", counts[2]);
    let [sa, sb, sc] = strides;
    format!(
        "{HEAD}.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)\n{{\n\
         .reg .b{word} %a<8>, %b<8>, %c<8>;\n.reg .b64 %pa, %pb, %pc;\n.reg .b32 %s;\n\
         ld.param.u64 %pa, [pa];\nld.param.u64 %pb, [pb];\nld.param.u64 %pc, [pc];\nmov.u32 %s, {sc};\n\
         wmma.load.a.sync.aligned.{a}.{shape}.global.{factor} {fa}, [%pa], {sa};\n\
         wmma.load.b.sync.aligned.{b}.{shape}.global.{factor} {fb}, [%pb], {sb};\n\
         wmma.load.c.sync.aligned.{c}.{shape}.global.{sum} {fc}, [%pc+16], %s;\n\
         {op}.sync.aligned.{a}.{b}.{shape}.{types} {fc}, {fa}, {fb}, {fc};\n\
         wmma.store.d.sync.aligned.{c}.{shape}.global.{sum} [%pc+16], {fc}, %s;\nret;\n}}\n"
    )
}

/// Bytes of a matrix in memory, with lines (rows or columns) `stride` elements apart.
fn in_memory(
    (rows, columns): (usize, usize),
    layout: &str,
    stride: usize,
    format: &str,
    value: impl Fn(usize, usize) -> i64,
) -> Vec<u8> {
    let (lines, width) = (if layout == "row" { rows } else { columns }, bits(format));
    let mut bytes = vec![0; lines * stride * width / 8];
    for row in 0..rows {
        for column in 0..columns {
            let at = place(layout, stride, row, column) * width;
            let own = encode(format, value(row, column)) << (at % 8);
            for (index, byte) in own.to_le_bytes().iter().enumerate().take(width.div_ceil(8)) {
                bytes[at / 8 + index] |= byte;
            }
        }
    }
    bytes
}

fn place(layout: &str, stride: usize, row: usize, column: usize) -> usize {
    if layout == "row" { row * stride + column } else { column * stride + row }
}

fn check_wmma(device: &Device, shape: &str, layouts: [&str; 3], formats: [&str; 2]) {
    let (m, rest) = shape[1..].split_once('n').unwrap();
    let (n, k) = rest.split_once('k').unwrap();
    let [m, n, k]: [usize; 3] = [m, n, k].map(|word| word.parse().unwrap());
    let across = |layout: &str, rows, columns| if layout == "row" { columns } else { rows };
    let pad = 128 / bits(formats[0]).max(8);
    let pad = if bits(formats[0]) < 8 { 128 } else { pad };
    let strides = [
        across(layouts[0], m, k) + pad,
        across(layouts[1], k, n) + pad,
        across(layouts[2], m, n) + 8,
    ];
    let bit = |own: i64| if formats[0] == "b1" { own & 1 } else { own };
    let a = |row, column| bit(small(row, column, 1, true));
    let b = |row, column| bit(small(row, column, 2, true));
    let c = |row, column| small(row, column, 3, true);
    let left = Buffer::of(device, &in_memory((m, k), layouts[0], strides[0], formats[0], a));
    let right = Buffer::of(device, &in_memory((k, n), layouts[1], strides[1], formats[0], b));
    let mut sums = vec![0xcd; 16];
    sums.extend(in_memory((m, n), layouts[2], strides[2], formats[1], c));
    let out = Buffer::of(device, &sums);
    let text = wmma_kernel(shape, layouts, formats, strides);
    let params = [left.address, right.address, out.address];
    launch(device, &text, "k", [1; 3], [32, 1, 1], &params)
        .unwrap_or_else(|trap| panic!("{shape} {layouts:?} {formats:?}: {trap}"));
    let (found, width) = (out.bytes(), bits(formats[1]) / 8);
    for row in 0..m {
        for column in 0..n {
            let at = 16 + place(layouts[2], strides[2], row, column) * width;
            let own = found[at..at + width].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
            let expected = c(row, column) + (0..k).map(|x| a(row, x) * b(x, column)).sum::<i64>();
            let found = decode(formats[1], own);
            assert_eq!(found, expected, "{shape} {layouts:?} {formats:?} at ({row}, {column})");
        }
    }
}

#[test]
fn fragments_are_loaded_multiplied_and_stored() {
    let device = device();
    for a in ["row", "col"] {
        for b in ["row", "col"] {
            for c in ["row", "col"] {
                for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
                    check_wmma(&device, shape, [a, b, c], ["f16", "f32"]);
                    check_wmma(&device, shape, [a, b, c], ["f16", "f16"]);
                }
                check_wmma(&device, "m16n16k16", [a, b, c], ["bf16", "f32"]);
                check_wmma(&device, "m8n32k16", [a, b, c], ["bf16", "f32"]);
                check_wmma(&device, "m32n8k16", [a, b, c], ["s8", "s32"]);
                check_wmma(&device, "m16n16k8", [a, b, c], ["tf32", "f32"]);
                check_wmma(&device, "m8n8k4", [a, b, c], ["f64", "f64"]);
            }
        }
    }
    for c in ["row", "col"] {
        check_wmma(&device, "m8n8k32", ["row", "col", c], ["s4", "s32"]);
        check_wmma(&device, "m8n8k128", ["row", "col", c], ["b1", "s32"]);
    }
}
