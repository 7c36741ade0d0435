//! Unknown names, and the known ones that may have been meant.

use std::env;

use super::error::CliError;
use crate::demo;
use ferrowarp::shipped::IMAGES;

/// What begins the names of our variables of the environment.
const PREFIX: &str = "FERROWARP_";
/// All of them, by whichever crate they are read.
const VARIABLES: [&str; 20] = [
    "FERROWARP_CHECK",
    "FERROWARP_CUDA_LIBRARY",
    "FERROWARP_DEVICE",
    "FERROWARP_DIST_BACKEND",
    "FERROWARP_DIST_DEADLINE",
    "FERROWARP_DIST_FILE",
    "FERROWARP_DIST_ID",
    "FERROWARP_DIST_LAUNCHER",
    "FERROWARP_DIST_PEERS",
    "FERROWARP_DIST_PORT",
    "FERROWARP_DIST_TIMEOUT",
    "FERROWARP_EMULATOR_DEVICES",
    "FERROWARP_EMULATOR_FAIL",
    "FERROWARP_EMULATOR_MEMORY",
    "FERROWARP_FUEL",
    "FERROWARP_NCCL_LIBRARY",
    "FERROWARP_PYTHON",
    "FERROWARP_SCHEDULE",
    "FERROWARP_TUNING",
    "FERROWARP_VERBOSE",
];

/// The name that is most like this one, if any is like it.
pub(super) fn meant<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    // As of clap, for misspelt subcommands.
    const ALIKE: f64 = 0.7;
    let rated = known.into_iter().map(|own| (strsim::jaro(name, own.as_ref()), own));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(alike, _)| *alike > ALIKE).map(|(_, own)| own)
}

/// Ends a sentence: `; did you mean …?`, if a name may have been meant.
pub(super) fn ends(meant: Option<&str>) -> String {
    meant.map_or_else(|| ".".to_owned(), |name| format!("; did you mean `{name}`?"))
}

/// That neither a demo nor a kernel of a demo has this name.
pub(super) fn no_demo_or_kernel(name: &str) -> CliError {
    let parts = IMAGES.first().and_then(|image| ptx_format::index::parts(image.ptx()));
    let kernels = parts.into_iter().flatten().flat_map(|part| part.kernels);
    let all = demo::demos().map(|demo| demo.name.to_owned()).chain(kernels);
    CliError::NoDemoOrKernel { name: name.to_owned(), meant: meant(name, all) }
}

/// A line for each variable of the environment that looks like a misspelt one of ours.
pub(super) fn misspelt_variables() -> impl Iterator<Item = String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter_map(|name| {
        Some(format!("{name} is not read{}", ends(Some(meant_variable(&name)?))))
    })
}

/// The variable that may have been meant; none for one of ours, and for one that is like none.
fn meant_variable(name: &str) -> Option<&'static str> {
    const MOST_EDITS: usize = 2;
    let is_candidate = name.starts_with(PREFIX) && !VARIABLES.contains(&name);
    let edits = |known: &&str| strsim::damerau_levenshtein(name, known);
    let nearest = VARIABLES.into_iter().min_by_key(edits).filter(|_| is_candidate);
    nearest.filter(|known| edits(known) <= MOST_EDITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_most_similar_name_is_meant() {
        let known = ["vecadd", "saxpy", "histogram", "scan"];
        assert_eq!(meant("vecad", known), Some("vecadd"));
        assert_eq!(meant("histo", known), Some("histogram"));
        assert_eq!(meant("nonsense", known), None);
        assert_eq!(meant("vecadd", [""; 0]), None);
        assert_eq!(ends(meant("spaxy", known)), "; did you mean `saxpy`?");
        assert_eq!(ends(None), ".");
    }

    #[test]
    fn misspelt_variables_are_known_and_others_left_alone() {
        for (wrong, right) in [
            ("FERROWARP_CHEKC", "FERROWARP_CHECK"),
            ("FERROWARP_CHECKS", "FERROWARP_CHECK"),
            ("FERROWARP_DEVISE", "FERROWARP_DEVICE"),
            ("FERROWARP_EMULATOR_DEVICE", "FERROWARP_EMULATOR_DEVICES"),
            ("FERROWARP_EMULATOR_MEMROY", "FERROWARP_EMULATOR_MEMORY"),
        ] {
            assert_eq!(meant_variable(wrong), Some(right), "{wrong}");
        }
        // Those of our tests, and somebody's own.
        for other in
            ["BIN", "DIFF_SEED", "SEED", "PEERS_CHILD", "RING_MESSAGES", "HOME", "TEST_SCENARIO"]
        {
            assert_eq!(meant_variable(&format!("{PREFIX}{other}")), None, "{other}");
        }
        assert_eq!(meant_variable("CHECK"), None);
        VARIABLES.into_iter().for_each(|name| assert_eq!(meant_variable(name), None));
    }

    /// The names in quotation marks in all sources of a folder.
    fn quoted(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                quoted(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && !path.ends_with("cli/names.rs")
            {
                let text = fs::read_to_string(&path).unwrap();
                let words = text
                    .split('"')
                    .filter(|word| word.len() > PREFIX.len() && word.starts_with(PREFIX));
                let is_name =
                    |word: &&str| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
                found.extend(words.filter(is_name).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_variable_that_is_read_is_known() {
        let mut read = BTreeSet::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for entry in fs::read_dir(root.join("crates")).unwrap().map(Result::unwrap) {
            let sources = entry.path().join("src");
            if sources.is_dir() {
                quoted(&sources, &mut read);
            }
        }
        quoted(&root.join("host/src"), &mut read);
        quoted(&root.join("tools/src"), &mut read);
        // A symbol.
        read.remove("FERROWARP_LIBCUDA");
        assert_eq!(read.iter().map(String::as_str).collect::<Vec<_>>(), VARIABLES);
    }
}
