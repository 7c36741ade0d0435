//! From `.loc` to the line that a user wrote.

use crate::fault::SourceLocation;
use crate::ptx::ast::Statement;
use std::collections::HashMap;

/// A file's number, a line and a column.
type SourcePosition = (u32, u32, u32);

/// Parts of a path that mark the source of a library, whose callers are more telling.
const LIBRARIES: &[&str] = &[
    "/rustc/",
    "/library/",
    "/.cargo/",
    "/rustlib/",
    "cuda_std/",
    "/cuda_fp16.h",
    "/cuda_bf16.h",
    "/cuda_fp8.h",
    "/include/crt/",
    "/include/cooperative_groups",
    "/include/cccl/",
    "/include/sm_",
];
/// The longest chain of inlined calls that is followed.
const DEPTH: usize = 64;

/// The place that the operations at hand come from.
#[derive(Default)]
pub struct Lines {
    current: u32,
    /// The last place of the function that lies in no library.
    own: u32,
    known: HashMap<SourcePosition, u32>,
    callers: HashMap<SourcePosition, SourcePosition>,
    /// Which files belong to libraries, as far as they were asked for.
    libraries: HashMap<u32, bool>,
}

impl Lines {
    /// Index into the locations plus one; 0 for none.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Begins another function.
    pub fn forget(&mut self) {
        (self.current, self.own) = (0, 0);
    }

    /// Takes note of a `.loc`. Line 0 says that the code has no line of its own: the last one
    /// stays.
    pub fn note(
        &mut self,
        statement: &Statement,
        files: &HashMap<u32, String>,
        out: &mut Vec<SourceLocation>,
    ) {
        let Statement::Loc { file, line, column, inlined_at } = statement else { return };
        let place = (*file, *line, *column);
        if let Some(at) = inlined_at {
            self.callers.insert(place, (at.file, at.line, at.column));
        }
        let told = self.telling(place, files);
        if told.1 == 0 {
            return;
        }
        // Where the text does not say what a library's code was inlined into, the nearest line
        // before it is a better guide than the library's own.
        let is_library = self.is_library(told, files);
        if is_library && self.own != 0 {
            self.current = self.own;
            return;
        }
        self.current = *self.known.entry(told).or_insert_with(|| {
            let file = path(told, files).to_owned();
            out.push(SourceLocation { file, line: told.1, column: told.2 });
            out.len() as u32
        });
        if !is_library {
            self.own = self.current;
        }
    }

    /// The innermost place of a chain of inlined calls that lies in no library.
    fn telling(&mut self, start: SourcePosition, files: &HashMap<u32, String>) -> SourcePosition {
        let mut place = start;
        for _ in 0..DEPTH {
            let library = self.is_library(place, files);
            match self.callers.get(&place) {
                Some(caller) if (library || place.1 == 0) && *caller != place => place = *caller,
                _ => break,
            }
        }
        place
    }

    fn is_library(&mut self, place: SourcePosition, files: &HashMap<u32, String>) -> bool {
        *self.libraries.entry(place.0).or_insert_with(|| is_library(path(place, files)))
    }
}

fn path(place: SourcePosition, files: &HashMap<u32, String>) -> &str {
    files.get(&place.0).map_or("", String::as_str)
}

/// Whether a file belongs to a library, so that a user cares more for who called it.
pub fn is_library(path: &str) -> bool {
    LIBRARIES.iter().any(|part| path.contains(part))
}
