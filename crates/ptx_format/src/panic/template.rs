//! The templates of `fmt::Arguments`, as Rust 1.96 writes them: texts behind their lengths, and placeholders, up
//! to a zero. The source of `core::fmt` describes them.
//!
//! The builder counts the values of the templates in a kernel's PTX; the host, which reads what a panic says,
//! puts the values in.

use std::fmt;

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Text, in UTF-8.
    Text(&'a [u8]),
    /// The place of a value.
    Placeholder(Placeholder),
}

/// Which value comes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The value's number, from 0.
    pub value: usize,
    /// `core`'s flags of a `FormattingOptions`.
    pub flags: u32,
    /// The width, if `flags` say that there is one.
    pub width: Count,
    /// The precision, if `flags` say that there is one.
    pub precision: Count,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This number.
    Is(u16),
    /// The value of that number, from 0.
    Value(usize),
}

/// Bytes that are no template, or end before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATemplate;

impl fmt::Display for NotATemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are not a whole template of `fmt::Arguments`")
    }
}

impl std::error::Error for NotATemplate {}

/// The parts of a template, in order: up to its end, or to the first byte that is none of it.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    rest: &'a [u8],
    /// The number of the next value that is not named.
    next: usize,
    has_ended: bool,
}

/// Reads the template at the beginning of `bytes`.
#[must_use]
pub fn steps(bytes: &[u8]) -> Steps<'_> {
    Steps { rest: bytes, next: 0, has_ended: false }
}

/// How many values the template at the beginning of `bytes` has, as far as it can be read.
#[must_use]
pub fn values(bytes: &[u8]) -> usize {
    let steps = steps(bytes).map_while(Result::ok);
    let values = steps.map(|step| match step {
        Step::Text(_) => 0,
        Step::Placeholder(own) => own.values(),
    });
    values.max().unwrap_or(0)
}

impl Placeholder {
    /// Whether its width or its precision is a value.
    #[must_use]
    pub fn has_counts(&self) -> bool {
        [self.width, self.precision].iter().any(|count| matches!(count, Count::Value(_)))
    }

    /// How many values there are, if no other placeholder has a later one.
    fn values(&self) -> usize {
        let last = |count| match count {
            Count::Is(_) => 0,
            Count::Value(number) => number,
        };
        self.value.max(last(self.width)).max(last(self.precision)) + 1
    }
}

impl<'a> Steps<'a> {
    /// What was not read yet: behind the last step, what stands behind the template.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn step(&mut self) -> Result<Option<Step<'a>>, NotATemplate> {
        let [first] = self.array()?;
        Ok(Some(match first {
            0 => return Ok(None),
            1..0x80 => Step::Text(self.take(first.into())?),
            0x80 => {
                let len = self.number()?;
                Step::Text(self.take(len.into())?)
            }
            0xC0.. => Step::Placeholder(self.placeholder(first)?),
            _ => return Err(NotATemplate),
        }))
    }

    fn placeholder(&mut self, bits: u8) -> Result<Placeholder, NotATemplate> {
        const NO_OPTIONS: u32 = ' ' as u32 | 3 << 29;
        let has = |bit: u8| bits >> bit & 1 == 1;
        let flags = if has(0) { u32::from_le_bytes(self.array()?) } else { NO_OPTIONS };
        let mut field = |bit| if has(bit) { self.number().map(Some) } else { Ok(None) };
        let [width, precision, value] = [field(1)?, field(2)?, field(3)?];
        let count = |field: Option<u16>, is_value| match field.unwrap_or(0) {
            number if is_value => Count::Value(number.into()),
            number => Count::Is(number),
        };
        let value = value.map_or(self.next, usize::from);
        self.next = value + 1;
        let [width, precision] = [count(width, has(4)), count(precision, has(5))];
        Ok(Placeholder { value, flags, width, precision })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], NotATemplate> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(NotATemplate)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotATemplate> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(NotATemplate)?;
        self.rest = rest;
        Ok(*head)
    }

    fn number(&mut self) -> Result<u16, NotATemplate> {
        self.array().map(u16::from_le_bytes)
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, NotATemplate>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let step = self.step();
        self.has_ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Step<'_>>, NotATemplate> {
        steps(bytes).collect()
    }

    fn plain(value: usize) -> Step<'static> {
        let flags = ' ' as u32 | 3 << 29;
        let (width, precision) = (Count::Is(0), Count::Is(0));
        Step::Placeholder(Placeholder { value, flags, width, precision })
    }

    #[test]
    fn texts_and_places_come_in_order() {
        let found = read(b"\x0bthe len is \xC0\x01!\0");
        assert_eq!(found.unwrap(), [Step::Text(b"the len is "), plain(0), Step::Text(b"!")]);
        assert_eq!(read(b"\0").unwrap(), []);
        let long = [&b"\x80\x00\x01"[..], &[b'a'; 256], b"\xC0\0"].concat();
        assert_eq!(read(&long).unwrap(), [Step::Text(&[b'a'; 256]), plain(0)]);
    }

    #[test]
    fn values_are_counted() {
        assert_eq!(values(b"\x0bthe len is \xC0\0"), 1);
        assert_eq!(values(b"\xC0\x01 \xC0\0"), 2);
        assert_eq!(values(b"\x04text\0"), 0);
        // What is there of one that is cut.
        assert_eq!((values(b"\xC0\xC0"), values(b"\xC0\xC1\0")), (2, 1));
    }

    #[test]
    fn placeholders_name_values() {
        // "{1} {0:>2$} {}", whose width is the third value.
        let flags = ' ' as u32 | 1 << 29 | 1 << 27;
        let text =
            [&b"\xC8\x01\0\x01 \xDB"[..], &flags.to_le_bytes(), b"\x02\0\0\0\x01 \xC0\0"].concat();
        let (width, precision) = (Count::Value(2), Count::Is(0));
        let own = Placeholder { value: 0, flags, width, precision };
        let space = Step::Text(b" ");
        let expected = [plain(1), space, Step::Placeholder(own), space, plain(1)];
        assert_eq!(read(&text).unwrap(), expected);
        assert!(own.has_counts() && values(&text) == 3);
    }

    #[test]
    fn widths_and_precisions_are_numbers_or_values() {
        let of = |bytes| match read(bytes).unwrap()[..] {
            [Step::Placeholder(own)] => ((own.width, own.precision), own.has_counts()),
            ref steps => panic!("{steps:?}"),
        };
        assert_eq!(of(b"\xE4\x01\0\0"), ((Count::Is(0), Count::Value(1)), true));
        assert_eq!(of(b"\xC2\x05\0\0"), ((Count::Is(5), Count::Is(0)), false));
        assert_eq!((values(b"\xE4\x01\0\0"), values(b"\xC2\x05\0\0")), (2, 1));
    }

    #[test]
    fn other_bytes_are_no_template() {
        for bytes in [&b""[..], b"\x05text\0", b"\x04text", b"\x90\0", b"\x80\x01", b"\xC1\0"] {
            assert_eq!(read(bytes), Err(NotATemplate), "{bytes:?}");
        }
        let mut behind = steps(b"\x04text\0\0");
        assert_eq!((behind.by_ref().count(), behind.rest()), (1, &b"\0"[..]));
        // Whoever goes on gets no more.
        let mut cut = steps(b"\x90\x01a\0");
        assert_eq!((cut.next(), cut.next()), (Some(Err(NotATemplate)), None));
    }
}
