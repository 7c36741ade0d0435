//! The text of the lines that were counted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Source files, read when they are first asked for.
pub(super) struct Sources {
    roots: Vec<PathBuf>,
    known: HashMap<String, Option<Vec<String>>>,
}

impl Sources {
    /// Files below `root`, or else below the current directory or one above it.
    pub(super) fn new(root: Option<PathBuf>) -> Self {
        let here = || std::env::current_dir().unwrap_or_default();
        let roots = match root {
            Some(root) => vec![root],
            None => here().ancestors().map(Path::to_owned).collect(),
        };
        Self { roots, known: HashMap::new() }
    }

    /// The lines of a file, if it is found.
    pub(super) fn file(&mut self, path: &str) -> Option<&[String]> {
        let roots = &self.roots;
        let lines = self.known.entry(path.to_owned()).or_insert_with(|| {
            let text = roots.iter().find_map(|root| fs::read_to_string(root.join(path)).ok())?;
            Some(text.lines().map(str::to_owned).collect())
        });
        lines.as_deref()
    }

    /// A line, counted from 1.
    pub(super) fn line(&mut self, path: &str, line: u32) -> Option<&str> {
        self.file(path)?.get((line as usize).checked_sub(1)?).map(String::as_str)
    }
}
