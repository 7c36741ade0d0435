//! Matrix instructions against what an H200 gave for the same operands (`golden/mma_h200.txt`), bit
//! for bit: every `mma`, `wmma` and `wgmma` form, the layouts of fragments, and those of shared
//! memory.

#[path = "../common/mod.rs"]
mod common;
mod inputs;
mod kernels;

use common::{Buffer, device, launch};
use emulator::Device;
use inputs::{KINDS, Operands, fnv, metadata};

const GOLDEN: &str = include_str!("../golden/mma_h200.txt");

/// The lines of one kind of instruction, taken apart.
fn lines(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    GOLDEN
        .lines()
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .filter(move |words| words[0] == kind)
        .map(|words| words[1..].to_vec())
}

fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(words: &str) -> Vec<T> {
    words.split(' ').map(|word| word.parse().unwrap()).collect()
}

fn hashes(words: &str) -> Vec<u64> {
    words.split(' ').map(|word| u64::from_str_radix(word, 16).unwrap()).collect()
}

/// The kinds of operands whose results are not those of the recording.
fn differing(words: &[u32], cases: u64, kind: Option<u64>, expected: &str) -> Vec<u64> {
    let each = words.len() / cases as usize;
    let own = |group: u64| {
        let member = |case: &u64| kind.is_some() || case % KINDS == group;
        let cases = (0..cases).filter(member).map(|case| case as usize);
        fnv(cases.flat_map(|case| words[case * each..(case + 1) * each].iter().copied()))
    };
    let expected = hashes(expected);
    (0..expected.len() as u64).filter(|group| own(*group) != expected[*group as usize]).collect()
}

/// Bytes of words of 32 or 64 bits.
fn bytes(words: &[u64], bits: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()[..bits / 8].to_vec()).collect()
}

/// Results of a form of `mma` or `wmma`, as words.
fn run_mma(
    device: &Device,
    form: &kernels::Mma<'_>,
    operands: &Operands<'_>,
    cases: u64,
) -> Vec<u32> {
    let mut input = Vec::new();
    for case in 0..cases {
        let columns: Vec<Vec<u64>> = (0..3)
            .map(|at| {
                let count = 32 * form.registers[at + 1];
                operands.words(case, at as u64, count, form.formats[at], at == 2)
            })
            .collect();
        let plain = Operands { seed: operands.seed, factor: "int", kind: operands.kind };
        let metadata =
            metadata(&plain.words(case, 3, 32, "int", false), form.text.contains("tf32"));
        for lane in 0..32 {
            for (column, count) in columns.iter().zip(&form.registers[1..]) {
                input.extend(&column[lane * count..(lane + 1) * count]);
            }
            input.extend(form.selector.map(|_| metadata[lane]));
        }
    }
    let input = Buffer::of(device, &bytes(&input, form.bits()));
    let output = Buffer::new(device, cases as usize * 32 * form.registers[0] * form.bits() / 8);
    let params = [input.address, output.address];
    launch(device, &form.kernel(), "k", [cases as u32, 1, 1], [32, 1, 1], &params)
        .unwrap_or_else(|trap| panic!("{}: {trap}", form.text));
    output.u32s()
}

