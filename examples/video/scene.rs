//! A film without a file: a bright disc and a square that move in front of a gradient.

use super::filter::Film;

/// Draws frame `number` into `frame`, whose planes `film` describes.
pub fn draw(film: Film, number: u64, frame: &mut [u8]) {
    let (width, height, time) = (film.width as i64, film.height as i64, number as i64);
    let radius = height / 5;
    let disc = [(width / 4 + 3 * time) % width, height / 2 + (time % 40 - 20).abs() * height / 100];
    let square = [width - 1 - 2 * time % width, height / 3];
    let brightness = |x: i64, y: i64| {
        let (dx, dy) = (x - disc[0], y - disc[1]);
        let is_square = (x - square[0]).abs().max((y - square[1]).abs()) < radius / 2;
        match dx * dx + dy * dy < radius * radius {
            true => 220,
            false if is_square => 160,
            // Limited range: 16 is black.
            false => (16 + 80 * x / width) as u8,
        }
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    for (value, (x, y)) in frame[film.range(0)].iter_mut().zip(pixels) {
        *value = brightness(x, y);
    }
    // A colour for the whole picture, which changes with time.
    frame[film.range(1)].fill(100 + (time % 56) as u8);
    frame[film.range(2)].fill(156 - (time % 56) as u8);
}
