//! Pictures as planes of bytes, from and to PNG and JPEG.

use std::io::Cursor;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use image::{
    DynamicImage, GrayAlphaImage, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader,
    Limits, RgbImage, RgbaImage,
};

use super::error::CliError;
use super::input::Input;
use super::memory;
use super::output::{Output, WriteSeek};

/// Quality of a JPEG that is written, of 100.
const JPEG_QUALITY: u8 = 90;
/// Most bytes of a decoded picture: 178 million pixels in colour. A file of a megabyte can say that it has many more.
const MAX_DECODED_BYTES: u64 = 512 << 20;

/// A picture: a plane of bytes, row by row from the top, for each channel. There are 1 (grey), 2
/// (grey and alpha), 3 (red, green, blue) or 4 (and alpha).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: Vec<Vec<u8>>,
}

impl Pixels {
    /// A grey picture of the same size.
    pub(super) fn grey(&self, plane: Vec<u8>) -> Self {
        Self { channels: vec![plane], ..*self }
    }

    /// The pixel in the upper left corner, of a picture that has one.
    pub(super) fn first_pixel(&self) -> Self {
        let channels = self.channels.iter().map(|plane| vec![plane[0]]).collect();
        Self { width: 1, height: 1, channels }
    }

    /// How many channels are colours and not alpha.
    pub(super) fn colours(&self) -> usize {
        if self.channels.len() < 3 { 1 } else { 3 }
    }

    /// Red, green, blue and alpha of each pixel.
    pub(super) fn rgba(&self) -> Vec<[u8; 4]> {
        let plane = |channel: usize| &self.channels[if self.colours() == 1 { 0 } else { channel }];
        let has_alpha = self.channels.len() > self.colours();
        let alpha = self.channels.last().filter(|_| has_alpha);
        let pixel = |at: usize| {
            let alpha = alpha.map_or(u8::MAX, |alpha| alpha[at]);
            [plane(0)[at], plane(1)[at], plane(2)[at], alpha]
        };
        (0..self.width * self.height).map(pixel).collect()
    }

    /// The bytes of `N` channels, pixel by pixel.
    fn interleaved(&self) -> Vec<u8> {
        let pixel = |at: usize| self.channels.iter().map(move |plane| plane[at]);
        (0..self.width * self.height).flat_map(pixel).collect()
    }
}

/// Reads a PNG or JPEG, whatever its name; 16 bits a channel become 8, and a photograph is turned
/// the way that its camera was held.
pub(super) fn read_image(path: &Path) -> Result<Pixels, CliError> {
    let bytes = Input::open(path)?.read()?;
    let reader = ImageReader::new(Cursor::new(bytes.as_slice()));
    let reader = reader.with_guessed_format().map_err(CliError::read(path))?;
    let is_cut = match reader.format() {
        Some(ImageFormat::Png) => false,
        Some(ImageFormat::Jpeg) => is_cut_jpeg(&bytes),
        _ => return Err(CliError::NotAnImage { path: path.to_owned() }),
    };
    if is_cut {
        let reason = "the file ends in the middle of the picture".to_owned();
        return Err(CliError::BadImage { path: path.to_owned(), reason });
    }
    planes(path, decode(path, reader)?)
}

fn decode(path: &Path, mut reader: ImageReader<Cursor<&[u8]>>) -> Result<DynamicImage, CliError> {
    let bad = |error| bad_image(path, error);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(bad)?;
    if decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(too_large(path, Some(decoder.dimensions())));
    }
    // The picture itself, and planes of it.
    memory::check(path, 2 * decoder.total_bytes() as usize)?;
    let orientation = decoder.orientation().map_err(bad)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(bad)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn too_large(path: &Path, dimensions: Option<(u32, u32)>) -> CliError {
    CliError::ImageTooLarge { path: path.to_owned(), dimensions, limit: MAX_DECODED_BYTES }
}

fn bad_image(path: &Path, error: ImageError) -> CliError {
    if matches!(error, ImageError::Limits(_)) {
        return too_large(path, None);
    }
    let reason = error.to_string();
    // The decoder prints a chunk as a struct.
    let reason = match reason.contains("CRC error") {
        true => "a checksum is wrong, so the file is damaged".to_owned(),
        false => reason,
    };
    CliError::BadImage { path: path.to_owned(), reason }
}

/// Whether a JPEG lacks the marker at its end. Its decoder makes grey of what is missing, without a word.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    const END: u8 = 0xd9;
    // Behind the marker at the start there are segments, each with its length, and between some of them the codes of
    // the pixels, in which 0xff stands before 0 or the number of a restart.
    let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7 | 0xff);
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some(at) = rest.windows(2).position(is_marker) {
        if rest[at + 1] == END {
            return false;
        }
        let Some(&[high, low]) = rest.get(at + 2..at + 4) else { return true };
        let len = usize::from(u16::from_be_bytes([high, low]));
        rest = rest.get(at + 2 + len..).unwrap_or_default();
    }
    true
}

