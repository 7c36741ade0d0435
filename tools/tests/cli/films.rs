//! Films: `ferrowarp heat`, and `ferrowarp demo particles --output`.

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;

use super::Place;

#[test]
fn heat_and_waves_are_films() {
    let place = Place::new();
    let few = ["--width", "32", "--height", "20", "--frames", "3", "--steps", "5"];
    let run = |more: &[&str]| place.run(&[&["heat"][..], more, &few].concat());
    let said = || contains("32 x 20 cells").and(contains("3 pictures in "));
    run(&["-o", "heat.gif"]).success().stdout(said().and(contains("wrote heat.gif")));
    run(&["-o", "waves", "--wave"]).success().stdout(said().and(contains("wrote waves")));

    assert!(fs::read(place.path("heat.gif")).unwrap().starts_with(b"GIF89a"));
    let pictures = ["00000", "00001", "00002"]
        .map(|name| image::open(place.path(&format!("waves/{name}.png"))).unwrap().into_rgb8());
    assert!(pictures.iter().all(|picture| picture.dimensions() == (32, 20)));
    assert_ne!(pictures[0], pictures[2], "nothing moves");
    // Edges are fixed.
    assert_eq!(pictures[0].get_pixel(0, 0), pictures[2].get_pixel(0, 0));
}

#[test]
fn heat_is_refused_what_is_no_film() {
    let place = Place::new();
    place.run(&["heat"]).failure().code(2);
    place.run(&["heat", "-o", "heat.mp4"]).failure().code(1);
    assert!(place.files().is_empty());
}

// ---- demo particles --output

/// A film of a few particles: the arguments, with `more` behind them.
fn film<'a>(output: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let few = ["--size", "100", "--frames", "3", "--steps", "2", "--width", "48"];
    [&["demo", "particles", "-o", output][..], &few, more].concat()
}

#[test]
fn a_film_is_a_gif() {
    use image::AnimationDecoder;
    use image::codecs::gif::GifDecoder;
    let place = Place::new();
    place.run(&film("dam.gif", &["--fps", "20"])).success().stdout(
        contains("100 particles, ").and(contains("3 pictures in ")).and(contains("wrote dam.gif")),
    );
    let file = std::io::BufReader::new(fs::File::open(place.path("dam.gif")).unwrap());
    let frames = GifDecoder::new(file).unwrap().into_frames().collect_frames().unwrap();
    assert_eq!(frames.len(), 3);
    for frame in &frames {
        assert_eq!(frame.buffer().dimensions(), (48, 27));
        assert_eq!(frame.delay().numer_denom_ms(), (50, 1));
        let first = frame.buffer().get_pixel(47, 0);
        assert!(frame.buffer().pixels().any(|pixel| pixel != first), "nothing is drawn");
    }
}

#[test]
fn a_film_is_an_animated_png() {
    let place = Place::new();
    place.run(&film("dam.png", &[])).success();
    let file = std::io::BufReader::new(fs::File::open(place.path("dam.png")).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    assert_eq!(reader.info().animation_control.unwrap().num_frames, 3);
    let mut frame = vec![0; reader.output_buffer_size().unwrap()];
    for _ in 0..3 {
        let info = reader.next_frame(&mut frame).unwrap();
        assert_eq!((info.width, info.height), (48, 27));
    }
    assert!(reader.next_frame(&mut frame).is_err(), "there are more than three frames");
}

#[test]
fn a_film_is_a_directory_of_pictures() {
    let place = Place::new();
    place.run(&film("pictures", &["--unified"])).success();
    let names = fs::read_dir(place.path("pictures")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["00000.png", "00001.png", "00002.png"]);
    assert_eq!(place.image("pictures/00002.png").width(), 48);
}

#[test]
fn a_film_that_cannot_be_is_refused() {
    let place = Place::new();
    place
        .refuses(&film("dam.mov", &[]), "end its name in .gif, .png or .apng, or give a directory");
    place.refuses(&["demo", "saxpy", "-o", "x.gif"], "only `particles` is a film");
    place.refuses(&film("no/dam.gif", &[]), "cannot write no/dam.gif");
    place.run(&["demo", "particles", "--frames", "3"]).failure().code(2);
    assert!(place.files().is_empty());
}
