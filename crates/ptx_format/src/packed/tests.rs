//! Archives are read back as they were packed.

use super::{Archive, Damaged, pack};
use crate::index::{IndexWriter, read_ptx};

/// A text with `kernels` alike kernels that share a line, with its index.
fn text(arch: &str, kernels: usize, file: u32) -> String {
    let mut body = format!(".version 8.0\n.target {arch}\n// of no part\n");
    let head = 0..body.find("//").expect("it is there");
    let shared = body.len()..body.len() + "shared\n".len();
    body.push_str("shared\n");
    let mut parts = Vec::new();
    for kernel in 0..kernels {
        let start = body.len();
        let lines: String = (0..300)
            .map(|line| {
                format!(
                    "\t.loc\t{file} {line} 1\n$L__tmp{}:\n\tadd.s32 %r{line}, %r{}, 1;\n",
                    1000 * kernel + line,
                    line / 3
                )
            })
            .collect();
        body.push_str(&format!(".visible .entry k{kernel}()\n{{\n{lines}}}\n"));
        parts.push((kernel, vec![head.clone(), start..body.len(), shared.clone()]));
    }
    body.push_str(&format!("\t.file\t{file} \"a.rs\"\n"));
    let mut index = IndexWriter::new(&body);
    for (kernel, ranges) in parts {
        index.part(kernel as u64, &[format!("k{kernel}")], ranges);
    }
    body + &index.end()
}

#[test]
fn texts_and_parts_are_those_that_were_packed() {
    let texts = [("sm_80", text("sm_80", 20, 3)), ("sm_90a", text("sm_90a", 30, 7))];
    let packed = pack(&texts.each_ref().map(|(arch, text)| (*arch, &**text))).unwrap();
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    assert!(30 * packed.len() < bytes, "{} of {bytes}", packed.len());
    let archive = Archive::read(&packed).unwrap();
    assert_eq!(archive.len(), 2);
    for (number, (arch, text)) in texts.iter().enumerate() {
        assert_eq!((archive.arch(number), archive.text_len(number)), (*arch, text.len()));
        let reading = read_ptx(text);
        assert_eq!(*archive.reading(number), reading);
        // From the last on, so that each needs all of its bases.
        for part in reading.parts.unwrap().iter().rev() {
            assert_eq!(archive.part(number, part).unwrap(), part.text(text));
        }
        assert_eq!(archive.text(number).unwrap(), *text);
    }
}

#[test]
fn a_text_without_an_index_is_packed_whole() {
    let packed = pack(&[("sm_80", "no PTX"), ("sm_90", "")]).unwrap();
    let archive = Archive::read(&packed).unwrap();
    assert_eq!((archive.text(0).as_deref(), archive.text(1).as_deref()), (Ok("no PTX"), Ok("")));
    assert_eq!(*archive.reading(0), read_ptx("no PTX"));
    assert!(Archive::read(&pack(&[]).unwrap()).unwrap().is_empty());
}

#[test]
fn damaged_bytes_are_refused() {
    let text = text("sm_80", 3, 1);
    let packed = pack(&[("sm_80", &text)]).unwrap();
    for length in 0..packed.len() {
        assert_eq!(Archive::read(&packed[..length]).err(), Some(Damaged), "{length}");
    }
    let mut other = packed.clone();
    let last = other.len() - 40;
    other[last..].fill(0xFF);
    let archive = Archive::read(&other).unwrap();
    assert_ne!(archive.text(0).as_deref(), Ok(&*text));
}
