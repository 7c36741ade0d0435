//! The example `video`: what it writes is read back, and compared with filters on the CPU.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, process};

use y4m::{Colorspace, Ratio};

fn program() -> PathBuf {
    let own = env::current_exe().expect("this executable has a path");
    own.ancestors().nth(2).expect("it lies in a folder of the build").join("examples").join("video")
}

/// A folder of this test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("ferrowarp-video-{}-{name}", process::id()));
        fs::create_dir_all(&path).expect("a folder for the films");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(args: &[&str], film: &Path) -> Output {
    let command = Command::new(program()).args(args).arg(film).output();
    command.unwrap_or_else(|error| {
        panic!("{}: {error}; `make video-test` builds it", program().display())
    })
}

/// Runs it, and returns what it printed.
fn runs(args: &[&str], film: &Path) -> String {
    let output = run(args, film);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A frame: luma, and two planes of chroma.
type Planes = [Vec<u8>; 3];

/// Noise, and a bright rectangle in it, other ones in each frame.
fn noisy(width: usize, height: usize, number: usize) -> Planes {
    let mut state = number as u32 + 1;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let is_inside = |i: usize| (3..width / 2).contains(&(i % width)) && i / width > height / 2;
    let luma = (0..width * height).map(|i| if is_inside(i) { 235 } else { noise() / 4 }).collect();
    let chroma = width.div_ceil(2) * height.div_ceil(2);
    [
        luma,
        (0..chroma).map(|_| noise_of(number, 3)).collect(),
        (0..chroma).map(|i| (i % 251) as u8).collect(),
    ]
}

fn noise_of(number: usize, factor: usize) -> u8 {
    (number * factor % 256) as u8
}

fn write(path: &Path, width: usize, height: usize, frames: &[Planes]) {
    let format =
        y4m::encode(width, height, Ratio::new(24, 1)).with_colorspace(Colorspace::C420jpeg);
    let mut encoder = format.write_header(File::create(path).expect("created")).expect("a header");
    for planes in frames {
        let planes = [&planes[0][..], &planes[1], &planes[2]];
        encoder.write_frame(&y4m::Frame::new(planes, None)).expect("a frame");
    }
}

fn read(path: &Path) -> ([usize; 2], Vec<Planes>) {
    let mut decoder =
        y4m::decode(BufReader::new(File::open(path).expect("a film"))).expect("a header");
    let size = [decoder.get_width(), decoder.get_height()];
    let mut frames = Vec::new();
    while let Ok(frame) = decoder.read_frame() {
        frames.push(
            [frame.get_y_plane(), frame.get_u_plane(), frame.get_v_plane()].map(<[u8]>::to_vec),
        );
    }
    (size, frames)
}

/// The blurred plane on the CPU, and how far the device may be from it: the rounding to a whole number may go the other way.
fn blurred(plane: &[u8], width: usize, height: usize, sigma: f32) -> Vec<f64> {
    let radius = ferrowarp::ops::blur::radius(sigma);
    reference::blur::blur(plane, width, height, f64::from(sigma), radius)
}

#[track_caller]
fn assert_near(found: &[u8], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(*found) - expected).abs() <= tolerance,
            "{what}, {i}: {found}, expected {expected}"
        );
    }
}

/// Sizes that are not those of a block, odd ones too.
const SIZES: [(usize, usize); 3] = [(64, 48), (33, 17), (131, 67)];

#[test]
fn blurred_frames_are_those_of_the_cpu() {
    for (width, height) in SIZES {
        let folder = Folder::new(&format!("blur-{width}"));
        let frames: Vec<Planes> = (0..5).map(|number| noisy(width, height, number)).collect();
        let (input, output) = (folder.path("in.y4m"), folder.path("out.y4m"));
        write(&input, width, height, &frames);
        runs(
            &["--input", input.to_str().expect("text"), "--filter", "blur", "--sigma", "2"],
            &output,
        );
        let (size, found) = read(&output);
        assert_eq!((size, found.len()), ([width, height], 5));
        for (number, (found, original)) in found.iter().zip(&frames).enumerate() {
            for plane in 0..3 {
                let half = |side: usize| if plane == 0 { side } else { side.div_ceil(2) };
                let sigma = if plane == 0 { 2.0 } else { 1.0 };
                let expected = blurred(&original[plane], half(width), half(height), sigma);
                // Half a level of rounding, and a hundredth for the weights in single precision.
                let what = format!("{width} x {height}, frame {number}, plane {plane}");
                assert_near(&found[plane], &expected, 0.51, &what);
            }
        }
    }
}

