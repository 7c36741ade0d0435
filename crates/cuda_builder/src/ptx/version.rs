//! The PTX version, which the compiler writes for what it writes itself: inline assembly may use more.

/// Words of the language that are younger than the version a compiler writes, and their versions.
const NEEDS: [(&str, (u32, u32)); 1] = [(".b128", (8, 3))];

/// The text with a version that knows everything in it.
pub(super) fn raise(text: String) -> String {
    let needed = NEEDS.iter().filter(|(word, _)| text.contains(word)).map(|(_, version)| *version);
    let Some((line, found)) = text.lines().find_map(|line| Some((line, version(line)?))) else {
        return text;
    };
    match needed.max() {
        Some(needed) if found < needed => {
            let raised = format!(".version {}.{}", needed.0, needed.1);
            text.replacen(line, &raised, 1)
        }
        _ => text,
    }
}

fn version(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.strip_prefix(".version ")?.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_knows_what_is_used() {
        let raised = |text: &str| raise(text.to_owned());
        assert_eq!(raised("//\n.version 8.0\nmov.b128"), "//\n.version 8.3\nmov.b128");
        assert_eq!(raised("//\n.version 8.0\nmov.b64"), "//\n.version 8.0\nmov.b64");
        assert_eq!(raised(".version 8.7\nmov.b128"), ".version 8.7\nmov.b128");
    }
}
