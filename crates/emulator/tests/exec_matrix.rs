//! Matrix instructions against plain loops over integers, which every format holds exactly.

mod common;

use common::{Buffer, HEAD, device, launch};
use emulator::fault::TrapKind;
use emulator::{Device, LoadError};
use std::fmt::Write;

/// A small number for an element, different enough to tell places apart.
fn small(row: usize, column: usize, salt: usize, signed: bool) -> i64 {
    let own = (row * 7 + column * 3 + salt * 5 + row * column) % 8;
    if signed { own as i64 - 3 } else { own as i64 }
}

/// Bits of a small number in a format.
fn encode(format: &str, value: i64) -> u64 {
    let float = (value as f32).to_bits();
    match format {
        "f64" => (value as f64).to_bits(),
        "f32" | "tf32" => float.into(),
        "bf16" => (float >> 16).into(),
        "f16" if value == 0 => 0,
        "f16" => u64::from(float >> 16 & 0x8000 | ((float >> 13 & 0x3ffff) - (112 << 10)) & 0x7fff),
        "e5m2" => encode("f16", value) >> 8,
        "e4m3" => {
            let half = encode("f16", value);
            if value == 0 { 0 } else { half >> 8 & 0x80 | (((half & 0x7fff) >> 7) - (8 << 3)) }
        }
        _ => value as u64 & (u64::MAX >> (64 - bits(format))),
    }
}

fn bits(format: &str) -> usize {
    match format {
        "b1" => 1,
        "s4" | "u4" => 4,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        "f64" => 64,
        _ => 32,
    }
}

/// The number that bits of a result stand for.
fn decode(format: &str, own: u64) -> i64 {
    match format {
        "f64" => f64::from_bits(own) as i64,
        "f32" => f32::from_bits(own as u32) as i64,
        "f16" if own & 0x7fff == 0 => 0,
        "f16" => {
            let magnitude = ((own as u32 & 0x7fff) + (112 << 10)) << 13;
            f32::from_bits((own as u32 & 0x8000) << 16 | magnitude) as i64
        }
        _ => i64::from(own as u32 as i32),
    }
}

