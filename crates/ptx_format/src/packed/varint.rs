//! Numbers and texts of an archive's head: seven bits a byte, the lowest first.

/// Reads from the front of bytes; `None` behind their end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Option<usize> {
        usize::try_from(self.wide()?).ok()
    }

    pub(super) fn wide(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A list of at most as many items as bytes are left: damaged lengths allocate nothing.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let length = self.number().filter(|length| *length <= self.0.len())?;
        (0..length).map(|_| item(self)).collect()
    }
}

/// Writes what [`Reader`] reads.
#[cfg(feature = "pack")]
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

#[cfg(feature = "pack")]
impl Writer {
    pub(super) fn number(&mut self, number: usize) {
        self.wide(number as u64);
    }

    pub(super) fn wide(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
}

#[cfg(all(test, feature = "pack"))]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_read_back() {
        let mut writer = Writer::default();
        for number in [0, 1, 127, 128, 1 << 40, u64::MAX] {
            writer.wide(number);
        }
        writer.text("sm_90a");
        let mut reader = Reader(&writer.0);
        for number in [0, 1, 127, 128, 1 << 40, u64::MAX] {
            assert_eq!(reader.wide(), Some(number));
        }
        assert_eq!((reader.text(), reader.number()), (Some("sm_90a"), None));
    }

    #[test]
    fn a_list_that_is_longer_than_the_bytes_is_refused() {
        let mut writer = Writer::default();
        writer.number(1 << 50);
        assert_eq!(Reader(&writer.0).list(Reader::number), None);
    }
}
