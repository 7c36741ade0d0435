//! Slurm's lists of hosts: `gpu[03-07,12],login1`.

/// The first host of a list; `None` if the text is not one.
pub(super) fn first_host(list: &str) -> Option<String> {
    let end = end_of_first(list)?;
    let first = &list[..end];
    let Some((before, rest)) = first.split_once('[') else {
        return Some(first.to_owned()).filter(|name| !name.is_empty());
    };
    let (ranges, after) = rest.split_once(']')?;
    let number = ranges.split([',', '-']).next().filter(|number| !number.is_empty())?;
    // A name may have several brackets, one after another.
    let after = if after.is_empty() { String::new() } else { first_host(after)? };
    Some(format!("{before}{number}{after}"))
}

/// Where the first entry ends: at a comma outside of brackets, or at the end.
fn end_of_first(list: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(list.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_keeps_its_zeros() {
        for (list, host) in [
            ("gpu[03-07,12],login1", "gpu03"),
            ("login1,gpu[03-07]", "login1"),
            ("node7", "node7"),
            ("n[1,3-5]", "n1"),
            ("rack[2-3]node[08-09]", "rack2node08"),
            ("a-b-c[10-20].cluster", "a-b-c10.cluster"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(host), "{list}");
        }
    }

    #[test]
    fn what_is_not_a_list_has_no_host() {
        for list in ["", "gpu[03", "gpu[]", ",a"] {
            assert_eq!(first_host(list), None, "{list}");
        }
    }
}