#[test]
fn edges_are_those_of_the_cpu_and_grey() {
    for (width, height) in SIZES {
        let folder = Folder::new(&format!("edges-{width}"));
        let frames: Vec<Planes> = (0..4).map(|number| noisy(width, height, number)).collect();
        let (input, soft, edges) =
            (folder.path("in.y4m"), folder.path("soft.y4m"), folder.path("edges.y4m"));
        write(&input, width, height, &frames);
        let input = input.to_str().expect("text");
        runs(&["--input", input, "--filter", "blur"], &soft);
        runs(&["--input", input, "--filter", "edges"], &edges);
        // The blur is compared with the CPU above, so that this comparison can be exact.
        let ((_, soft), (_, edges)) = (read(&soft), read(&edges));
        assert_eq!(edges.len(), 4);
        for (soft, edges) in soft.iter().zip(&edges) {
            assert_eq!(
                edges[0],
                reference::sobel::sobel(&soft[0], width, height),
                "{width} x {height}"
            );
            assert!(edges[1].iter().chain(&edges[2]).all(|chroma| *chroma == 128));
        }
        assert!(
            edges.iter().any(|frame| frame[0].iter().any(|edge| *edge > 128)),
            "there are edges"
        );
    }
}

#[test]
fn an_av1_film_has_its_header_and_all_frames() {
    let folder = Folder::new("av1");
    let film = folder.path("edges.ivf");
    let text = runs(&["--frames", "7", "--width", "96", "--height", "64"], &film);
    assert!(text.contains("7 frames of 96 x 64 in ") && text.contains("encoding: "), "{text}");

    let mut file = BufReader::new(File::open(&film).expect("it wrote a film"));
    let header = ivf::read_header(&mut file).expect("a header");
    assert_eq!((&header.tag, header.w, header.h), (b"AV01", 96, 64));
    // Times are counted in frames: one of 30 parts of a second.
    assert_eq!((header.timebase_num, header.timebase_den), (1, 30));
    let packets: Vec<_> = std::iter::from_fn(|| ivf::read_packet(&mut file).ok()).collect();
    let times: Vec<u64> = packets.iter().map(|packet| packet.pts).collect();
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 6]);
    // Each packet begins with a temporal delimiter, and the first one has the sequence header behind it (AV1, 5.3 and 7.5).
    assert!(packets.iter().all(|packet| packet.data[..2] == [0x12, 0]));
    assert_eq!(packets[0].data[2] >> 3 & 0xf, 1);
}

#[test]
fn a_film_of_no_frames_and_wrong_ones_are_told() {
    let folder = Folder::new("wrong");
    let (input, output) = (folder.path("in.y4m"), folder.path("out.y4m"));
    write(&input, 32, 16, &[]);
    let text = runs(&["--input", input.to_str().expect("text")], &output);
    assert!(text.contains("0 frames of 32 x 16"), "{text}");
    assert_eq!(read(&output).1.len(), 0);

    let refused = |args: &[&str], film: &Path, why: &str| {
        let output = run(args, film);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(why), "{args:?}: {text}");
    };
    fs::write(&input, "YUV4MPEG2 W16 H16 F25:1 C444\n").expect("written");
    let input = input.to_str().expect("text");
    refused(&["--input", input], &output, "is not YUV 4:2:0 with 8 bits");
    refused(&["--frames", "1"], &folder.path("film.mp4"), "in .ivf or .y4m");
    refused(&["--frames", "1", "--sigma", "-1"], &output, "sigma is -1");
    refused(&["--frames", "1", "--width", "8"], &output, "at least 16");
    refused(&["--filter", "wood"], &output, "--filter wood is not an option");
}
