//! Reference of `sobel`.

const GX: [[i64; 3]; 3] = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]];
const GY: [[i64; 3]; 3] = [[-1, -2, -1], [0, 0, 0], [1, 2, 1]];

/// `min(|gx| + |gy|, 255)` of `image: [height, width]`, with the edge pixels repeated outwards.
pub fn sobel(image: &[u8], width: usize, height: usize) -> Vec<u8> {
    let at = |x: i64, y: i64| {
        let x = x.clamp(0, width as i64 - 1) as usize;
        let y = y.clamp(0, height as i64 - 1) as usize;
        i64::from(image[y * width + x])
    };
    let mut out = Vec::with_capacity(image.len());
    for y in 0..height as i64 {
        for x in 0..width as i64 {
            let (mut gx, mut gy) = (0, 0);
            for dy in 0..3 {
                for dx in 0..3 {
                    let pixel = at(x + dx as i64 - 1, y + dy as i64 - 1);
                    gx += GX[dy][dx] * pixel;
                    gy += GY[dy][dx] * pixel;
                }
            }
            out.push((gx.abs() + gy.abs()).min(255) as u8);
        }
    }
    out
}
