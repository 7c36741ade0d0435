//! Builds after edits: what they compile, and that they say what a whole build says.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::Fixture;
use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch, Scope, Snapshot, parts};

/// The fixture, built.
struct Crate {
    fixture: Fixture,
    builder: CudaBuilder,
    before: Snapshot,
}

impl Crate {
    fn new(test: &str) -> Self {
        let fixture = Fixture::copy("several", test);
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let cuda_std = format!("{:?}", crates.parent().unwrap().join("rust-cuda/cuda_std"));
        fixture.edit("Cargo.toml", "\"cuda_std\"", &cuda_std);
        // The same releases of what `cuda_std` needs: they are compiled once.
        fs::copy(crates.parent().unwrap().join("Cargo.lock"), fixture.dir.join("Cargo.lock"))
            .unwrap();
        // What is written just before a build may have been written during it.
        thread::sleep(Duration::from_millis(100));
        let builder = fixture.builder().arch(NvvmArch::Compute80).keep_messages(true);
        let before = builder.snapshot().unwrap();
        assert_eq!(before.scope, Scope::Whole);
        Self { fixture, builder, before }
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        self.fixture.edit(file, from, to);
    }

    /// A partial build of these kernels, which the next one begins with.
    #[track_caller]
    fn rebuilt(&mut self, in_use: &[&str], expected: &[&str]) -> &Snapshot {
        let built = self.builder.rebuild(&self.before, in_use).unwrap().expect("a partial build");
        let Scope::Part { kernels } = &built.scope else { panic!("a whole build") };
        let kernels: BTreeSet<&str> = kernels.iter().map(String::as_str).collect();
        assert_eq!(kernels, expected.iter().copied().collect());
        self.before = built;
        &self.before
    }

    /// That the last build says what a whole one says.
    #[track_caller]
    fn assert_whole(&self) {
        let whole = self.builder.snapshot().unwrap();
        assert_eq!(kernels(&self.before.ptx), kernels(&whole.ptx));
    }

    /// The edits since the last build cannot be limited.
    #[track_caller]
    fn assert_unlimited(&self) {
        let built = self.builder.rebuild(&self.before, &[]).unwrap();
        assert_eq!(built.map(|built| built.scope), None);
    }
}

/// Each kernel with what its part says: by its number, or by its code if it can panic, since what the panic
/// handler looks like depends on who calls it, or if it is with others, whose order depends on the whole.
fn kernels(ptx: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for part in parts(ptx).expect("parts") {
        let text = part.text(ptx);
        let by_number = part.kernels.len() == 1 && !text.contains("ferrowarp_panic");
        for kernel in &part.kernels {
            let number = || format!("{:016x}", part.hash);
            let says = if by_number { number() } else { code(&text, kernel) };
            all.insert(kernel.clone(), says);
        }
    }
    all
}

