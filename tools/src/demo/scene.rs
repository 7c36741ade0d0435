//! A picture to work on where the user has none: three spheres over a chequered floor, in flat light.
//!
//! Drawn on the CPU by the plainest of ray tracers, so that the image demos need no file. The contrast is low
//! on purpose: equalisation should have something to do.

type Vector = [f32; 3];

struct Sphere {
    centre: Vector,
    radius: f32,
    colour: Vector,
}

const SPHERES: [Sphere; 3] = [
    Sphere { centre: [-1.3, 0.0, 5.0], radius: 1.0, colour: [0.9, 0.45, 0.3] },
    Sphere { centre: [1.1, -0.3, 4.2], radius: 0.7, colour: [0.3, 0.6, 0.9] },
    Sphere { centre: [0.3, 0.6, 7.0], radius: 1.6, colour: [0.5, 0.8, 0.4] },
];
const LIGHT: Vector = [-0.48, 0.72, -0.5];
const FLOOR: f32 = -1.0;
const HAZE: Vector = [0.62, 0.64, 0.68];

fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn along(origin: Vector, direction: Vector, distance: f32) -> Vector {
    std::array::from_fn(|i| origin[i] + distance * direction[i])
}

fn normalized(v: Vector) -> Vector {
    let length = dot(v, v).sqrt();
    v.map(|x| x / length)
}

impl Sphere {
    /// Distance at which a ray of unit `direction` enters, if it does in front of `origin`.
    fn hit(&self, origin: Vector, direction: Vector) -> Option<f32> {
        let to: Vector = std::array::from_fn(|i| origin[i] - self.centre[i]);
        let (b, c) = (dot(to, direction), dot(to, to) - self.radius * self.radius);
        let root = b * b - c;
        let distance = -b - root.max(0.0).sqrt();
        (root > 0.0 && distance > 1e-3).then_some(distance)
    }
}

fn nearest(origin: Vector, direction: Vector) -> Option<(f32, &'static Sphere)> {
    SPHERES
        .iter()
        .filter_map(|sphere| Some((sphere.hit(origin, direction)?, sphere)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Colour of a surface at `point`: ambient light, and the lamp's where no sphere stands between.
fn shaded(point: Vector, normal: Vector, colour: Vector, distance: f32) -> Vector {
    let lit = nearest(point, LIGHT).is_none();
    let light = 0.45 + if lit { 0.55 * dot(normal, LIGHT).max(0.0) } else { 0.0 };
    let haze = (distance / 28.0).min(1.0);
    std::array::from_fn(|i| colour[i] * light * (1.0 - haze) + HAZE[i] * haze)
}

fn colour(direction: Vector) -> Vector {
    let origin = [0.0; 3];
    let floor = (direction[1] < 0.0).then(|| FLOOR / direction[1]);
    match (nearest(origin, direction), floor) {
        (Some((distance, sphere)), floor) if floor.is_none_or(|floor| distance < floor) => {
            let point = along(origin, direction, distance);
            let normal = std::array::from_fn(|i| (point[i] - sphere.centre[i]) / sphere.radius);
            shaded(point, normal, sphere.colour, distance)
        }
        (_, Some(distance)) => {
            let point = along(origin, direction, distance);
            let dark = (point[0].floor() + point[2].floor()).rem_euclid(2.0) < 1.0;
            let tile = if dark { [0.35; 3] } else { [0.75; 3] };
            shaded(point, [0.0, 1.0, 0.0], tile, distance)
        }
        _ => HAZE,
    }
}

/// The picture: `width * height` RGBA pixels, row by row from the top.
pub fn draw(width: usize, height: usize) -> Vec<[u8; 4]> {
    let scale = 1.0 / height as f32;
    let byte = |x: f32| (40.0 + 150.0 * x.clamp(0.0, 1.0)) as u8;
    (0..height * width)
        .map(|i| {
            let x = ((i % width) as f32 - width as f32 / 2.0) * scale;
            let y = (height as f32 / 2.0 - (i / width) as f32) * scale;
            let [r, g, b] = colour(normalized([x, y, 1.0]));
            [byte(r), byte(g), byte(b), 255]
        })
        .collect()
}