#[test]
fn products_by_a_warp_are_those_of_the_device() {
    let device = device();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines("mma") {
        let [text, registers, formats, selector, kind, cases, expected] = line[..] else {
            panic!("{line:?}")
        };
        let kind: Option<u64> = kind.parse().ok();
        let form = kernels::Mma {
            text,
            registers: numbers(registers).try_into().unwrap(),
            formats: formats.split(' ').collect::<Vec<_>>().try_into().unwrap(),
            selector: selector.parse().ok(),
        };
        let tag = form.selector.map_or(String::new(), |own: u64| format!("e{own}"));
        let kinded = kind.map_or(String::new(), |own| format!("k{own}"));
        let named = [text, &tag, &kinded].concat();
        let seed = fnv(named.bytes().map(u32::from));
        let operands = Operands { seed, factor: form.formats[0], kind };
        let cases = cases.parse().unwrap();
        let words = run_mma(&device, &form, &operands, cases);
        let bad = differing(&words, cases, kind, expected);
        wrong.extend((!bad.is_empty()).then(|| format!("{named}: operands of kinds {bad:?}")));
        count += 1;
    }
    assert!(count > 190, "only {count} forms");
    assert!(wrong.is_empty(), "{} forms differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_wrong_word_is_seen() {
    let words = [1, 2, 3, 4];
    let own = |words: &[u32]| format!("{:016x}", fnv(words.iter().copied()));
    let two = [own(&[1, 2]), own(&[3, 4])].join(" ");
    assert!(differing(&words, 2, None, &two).is_empty());
    assert_eq!(differing(&[1, 2, 3, 5], 2, None, &two), [1]);
    assert_eq!(differing(&words, 2, Some(9), &own(&[1, 2, 4, 3])), [0]);
}

/// The bits of a matrix whose elements are parts of their own indices.
fn indexed(bits: usize, count: usize, plane: usize) -> Vec<u8> {
    let value = |index: usize| (index >> (plane * bits.min(63))) as u64 & (u64::MAX >> (64 - bits));
    if bits >= 8 {
        return (0..count)
            .flat_map(|index| value(index).to_le_bytes()[..bits / 8].to_vec())
            .collect();
    }
    let per_byte = 8 / bits;
    let byte = |first: usize| {
        (0..per_byte).fold(0, |out, part| out | (value(first + part) << (part * bits)) as u8)
    };
    (0..count).step_by(per_byte).map(byte).collect()
}

#[test]
fn fragments_are_laid_out_as_on_the_device() {
    let device = device();
    let mut wrong = Vec::new();
    for line in lines("load") {
        let [text, registers, bits, count, stride, expected] = line[..] else { panic!("{line:?}") };
        let [registers, bits, count, stride] =
            [registers, bits, count, stride].map(|word| word.parse::<usize>().unwrap());
        let planes = match bits {
            8 | 4 => 2,
            1 => 10,
            _ => 1,
        };
        let word_bits = bits.max(32);
        let kernel = kernels::load(text, registers, word_bits, stride);
        let mut words = Vec::new();
        for plane in 0..planes {
            let input = Buffer::of(&device, &indexed(bits, count, plane));
            let output = Buffer::new(&device, 32 * registers * word_bits / 8);
            let params = [input.address, output.address];
            launch(&device, &kernel, "k", [1; 3], [32, 1, 1], &params)
                .unwrap_or_else(|trap| panic!("{text}: {trap}"));
            words.extend(output.u32s());
        }
        wrong.extend((fnv(words) != hashes(expected)[0]).then_some(text));
    }
    assert!(wrong.is_empty(), "{} layouts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tiles_move_as_on_the_device() {
    let device = device();
    let mut count = 0;
    for line in lines("move") {
        let [text, tiles, expected] = line[..] else { panic!("{line:?}") };
        let tiles = tiles.parse().unwrap();
        let input: Vec<u32> = (0..512).map(|i| i * 0x0002_0002 + 0x0001_0000).collect();
        let input = Buffer::of_u32(&device, &input);
        let loads = text.starts_with("ld");
        let output = Buffer::new(&device, if loads { 32 * 4 * tiles } else { 2048 });
        let params = [input.address, output.address];
        launch(&device, &kernels::move_tiles(text, tiles), "k", [1; 3], [32, 1, 1], &params)
            .unwrap_or_else(|trap| panic!("{text}: {trap}"));
        assert_eq!(fnv(output.u32s()), hashes(expected)[0], "{text}");
        count += 1;
    }
    assert_eq!(count, 12);
}

/// A line about `wgmma`.
struct Warpgroup<'a> {
    form: kernels::Wgmma<'a>,
    formats: [&'a str; 3],
    kind: &'a str,
    cases: u64,
    expected: &'a str,
}

impl<'a> Warpgroup<'a> {
    fn new(line: &[&'a str]) -> Self {
        let [
            text,
            results,
            formats,
            a,
            descriptors,
            shared,
            tail,
            adds,
            selector,
            kind,
            cases,
            expected,
        ] = line[..]
        else {
            panic!("{line:?}")
        };
        let form = kernels::Wgmma {
            text,
            results: results.parse().unwrap(),
            a_in_registers: a == "a",
            descriptors: hashes(descriptors).try_into().unwrap(),
            shared_bytes: shared.parse().unwrap(),
            tail: if tail == "-" { "" } else { tail },
            adds: adds == "1",
            selector: selector.parse().ok(),
        };
        let formats = formats.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Self { form, formats, kind, cases: cases.parse().unwrap(), expected }
    }

    fn seed(&self) -> u64 {
        let [a, b] = self.form.descriptors;
        let scales: Vec<&str> = self.form.tail.split(',').take(2).collect();
        let selector = self.form.selector.map_or(String::new(), |own| own.to_string());
        let kind = if self.kind == "-" { "" } else { self.kind };
        let named = format!(
            "{} {a:x},{b:x},{},{},{selector}{kind}",
            self.form.text,
            scales.join(", "),
            u8::from(self.form.adds)
        );
        fnv(named.bytes().map(u32::from))
    }

    /// What a case has in shared memory, and then the registers of each thread.
    fn input(&self, case: u64) -> Vec<u64> {
        if self.kind.starts_with("probe") {
            return probe(self, case);
        }
        let operands =
            Operands { seed: self.seed(), factor: self.formats[0], kind: self.kind.parse().ok() };
        let shared = self.form.shared_bytes / 4;
        let a_words = match self.form.shared_bytes {
            24576 => 2048,
            16384 => 1024,
            _ => shared / 2,
        };
        let mut words = operands.words(case, 0, a_words, self.formats[0], false);
        words.extend(operands.words(case, 1, shared - a_words, self.formats[1], false));
        let sums = operands.words(case, 2, 128 * self.form.results, self.formats[2], true);
        let a = operands.words(case, 3, 128 * self.form.a_registers(), self.formats[0], false);
        let plain = Operands { factor: "int", ..operands };
        let metadata =
            metadata(&plain.words(case, 4, 128, "int", false), self.form.text.contains("tf32"));
        for thread in 0..128 {
            let part =
                |words: &[u64], count: usize| words[thread * count..(thread + 1) * count].to_vec();
            words.extend(part(&sums, self.form.results));
            words.extend(part(&a, self.form.a_registers()));
            words.extend(self.form.selector.map(|_| metadata[thread]));
        }
        words
    }

    fn run(&self, device: &Device) -> Vec<u32> {
        let words: Vec<u64> = (0..self.cases).flat_map(|case| self.input(case)).collect();
        let input = Buffer::of(device, &bytes(&words, 32));
        let output = Buffer::new(device, self.cases as usize * 128 * 4 * self.form.results);
        let [a, b] = self.form.descriptors;
        let params = [input.address, output.address, a, b];
        let grid = [self.cases as u32, 1, 1];
        launch(device, &self.form.kernel(), "k", grid, [128, 1, 1], &params)
            .unwrap_or_else(|trap| panic!("{}: {trap}", self.form.text));
        output.u32s()
    }
}

/// Halves of small integers.
fn half(value: u32) -> u32 {
    match value {
        0 => 0,
        _ => {
            let top = value.ilog2();
            (15 + top) << 10 | (value << (10 - top)) & 0x3ff
        }
    }
}

/// Bytes of the matrix that is read through the other, which is the unit matrix.
const PROBED_BYTES: usize = 45056;

/// A matrix whose elements tell where they lie, by two cases: the low ten bits, and the others.
fn probe(own: &Warpgroup<'_>, case: u64) -> Vec<u64> {
    let mut shared = vec![0; own.form.shared_bytes / 2];
    for (index, element) in shared.iter_mut().enumerate().take(PROBED_BYTES / 2) {
        *element = half(if case == 0 { index as u32 & 1023 } else { index as u32 >> 10 });
    }
    if own.kind == "probeA" {
        for index in 0..16 {
            let at = PROBED_BYTES + index / 8 * (256 + 128) + index % 8 * (16 + 2);
            shared[at / 2] = half(1);
        }
    }
    let mut words: Vec<u64> =
        shared.chunks(2).map(|pair| u64::from(pair[0] | pair[1] << 16)).collect();
    for thread in 0..128 {
        words.extend(std::iter::repeat_n(0, own.form.results));
        if own.kind == "probeB" {
            words.extend((0..4).map(|register| unit(thread % 32, register)));
        }
    }
    words
}

/// A register of a fragment of the unit matrix.
fn unit(lane: usize, register: usize) -> u64 {
    let (row, column) = (lane / 4 + 8 * (register % 2), lane % 4 * 2 + 8 * (register / 2));
    (0..2).map(|part| u64::from(half(u32::from(row == column + part))) << (16 * part)).sum()
}

#[test]
fn products_by_a_warpgroup_are_those_of_the_device() {
    let device = device();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines("wgmma") {
        let own = Warpgroup::new(&line);
        let words = own.run(&device);
        let together = own.kind != "-";
        let bad = differing(&words, own.cases, together.then_some(0), own.expected);
        let what = || format!("{}: operands of kinds {bad:?}", line[..10].join(" "));
        wrong.extend((!bad.is_empty()).then(what));
        count += 1;
    }
    assert!(count > 300, "only {count} forms");
    assert!(wrong.is_empty(), "{} forms differ:\n{}", wrong.len(), wrong.join("\n"));
}
