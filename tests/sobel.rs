//! `sobel` against convolution with the two masks in i64: bit for bit.

use ferrowarp::ops;

use crate::support::{bytes, gpu, poisoned, rng, upload};

#[test]
fn every_shape() {
    let mut rng = rng();
    for (width, height) in
        [(0, 0), (1, 1), (2, 1), (1, 9), (32, 8), (33, 9), (31, 7), (200, 1), (131, 67)]
    {
        let image = bytes(&mut rng, width * height);
        let mut out = poisoned(image.len());
        ops::sobel(gpu(), &upload(&image), &mut out, width, height).unwrap();
        assert_eq!(
            out.to_vec().unwrap(),
            reference::sobel::sobel(&image, width, height),
            "{width}×{height}"
        );
    }
}
