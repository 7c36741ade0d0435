//! LZMA of one block, with the text of another one as its dictionary.

use std::io::Read;

use lzma_rust2::LzmaReader;

/// Literal context bits: text is told apart well by the upper half of the byte before.
const LITERAL_CONTEXT_BITS: u32 = 4;
/// Text has no alignment.
const POSITION_BITS: u32 = 0;

/// Compresses a text that resembles `base`.
#[cfg(feature = "pack")]
pub(super) fn compress(text: &[u8], base: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Write;

    // The fast mode: the better ones take ten times as long for a fifth less.
    let mut options = lzma_rust2::LzmaOptions::with_preset(1);
    options.dict_size = window(text.len(), base);
    options.lc = LITERAL_CONTEXT_BITS;
    options.lp = POSITION_BITS;
    options.pb = POSITION_BITS;
    options.preset_dict = (!base.is_empty()).then(|| base.to_vec());
    let mut writer = lzma_rust2::LzmaWriter::new_no_header(Vec::new(), &options, false)?;
    writer.write_all(text)?;
    writer.finish()
}

/// Undoes [`compress`], for a text of `length` bytes.
pub(super) fn decompress(packed: &[u8], length: usize, base: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = vec![0; length];
    let dictionary = (!base.is_empty()).then_some(base);
    let mut reader = LzmaReader::new(
        packed,
        length as u64,
        LITERAL_CONTEXT_BITS,
        POSITION_BITS,
        POSITION_BITS,
        window(length, base),
        dictionary,
    )?;
    reader.read_exact(&mut text)?;
    Ok(text)
}

/// A window that sees all of both texts.
fn window(length: usize, base: &[u8]) -> u32 {
    const SMALLEST: usize = 4096;
    u32::try_from((length + base.len()).max(SMALLEST)).unwrap_or(lzma_rust2::DICT_SIZE_MAX)
}
