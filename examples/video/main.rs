//! A film through filters on the GPU: decoded, blurred or reduced to its edges, and encoded.
//!
//! ```console
//! $ cargo run --release -p examples --features video --example video -- edges.ivf
//! $ ffmpeg -i film.mp4 -pix_fmt yuv420p -f yuv4mpegpipe - | target/release/examples/video --input - --filter blur soft.ivf
//! ```
//!
//! Without `--input` the film is a drawn scene (`scene.rs`). Input is YUV4MPEG2 (.y4m, or `-` for standard input), which
//! every encoder and decoder can pipe. Output is AV1 in an IVF file, which browsers and players play, or .y4m, which is not
//! compressed (`codecs.rs`). While one frame is filtered, the next one is decoded and the one before is encoded.

mod codecs;
mod filter;
mod scene;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ferrowarp::{Buffering, FrameShape, Gpu, GpuContext, Pipeline};

use codecs::{Reader, Writer};
use filter::{Film, Filter};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The command line.
struct Options {
    input: Option<PathBuf>,
    output: PathBuf,
    filter: Filter,
    /// Of the drawn scene.
    frames: u64,
    size: [usize; 2],
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Self> {
        let (mut input, mut output, mut frames, mut size) = (None, None, 90, [640, 360]);
        let (mut is_blur, mut sigma) = (false, 1.5);
        while let Some(argument) = args.next() {
            if !argument.starts_with("--") {
                output = Some(PathBuf::from(argument));
                continue;
            }
            let value = args.next().ok_or(format!("{argument} takes a value"))?;
            match (argument.as_str(), value.as_str()) {
                ("--input", _) => input = Some(PathBuf::from(value)),
                ("--filter", "blur") => is_blur = true,
                ("--filter", "edges") => is_blur = false,
                ("--sigma", _) => sigma = value.parse()?,
                ("--frames", _) => frames = value.parse()?,
                ("--width", _) => size[0] = value.parse()?,
                ("--height", _) => size[1] = value.parse()?,
                _ => return Err(format!("{argument} {value} is not an option").into()),
            }
        }
        let output = output.ok_or("name the film to write, as in `video edges.ivf`")?;
        if size.iter().any(|side| *side < 16) {
            return Err("a film has at least 16 x 16 pixels".into());
        }
        let filter = if is_blur { Filter::Blur { sigma } } else { Filter::Edges { sigma } };
        Ok(Self { input, output, filter, frames, size })
    }
}

/// Where the time of the host went. It waits for the device only where that is slower than the codecs.
#[derive(Default)]
struct Times {
    decoding: Duration,
    waiting: Duration,
    encoding: Duration,
}

/// Adds the time that `work` takes to `total`.
fn timed<R>(total: &mut Duration, work: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    let result = work();
    *total += begin.elapsed();
    result
}

/// Filters all frames of `reader` into `writer`, and returns how many there were.
fn filter(
    gpu: &Gpu,
    filter: Filter,
    reader: &mut Reader,
    writer: &mut Writer,
    times: &mut Times,
) -> Outcome<u64> {
    let film = reader.film();
    let shape = FrameShape { input_len: film.frame_len(), output_len: film.frame_len() };
    let compute = filter.of(gpu, film);
    let mut pipeline = Pipeline::new(gpu, shape, Buffering::Triple, compute)?;
    let (mut frames, mut more) = (0, true);
    loop {
        while more && !pipeline.is_full() {
            let mut read = Ok(true);
            let pushed = pipeline.push_if(|input| {
                read = timed(&mut times.decoding, || reader.read(input));
                matches!(read, Ok(true))
            });
            more = pushed.with_gpu_context(|| format!("frame {frames}"))? && read?;
        }
        let (mut written, begin) = (Duration::ZERO, Instant::now());
        let popped = pipeline.pop(|output| timed(&mut written, || writer.write(output)));
        let Some(result) = popped.with_gpu_context(|| format!("frame {frames}"))? else {
            return Ok(frames);
        };
        times.encoding += written;
        times.waiting += begin.elapsed() - written;
        result?;
        frames += 1;
    }
}

fn main() -> Outcome<()> {
    let options = Options::parse(env::args().skip(1))?;
    let mut reader = match &options.input {
        Some(path) => Reader::open(path)?,
        None => Reader::scene(options.size, options.frames),
    };
    let mut writer = Writer::create(&options.output, reader.film())?;
    let gpu = Gpu::new()?;
    let (mut times, start) = (Times::default(), Instant::now());
    let frames = filter(&gpu, options.filter, &mut reader, &mut writer, &mut times)?;
    timed(&mut times.encoding, || writer.finish())?;

    let seconds = start.elapsed().as_secs_f64();
    let Film { width, height, .. } = reader.film();
    println!("device: {}", gpu.name());
    println!(
        "{frames} frames of {width} x {height} in {seconds:.2} s, {:.1} a second",
        frames as f64 / seconds
    );
    let shares = [
        ("decoding", times.decoding),
        ("waiting for the device", times.waiting),
        ("encoding", times.encoding),
    ];
    for (what, time) in shares {
        let time = time.as_secs_f64();
        println!("{what}: {time:.2} s, {:.0} %", 100.0 * time / seconds);
    }
    println!("wrote {}", options.output.display());
    Ok(())
}
