//! The PTX version, which the compiler writes for what it writes itself: inline assembly may use more.

/// Instructions that are younger than the version a compiler writes, each as words that stand in one line,
/// and their versions.
const NEEDS: [(&[&str], (u32, u32)); 15] = [
    (&["test_wait.parity"], (7, 1)),
    (&[".L1::"], (7, 4)),
    (&[".L2::"], (7, 4)),
    (&["createpolicy."], (7, 4)),
    (&[".shared::cta"], (7, 8)),
    (&[".b128"], (8, 3)),
    (&["st.async"], (8, 1)),
    (&["cvt.", ".satfinite", ".f16.f32"], (8, 1)),
    (&["cvt.", ".satfinite", ".f16x2.f32"], (8, 1)),
    (&["cvt.", ".satfinite", ".bf16.f32"], (8, 1)),
    (&["cvt.", ".satfinite", ".bf16x2.f32"], (8, 1)),
    (&["mma.sync", ".e4m3"], (8, 4)),
    (&["mma.sync", ".e5m2"], (8, 4)),
    (&["wgmma.mma_async", ".s8.u8"], (8, 4)),
    (&["wgmma.mma_async", ".u8.s8"], (8, 4)),
];

/// The text with a version that knows everything in it.
pub(super) fn raise(text: String) -> String {
    let used =
        |words: &[&str]| text.contains(words[0]) && text.lines().any(|line| has(line, words));
    let needed = NEEDS.iter().filter(|(words, _)| used(words)).map(|(_, version)| *version);
    let Some((line, found)) = text.lines().find_map(|line| Some((line, version(line)?))) else {
        return text;
    };
    match needed.max() {
        Some(needed) if found < needed => {
            let raised = format!(".version {}.{}", needed.0, needed.1);
            text.replacen(line, &raised, 1)
        }
        _ => text,
    }
}

fn has(line: &str, words: &[&str]) -> bool {
    words.iter().all(|word| line.contains(word))
}

fn version(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.strip_prefix(".version ")?.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_knows_what_is_used() {
        let raised = |text: &str| raise(text.to_owned());
        assert_eq!(raised("//\n.version 8.0\nmov.b128"), "//\n.version 8.3\nmov.b128");
        assert_eq!(raised("//\n.version 8.0\nmov.b64"), "//\n.version 8.0\nmov.b64");
        assert_eq!(raised(".version 8.7\nmov.b128"), ".version 8.7\nmov.b128");
        assert_eq!(
            raised(".version 7.0\nld.global.L1::no_allocate.b32"),
            ".version 7.4\nld.global.L1::no_allocate.b32"
        );
        assert_eq!(
            raised(".version 7.0\nmbarrier.init.shared::cta.b64"),
            ".version 7.8\nmbarrier.init.shared::cta.b64"
        );
        let of = |line: &str| raised(&format!(".version 8.0\n{line}"))[9..12].to_owned();
        assert_eq!(of("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1}"), "8.4");
        assert_eq!(of("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%r1}"), "8.4");
        assert_eq!(of("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {%r1}"), "8.0");
        assert_eq!(of("cvt.rn.satfinite.f16.f32 %h1, %f1;"), "8.1");
        assert_eq!(
            of("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r1]"),
            "8.1"
        );
        assert_eq!(of("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;"), "8.0");
        assert_eq!(of("mma.sync.aligned.m16n8k8.f32 {%f1}\ncvt.rn.f16x2.e4m3x2 %r1, %h1"), "8.0");
    }
}
