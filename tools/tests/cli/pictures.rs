//! `ferrowarp image`: filters, and what is refused.

use std::fs;

use predicates::str::{contains, is_empty};

use super::{refused, step, with_images};

#[test]
fn blur_softens_a_step_and_keeps_the_size() {
    let place = with_images();
    let args = ["image", "blur", "step.png", "-o", "soft.png", "--sigma", "2"];
    place.run(&args).success().stdout(contains("soft.png: blur of 64 × 48")).stderr(is_empty());
    let soft = place.image("soft.png").into_luma8();
    assert_eq!(soft.dimensions(), (64, 48));
    let row: Vec<u8> = (0..64).map(|x| soft.get_pixel(x, 24).0[0]).collect();
    assert!(row.is_sorted() && row[0] == 60 && row[63] == 180, "{row:?}");
    assert!(row[31] > 70 && row[32] < 170, "{row:?}");
}

#[test]
fn sobel_finds_the_step_and_nothing_else() {
    let place = with_images();
    place.run(&["image", "sobel", "step.png", "-o", "edges.png"]).success();
    let edges = place.image("edges.png").into_luma8();
    for (x, _, pixel) in edges.enumerate_pixels() {
        assert_eq!(pixel.0[0] > 0, x == 31 || x == 32, "column {x}");
    }
}

#[test]
fn equalize_spreads_grey_levels() {
    let place = with_images();
    place.run(&["image", "equalize", "step.png", "-o", "even.png"]).success();
    let even = place.image("even.png").into_luma8();
    // Two levels, each of half the pixels, move to the ends.
    assert_eq!((even.get_pixel(0, 0).0[0], even.get_pixel(63, 0).0[0]), (0, 255));
}

#[test]
fn a_jpeg_goes_in_and_a_jpeg_comes_out() {
    let place = with_images();
    for filter in ["blur", "sobel", "equalize", "grayscale"] {
        place.run(&["image", filter, "colour.jpg", "-o", "out.JPEG"]).success();
        let out = image::ImageReader::open(place.path("out.JPEG")).unwrap().decode().unwrap();
        let coloured = matches!(filter, "blur" | "equalize");
        assert_eq!((out.width(), out.height()), (64, 48));
        assert_eq!(out.color().has_color(), coloured, "{filter}");
    }
}

#[test]
fn alpha_stays_where_it_is_promised() {
    let place = with_images();
    place.run(&["image", "equalize", "alpha.png", "-o", "even.png"]).success();
    let (before, after) = (place.image("alpha.png").to_rgba8(), place.image("even.png"));
    let after = after.as_rgba8().expect("alpha");
    assert!(before.pixels().zip(after.pixels()).all(|(b, a)| b.0[3] == a.0[3]));
    place.run(&["image", "blur", "alpha.png", "-o", "soft.png"]).success();
    assert!(place.image("soft.png").color().has_alpha());
    place.run(&["image", "grayscale", "alpha.png", "-o", "grey.png"]).success();
    assert!(!place.image("grey.png").color().has_alpha());
}

#[test]
fn a_picture_can_replace_itself() {
    let place = with_images();
    place.run(&["image", "blur", "step.png", "-o", "step.png"]).success();
    assert_ne!(place.image("step.png").into_luma8(), step(64, 48));
    assert_eq!(place.files(), ["alpha.png", "colour.jpg", "step.png"]);
}

#[test]
fn inputs_that_are_no_pictures_are_refused() {
    let place = with_images().with("text.png", "hello").with("empty.png", "");
    let whole = fs::read(place.path("step.png")).unwrap();
    let place = place.with("cut.png", &whole[..whole.len() / 2]);
    let refuses = |input, line| place.refuses(&["image", "sobel", input, "-o", "o.png"], line);
    refuses("none.png", "cannot read none.png: there is no such file or directory");
    refuses(".", "cannot read .: it is a directory");
    refuses("text.png", "text.png is not a PNG or JPEG image");
    refuses("empty.png", "empty.png is empty");
    refuses("cut.png", "cut.png is not a valid image: ");
    assert!(!place.path("o.png").exists());
}

#[test]
fn damaged_pictures_are_refused_and_say_how() {
    let place = with_images();
    let jpeg = fs::read(place.path("colour.jpg")).unwrap();
    let mut png = fs::read(place.path("step.png")).unwrap();
    let end = png.len() - 12;
    // The checksum of the pixels.
    png[end - 1] ^= 1;
    let place = place.with("cut.jpg", &jpeg[..jpeg.len() / 2]).with("bad.png", png);
    let refuses = |input, line| place.refuses(&["image", "sobel", input, "-o", "o.png"], line);
    refuses(
        "cut.jpg",
        "cut.jpg is not a valid image: the file ends in the middle of the picture\n",
    );
    refuses(
        "bad.png",
        "bad.png is not a valid image: a checksum is wrong, so the file is damaged\n",
    );
    assert!(!place.path("o.png").exists());
}

#[test]
fn outputs_that_cannot_be_are_refused_before_any_work() {
    let place = with_images();
    fs::create_dir(place.path("dir.png")).unwrap();
    let refuses = |output, line| place.refuses(&["image", "sobel", "step.png", "-o", output], line);
    refuses("o.gif", "cannot tell what to write to o.gif: end its name in .png, .jpg or .jpeg");
    refuses("o", "cannot tell what to write to o:");
    refuses("none/o.png", "cannot write none/o.png: there is no such file or directory");
    refuses("dir.png", "cannot write dir.png: it is a directory");
}

#[test]
fn a_failed_run_leaves_the_output_as_it_was() {
    let place = with_images().with("out.png", "precious").with("bad.png", "hello");
    place.refuses(&["image", "blur", "bad.png", "-o", "out.png"], "bad.png");
    // This one fails after the output is opened.
    let mut late = place.command(&["image", "blur", "step.png", "-o", "out.png"]);
    refused(late.env("FERROWARP_DEVICE", "nonsense").assert(), "nonsense");
    assert_eq!(fs::read(place.path("out.png")).unwrap(), b"precious");
    assert_eq!(place.files(), ["alpha.png", "bad.png", "colour.jpg", "out.png", "step.png"]);
}
