//! Reference of `spheres`: every pixel looks at every sphere, in f64.

/// What the camera is.
#[derive(Clone, Copy, Debug)]
pub struct Camera {
    /// Position.
    pub eye: [f64; 3],
    /// To the right, to the top, and into the picture.
    pub axes: [[f64; 3]; 3],
    /// Distance of the picture's plane, in pixels.
    pub focal: f64,
    /// Width and height in pixels.
    pub size: [usize; 2],
    /// The distance beyond which nothing is drawn.
    pub far: f64,
    /// The speed that has the hottest colour.
    pub fast: f64,
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|k| a[k] * b[k]).sum()
}

/// The picture of spheres of diameter 1 at `position` with the speeds `velocity`: red, green and blue, 0 to 255.
pub fn draw(camera: &Camera, position: &[[f64; 3]], velocity: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let [width, height] = camera.size;
    let mut pixels = Vec::with_capacity(width * height);
    for row in 0..height {
        for column in 0..width {
            let nearest = position.iter().zip(velocity).filter_map(|(&place, &speed)| {
                let (distance, light) = hit(camera, place, column, row)?;
                Some((distance, colour(dot(speed, speed).sqrt() / camera.fast, light)))
            });
            let nearest = nearest.min_by(|a, b| a.0.total_cmp(&b.0));
            pixels.push(nearest.map_or([13.0, 15.0, 20.0], |(_, colour)| colour));
        }
    }
    pixels
}

/// Distance and light of the point of a sphere that a pixel shows.
fn hit(camera: &Camera, place: [f64; 3], column: usize, row: usize) -> Option<(f64, f64)> {
    let ray: [f64; 3] = std::array::from_fn(|k| place[k] - camera.eye[k]);
    let [right, up, forward] = camera.axes.map(|axis| dot(axis, ray));
    if forward < 1.0 || forward >= camera.far {
        return None;
    }
    let (scale, radius) = (camera.focal / forward, 0.5 * camera.focal / forward);
    let x = (column as f64 + 0.5 - camera.size[0] as f64 / 2.0 - scale * right) / radius;
    let y = (camera.size[1] as f64 / 2.0 - scale * up - row as f64 - 0.5) / radius;
    let rest = 1.0 - x * x - y * y;
    if rest < 0.0 {
        return None;
    }
    let towards = rest.sqrt();
    Some((forward - 0.5 * towards, 0.2 + 0.8 * (-0.36 * x + 0.48 * y + 0.8 * towards).max(0.0)))
}

fn colour(heat: f64, light: f64) -> [f64; 3] {
    let stops = [[0.05, 0.22, 0.62], [0.25, 0.65, 0.95], [1.0, 1.0, 1.0], [1.0, 0.55, 0.15]];
    let along = 3.0 * heat.min(1.0);
    let from = (along as usize).min(2);
    let part = along - from as f64;
    let light = 255.0 * light.min(1.0);
    std::array::from_fn(|k| light * (stops[from][k] + part * (stops[from + 1][k] - stops[from][k])))
}
