//! What a record says: the device copied templates and values, and here they become text.

use cuda_std::panic::{ARGUMENTS, Arguments, PIECES_BYTES, Record};

use super::known::Known;
use super::text::{Options, valid, value};

/// Of what was to come there is less.
struct Cut;

/// The pieces of a record from some place on.
#[derive(Clone, Copy)]
struct Pieces<'a> {
    rest: &'a [u64],
}

/// A piece as it was copied.
#[derive(Clone, Copy)]
struct Piece<'a> {
    what: u8,
    how: u8,
    bytes: &'a [u8],
    /// Whether there were more bytes.
    is_cut: bool,
}

impl<'a> Pieces<'a> {
    fn of(record: &'a Record) -> Self {
        Self { rest: &record.pieces[..(record.used as usize).min(PIECES_BYTES).div_ceil(8)] }
    }

    fn next(&mut self) -> Result<Piece<'a>, Cut> {
        let (head, rest) = self.rest.split_first().ok_or(Cut)?;
        let len = (head >> 16) as usize;
        let (own, after) = rest.split_at(len.div_ceil(8).min(rest.len()));
        self.rest = after;
        let bytes: &[u8] = bytemuck::cast_slice(own);
        let is_cut = len > bytes.len();
        let bytes = &bytes[..len.min(bytes.len())];
        Ok(Piece { what: *head as u8, how: (head >> 8) as u8, bytes, is_cut })
    }
}

/// The message of a record.
pub(super) fn message(record: &Record, known: &Known) -> String {
    let listed = (record.listed as usize).min(record.arguments.len());
    shown(Pieces::of(record), &record.arguments[..listed], known)
}

/// The text of arguments; one of which something is missing ends in `…`.
fn shown<'a>(mut pieces: Pieces<'a>, arguments: &[Arguments], known: &'a Known) -> String {
    let mut nested = 1;
    let read = |own| Node::read(&mut pieces, own, known, &mut nested).ok();
    let nodes: Vec<_> = arguments.iter().map_while(read).collect();
    let mut out = String::new();
    if nodes.first().ok_or(Cut).and_then(|whole| whole.write(&nodes, &mut out)).is_err() {
        out.push('…');
    }
    out
}

/// Arguments as they were copied.
enum Node<'a> {
    Text(Piece<'a>),
    Template(&'a [u8], Vec<Value<'a>>),
}

/// A copied value.
#[derive(Clone, Copy)]
struct Value<'a> {
    piece: Piece<'a>,
    /// Of arguments within arguments, which of the record's they are.
    node: usize,
}

impl<'a> Node<'a> {
    /// Reads as far as there is something.
    fn read(
        pieces: &mut Pieces<'a>,
        own: &Arguments,
        known: &'a Known,
        nested: &mut usize,
    ) -> Result<Self, Cut> {
        let text = pieces.next()?;
        if own.args & 1 == 1 {
            return Ok(Self::Text(text));
        }
        let template = known.template(own.template).ok_or(Cut)?;
        let mut values = Vec::new();
        for _ in 0..count(template) {
            let Ok(piece) = pieces.next() else { break };
            values.push(Value { piece, node: *nested });
            *nested += usize::from(piece.what == ARGUMENTS);
        }
        Ok(Self::Template(template, values))
    }

    fn write(&self, nodes: &[Node<'a>], out: &mut String) -> Result<(), Cut> {
        let (template, values) = match self {
            Self::Text(text) => {
                out.push_str(&valid(text.bytes));
                return if text.is_cut { Err(Cut) } else { Ok(()) };
            }
            Self::Template(template, values) => (template, values),
        };
        let (mut rest, mut next) = (Bytes(template), 0);
        while let Some(step) = Step::read(&mut rest)? {
            match step {
                Step::Text(text) => out.push_str(&valid(text)),
                Step::Placeholder(own) => {
                    let at = own.argument.unwrap_or(next);
                    next = at + 1;
                    own.write(at, values, nodes, out)?;
                }
            }
        }
        Ok(())
    }
}

/// How many values the device copied for a template.
fn count(template: &[u8]) -> usize {
    let after = |number: usize| number + 1;
    let (mut rest, mut next, mut count) = (Bytes(template), 0, 0);
    while let Ok(Some(step)) = Step::read(&mut rest) {
        let Step::Placeholder(own) = step else { continue };
        next = own.argument.map_or(next + 1, after);
        let counts = own.indirect().map(|number| number.map_or(0, after));
        count = counts.into_iter().fold(count.max(next), usize::max);
    }
    count
}

/// The rest of a template.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Cut> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Cut)?;
        self.0 = rest;
        Ok(head)
    }

    fn number<const N: usize>(&mut self) -> Result<u32, Cut> {
        let mut bytes = [0; 4];
        bytes[..N].copy_from_slice(self.take(N)?);
        Ok(u32::from_le_bytes(bytes))
    }
}