/// A form of `mma`: its text, rows, depth, and the formats of A and B, and of C and D.
struct Form {
    text: String,
    m: usize,
    k: usize,
    factors: [&'static str; 2],
    sum: &'static str,
}

impl Form {
    fn new(shape: &str, factors: [&'static str; 2], sum: &'static str) -> Self {
        let (m, rest) = shape[1..].split_once('n').unwrap();
        let k = rest.split_once('k').unwrap().1;
        let tail = if factors[0] == "b1" { ".and.popc" } else { "" };
        let [a, b] = factors;
        let text = format!("mma.sync.aligned.{shape}.row.col.{sum}.{a}.{b}.{sum}{tail}");
        let [m, k] = [m, k].map(|word| word.parse().unwrap());
        Self { text, m, k, factors, sum }
    }

    fn word(&self) -> usize {
        bits(self.factors[0]).max(32)
    }

    /// Elements of A or B in a word, and of C.
    fn held(&self) -> [usize; 2] {
        let sums = if self.sum == "f16" { 2 } else { 1 };
        [self.word() / bits(self.factors[0]), sums]
    }

    fn a(&self, row: usize, k: usize) -> i64 {
        let signed = !matches!(self.factors[0], "u8" | "u4" | "b1");
        let own = small(row, k, 1, signed);
        if self.factors[0] == "b1" { own & 1 } else { own }
    }

    fn b(&self, k: usize, column: usize) -> i64 {
        let signed = !matches!(self.factors[1], "u8" | "u4" | "b1");
        let own = small(k, column, 2, signed);
        if self.factors[1] == "b1" { own & 1 } else { own }
    }

    fn c(&self, row: usize, column: usize) -> i64 {
        small(row, column, 3, true)
    }

    fn d(&self, row: usize, column: usize) -> i64 {
        self.c(row, column) + (0..self.k).map(|k| self.a(row, k) * self.b(k, column)).sum::<i64>()
    }

    /// Words of A's fragment in a lane, by the figures of the manual.
    fn a_words(&self, lane: usize) -> Vec<u64> {
        let (group, within, held) = (lane / 4, lane % 4, self.held()[0]);
        let mut words = Vec::new();
        for first in (0..self.k).step_by(4 * held) {
            for row in (group..self.m).step_by(8) {
                words.push(self.pack(0, |part| self.a(row, first + within * held + part)));
            }
        }
        words
    }

    fn b_words(&self, lane: usize) -> Vec<u64> {
        let (group, within, held) = (lane / 4, lane % 4, self.held()[0]);
        let firsts = (0..self.k).step_by(4 * held);
        firsts
            .map(|first| self.pack(1, |part| self.b(first + within * held + part, group)))
            .collect()
    }

    fn pack(&self, which: usize, value: impl Fn(usize) -> i64) -> u64 {
        let format = self.factors[which];
        (0..self.held()[0])
            .map(|part| encode(format, value(part)) << (part * bits(format) % 64))
            .sum()
    }

    /// Places of a lane's elements of C and D.
    fn places(&self, lane: usize) -> Vec<(usize, usize)> {
        let (group, within) = (lane / 4, lane % 4);
        (group..self.m)
            .step_by(8)
            .flat_map(|row| [(row, 2 * within), (row, 2 * within + 1)])
            .collect()
    }

    fn c_words(&self, lane: usize) -> Vec<u64> {
        let held = self.held()[1];
        let values: Vec<u64> = self
            .places(lane)
            .iter()
            .map(|(row, column)| encode(self.sum, self.c(*row, *column)))
            .collect();
        values.chunks(held).map(|own| own[0] | own.get(1).map_or(0, |high| high << 16)).collect()
    }

    fn kernel(&self) -> String {
        let counts = [self.a_words(0).len(), self.b_words(0).len(), self.c_words(0).len()];
        let (bits, bytes) = (self.word(), self.word() / 8);
        let total: usize = counts.iter().sum();
        let mut text = format!(
            "{HEAD}.visible .entry k(.param .u64 pi, .param .u64 po)\n{{\n.reg .b32 %t;\n.reg .b64 %i, %o, %x;\n\
             .reg .b{bits} %a<8>, %b<8>, %c<8>, %d<8>;\nld.param.u64 %i, [pi];\nld.param.u64 %o, [po];\n\
             mov.u32 %t, %tid.x;\nmul.wide.u32 %x, %t, {};\nadd.u64 %i, %i, %x;\n\
             mul.wide.u32 %x, %t, {};\nadd.u64 %o, %o, %x;\n",
            total * bytes,
            counts[2] * bytes
        );
        let mut at = 0;
        let mut braces = Vec::new();
        for (name, count) in ["a", "b", "c"].iter().zip(counts) {
            for index in 0..count {
                writeln!(text, "ld.global.b{bits} %{name}{index}, [%i+{at}];").unwrap();
                at += bytes;
            }
            let names: Vec<_> = (0..count).map(|index| format!("%{name}{index}")).collect();
            braces.push(format!("{{{}}}", names.join(",")));
        }
        let results = braces[2].replace('c', "d");
        writeln!(text, "{} {results}, {};", self.text, braces.join(", ")).unwrap();
        for index in 0..counts[2] {
            writeln!(text, "st.global.b{bits} [%o+{}], %d{index};", index * bytes).unwrap();
        }
        text + "ret;\n}\n"
    }

    fn check(&self, device: &Device) {
        let bytes = self.word() / 8;
        let words = (0..32)
            .flat_map(|lane| [self.a_words(lane), self.b_words(lane), self.c_words(lane)].concat());
        let input: Vec<u8> = words.flat_map(|word| word.to_le_bytes()[..bytes].to_vec()).collect();
        let held = self.held()[1];
        let results = self.c_words(0).len();
        let input = Buffer::of(device, &input);
        let output = Buffer::new(device, 32 * results * bytes);
        launch(device, &self.kernel(), "k", [1; 3], [32, 1, 1], &[input.address, output.address])
            .unwrap_or_else(|trap| panic!("{}: {trap}", self.text));
        let found = output.bytes();
        for lane in 0..32 {
            for (index, (row, column)) in self.places(lane).into_iter().enumerate() {
                let at = (lane * results + index / held) * bytes + index % held * 2;
                let size = if held == 2 { 2 } else { bytes };
                let own = found[at..at + size].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
                let expected = self.d(row, column);
                let found = decode(self.sum, own);
                assert_eq!(found, expected, "{} at ({row}, {column})", self.text);
            }
        }
    }
}

#[test]
fn every_shape_multiplies() {
    let mut forms = Vec::new();
    for shape in ["m16n8k8", "m16n8k16"] {
        forms.push(Form::new(shape, ["f16", "f16"], "f16"));
        forms.push(Form::new(shape, ["f16", "f16"], "f32"));
        forms.push(Form::new(shape, ["bf16", "bf16"], "f32"));
    }
    for shape in ["m16n8k4", "m16n8k8"] {
        forms.push(Form::new(shape, ["tf32", "tf32"], "f32"));
    }
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"] {
        forms.push(Form::new(shape, ["f64", "f64"], "f64"));
    }
    for shape in ["m16n8k16", "m16n8k32"] {
        for factors in [["e4m3", "e5m2"], ["e5m2", "e4m3"], ["e4m3", "e4m3"], ["e5m2", "e5m2"]] {
            forms.push(Form::new(shape, factors, "f32"));
            forms.push(Form::new(shape, factors, "f16"));
        }
    }
    for shape in ["m8n8k16", "m16n8k16", "m16n8k32"] {
        for factors in [["s8", "s8"], ["s8", "u8"], ["u8", "s8"], ["u8", "u8"]] {
            forms.push(Form::new(shape, factors, "s32"));
        }
    }
    for shape in ["m8n8k32", "m16n8k32", "m16n8k64"] {
        for factors in [["s4", "s4"], ["s4", "u4"], ["u4", "s4"], ["u4", "u4"]] {
            forms.push(Form::new(shape, factors, "s32"));
        }
    }
    for shape in ["m8n8k128", "m16n8k128", "m16n8k256"] {
        forms.push(Form::new(shape, ["b1", "b1"], "s32"));
    }
    let device = device();
    forms.iter().for_each(|form| form.check(&device));
}

// ---- whole products

fn halves(values: impl Iterator<Item = i64>) -> Vec<u8> {
    values.flat_map(|value| (encode("f16", value) as u16).to_le_bytes()).collect()
}

/// `C = A·B` of 32 × 48 and 48 × 24, f16 to f32: a warp for each tile of 16 × 8, A and B through shared
/// memory in their own orders, by `ldmatrix` and `ldmatrix.trans`.
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

/// `C = A·B` of 64 × 64 and 64 × 64, bf16 to f32, by `wgmma`, both matrices in lines of 128 bytes along
/// `k` whose pieces are permuted. A is given by rows, B by columns.
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
         // Start, leading stride (unused), 1024 bytes from eight rows to the next, lines of 128 bytes.\n\
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

// ---- wmma

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

// ---- what is wrong

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

/// The halves of a warp call one function from two places, and multiply in it together.
#[test]
fn lanes_of_different_calls_multiply_together() {
    let text = format!(
        "{HEAD}.func (.param .b32 result) f(.param .b32 x)\n{{\n.reg .b32 %x, %r;\n.reg .f32 %d<4>;\n\
         ld.param.b32 %x, [x];\n\
         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%d0, %d1, %d2, %d3}}, {{%x, %x, %x, %x}}, {{%x, %x}}, {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};\n\
         mov.b32 %r, %d3;\nst.param.b32 [result], %r;\nret;\n}}\n\
         .visible .entry k(.param .u64 po)\n{{\n.reg .b32 %t, %r;\n.reg .b64 %o, %x;\n.reg .pred %p;\n.reg .f32 %f;\n\
         ld.param.u64 %o, [po];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %x, %t, 4;\nadd.u64 %o, %o, %x;\n\
         setp.lt.u32 %p, %t, 16;\n@%p bra LOW;\n\
         {{ .param .b32 a; .param .b32 b; mov.f32 %f, 0f40000000; st.param.f32 [a], %f; call (b), f, (a); ld.param.b32 %r, [b]; }}\n\
         bra DONE;\nLOW:\n\
         {{ .param .b32 a; .param .b32 b; mov.f32 %f, 0f3f800000; st.param.f32 [a], %f; call (b), f, (a); ld.param.b32 %r, [b]; }}\n\
         DONE:\nst.global.b32 [%o], %r;\nret;\n}}\n"
    );
    let device = device();
    let out = Buffer::new(&device, 128);
    launch(&device, &text, "k", [1; 3], [32, 1, 1], &[out.address]).unwrap();
    // Groups 0 to 3 hold ones, 4 to 7 twos, as rows of A and as columns of B: lane t has row t / 4 + 8
    // and column 2 (t % 4) + 1.
    let side = |index: usize| if index < 4 { 1. } else { 2. };
    let expected: Vec<f32> = (0..32).map(|t| 8. * side(t / 4) * side(t % 4 * 2 + 1)).collect();
    assert_eq!(out.f32s(), expected);
}
