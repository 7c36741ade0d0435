//! The variables of a PTX text that outlive a launch.

use ptx_format::functions::code;

/// The names of the variables in global and constant memory that a text defines.
pub(super) fn names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().flat_map(|line| defined(line).into_iter().flatten())
}

/// Whether a programmer gave the name, and not a compiler or this library.
pub(super) fn is_named(name: &str) -> bool {
    !name.contains('$')
        && !["ferrowarp_panic", "ferrowarp_known"].iter().any(|own| name.contains(own))
}

/// The names that a line defines: `.visible .const .align 4 .b8 NAME[64] = {…}, OTHER;`.
fn defined(line: &str) -> Option<impl Iterator<Item = &str>> {
    let line = code(line);
    let linkage = [".visible", ".weak", ".common"];
    let bare = linkage.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line).trim_start();
    let list = [".global", ".const"].iter().find_map(|space| bare.strip_prefix(space))?;
    list.starts_with([' ', '\t', '[']).then(|| outer_pieces(list).filter_map(name))
}

/// The pieces between the commas outside of braces.
fn outer_pieces(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    list.split(move |c: char| {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// The name in ` .align 4 .b8 NAME[64] = {…}`.
fn name(piece: &str) -> Option<&str> {
    let head = piece.split(['=', '[', ';']).find(|head| !head.trim().is_empty())?;
    head.split_whitespace().next_back().filter(|word| !word.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_nothing_else() {
        let ptx = "\
.visible .const .align 4 .b8 WEIGHTS[64] = {1, 0, 0, 0}; // .global .u32 in_a_comment;
.global .u32 COUNT = 40, OTHER;
.weak .global .align 8 .u64 TABLE[2] = {generic(COUNT), 5};
.extern .global .u32 ELSEWHERE;
.shared .align 4 .b8 TILE[64];
.visible .entry k(.param .u64 .ptr .global .align 4 p)
{
\tld.global.u32 %r1, [COUNT];
\tcvta.global.u64 %rd1, COUNT;
}
.global .align 1 .b8 anon_$_1[4] = {1, 2, 3, 4};
.const .f32 \tONE;
";
        let all: Vec<&str> = names(ptx).collect();
        assert_eq!(all, ["WEIGHTS", "COUNT", "OTHER", "TABLE", "anon_$_1", "ONE"]);
        assert!(is_named("WEIGHTS") && !is_named("anon_$_1") && !is_named("ferrowarp_panic_x"));
    }
}
