//! Films in and out: YUV4MPEG2 by the crate `y4m`, AV1 by `rav1e`, in an IVF file by `ivf`. All three are Rust alone.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write, stdin};
use std::path::Path;

use rav1e::prelude::{ChromaSampling, Config, Context, EncoderConfig, EncoderStatus, Rational};
use y4m::{Colorspace, Decoder, Encoder, Frame, Ratio};

use super::filter::Film;
use super::{Outcome, scene};

/// The fastest preset of the encoder.
const SPEED: u8 = 10;
/// Steps of quantisation, from 0, which loses nothing, to 255.
const QUANTIZER: usize = 80;

/// Where frames come from.
pub enum Reader {
    Scene { film: Film, next: u64, frames: u64 },
    Y4m(Film, Box<Decoder<Box<dyn Read>>>),
}

impl Reader {
    pub fn scene([width, height]: [usize; 2], frames: u64) -> Self {
        Self::Scene { film: Film { width, height, rate: [30, 1] }, next: 0, frames }
    }

    /// Opens a film; `-` is standard input.
    pub fn open(path: &Path) -> Outcome<Self> {
        let source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(stdin())
        } else {
            Box::new(BufReader::new(File::open(path)?))
        };
        let decoder = y4m::decode(source)?;
        use Colorspace::{C420, C420jpeg, C420mpeg2, C420paldv};
        if !matches!(decoder.get_colorspace(), C420 | C420jpeg | C420mpeg2 | C420paldv) {
            return Err(
                "the film is not YUV 4:2:0 with 8 bits; ffmpeg -pix_fmt yuv420p makes it so".into(),
            );
        }
        let Ratio { num, den } = decoder.get_framerate();
        let film =
            Film { width: decoder.get_width(), height: decoder.get_height(), rate: [num, den] };
        Ok(Self::Y4m(film, Box::new(decoder)))
    }

    pub fn film(&self) -> Film {
        match self {
            Self::Scene { film, .. } | Self::Y4m(film, _) => *film,
        }
    }

    /// Reads the next frame; false after the last one.
    pub fn read(&mut self, into: &mut [u8]) -> Outcome<bool> {
        match self {
            Self::Scene { next, frames, .. } if next == frames => Ok(false),
            Self::Scene { film, next, .. } => {
                scene::draw(*film, *next, into);
                *next += 1;
                Ok(true)
            }
            Self::Y4m(film, decoder) => match decoder.read_frame() {
                Err(y4m::Error::EOF) => Ok(false),
                Err(error) => Err(error.into()),
                Ok(frame) => {
                    let planes = [frame.get_y_plane(), frame.get_u_plane(), frame.get_v_plane()];
                    (0..3).for_each(|index| into[film.range(index)].copy_from_slice(planes[index]));
                    Ok(true)
                }
            },
        }
    }
}

/// Where frames go.
pub enum Writer {
    Y4m(Film, Box<Encoder<File>>),
    Av1(Box<Av1>),
}

/// An encoder, and the file that it writes to.
pub struct Av1 {
    film: Film,
    encoder: Context<u8>,
    file: BufWriter<File>,
}

impl Writer {
    /// Creates a film, .y4m or .ivf.
    pub fn create(path: &Path, film: Film) -> Outcome<Self> {
        let Film { width, height, rate: [num, den] } = film;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let create = || File::create(path).map(BufWriter::new);
        match extension {
            Some("y4m") => {
                let format = y4m::encode(width, height, Ratio::new(num, den))
                    .with_colorspace(Colorspace::C420jpeg);
                Ok(Self::Y4m(film, Box::new(format.write_header(File::create(path)?)?)))
            }
            Some("ivf") => {
                let encoder = av1(film)?;
                let mut file = create()?;
                ivf::write_ivf_header(&mut file, width, height, num, den);
                Ok(Self::Av1(Box::new(Av1 { film, encoder, file })))
            }
            _ => Err(format!("end the name {} in .ivf or .y4m", path.display()).into()),
        }
    }

    pub fn write(&mut self, frame: &[u8]) -> Outcome<()> {
        match self {
            Self::Y4m(film, encoder) => {
                let planes = [0, 1, 2].map(|index| &frame[film.range(index)]);
                Ok(encoder.write_frame(&Frame::new(planes, None))?)
            }
            Self::Av1(av1) => av1.write(frame),
        }
    }

    /// Writes what the encoder still holds: it looks ahead some frames.
    pub fn finish(self) -> Outcome<()> {
        match self {
            Self::Y4m(..) => Ok(()),
            Self::Av1(mut av1) => {
                av1.encoder.flush();
                av1.write_packets()?;
                Ok(av1.file.flush()?)
            }
        }
    }
}

fn av1(film: Film) -> Outcome<Context<u8>> {
    let [num, den] = film.rate.map(|part| part as u64);
    let settings = EncoderConfig {
        width: film.width,
        height: film.height,
        time_base: Rational::new(den, num),
        chroma_sampling: ChromaSampling::Cs420,
        quantizer: QUANTIZER,
        ..EncoderConfig::with_speed_preset(SPEED)
    };
    Ok(Config::new().with_encoder_config(settings).new_context()?)
}

impl Av1 {
    fn write(&mut self, frame: &[u8]) -> Outcome<()> {
        let mut picture = self.encoder.new_frame();
        for (index, plane) in picture.planes.iter_mut().enumerate() {
            let width = if index == 0 { self.film.width } else { self.film.width.div_ceil(2) };
            plane.copy_from_raw_u8(&frame[self.film.range(index)], width, 1);
        }
        self.encoder.send_frame(picture)?;
        self.write_packets()
    }

    fn write_packets(&mut self) -> Outcome<()> {
        loop {
            match self.encoder.receive_packet() {
                Ok(packet) => {
                    ivf::write_ivf_frame(&mut self.file, packet.input_frameno, &packet.data)
                }
                Err(EncoderStatus::Encoded) => {}
                Err(EncoderStatus::NeedMoreData | EncoderStatus::LimitReached) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
