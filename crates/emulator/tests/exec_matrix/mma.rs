//! Every shape and format of `mma`, and lanes that come to it from different calls.

use super::common::{Buffer, HEAD, device, launch};
use super::{bits, decode, encode, small};
use emulator::Device;
use std::fmt::Write;

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
    // Groups 0 to 3 hold ones, 4 to 7 twos, as rows of A and as columns of B: lane t has row t / 4
    // + 8 and column 2 (t % 4) + 1.
    let side = |index: usize| if index < 4 { 1. } else { 2. };
    let expected: Vec<f32> = (0..32).map(|t| 8. * side(t / 4) * side(t % 4 * 2 + 1)).collect();
    assert_eq!(out.f32s(), expected);
}