/// A part of a template: of Rust 1.96's `fmt::Arguments`, whose source describes it.
enum Step<'a> {
    Text(&'a [u8]),
    Placeholder(Placeholder),
}

/// A placeholder as it stands in a template.
struct Placeholder {
    flags: u32,
    width: u16,
    precision: u16,
    /// The number of its argument, where it is not the next one.
    argument: Option<usize>,
    /// Whether `width` and `precision` are numbers of arguments.
    is_indirect: [bool; 2],
}

impl<'a> Step<'a> {
    /// The next part; `None` at the end.
    fn read(bytes: &mut Bytes<'a>) -> Result<Option<Self>, Cut> {
        let first = bytes.take(1)?[0];
        Ok(Some(match first {
            0 => return Ok(None),
            1..0x80 => Self::Text(bytes.take(first.into())?),
            0x80 => {
                let len = bytes.number::<2>()?;
                Self::Text(bytes.take(len as usize)?)
            }
            bits => Self::Placeholder(Placeholder::read(bits, bytes)?),
        }))
    }
}

impl Placeholder {
    fn read(bits: u8, bytes: &mut Bytes<'_>) -> Result<Self, Cut> {
        const NONE: u32 = ' ' as u32 | 3 << 29;
        let has = |bit: u8| bits >> bit & 1 == 1;
        let flags = if has(0) { bytes.number::<4>()? } else { NONE };
        let mut field = |bit| if has(bit) { bytes.number::<2>().map(Some) } else { Ok(None) };
        let [width, precision, argument] = [field(1)?, field(2)?, field(3)?];
        let [width, precision] = [width, precision].map(|field| field.unwrap_or(0) as u16);
        let argument = argument.map(|number| number as usize);
        Ok(Self { flags, width, precision, argument, is_indirect: [has(4), has(5)] })
    }

    /// The numbers of the arguments that are its width and precision.
    fn indirect(&self) -> [Option<usize>; 2] {
        let [width, precision] = self.is_indirect;
        [width.then_some(self.width.into()), precision.then_some(self.precision.into())]
    }

