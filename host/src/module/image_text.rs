//! The PTX of an image: text in the program, or a text of an archive that is unpacked part by part.

use std::borrow::Cow;
use std::ptr;
use std::sync::{Mutex, OnceLock};

use ptx_format::index::{ModulePart, Reading, read_ptx};
use ptx_format::packed::Archive;

use crate::lock::lock;

/// The PTX of an image, which is part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageText {
    /// The text itself.
    Plain(&'static str),
    /// A text of an archive, by its index there.
    Packed(&'static [u8], usize),
}

/// An archive that was opened. It is kept: the program has its bytes for as long as it runs.
struct Opened {
    archive: Archive<'static>,
    /// The texts, as far as they were asked for as a whole.
    whole: Vec<OnceLock<String>>,
}

/// What the build script wrote is part of the program, as its code is.
const DAMAGED: &str = "the archive of kernels in this program is damaged";

impl ImageText {
    /// All of it. A packed one is unpacked by the first call, and kept.
    pub(super) fn whole(self) -> &'static str {
        match self {
            Self::Plain(ptx) => ptx,
            Self::Packed(bytes, at) => {
                let Opened { archive, whole } = opened(bytes);
                whole[at].get_or_init(|| archive.text(at).expect(DAMAGED))
            }
        }
    }

    /// The PTX of one module part.
    pub(super) fn part(self, part: &ModulePart) -> Cow<'static, str> {
        match self {
            Self::Plain(ptx) => part.text(ptx).into(),
            Self::Packed(bytes, at) => opened(bytes).archive.part(at, part).expect(DAMAGED).into(),
        }
    }

    /// Its hash and index. A packed one has them beside the text.
    pub(super) fn reading(self) -> Reading {
        match self {
            Self::Plain(ptx) => read_ptx(ptx),
            Self::Packed(bytes, at) => opened(bytes).archive.reading(at).clone(),
        }
    }

    /// Its length in bytes.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Plain(ptx) => ptx.len(),
            Self::Packed(bytes, at) => opened(bytes).archive.text_len(at),
        }
    }

    /// Whether it is the same piece of the program.
    pub(super) fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Plain(one), Self::Plain(other)) => ptr::eq(one, other),
            (Self::Packed(one, at), Self::Packed(other, at_other)) => {
                ptr::eq(one, other) && at == at_other
            }
            _ => false,
        }
    }
}

fn opened(bytes: &'static [u8]) -> &'static Opened {
    static ALL: Mutex<Vec<(&[u8], &Opened)>> = Mutex::new(Vec::new());
    let mut all = lock(&ALL);
    if let Some((_, known)) = all.iter().find(|(own, _)| ptr::eq(*own, bytes)) {
        return known;
    }
    let archive = Archive::read(bytes).expect(DAMAGED);
    let whole = (0..archive.len()).map(|_| OnceLock::new()).collect();
    let new: &Opened = Box::leak(Box::new(Opened { archive, whole }));
    all.push((bytes, new));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kernels, packed and not.
    fn texts() -> [ImageText; 2] {
        let kernel = |name: &str| format!(".visible .entry {name}()\n{{\n\tret;\n}}\n");
        let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
        let ptx = format!("{head}{}{}", kernel("first"), kernel("second"));
        let ptx: &str = cuda_builder::with_parts(&ptx).leak();
        let packed = ptx_format::packed::pack(&[("sm_70", ptx)]).expect("it writes to memory");
        [ImageText::Plain(ptx), ImageText::Packed(packed.leak(), 0)]
    }

    #[test]
    fn a_packed_text_is_the_plain_one() {
        let [plain, packed] = texts();
        assert_eq!((packed.len(), packed.reading()), (plain.len(), plain.reading()));
        let parts = packed.reading().parts.expect("it has an index");
        assert_eq!(parts.len(), 2);
        for part in &parts {
            assert_eq!(packed.part(part), plain.part(part));
        }
        assert_eq!(packed.whole(), plain.whole());
        // Unpacked once.
        assert!(ptr::eq(packed.whole(), packed.whole()));
        assert!(packed.is_same(packed) && !packed.is_same(plain));
    }

    #[test]
    fn kernels_of_a_packed_image_are_found() {
        use crate::module::{Image, KernelModule};

        let gpu = crate::Gpu::new().unwrap();
        for text in texts() {
            let image = Image::of_text("sm_70", text);
            let module = KernelModule::new(gpu.stream().inner().context(), &[image]);
            module.load_all().expect("the kernels are right");
            let text = module.text_of("second").expect("it has the kernel");
            assert!(text.contains(".entry second(") && !text.contains("first"));
        }
    }
}
