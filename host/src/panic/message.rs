//! What a record says: the device copied templates and values, and here they become text.

use cuda_std::panic::{ARGUMENTS, Arguments, PIECES_BYTES, Record};
use ptx_format::panic::template::{Count, NotATemplate, Placeholder, Step, steps, values};

use super::known::Known;
use super::text::{Options, valid, value};

/// Of what was to come there is less.
struct Cut;

impl From<NotATemplate> for Cut {
    fn from(_: NotATemplate) -> Self {
        Self
    }
}

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
        let mut copied = Vec::new();
        for _ in 0..values(template) {
            let Ok(piece) = pieces.next() else { break };
            copied.push(Value { piece, node: *nested });
            *nested += usize::from(piece.what == ARGUMENTS);
        }
        Ok(Self::Template(template, copied))
    }

    fn write(&self, nodes: &[Node<'a>], out: &mut String) -> Result<(), Cut> {
        let (template, values) = match self {
            Self::Text(text) => {
                out.push_str(&valid(text.bytes));
                return if text.is_cut { Err(Cut) } else { Ok(()) };
            }
            Self::Template(template, values) => (template, values),
        };
        steps(template).try_for_each(|step| match step? {
            Step::Text(text) => {
                out.push_str(&valid(text));
                Ok(())
            }
            Step::Placeholder(own) => write(&own, values, nodes, out),
        })
    }
}

/// Writes the value of a placeholder.
fn write(
    own: &Placeholder,
    values: &[Value<'_>],
    nodes: &[Node<'_>],
    out: &mut String,
) -> Result<(), Cut> {
    let count = |count| match count {
        Count::Is(number) => Ok(number),
        Count::Value(number) => values.get(number).ok_or(Cut)?.count(),
    };
    let Value { piece, node } = values.get(own.value).ok_or(Cut)?;
    if piece.what == ARGUMENTS {
        return nodes.get(*node).ok_or(Cut)?.write(nodes, out);
    }
    let options = Options::new(own.flags, count(own.width)?, count(own.precision)?);
    out.push_str(&value(piece.what, piece.how, &options, piece.bytes).ok_or(Cut)?);
    if piece.is_cut { Err(Cut) } else { Ok(()) }
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