    /// Writes the value of argument `at`.
    fn write(
        &self,
        at: usize,
        values: &[Value<'_>],
        nodes: &[Node<'_>],
        out: &mut String,
    ) -> Result<(), Cut> {
        let [width, precision] = self.indirect().map(|number| match number {
            None => Ok(None),
            Some(at) => values.get(at).ok_or(Cut)?.count().map(Some),
        });
        let Value { piece, node } = values.get(at).ok_or(Cut)?;
        if piece.what == ARGUMENTS {
            return nodes.get(*node).ok_or(Cut)?.write(nodes, out);
        }
        let (width, precision) =
            (width?.unwrap_or(self.width), precision?.unwrap_or(self.precision));
        let options = Options::new(self.flags, width, precision);
        out.push_str(&value(piece.what, piece.how, &options, piece.bytes).ok_or(Cut)?);
        if piece.is_cut { Err(Cut) } else { Ok(()) }
    }
}

impl Value<'_> {
    fn count(&self) -> Result<u16, Cut> {
        self.piece.bytes.try_into().map(u16::from_le_bytes).map_err(|_| Cut)
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::panic::{COUNT, DEBUG, DISPLAY, STR, TEXT};

    use super::*;

    /// Arguments whose template is at that address.
    const fn at(template: u64) -> Arguments {
        Arguments { template, args: 16 }
    }

    const COPIED: Arguments = Arguments { template: 0, args: 1 };

    /// A piece as the device writes it.
    fn piece(what: u8, how: u8, bytes: &[u8]) -> Vec<u64> {
        let head = u64::from(what) | u64::from(how) << 8 | (bytes.len() as u64) << 16;
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        [head].into_iter().chain(bytes.chunks(8).map(word)).collect()
    }

    fn text(bytes: &[u8]) -> Vec<u64> {
        piece(TEXT, 0, bytes)
    }

    /// The text of pieces, where the templates are at 0, 1, ….
    fn of(pieces: &[u64], arguments: &[Arguments], templates: &[&[u8]]) -> String {
        shown(Pieces { rest: pieces }, arguments, &Known::with_templates(templates))
    }

    const LENGTH: &[u8] = b"\x0bthe len is \xC0\x04 \xC3\x96l\x00";

    /// The value of `LENGTH`.
    fn length() -> Vec<u64> {
        [text(b""), piece(b'j', DISPLAY, &5u64.to_le_bytes())].concat()
    }

    #[test]
    fn a_message_has_text_and_values() {
        assert_eq!(of(&length(), &[at(0)], &[LENGTH]), "the len is 5 Öl");
        assert_eq!(of(&text(b"no value"), &[COPIED], &[]), "no value");
        assert_eq!(of(&text(b""), &[COPIED], &[]), "");
    }

    #[test]
    fn what_is_missing_is_told() {
        let whole = length();
        for (words, expected) in [(0, "…"), (1, "the len is …"), (2, "the len is …")] {
            assert_eq!(of(&whole[..words], &[at(0)], &[LENGTH]), expected, "{words}");
        }
        assert_eq!(of(&whole, &[at(1)], &[LENGTH]), "…");
        assert_eq!(of(&text(b"a long text")[..2], &[COPIED], &[]), "a long t…");
        let word = [text(b""), piece(STR, DEBUG, b"a long word")].concat();
        let template = &[&b"\xC0\x01!\x00"[..]];
        assert_eq!(of(&word, &[at(0)], template), "\"a long word\"!");
        assert_eq!(of(&word[..word.len() - 1], &[at(0)], template), "\"a long w\"…");
    }

    #[test]
    fn a_type_that_is_not_known_is_told() {
        let pieces = [text(b""), piece(0, 0, &[])].concat();
        assert_eq!(of(&pieces, &[at(0)], &[b"\x02a \xC0\x00"]), "a …");
    }

    #[test]
    fn arguments_have_numbers_and_are_counts() {
        // "{1} {0:>2$} {}"
        let flags = (' ' as u32 | 1 << 29 | 1 << 27).to_le_bytes();
        let template =
            [&b"\xC8\x01\0\x01 \xDB"[..], &flags, &b"\x02\0\0\0\x01 \xC0\0"[..]].concat();
        let pieces = [
            text(b""),
            piece(b'm', DISPLAY, &7u32.to_le_bytes()),
            piece(b'm', DISPLAY, &8u32.to_le_bytes()),
            piece(COUNT, 0, &4u16.to_le_bytes()),
        ];
        assert_eq!(of(&pieces.concat(), &[at(0)], &[&template]), "8    7 8");
    }

    #[test]
    fn arguments_lie_within_arguments() {
        let inner = || piece(ARGUMENTS, 0, &[]);
        let pieces =
            [text(b""), inner(), inner(), text(b""), piece(b'h', DISPLAY, &[9]), text(b"second")];
        let templates: &[&[u8]] = &[b"\xC0\x01:\xC0\0", b"\x02x=\xC0\0"];
        let pieces = pieces.concat();
        assert_eq!(of(&pieces, &[at(0), at(1), COPIED], templates), "x=9:second");
        assert_eq!(of(&pieces, &[at(0), at(1)], templates), "x=9:…");
    }

    #[test]
    fn a_long_piece_has_two_bytes_of_length() {
        let long = "é".repeat(200);
        let template = [&b"\x80\x90\x01"[..], long.as_bytes(), &b"\x01!\0"[..]].concat();
        assert_eq!(of(&text(b""), &[at(0)], &[&template]), long + "!");
    }
}
