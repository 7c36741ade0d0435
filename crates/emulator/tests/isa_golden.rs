//! Single instructions against what an H200 gave for the same operands (`golden/h200.txt`).

mod common;

#[path = "common/approximate.rs"]
mod approximate;

use common::device;
use emulator::{Device, Launch, LoadError};
use std::collections::HashMap;
use std::fmt::Write;

/// The operands of one kind.
struct Kind {
    bits: usize,
    values: Vec<u64>,
}

/// One instruction of the file.
struct Case<'t> {
    exact: bool,
    text: &'t str,
    result: &'t Kind,
    predicate: bool,
    operands: Vec<&'t Kind>,
    expected: Vec<u64>,
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word, 16).unwrap()
}

fn kinds(file: &str) -> HashMap<&str, Kind> {
    let kind = |line: &'_ str| -> (usize, Vec<u64>) {
        let mut words = line.split_whitespace().skip(1);
        (words.next().unwrap().parse().unwrap(), words.map(hex).collect())
    };
    file.lines()
        .filter_map(|line| line.strip_prefix("@ "))
        .map(|line| {
            let (bits, values) = kind(line);
            (line.split_whitespace().next().unwrap(), Kind { bits, values })
        })
        .collect()
}

fn case<'t>(line: &'t str, kinds: &'t HashMap<&str, Kind>) -> Option<Case<'t>> {
    let (mark, rest) = line.split_at_checked(2)?;
    let exact = match mark {
        "= " => true,
        "~ " => false,
        _ => return None,
    };
    let [text, result, operands, expected] =
        rest.split(" | ").collect::<Vec<_>>().try_into().ok()?;
    Some(Case {
        exact,
        text,
        result: &kinds[result],
        predicate: result == "p",
        operands: operands.split_whitespace().map(|name| &kinds[name]).collect(),
        expected: expected.split_whitespace().map(hex).collect(),
    })
}

