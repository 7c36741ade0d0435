//! The picture of spheres against one where every pixel looks at every sphere.

use ::reference::spheres as reference;
use ferrowarp::ops::spheres::{Camera, Canvas};
use ferrowarp::{DeviceBuffer, GpuError};
use rand::RngExt;

use crate::support::{gpu, rng, upload};

/// Looks along z, from before the origin.
fn camera(size: [u32; 2]) -> Camera {
    Camera {
        eye: [0.0, 0.0, -12.0],
        right: [1.0, 0.0, 0.0],
        up: [0.0, 1.0, 0.0],
        forward: [0.0, 0.0, 1.0],
        focal: 150.0,
        size,
        far: 40.0,
        fast: 3.0,
    }
}

fn reference_of(camera: &Camera) -> reference::Camera {
    reference::Camera {
        eye: camera.eye.map(f64::from),
        axes: [camera.right, camera.up, camera.forward].map(|axis| axis.map(f64::from)),
        focal: camera.focal.into(),
        size: camera.size.map(|side| side as usize),
        far: camera.far.into(),
        fast: camera.fast.into(),
    }
}

/// Vectors on the device, and the same ones as the reference takes them.
fn vectors(values: &[[f32; 3]]) -> (DeviceBuffer<cuda_std::vector::Vec4<f32>>, Vec<[f64; 3]>) {
    let padded: Vec<_> =
        values.iter().map(|&[x, y, z]| cuda_std::vector::Vec4::new(x, y, z, f32::NAN)).collect();
    (upload(&padded), values.iter().map(|v| v.map(f64::from)).collect())
}

#[test]
fn spheres_are_where_they_should_be() {
    let mut rng = rng();
    let camera = camera([161, 120]);
    for n in [0, 1, 300] {
        let mut along = |half: f32| rng.random_range(-half..half);
        let places: Vec<_> = (0..n).map(|_| [along(6.0), along(5.0), along(8.0)]).collect();
        let speeds: Vec<_> = (0..n).map(|_| [along(2.0), along(2.0), along(2.0)]).collect();
        let ((place, places), (speed, speeds)) = (vectors(&places), vectors(&speeds));
        let mut canvas = Canvas::new(gpu(), camera.size).unwrap();
        let found = canvas.draw(&camera, &place, &speed).unwrap().to_vec().unwrap();
        let expected = reference::draw(&reference_of(&camera), &places, &speeds);
        // Speed and light are cut to 256 levels, which is up to 4 levels of a colour. Where two spheres meet in one
        // of 65,536 distances, or a pixel lies on an edge, rounding decides: about one pixel in a thousand.
        let differs = |(found, expected): &(&[u8; 4], &[f64; 3])| {
            found[3] != 255 || (0..3).any(|k| (f64::from(found[k]) - expected[k]).abs() > 5.0)
        };
        let wrong = found.iter().zip(&expected).filter(differs).count();
        assert!(
            wrong * 200 <= found.len(),
            "{n} spheres: {wrong} of {} pixels differ",
            found.len()
        );
    }
}

#[test]
fn a_sphere_smaller_than_a_pixel_still_shows() {
    let far_away = Camera { eye: [0.0, 0.0, -39.0], focal: 20.0, ..camera([21, 21]) };
    let (place, _) = vectors(&[[0.0; 3]]);
    let mut canvas = Canvas::new(gpu(), far_away.size).unwrap();
    let found = canvas.draw(&far_away, &place, &place).unwrap().to_vec().unwrap();
    assert!(found.iter().any(|pixel| *pixel != [13, 15, 20, 255]));
}

#[test]
fn what_is_behind_the_eye_or_too_far_is_not_drawn() {
    let camera = camera([40, 30]);
    let (place, _) = vectors(&[[0.0, 0.0, -14.0], [0.0, 0.0, 29.0], [f32::NAN, 0.0, 0.0]]);
    let mut canvas = Canvas::new(gpu(), camera.size).unwrap();
    let found = canvas.draw(&camera, &place, &place).unwrap().to_vec().unwrap();
    assert!(found.iter().all(|pixel| *pixel == [13, 15, 20, 255]));
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let (place, _) = vectors(&[[0.0; 3]; 3]);
    let mut canvas = Canvas::new(gpu(), [40, 30]).unwrap();
    let other = canvas.draw(&camera([40, 31]), &place, &place).err().unwrap();
    assert!(matches!(other, GpuError::SizeMismatch { expected: 1240, found: 1200, .. }), "{other}");
    let short = canvas.draw(&camera([40, 30]), &place, &place.slice(..2)).err().unwrap();
    assert!(matches!(short, GpuError::SizeMismatch { expected: 3, found: 2, .. }), "{short}");
}
