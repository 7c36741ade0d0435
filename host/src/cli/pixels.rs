//! Pictures as planes of bytes, from and to PNG and JPEG.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use image::{
    DynamicImage, GrayAlphaImage, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader,
    RgbImage, RgbaImage,
};

use super::error::CliError;
use super::output::{Output, WriteSeek};

/// Quality of a JPEG that is written, of 100.
const JPEG_QUALITY: u8 = 90;

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
    let file = File::open(path).map_err(CliError::read(path))?;
    if file.metadata().map_err(CliError::read(path))?.len() == 0 {
        return Err(CliError::Empty { path: path.to_owned() });
    }
    let reader = ImageReader::new(BufReader::new(file));
    let reader = reader.with_guessed_format().map_err(CliError::read(path))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(CliError::NotAnImage { path: path.to_owned() });
    }
    let image = decode(reader).map_err(|error| match error {
        ImageError::IoError(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
            CliError::Read { path: path.to_owned(), source }
        }
        error => CliError::BadImage { path: path.to_owned(), reason: error.to_string() },
    })?;
    Ok(planes(image))
}

fn decode(reader: ImageReader<BufReader<File>>) -> Result<DynamicImage, ImageError> {
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn planes(image: DynamicImage) -> Pixels {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (count, bytes) = match (image.color().has_color(), image.color().has_alpha()) {
        (false, false) => (1, image.into_luma8().into_raw()),
        (false, true) => (2, image.into_luma_alpha8().into_raw()),
        (true, false) => (3, image.into_rgb8().into_raw()),
        (true, true) => (4, image.into_rgba8().into_raw()),
    };
    let plane = |channel: usize| bytes.iter().skip(channel).step_by(count).copied().collect();
    Pixels { width, height, channels: (0..count).map(plane).collect() }
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

/// Writes `pixels` to an output that is open. A JPEG loses its alpha.
pub(super) fn finish_image(
    output: Output,
    path: &Path,
    format: ImageFormat,
    pixels: Pixels,
) -> Result<(), CliError> {
    let image = dynamic(pixels);
    output.finish(|file| {
        encode(&image, format, file).map_err(|error| match error {
            ImageError::IoError(source) => CliError::Write { path: path.to_owned(), source },
            error => CliError::Encode { path: path.to_owned(), reason: error.to_string() },
        })
    })
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
    fn grey_and_alpha_become_rgba() {
        assert_eq!(sample(1).rgba()[1], [20, 20, 20, 255]);
        assert_eq!(sample(2).rgba()[1], [20, 20, 20, 21]);
        assert_eq!(sample(3).rgba()[1], [20, 21, 22, 255]);
        assert_eq!(sample(4).rgba()[1], [20, 21, 22, 23]);
    }
}
