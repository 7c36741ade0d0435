//! The peers' texts, inside the executable.

/// A file of `tools/peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The family whose cases it has.
    pub family: &'static str,
    /// What it is written in.
    pub language: Language,
    /// Its text.
    pub text: &'static str,
}

/// What a peer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// CUDA C++: needs `nvcc`.
    Cuda,
    /// Python, with whatever packages the machine has.
    Python,
}

impl Language {
    /// The end of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Python => "py",
        }
    }
}

/// Declares the files of a family: `copy: Cuda "cu", Python "py";`.
macro_rules! sources {
    ($($family:ident: $($language:ident $extension:literal),+;)*) => {
        /// All peers.
        pub static SOURCES: &[Source] = &[$($(Source {
            family: stringify!($family),
            language: Language::$language,
            text: include_str!(concat!(
                "../../../peers/", stringify!($family), ".", $extension
            )),
        },)+)*];
    };
}

sources! {
    attention: Python "py";
    copy: Cuda "cu", Python "py";
    histogram: Cuda "cu", Python "py";
    map: Cuda "cu", Python "py";
    matmul: Cuda "cu", Python "py";
    random: Cuda "cu", Python "py";
    reduce: Cuda "cu", Python "py";
    rows: Python "py";
    scan: Cuda "cu";
    search: Cuda "cu";
    select: Cuda "cu";
    sort: Cuda "cu", Python "py";
    spmv: Cuda "cu", Python "py";
    stencil: Cuda "cu", Python "py";
    transpose: Cuda "cu", Python "py";
}

/// What the peers in CUDA C++ share.
pub(super) const CUDA_HEADER: &str = include_str!("../../../peers/peer.cuh");
/// What the peers in Python share.
pub(super) const PYTHON_MODULE: &str = include_str!("../../../peers/peer.py");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Scale, cases};
    use ferrowarp::Backend;

    /// The names in `CASE("peer", "name")` and `case("peer", "name")`; those that a program puts together are left out.
    fn names(text: &str) -> impl Iterator<Item = &str> {
        let calls = text
            .lines()
            .map(str::trim_start)
            .filter_map(|line| line.strip_prefix("CASE(").or_else(|| line.strip_prefix("@case(")));
        let names = calls.filter_map(|call| call.split_once(", \"")?.1.split('"').next());
        names.filter(|name| !name.contains('{'))
    }

    #[test]
    fn each_peer_is_that_of_a_case_of_ours() {
        let ours = cases::all(&Scale::new(Backend::Cuda, false, None));
        let mut found = 0;
        for source in SOURCES {
            for name in names(source.text) {
                let family = name.split('/').next();
                assert_eq!(family, Some(source.family), "{name} stands in another family's file");
                assert!(
                    ours.iter().any(|case| case.name == name),
                    "no case of ours is called {name}"
                );
                found += 1;
            }
        }
        assert!(found > 20, "{found} names");
    }

    #[test]
    fn names_are_found_in_both_languages() {
        let text = "CASE(\"CUB\", \"a/b/f32\") {\n    @case(\"torch\", \"c/d/u8\")\n@case(\"torch\", f\"e/{f}\")";
        assert_eq!(names(text).collect::<Vec<_>>(), ["a/b/f32", "c/d/u8"]);
    }
}
