//! What a module's text says of the addresses in a record: places in the source, and templates.

use std::collections::HashMap;

use cuda_std::panic::{KERNELS, KNOWN};

use super::text::{readable, valid};

/// By address, what a module's text says.
#[derive(Debug, Default)]
pub(super) struct Known {
    places: HashMap<u64, Place>,
    templates: HashMap<u64, Vec<u8>>,
}

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The kernels that can be there.
    pub kernels: Vec<String>,
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl Known {
    /// Reads a text; `words` are those of its table in the device's memory.
    pub(super) fn read(ptx: &str, words: &[u64]) -> Self {
        let mut known = Self::default();
        let mut constants = HashMap::new();
        // All that the table names stands before it.
        for (name, line) in ptx.lines().filter_map(|line| Some((name(line)?, line))) {
            if name != KNOWN {
                constants.insert(name, line);
                continue;
            }
            for (pair, own) in values(line).as_chunks::<2>().0.iter().zip(words.as_chunks::<2>().0)
            {
                let constant = generic(pair[0]).and_then(|name| constants.get(name));
                constant.into_iter().for_each(|line| known.add(*own, line, &constants));
            }
            break;
        }
        known
    }

    /// Only templates, at 0, 1, ….
    #[cfg(test)]
    pub(super) fn with_templates(templates: &[&[u8]]) -> Self {
        let templates = templates.iter().map(|template| template.to_vec());
        Self { templates: (0..).zip(templates).collect(), ..Self::default() }
    }

    fn add(&mut self, [address, word]: [u64; 2], line: &str, constants: &HashMap<&str, &str>) {
        match (word >> 32) as usize {
            0 => drop(place(line, constants).map(|place| self.places.insert(address, place))),
            len => drop(self.templates.insert(address, bytes(line, len))),
        }
    }

    /// The place at an address; nothing is known of one that the text does not have.
    pub(super) fn place(&self, address: u64) -> Place {
        self.places.get(&address).cloned().unwrap_or_default()
    }

    /// The template at an address.
    pub(super) fn template(&self, address: u64) -> Option<&[u8]> {
        self.templates.get(&address).map(Vec::as_slice)
    }
}

/// The name of a variable with a value: `.global .align 1 .b8 name[2] = {1, 2};`.
fn name(line: &str) -> Option<&str> {
    let line = line.strip_prefix(".visible ").unwrap_or(line);
    let (head, _) = line.strip_prefix(".global ")?.split_once(" = {")?;
    head.split_whitespace().next_back()?.split('[').next()
}

/// The values of a variable.
fn values(line: &str) -> Vec<&str> {
    let values = line.split_once(" = {").and_then(|(_, values)| values.split('}').next());
    values.unwrap_or_default().split(", ").collect()
}

/// The name in `generic(name)`.
fn generic(value: &str) -> Option<&str> {
    value.strip_prefix("generic(")?.strip_suffix(')')
}

/// The first bytes of a variable; what is left out at its end is zero.
fn bytes(line: &str, len: usize) -> Vec<u8> {
    let own = values(line).into_iter().map(|value| value.parse().unwrap_or_default());
    own.chain(std::iter::repeat(0)).take(len).collect()
}

/// A place: the address and the length of its file's name, line and column; and its kernels behind it.
fn place(line: &str, constants: &HashMap<&str, &str>) -> Option<Place> {
    let &[file, len, at] = values(line).as_slice() else { return None };
    let (file, len, at) =
        (constants.get(generic(file)?)?, len.parse().ok()?, at.parse::<u64>().ok()?);
    let (_, kernels) = line.split_once(KERNELS)?;
    Some(Place {
        kernels: kernels.split_whitespace().map(str::to_owned).collect(),
        file: readable(&valid(&bytes(file, len))),
        line: at as u32,
        column: (at >> 32) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 8.0
.global .align 1 .b8 anon_$_0[5] = {97, 46, 114, 115};
.global .align 8 .u64 anon_$_1[3] = {generic(anon_$_0), 4, 12884901890}; // ferrowarp.kernels first second
.global .align 1 .b8 anon_$_2[10] = {2, 97, 32, 192, 0, 97, 32, 123, 125};
.visible .global .align 8 .u64 ferrowarp_known[8] = {fmt, 106, generic(anon_$_1), 0, generic(anon_$_2), 21474836481, 18446744073709551615, 0};
.visible .entry first() { ret; }
";

    #[test]
    fn addresses_are_those_of_the_device() {
        let words = [0x10, 106, 0x20, 0, 0x30, 5 << 32 | 1, u64::MAX, 0];
        let known = Known::read(TEXT, &words);
        let place = known.place(0x20);
        assert_eq!(place.kernels, ["first", "second"]);
        assert_eq!((place.file.as_str(), place.line, place.column), ("a.rs", 2, 3));
        assert_eq!(known.template(0x30), Some(&b"\x02a \xC0\0"[..]));
    }

    #[test]
    fn of_other_addresses_nothing_is_known() {
        let known = Known::read(TEXT, &[0x10, 106, 0x20, 0]);
        assert_eq!(known.place(0x30), Place::default());
        assert_eq!((known.template(0x30), known.template(0x10)), (None, None));
        let known = Known::read("", &[]);
        assert_eq!(known.place(0), Place::default());
    }
}
