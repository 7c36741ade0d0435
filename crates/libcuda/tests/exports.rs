//! What the shared library exports: read from its file.

mod common;

use std::collections::BTreeSet;
use std::fs;

use ferrowarp_libcuda::{FUNCTIONS, PER_THREAD_FUNCTIONS};

/// The parts of a shared library that a loader reads: ELF, 64 bits, little-endian.
struct Elf(Vec<u8>);

/// Kinds of sections, and a tag of the dynamic section.
const DYNAMIC: u32 = 6;
const DYNAMIC_SYMBOLS: u32 = 11;
const VERSIONS_DEFINED: u32 = 0x6fff_fffd;
const SONAME: u64 = 14;

#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: usize,
    bytes: usize,
    link: usize,
}

impl Elf {
    fn open() -> Self {
        let bytes = fs::read(common::built()).unwrap();
        assert_eq!(&bytes[..6], b"\x7fELF\x02\x01");
        Self(bytes)
    }

    fn number<const BYTES: usize>(&self, at: usize) -> u64 {
        let mut wide = [0; 8];
        wide[..BYTES].copy_from_slice(&self.0[at..at + BYTES]);
        u64::from_le_bytes(wide)
    }

    fn sections(&self) -> Vec<Section> {
        let (table, count) = (self.number::<8>(0x28) as usize, self.number::<2>(0x3c) as usize);
        let section = |at: usize| Section {
            kind: self.number::<4>(at + 4) as u32,
            offset: self.number::<8>(at + 24) as usize,
            bytes: self.number::<8>(at + 32) as usize,
            link: self.number::<4>(at + 40) as usize,
        };
        (0..count).map(|index| section(table + index * 64)).collect()
    }

    fn section(&self, kind: u32) -> Option<Section> {
        self.sections().into_iter().find(|section| section.kind == kind)
    }

    fn text(&self, strings: Section, offset: u64) -> String {
        let start = strings.offset + offset as usize;
        let end = self.0[start..].iter().position(|&byte| byte == 0).unwrap() + start;
        String::from_utf8(self.0[start..end].to_vec()).unwrap()
    }

    /// The names that the library defines for others.
    fn exports(&self) -> BTreeSet<String> {
        let table = self.section(DYNAMIC_SYMBOLS).unwrap();
        let strings = self.sections()[table.link];
        (table.offset..table.offset + table.bytes)
            .step_by(24)
            // Section index 0: the symbol is undefined, and imported from another library.
            .filter(|at| self.number::<2>(at + 6) != 0)
            .map(|at| self.text(strings, self.number::<4>(at)))
            .collect()
    }

    fn soname(&self) -> Option<String> {
        let table = self.section(DYNAMIC)?;
        let strings = self.sections()[table.link];
        (table.offset..table.offset + table.bytes)
            .step_by(16)
            .find(|at| self.number::<8>(*at) == SONAME)
            .map(|at| self.text(strings, self.number::<8>(at + 8)))
    }
}

#[test]
fn it_exports_the_driver_api_its_mark_and_nothing_else() {
    let exports = Elf::open().exports();
    let names = [FUNCTIONS, PER_THREAD_FUNCTIONS, &["FERROWARP_LIBCUDA"]].concat();
    let expected: BTreeSet<_> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names.len(), expected.len(), "a name stands twice");
    let missing: Vec<_> = expected.difference(&exports).collect();
    let odd: Vec<_> = exports.difference(&expected).collect();
    assert!(missing.is_empty() && odd.is_empty(), "missing {missing:?}, beside them {odd:?}");
}

#[test]
fn names_have_no_versions() {
    assert!(Elf::open().section(VERSIONS_DEFINED).is_none());
}

#[test]
fn its_name_is_the_drivers() {
    assert_eq!(Elf::open().soname().as_deref(), Some("libcuda.so.1"));
}
