//! Templates of `fmt::Arguments`, as Rust 1.96 writes them: texts behind their lengths, and placeholders, up to a
//! zero.

/// What a template says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// How many values it has.
    pub values: usize,
    /// Whether some of them are widths or precisions.
    pub has_counts: bool,
    /// Its text, with `{}` for each placeholder.
    pub text: Vec<u8>,
}

/// Reads bytes that are exactly one template.
pub(super) fn read(bytes: &[u8]) -> Option<Template> {
    let (mut rest, mut next, mut template) = (bytes, 0, Template::default());
    loop {
        let first = *take(&mut rest, 1)?.first()?;
        match first {
            0 => return rest.is_empty().then_some(template),
            1..0x80 => template.text.extend(take(&mut rest, first.into())?),
            0x80 => {
                let len = number(&mut rest)?;
                template.text.extend(take(&mut rest, len)?);
            }
            0xC0.. => {
                let has = |bit: u8| first >> bit & 1 == 1;
                take(&mut rest, if has(0) { 4 } else { 0 })?;
                let mut field =
                    |bit| if has(bit) { number(&mut rest).map(Some) } else { Some(None) };
                let [width, precision, argument] = [field(1)?, field(2)?, field(3)?];
                next = argument.unwrap_or(next) + 1;
                // The width and the precision may be numbers of values.
                let [width, precision] = [width.filter(|_| has(4)), precision.filter(|_| has(5))];
                let counts = [width, precision].into_iter().flatten().map(|number| number + 1);
                template.values = counts.fold(template.values.max(next), usize::max);
                template.has_counts |= has(4) || has(5);
                template.text.extend(b"{}");
            }
            _ => return None,
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(head)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take(rest, 2)?;
    Some(usize::from(bytes[0]) | usize::from(bytes[1]) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(bytes: &[u8]) -> Option<usize> {
        Some(read(bytes)?.values)
    }

    #[test]
    fn the_text_has_places_for_values() {
        let template = read(b"\x0bthe len is \xC0\x01!\0").expect("a template");
        assert_eq!(template.text, b"the len is {}!");
    }

    #[test]
    fn values_are_counted() {
        assert_eq!(values(b"\x0bthe len is \xC0\0"), Some(1));
        assert_eq!(values(b"\xC0\x01 \xC0\0"), Some(2));
        assert_eq!(values(b"\x04text\0"), Some(0));
        let long = [&b"\x80\x00\x01"[..], &[b'a'; 256], b"\xC0\0"].concat();
        assert_eq!(values(&long), Some(1));
    }

    #[test]
    fn placeholders_name_values() {
        // "{1} {0:>2$} {}", whose width is the third value.
        let flags = (' ' as u32 | 1 << 29 | 1 << 27).to_le_bytes();
        let text = [&b"\xC8\x01\0\x01 \xDB"[..], &flags, &b"\x02\0\0\0\x01 \xC0\0"[..]];
        assert_eq!(values(&text.concat()), Some(3));
        // "{:.1$}": the precision is the second value; "{:5}" has a width alone.
        assert_eq!(values(b"\xE4\x01\0\0"), Some(2));
        assert!(read(b"\xE4\x01\0\0").expect("a template").has_counts);
        assert_eq!(values(b"\xC2\x05\0\0"), Some(1));
        assert!(!read(b"\xC2\x05\0\0").expect("a template").has_counts);
    }

    #[test]
    fn other_bytes_are_no_template() {
        for bytes in [&b""[..], b"\x05text\0", b"\x04text", b"\x04text\0\0", b"\x90\0", b"\xC1\0"] {
            assert_eq!(values(bytes), None, "{bytes:?}");
        }
    }
}