fn planes(path: &Path, image: DynamicImage) -> Result<Pixels, CliError> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (count, bytes) = match (image.color().has_color(), image.color().has_alpha()) {
        (false, false) => (1, image.into_luma8().into_raw()),
        (false, true) => (2, image.into_luma_alpha8().into_raw()),
        (true, false) => (3, image.into_rgb8().into_raw()),
        (true, true) => (4, image.into_rgba8().into_raw()),
    };
    let channel = |channel: usize| bytes.iter().skip(channel).step_by(count).copied();
    let plane = |number| memory::collect(path, width * height, channel(number));
    Ok(Pixels { width, height, channels: (0..count).map(plane).collect::<Result<_, _>>()? })
}

/// The kind of picture that the name of `path` asks for.
pub(super) fn format_of(path: &Path) -> Result<ImageFormat, CliError> {
    match ImageFormat::from_path(path) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => Ok(format),
        _ => Err(CliError::UnknownFormat { path: path.to_owned() }),
    }
}

/// Writes `pixels` to `path` as its name says.
pub(super) fn write_image(path: &Path, pixels: Pixels) -> Result<(), CliError> {
    let format = format_of(path)?;
    let output = Output::create(path)?;
    finish_image(output, path, format, pixels)
}

/// Writes `pixels` to an output.
pub(super) fn finish_image(
    output: Output,
    path: &Path,
    format: ImageFormat,
    pixels: Pixels,
) -> Result<(), CliError> {
    output.finish(|file| encode_image(file, path, format, pixels))
}

/// Writes `pixels` into an open file. A JPEG loses its alpha.
pub(super) fn encode_image(
    file: &mut (dyn WriteSeek + '_),
    path: &Path,
    format: ImageFormat,
    pixels: Pixels,
) -> Result<(), CliError> {
    let failed = |error: ImageError| CliError::encode(path)(error);
    encode(&dynamic(pixels), format, file).map_err(failed)
}

fn encode(
    image: &DynamicImage,
    format: ImageFormat,
    mut file: &mut (dyn WriteSeek + '_),
) -> Result<(), ImageError> {
    if format == ImageFormat::Png {
        return image.write_to(&mut file, format);
    }
    let encoder = JpegEncoder::new_with_quality(&mut file, JPEG_QUALITY);
    match image.color().has_color() {
        true => image.to_rgb8().write_with_encoder(encoder),
        false => image.to_luma8().write_with_encoder(encoder),
    }
}

fn dynamic(pixels: Pixels) -> DynamicImage {
    let (width, height) = (pixels.width as u32, pixels.height as u32);
    let bytes = pixels.interleaved();
    let image = match pixels.channels.len() {
        1 => GrayImage::from_raw(width, height, bytes).map(DynamicImage::from),
        2 => GrayAlphaImage::from_raw(width, height, bytes).map(DynamicImage::from),
        3 => RgbImage::from_raw(width, height, bytes).map(DynamicImage::from),
        _ => RgbaImage::from_raw(width, height, bytes).map(DynamicImage::from),
    };
    image.expect("each plane has width times height bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(channels: usize) -> Pixels {
        let plane = |channel| (0..12u8).map(|at| at * 20 + channel as u8).collect();
        Pixels { width: 4, height: 3, channels: (0..channels).map(plane).collect() }
    }

    #[test]
    fn a_png_comes_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        for channels in 1..=4 {
            let path = dir.path().join(format!("{channels}.PNG"));
            write_image(&path, sample(channels)).unwrap();
            assert_eq!(read_image(&path).unwrap(), sample(channels));
        }
    }

    #[test]
    fn a_jpeg_loses_alpha_and_keeps_colour() {
        let dir = tempfile::tempdir().unwrap();
        for (channels, left) in [(1, 1), (2, 1), (3, 3), (4, 3)] {
            let path = dir.path().join(format!("{channels}.jpg"));
            write_image(&path, sample(channels)).unwrap();
            let back = read_image(&path).unwrap();
            assert_eq!((back.width, back.height, back.channels.len()), (4, 3, left));
        }
    }

    #[test]
    fn a_jpeg_is_whole_up_to_its_last_marker() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whole.jpg");
        let noise = |at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8;
        let plane = || (0..64 * 64).map(noise).collect();
        write_image(&path, Pixels { width: 64, height: 64, channels: vec![plane(); 3] }).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert!(!is_cut_jpeg(&whole) && !is_cut_jpeg(&[whole.as_slice(), b"more"].concat()));
        for len in 0..whole.len() {
            assert!(is_cut_jpeg(&whole[..len]), "{len} of {}", whole.len());
        }
    }

    #[test]
    fn grey_and_alpha_become_rgba() {
        assert_eq!(sample(1).rgba()[1], [20, 20, 20, 255]);
        assert_eq!(sample(2).rgba()[1], [20, 20, 20, 21]);
        assert_eq!(sample(3).rgba()[1], [20, 21, 22, 255]);
        assert_eq!(sample(4).rgba()[1], [20, 21, 22, 23]);
    }
}
