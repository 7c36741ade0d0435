//! The kernels that the recording ran, one for each line.

use super::common::HEAD;
use std::fmt::Write;

/// A form of `mma` or `wmma`.
pub struct Mma<'a> {
    pub text: &'a str,
    /// Of D, A, B and C.
    pub registers: [usize; 4],
    /// Of A, B and C.
    pub formats: [&'a str; 3],
    /// Of a sparse A.
    pub selector: Option<u64>,
}

/// `{%a0, %a1}`
fn braces(name: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|index| format!("%{name}{index}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A kernel of two addresses, `%i` and `%o`, and the thread's number `%t`.
fn kernel(more_params: &str, body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 pi, .param .u64 po{more_params})\n{{\n\
         .reg .b32 %t, %u, %v, %w, %s, %e;\n.reg .b64 %i, %o, %x, %y, %da, %db;\n.reg .pred %p, %q;\n\
         ld.param.u64 %i, [pi];\nld.param.u64 %o, [po];\nmov.u32 %t, %tid.x;\nmov.u32 %u, %ctaid.x;\n\
         {body}ret;\n}}\n"
    )
}

impl Mma<'_> {
    /// Bits of a register.
    pub fn bits(&self) -> usize {
        if self.formats[0] == "f64" { 64 } else { 32 }
    }

    pub fn kernel(&self) -> String {
        let (bits, bytes) = (self.bits(), self.bits() / 8);
        let [d, a, b, c] = self.registers;
        let read = a + b + c + usize::from(self.selector.is_some());
        let mut body = format!(
            ".reg .b{bits} %d<{d}>, %a<8>, %b<8>, %c<8>;\nmad.lo.u32 %v, %u, 32, %t;\n\
             mul.wide.u32 %x, %v, {};\nadd.u64 %i, %i, %x;\nmul.wide.u32 %x, %v, {};\nadd.u64 %o, %o, %x;\n",
            read * bytes,
            d * bytes
        );
        let names = [("a", a), ("b", b), ("c", c)];
        let each = names.iter().flat_map(|(name, count)| (0..*count).map(move |i| (name, i)));
        for (at, (name, index)) in each.enumerate() {
            writeln!(body, "ld.global.b{bits} %{name}{index}, [%i+{}];", at * bytes).unwrap();
        }
        let mut operands = format!(
            "{}, {}, {}, {}",
            braces("d", d),
            braces("a", a),
            braces("b", b),
            braces("c", c)
        );
        if self.text.starts_with("movmatrix") {
            operands = "%d0, %a0".into();
        }
        if let Some(selector) = self.selector {
            writeln!(body, "ld.global.b32 %e, [%i+{}];", (read - 1) * bytes).unwrap();
            write!(operands, ", %e, {selector}").unwrap();
        }
        writeln!(body, "{} {operands};", self.text).unwrap();
        for index in 0..d {
            writeln!(body, "st.global.b{bits} [%o+{}], %d{index};", index * bytes).unwrap();
        }
        kernel("", &body)
    }
}

/// A kernel that loads a fragment of `wmma`, and stores its registers.
pub fn load(text: &str, registers: usize, bits: usize, stride: usize) -> String {
    let bytes = bits / 8;
    let mut body = format!(
        ".reg .b{bits} %d<{registers}>;\nmul.wide.u32 %x, %t, {};\nadd.u64 %o, %o, %x;\n\
         {text} {}, [%i], {stride};\n",
        registers * bytes,
        braces("d", registers)
    );
    for index in 0..registers {
        writeln!(body, "st.global.b{bits} [%o+{}], %d{index};", index * bytes).unwrap();
    }
    kernel("", &body)
}

/// A loop over words of shared memory, with the byte offset in global memory `%y` and the address
/// `%w`.
fn words(label: &str, count: usize, threads: usize, step: &str) -> String {
    format!(
        "mov.u32 %v, %t;\n{label}:\nmul.wide.u32 %y, %v, 4;\nshl.b32 %w, %v, 2;\nadd.u32 %w, %w, %s;\n\
         {step}add.u32 %v, %v, {threads};\nsetp.lt.u32 %p, %v, {count};\n@%p bra {label};\n"
    )
}