impl Case<'_> {
    /// All operands of each launch thread, the last operand varying fastest.
    fn rows(&self) -> Vec<Vec<u64>> {
        let limit = [99, 12, 6][self.operands.len() - 1];
        self.operands.iter().fold(vec![vec![]], |rows, kind| {
            let extend = |row: &Vec<u64>| {
                let values = kind.values.iter().take(limit);
                values.map(|value| [row.as_slice(), &[*value]].concat()).collect::<Vec<_>>()
            };
            rows.iter().flat_map(extend).collect()
        })
    }

    /// A kernel whose thread `i` applies the instruction to row `i`.
    fn kernel(&self) -> String {
        let mut body = self.text.replace("$d", "%d").replace("$p", "%p");
        let mut text = String::from(
            ".version 8.0\n.target sm_90\n.address_size 64\n\
             .visible .entry k(.param .u64 po, .param .u64 pa, .param .u64 pb, .param .u64 pc)\n{\n\
             .reg .pred %p;\n.reg .b32 %t;\n.reg .b64 %q, %o;\nmov.u32 %t, %tid.x;\n",
        );
        writeln!(text, ".reg .b{} %d;", self.result.bits).unwrap();
        for (name, kind) in ["a", "b", "c"].iter().zip(&self.operands) {
            let (bits, bytes) = (kind.bits, kind.bits / 8);
            body = body.replace(&format!("${name}"), &format!("%{name}"));
            writeln!(
                text,
                ".reg .b{bits} %{name};\nld.param.u64 %q, [p{name}];\nmul.wide.u32 %o, %t, {bytes};\n\
                 add.s64 %q, %q, %o;\nld.global.b{bits} %{name}, [%q];"
            )
            .unwrap();
        }
        let end = if body.ends_with('}') { "" } else { ";" };
        let select = if self.predicate { "selp.b32 %d, 1, 0, %p;" } else { "" };
        let (bits, bytes) = (self.result.bits, self.result.bits / 8);
        writeln!(
            text,
            "{body}{end}\n{select}\nld.param.u64 %q, [po];\nmul.wide.u32 %o, %t, {bytes};\n\
             add.s64 %q, %q, %o;\nst.global.b{bits} [%q], %d;\nret;\n}}"
        )
        .unwrap();
        text
    }

    fn run(&self, device: &Device) -> Result<Vec<u64>, LoadError> {
        let module = device.load(&self.kernel())?;
        let function = module.function("k").unwrap();
        let rows = self.rows();
        assert_eq!(rows.len(), self.expected.len(), "{}", self.text);
        let columns = self.operands.iter().enumerate().map(|(index, kind)| {
            let bytes =
                rows.iter().flat_map(|row| row[index].to_le_bytes()[..kind.bits / 8].to_vec());
            store(device, &bytes.collect::<Vec<_>>())
        });
        let width = self.result.bits / 8;
        let out = store(device, &vec![0xcd; rows.len() * width]);
        let addresses: Vec<u64> = std::iter::once(out).chain(columns).collect();
        let params: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
        let block = [rows.len() as u32, 1, 1];
        let launch = Launch { grid: [1; 3], block, params: &params, ..Launch::new(&function) };
        device.launch(&launch).unwrap_or_else(|trap| panic!("{}: {trap}", self.text));
        let mut bytes = vec![0; rows.len() * width];
        device.memory().read(out, &mut bytes).unwrap();
        addresses.into_iter().for_each(|address| device.memory().free(address).unwrap());
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(width).map(number).collect())
    }

    /// Rows whose result is not what the device gave.
    fn differences(&self, got: &[u64]) -> Vec<String> {
        let rows = self.rows();
        let compared = rows.iter().zip(got.iter().zip(&self.expected));
        let wrong = compared.filter(|(row, (got, expected))| !self.agree(row, **got, **expected));
        wrong
            .map(|(row, (got, expected))| {
                format!("{} of {row:x?}: {got:x}, on the device {expected:x}", self.text)
            })
            .collect()
    }

    fn agree(&self, row: &[u64], got: u64, expected: u64) -> bool {
        let near = || approximate::error(self.text, row[0], got, expected).is_some();
        got == expected || (!self.exact && near())
    }
}

fn store(device: &Device, bytes: &[u8]) -> u64 {
    let address = device.memory().alloc(bytes.len() as u64).unwrap();
    device.memory().write(address, bytes).unwrap();
    address
}

/// The first of an instruction's differences, and how many there are.
fn summary(differences: &[String]) -> Option<String> {
    let first = differences.first()?;
    Some(format!("{} times: {first}", differences.len()))
}

#[test]
fn instructions_give_what_the_device_gave() {
    let file = include_str!("golden/h200.txt");
    let kinds = kinds(file);
    let device = device();
    let cases: Vec<Case> = file.lines().filter_map(|line| case(line, &kinds)).collect();
    assert!(cases.len() > 800, "only {} cases", cases.len());
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    for case in &cases {
        match case.run(&device) {
            Ok(got) => wrong.extend(summary(&case.differences(&got))),
            Err(LoadError::UnknownInstruction { .. }) => unknown.push(case.text),
            Err(error) => panic!("{}: {error}", case.text),
        }
    }
    assert!(wrong.is_empty(), "{} instructions differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(unknown.is_empty(), "not known: {unknown:?}");
}

#[test]
fn a_wrong_result_is_seen() {
    let kinds = HashMap::from([("f32", Kind { bits: 32, values: vec![0x3f80_0000] })]);
    for line in [
        "= neg.f32 $d, $a | f32 | f32 | bf800001",
        "~ rcp.approx.f32 $d, $a | f32 | f32 | 3f800040",
    ] {
        let case = case(line, &kinds).unwrap();
        assert_eq!(case.differences(&[0xbf80_0000]).len(), 1);
        assert!(case.differences(&case.expected).is_empty());
    }
}