/// The code of an entry without what the compiler counts.
fn code(text: &str, kernel: &str) -> String {
    let (_, behind) = text.split_once(&format!(".entry {kernel}(")).expect("the entry");
    let lines = behind.split("\n}\n").next().unwrap().lines();
    let lines = lines.filter(|line| !line.contains(".loc") && !line.starts_with('$'));
    let counted = ["$L__", "anon_$_", "__local_depot"];
    let word = |word: &str| match counted.iter().any(|own| word.contains(own)) {
        true => "?".to_owned(),
        false => word.split("$again").next().unwrap_or_default().to_owned(),
    };
    let line = |line: &str| line.split([' ', '\t', ',']).map(word).collect::<Vec<_>>().join(" ");
    let lines = lines.filter(|line| !line.contains("callseq")).map(line);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn kernels_with_code_of_an_edited_file_are_compiled_and_the_others_stay() {
    let mut own = Crate::new("rebuild_body");
    own.edit("src/body.rs", "with(*x)", "with(with(*x))");
    let ptx = own.rebuilt(&[], &["scale_f32", "scale_u32", "shift"]).ptx.clone();
    own.assert_whole();
    // Once more, from there, in another file, with a kernel that can panic.
    own.edit("src/checked.rs", "+ 5", "+ 4321");
    let second = own.rebuilt(&[], &["gather"]).ptx.clone();
    assert!(!ptx.contains(" 4321;") && second.contains(" 4321;"));
    own.assert_whole();
    assert_eq!(own.builder.rebuild(&own.before, &[]).unwrap().map(|built| built.scope), None);
}

#[test]
fn a_merged_text_is_one_module_whose_parts_are_closed() {
    let mut own = Crate::new("rebuild_closed");
    for number in [6001, 6002, 6003] {
        let text = fs::read_to_string(own.fixture.dir.join("src/checked.rs")).unwrap();
        let line = text.lines().find(|line| line.contains("from[at")).unwrap().trim().to_owned();
        own.edit("src/checked.rs", &line, &format!("*out = from[at[i] as usize] + {number};"));
        let ptx = own.rebuilt(&[], &["gather"]).ptx.clone();
        common::assert_closed_parts(&ptx);
        let body = ptx.split("// ferrowarp.parts").next().unwrap();
        for name in [" ferrowarp_panic[", " ferrowarp_known["] {
            let declared =
                |line: &&str| line.starts_with(".visible .global") && line.contains(name);
            assert_eq!(body.lines().filter(declared).count(), 1, "{name}");
        }
        let mut names = BTreeSet::new();
        for line in body.lines().filter(|line| line.contains(".entry ") || line.contains(".file\t"))
        {
            assert!(names.insert(line.split(['(', '"']).next().unwrap()), "{line} stands twice");
        }
    }
}

#[test]
fn a_new_kernel_is_compiled_and_one_that_is_gone_is_gone() {
    let mut own = Crate::new("rebuild_new");
    let more = "#[kernel]\npub fn more(index: ThreadIndex, mut x: DisjointSlice<u32>) {\n    \
                if let Some(x) = x.get_mut(index) {\n        *x = 99;\n    }\n}\n\n#[kernel]\npub fn fill";
    own.edit("src/fill.rs", "#[kernel]\npub fn fill", more);
    own.rebuilt(&[], &["fill", "more"]);
    own.assert_whole();
    own.edit("src/fill.rs", "#[kernel]\npub fn fill", "pub fn fill");
    own.rebuilt(&[], &["more"]);
    own.assert_whole();
    assert!(!own.before.ptx.contains(".entry fill("));
    // A file that no kernel has code of, and a new file.
    fs::write(
        own.fixture.dir.join("src/next.rs"),
        format!(
            "use cuda_std::prelude::*;\n{}",
            more.replace("more", "next").replace("#[kernel]\npub fn fill", "")
        ),
    )
    .unwrap();
    own.edit("src/lib.rs", "mod body;", "mod body;\npub mod next;");
    own.rebuilt(&[], &["next"]);
    own.assert_whole();
}

#[test]
fn an_edit_that_is_wrong_shows_the_compilers_words() {
    let mut own = Crate::new("rebuild_wrong");
    own.edit("src/fill.rs", "77", "\"77\"");
    let error = own.builder.rebuild(&own.before, &[]).unwrap_err();
    let CudaBuilderError::Rejected { messages } = &error else { panic!("{error}") };
    assert!(messages.contains("error[E0308]") && messages.contains("src/fill.rs:6"), "{messages}");
    own.edit("src/fill.rs", "\"77\"", "78");
    own.rebuilt(&[], &["fill"]);
    own.assert_whole();
    // A kernel that would not be compiled is checked nevertheless.
    own.edit("src/limit.rs", "LIMIT: u32 = 1234", "LIMIT: u64 = 1234");
    let error = own.builder.rebuild(&own.before, &[]).unwrap_err();
    assert!(error.to_string().contains("src/clamp.rs"), "{error}");
}

#[test]
fn what_an_edit_of_a_constant_does_needs_a_whole_build() {
    let mut own = Crate::new("rebuild_constant");
    own.edit("src/limit.rs", "1234", "4321");
    own.assert_unlimited();
    assert!(!own.before.ptx.contains(" 4321;"));
    own.before = own.builder.snapshot().unwrap();
    assert!(own.before.ptx.contains(" 4321;"));
    own.edit("Cargo.toml", "version = \"0.0.0\"", "version = \"0.0.1\"");
    own.assert_unlimited();
    let other = own.builder.clone().fma_contraction(false);
    own.edit("src/fill.rs", "77", "78");
    assert!(other.rebuild(&own.before, &[]).unwrap().is_none());
}

#[test]
fn kernels_that_share_a_variable_stay_together() {
    let mut own = Crate::new("rebuild_shared");
    own.edit("src/total_read.rs", "Relaxed)", "Relaxed) + 8765");
    own.rebuilt(&[], &["add_total", "read_total"]);
    own.assert_whole();
    // A kernel that did not share it before.
    own.edit("src/fill.rs", "*x = 77", "*x = crate::total::TOTAL.as_ptr() as usize as u32");
    own.assert_unlimited();
}

#[test]
fn kernels_in_use_are_first_and_the_others_are_not_forgotten() {
    let mut own = Crate::new("rebuild_in_use");
    own.edit("src/body.rs", "with(*x)", "with(with(*x))");
    own.rebuilt(&["scale_u32", "clamp"], &["scale_u32"]);
    own.edit("src/fill.rs", "77", "78");
    own.rebuilt(&[], &["fill", "scale_f32", "shift"]);
    own.assert_whole();
}

#[test]
fn kernels_without_the_attribute_are_all_compiled() {
    let fixture = Fixture::copy("plain", "rebuild_plain");
    thread::sleep(Duration::from_millis(100));
    let builder = fixture.builder().keep_messages(true);
    let before = builder.snapshot().unwrap();
    fixture.edit("src/lib.rs", "8080", "8081");
    let built = builder.rebuild(&before, &[]).unwrap().expect("a build");
    assert_eq!(built.scope, Scope::Whole);
    assert!(built.ptx.contains(", 8081;"));
    assert_eq!(kernels(&built.ptx), kernels(&builder.snapshot().unwrap().ptx));
}