/// A kernel that fills shared memory, moves tiles, and stores registers or shared memory.
pub fn move_tiles(text: &str, tiles: usize) -> String {
    let fill = "add.u64 %x, %i, %y;\nld.global.b32 %e, [%x];\nst.shared.b32 [%w], %e;\n";
    let mut body = format!(
        ".shared .align 128 .b8 sm[2048];\n.reg .b32 %d<4>;\nmov.u32 %s, sm;\n{}bar.sync 0;\n\
         mad.lo.u32 %v, %t, 7, 3;\nand.b32 %v, %v, 31;\nmad.lo.u32 %v, %v, 48, %s;\n",
        words("FILL", 512, 32, fill)
    );
    if text.starts_with("ld") {
        writeln!(body, "{text} {}, [%v];", braces("d", tiles)).unwrap();
        writeln!(body, "mul.wide.u32 %x, %t, {};\nadd.u64 %o, %o, %x;", 4 * tiles).unwrap();
        for index in 0..tiles {
            writeln!(body, "st.global.b32 [%o+{}], %d{index};", 4 * index).unwrap();
        }
    } else {
        for index in 0..tiles {
            let added = 0x0010_0000 * (index + 1) + 100 * index;
            writeln!(body, "mad.lo.u32 %d{index}, %t, 65537, {added};").unwrap();
        }
        let dump = "add.u64 %x, %o, %y;\nld.shared.b32 %e, [%w];\nst.global.b32 [%x], %e;\n";
        writeln!(body, "{text} [%v], {};\nbar.sync 0;", braces("d", tiles)).unwrap();
        body += &words("DUMP", 512, 32, dump);
    }
    kernel("", &body)
}

/// A form of `wgmma`.
pub struct Wgmma<'a> {
    pub text: &'a str,
    /// Registers of D.
    pub results: usize,
    pub a_in_registers: bool,
    /// Of A and B, without the address of shared memory.
    pub descriptors: [u64; 2],
    pub shared_bytes: usize,
    /// What stands behind the scale of D.
    pub tail: &'a str,
    /// Whether D is added to.
    pub adds: bool,
    /// Of a sparse A.
    pub selector: Option<u64>,
}

impl Wgmma<'_> {
    pub fn a_registers(&self) -> usize {
        if self.a_in_registers { 4 } else { 0 }
    }

    pub fn kernel(&self) -> String {
        let (d, a) = (self.results, self.a_registers());
        let sparse = usize::from(self.selector.is_some());
        let (shared, registers) = (self.shared_bytes / 4, d + a + sparse);
        let fill = "add.u64 %x, %i, %y;\nld.global.b32 %e, [%x];\nst.shared.b32 [%w], %e;\n";
        let mut body = format!(
            ".shared .align 1024 .b8 sm[{}];\n.reg .b32 %d<{d}>, %a<4>;\n\
             ld.param.u64 %da, [pa];\nld.param.u64 %db, [pb];\n\
             mul.wide.u32 %x, %u, {};\nadd.u64 %i, %i, %x;\n\
             mad.lo.u32 %v, %u, 128, %t;\nmul.wide.u32 %x, %v, {};\nadd.u64 %o, %o, %x;\n\
             mov.u32 %s, sm;\nshr.u32 %v, %s, 4;\ncvt.u64.u32 %x, %v;\nadd.u64 %da, %da, %x;\nadd.u64 %db, %db, %x;\n\
             {}add.u64 %i, %i, {};\nmul.wide.u32 %x, %t, {};\nadd.u64 %i, %i, %x;\n",
            self.shared_bytes,
            4 * (shared + 128 * registers),
            4 * d,
            words("FILL", shared, 128, fill),
            self.shared_bytes,
            4 * registers
        );
        let names = (0..d).map(|i| format!("%d{i}")).chain((0..a).map(|i| format!("%a{i}")));
        for (at, name) in names.chain(self.selector.map(|_| "%e".into())).enumerate() {
            writeln!(body, "ld.global.b32 {name}, [%i+{}];", 4 * at).unwrap();
        }
        let from = if self.a_in_registers { braces("a", 4) } else { "%da".into() };
        let metadata = self.selector.map_or(String::new(), |own| format!(" %e, {own},"));
        let tail = if self.tail.is_empty() { String::new() } else { format!(", {}", self.tail) };
        write!(
            body,
            "bar.sync 0;\nsetp.ne.u32 %q, {}, 0;\nwgmma.fence.sync.aligned;\n\
             {} {}, {from}, %db,{metadata} %q{tail};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            u8::from(self.adds),
            self.text,
            braces("d", d)
        )
        .unwrap();
        for index in 0..d {
            writeln!(body, "st.global.b32 [%o+{}], %d{index};", 4 * index).unwrap();
        }
        kernel(", .param .u64 pa, .param .u64 pb", &body)
    }
}
