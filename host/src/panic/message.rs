//! What a record says: the device copied templates and values, and here they become text.

use cuda_std::panic::{ARGUMENTS, Arguments, FILE, KERNELS, PIECES_BYTES, Record};

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
    fn of(record: &'a Record, from: u32, to: u32) -> Self {
        let [from, to] = [from, to].map(|at| (at as usize).min(PIECES_BYTES) / 8);
        Self { rest: &record.pieces[from.min(to)..to] }
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

    /// The text of the first piece that is such a one.
    fn text(mut self, what: u8) -> String {
        while let Ok(piece) = self.next() {
            if piece.what == what {
                return valid(piece.bytes.strip_suffix(&[0]).unwrap_or(piece.bytes));
            }
        }
        String::new()
    }
}

/// The names of the kernels that a record's panic can be of.
pub(super) fn kernels(record: &Record) -> Vec<String> {
    let names = Pieces::of(record, 0, record.message).text(KERNELS);
    names.split_whitespace().map(str::to_owned).collect()
}

/// The file of a record.
pub(super) fn file(record: &Record) -> String {
    Pieces::of(record, 0, record.message).text(FILE)
}

/// The message of a record.
pub(super) fn message(record: &Record) -> String {
    let listed = (record.listed as usize).min(record.arguments.len());
    let pieces = Pieces::of(record, record.message, record.used);
    shown(pieces, &record.arguments[..listed])
}

/// The text of arguments; one of which something is missing ends in `…`.
fn shown(mut pieces: Pieces<'_>, arguments: &[Arguments]) -> String {
    let mut nested = 1;
    let nodes: Vec<_> =
        arguments.iter().map_while(|own| Node::read(&mut pieces, own, &mut nested).ok()).collect();
    let mut out = String::new();
    if nodes.first().ok_or(Cut).and_then(|whole| whole.write(&nodes, &mut out)).is_err() {
        out.push('…');
    }
    out
}

/// Arguments as they were copied.
struct Node<'a> {
    /// Whether what was copied is a text.
    is_text: bool,
    template: Piece<'a>,
    values: Vec<Value<'a>>,
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
    fn read(pieces: &mut Pieces<'a>, own: &Arguments, nested: &mut usize) -> Result<Self, Cut> {
        let (template, is_text) = (pieces.next()?, own.args & 1 == 1);
        let count = if is_text { 0 } else { count(template.bytes) };
        let mut values = Vec::new();
        while values.len() < count {
            let Ok(piece) = pieces.next() else { break };
            values.push(Value { piece, node: *nested });
            *nested += usize::from(piece.what == ARGUMENTS);
        }
        Ok(Self { is_text, template, values })
    }

    fn write(&self, nodes: &[Node<'a>], out: &mut String) -> Result<(), Cut> {
        if self.is_text {
            out.push_str(&valid(self.template.bytes));
            return if self.template.is_cut { Err(Cut) } else { Ok(()) };
        }
        let (mut rest, mut next) = (Bytes(self.template.bytes), 0);
        while let Some(step) = Step::read(&mut rest)? {
            match step {
                Step::Text(text) => out.push_str(&valid(text)),
                Step::Placeholder(own) => {
                    let at = own.argument.unwrap_or(next);
                    next = at + 1;
                    own.write(at, &self.values, nodes, out)?;
                }
            }
        }
        Ok(())
    }
}

/// How many values the device copied for a template.
fn count(template: &[u8]) -> usize {
    // The device reads the lower byte of such a number.
    let after = |number: usize| (number & 0xFF) + 1;
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
    use cuda_std::panic::{COUNT, DEBUG, DISPLAY, STR, TEMPLATE};

    use super::*;

    const VALUES: Arguments = Arguments { template: 0, args: 16 };
    const TEXT: Arguments = Arguments { template: 0, args: 1 };

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

    fn template(bytes: &[u8]) -> Vec<u64> {
        piece(TEMPLATE, 0, bytes)
    }

    fn of(pieces: &[u64], arguments: &[Arguments]) -> String {
        shown(Pieces { rest: pieces }, arguments)
    }

    /// "the len is {} Öl" and its value.
    fn length() -> Vec<u64> {
        let template = template(b"\x0bthe len is \xC0\x04 \xC3\x96l\x00");
        [template, piece(b'j', DISPLAY, &5u64.to_le_bytes())].concat()
    }

    #[test]
    fn a_message_has_text_and_values() {
        assert_eq!(of(&length(), &[VALUES]), "the len is 5 Öl");
        assert_eq!(of(&template(b"no value"), &[TEXT]), "no value");
        assert_eq!(of(&template(b""), &[TEXT]), "");
    }

    #[test]
    fn what_is_missing_is_told() {
        let whole = length();
        for (words, expected) in [
            (0, "…"),
            (1, "…"),
            (2, "…"),
            (3, "the len is …"),
            (4, "the len is …"),
            (5, "the len is …"),
        ] {
            assert_eq!(of(&whole[..words], &[VALUES]), expected, "{words}");
        }
        assert_eq!(of(&template(b"a long text")[..2], &[TEXT]), "a long t…");
        let word = [template(b"\xC0\x01!\x00"), piece(STR, DEBUG, b"a long word")].concat();
        assert_eq!(of(&word, &[VALUES]), "\"a long word\"!");
        assert_eq!(of(&word[..word.len() - 1], &[VALUES]), "\"a long w\"…");
    }

    #[test]
    fn a_type_that_is_not_known_is_told() {
        let bytes = [template(b"\x02a \xC0\x00"), piece(0, 0, &[])].concat();
        assert_eq!(of(&bytes, &[VALUES]), "a …");
    }

    #[test]
    fn arguments_have_numbers_and_are_counts() {
        // "{1} {0:>2$} {}"
        let flags = (' ' as u32 | 1 << 29 | 1 << 27).to_le_bytes();
        let bytes = [&b"\xC8\x01\0\x01 \xDB"[..], &flags, &b"\x02\0\0\0\x01 \xC0\0"[..]].concat();
        let pieces = [
            template(&bytes),
            piece(b'm', DISPLAY, &7u32.to_le_bytes()),
            piece(b'm', DISPLAY, &8u32.to_le_bytes()),
            piece(COUNT, 0, &4u16.to_le_bytes()),
        ];
        assert_eq!(of(&pieces.concat(), &[VALUES]), "8    7 8");
    }

    #[test]
    fn arguments_lie_within_arguments() {
        let inner = || piece(ARGUMENTS, 0, &[]);
        let pieces = [
            template(b"\xC0\x01:\xC0\0"),
            inner(),
            inner(),
            template(b"\x02x=\xC0\0"),
            piece(b'h', DISPLAY, &[9]),
            template(b"second"),
        ];
        assert_eq!(of(&pieces.concat(), &[VALUES, VALUES, TEXT]), "x=9:second");
        assert_eq!(of(&pieces.concat(), &[VALUES, VALUES]), "x=9:…");
    }

    #[test]
    fn a_long_piece_has_two_bytes_of_length() {
        let long = "é".repeat(200);
        let bytes = [&b"\x80\x90\x01"[..], long.as_bytes(), &b"\x01!\0"[..]].concat();
        assert_eq!(of(&template(&bytes), &[VALUES]), long + "!");
    }
}
