//! Where a crate has what LLVM has no code for on a GPU, at which it ends the compiler without a place. Its
//! intermediate form, which it can still write, has a place for each instruction.

use std::collections::{BTreeSet, HashMap};

type Nodes<'a> = HashMap<&'a str, &'a str>;

/// The places (`src/lib.rs:12`) of conversions between 128-bit integers and floats, and of `f128`.
pub(crate) fn locations(ir: &str) -> BTreeSet<String> {
    let lines = ir.lines().filter(|line| is_unsupported(line));
    let located: Vec<&str> = lines.filter_map(|line| Some(line.split_once("!dbg ")?.1)).collect();
    if located.is_empty() {
        return BTreeSet::new();
    }
    let nodes: Nodes<'_> = ir.lines().filter_map(|line| line.split_once(" = ")).collect();
    located.iter().filter_map(|location| place(&nodes, end(location))).collect()
}

fn is_unsupported(instruction: &str) -> bool {
    let converts = ["uitofp i128", "sitofp i128", "@llvm.fptoui.sat.i128", "@llvm.fptosi.sat.i128"];
    let to_wide = |from| instruction.contains(from) && instruction.contains(" to i128");
    converts.iter().any(|part| instruction.contains(part))
        || to_wide("= fptoui ")
        || to_wide("= fptosi ")
        || instruction.contains("fp128")
}

/// The innermost place that is not in the library.
fn place(nodes: &Nodes<'_>, location: &str) -> Option<String> {
    let mut next = Some(location);
    while let Some(node) = next.and_then(|id| nodes.get(id)) {
        let file = file(nodes, field(node, "scope: ")?)?;
        if !file.contains("/rustlib/") {
            return Some(format!("{file}:{}", field(node, "line: ")?));
        }
        next = field(node, "inlinedAt: ");
    }
    None
}

fn file<'a>(nodes: &Nodes<'a>, scope: &str) -> Option<&'a str> {
    let file = nodes.get(field(nodes.get(scope)?, "file: ")?)?;
    file.split_once("filename: \"")?.1.split('"').next()
}

/// `!7` of `scope: !7, line: 3)`.
fn field<'a>(node: &'a str, name: &str) -> Option<&'a str> {
    node.split_once(name).map(|(_, rest)| end(rest))
}

fn end(text: &str) -> &str {
    text.split([',', ')', ' ']).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IR: &str = r#"
define ptx_kernel void @k(i128 %x) !dbg !4 {
  %1 = uitofp i128 %x to float, !dbg !7
  %2 = add i128 %x, %x, !dbg !9
  %3 = tail call i128 @llvm.fptoui.sat.i128.f32(float %1), !dbg !8
}
declare i128 @llvm.fptoui.sat.i128.f32(float)
!1 = !DIFile(filename: "src/lib.rs", directory: "/home/me/kernels")
!2 = !DIFile(filename: "/r/lib/rustlib/src/rust/library/core/src/num/mod.rs", directory: "/r")
!4 = distinct !DISubprogram(name: "k", scope: !3, file: !1, line: 20, type: !6)
!5 = distinct !DISubprogram(name: "from", scope: !3, file: !2, line: 70, type: !6)
!7 = !DILocation(line: 21, column: 9, scope: !4)
!8 = !DILocation(line: 71, column: 5, scope: !5, inlinedAt: !10)
!9 = !DILocation(line: 99, column: 9, scope: !4)
!10 = distinct !DILocation(line: 22, column: 12, scope: !4)
"#;

    #[test]
    fn conversions_are_found_where_the_crate_asks_for_them() {
        let found: Vec<String> = locations(IR).into_iter().collect();
        assert_eq!(found, ["src/lib.rs:21", "src/lib.rs:22"]);
        assert!(locations(&IR.replace("i128", "i64")).is_empty());
    }
}
