//! A picture of many spheres of diameter 1, each shaded and coloured by its speed.
//!
//! 1. [`spheres_draw`](fn@spheres_draw): a thread draws one sphere. A pixel is one word with the nearness in its upper half, so
//!    that the largest word is the nearest sphere, and an atomic maximum is the depth test.
//! 2. [`spheres_colour`](fn@spheres_colour): the words become colours.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};

/// Threads in a block.
pub const BLOCK: u32 = 256;

/// Where the eye is, where it looks, and the picture before it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Camera {
    /// Position.
    pub eye: [f32; 3],
    /// To the picture's right; of length 1, as the next two, and at right angles to them.
    pub right: [f32; 3],
    /// To the picture's top.
    pub up: [f32; 3],
    /// Into the picture.
    pub forward: [f32; 3],
    /// Distance of the picture's plane, in pixels.
    pub focal: f32,
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// The distance beyond which nothing is drawn.
    pub far: f32,
    /// The speed that has the hottest colour.
    pub fast: f32,
}

/// A sphere as the camera sees it, in pixels from the picture's left top.
struct Disc {
    x: f32,
    y: f32,
    radius: f32,
    distance: f32,
}

impl Camera {
    #[inline(always)]
    fn disc(&self, place: [f32; 3]) -> Option<Disc> {
        let ray = [place[0] - self.eye[0], place[1] - self.eye[1], place[2] - self.eye[2]];
        let distance = dot(ray, self.forward);
        if distance < 1.0 || distance >= self.far {
            return None;
        }
        let scale = self.focal / distance;
        Some(Disc {
            x: 0.5 * self.size[0] as f32 + scale * dot(ray, self.right),
            y: 0.5 * self.size[1] as f32 - scale * dot(ray, self.up),
            radius: 0.5 * scale,
            distance,
        })
    }
}

#[inline(always)]
fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The part of `x` in 0 to `steps`, as an integer.
#[inline(always)]
fn level(x: f32, steps: u32) -> u32 {
    (x.clamp(0.0, 1.0) * steps as f32) as u32
}

/// The pixels along one direction that a disc touches, cut to `0..size`.
#[inline(always)]
fn touched(centre: f32, radius: f32, size: u32) -> core::ops::Range<u32> {
    // Casts of what is negative give 0.
    let first = (centre - radius) as u32;
    let end = (centre + radius + 1.0) as u32;
    first.min(size)..end.min(size)
}

/// Draws `position: [n]` with the speeds `velocity: [n]` into `pixels: [height * width]`, which are 0 where nothing
/// is. From the top: 16 bits of nearness, 8 of light, 8 of speed.
#[kernel(block = BLOCK)]
pub fn spheres_draw(
    index: ThreadIndex,
    camera: Camera,
    position: &[Vec4<f32>],
    velocity: &[Vec4<f32>],
    pixels: AtomicSlice<u32>,
) {
    let (Some(place), Some(v)) = (position.get(index.get()), velocity.get(index.get())) else {
        return;
    };
    let Some(disc) = camera.disc([place.x, place.y, place.z]) else { return };
    let speed = dot([v.x, v.y, v.z], [v.x, v.y, v.z]).sqrt();
    let heat = level(speed / camera.fast, 255);
    let [width, height] = camera.size;
    for row in touched(disc.y, disc.radius, height) {
        for column in touched(disc.x, disc.radius, width) {
            // The sphere's surface at the pixel's centre, as a direction from its centre.
            let x = (column as f32 + 0.5 - disc.x) / disc.radius;
            let y = (disc.y - row as f32 - 0.5) / disc.radius;
            let rest = 1.0 - x * x - y * y;
            // A sphere smaller than a pixel still shows.
            if rest < 0.0 && disc.radius > 0.75 {
                continue;
            }
            let towards = rest.max(0.0).sqrt();
            let nearness = level(1.0 - (disc.distance - 0.5 * towards) / camera.far, 0xffff).max(1);
            // Light from the left, above and behind the eye.
            let light = level(0.2 + 0.8 * (-0.36 * x + 0.48 * y + 0.8 * towards).max(0.0), 255);
            let pixel = nearness << 16 | light << 8 | heat;
            pixels.fetch_max((row * width + column) as usize, pixel, Relaxed);
        }
    }
}

/// Colour of a speed, of 256 steps: deep blue, light blue, white, and orange for the fastest.
#[inline(always)]
fn heat_colour(heat: u32) -> [f32; 3] {
    let t = heat as f32 / 255.0;
    let between = |a: [f32; 3], b: [f32; 3], t: f32| {
        let t = t.clamp(0.0, 1.0);
        [a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])]
    };
    let cold = between([0.05, 0.22, 0.62], [0.25, 0.65, 0.95], 3.0 * t);
    let warm = between(cold, [1.0, 1.0, 1.0], 3.0 * t - 1.0);
    between(warm, [1.0, 0.55, 0.15], 3.0 * t - 2.0)
}

/// Turns the words of [`spheres_draw`](fn@spheres_draw) into red, green, blue and alpha: both `[n]`.
#[kernel(block = BLOCK)]
pub fn spheres_colour(index: ThreadIndex, pixels: &[u32], mut rgba: DisjointSlice<[u8; 4]>) {
    let i = index.get();
    let Some(rgba) = rgba.get_mut(index) else { return };
    let pixel = pixels[i];
    if pixel == 0 {
        *rgba = [13, 15, 20, 255];
        return;
    }
    let light = (pixel >> 8 & 0xff) as f32;
    let [r, g, b] = heat_colour(pixel & 0xff);
    *rgba = [(r * light) as u8, (g * light) as u8, (b * light) as u8, 255];
}
