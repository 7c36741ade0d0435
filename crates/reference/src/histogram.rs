//! Reference of the histograms.

use std::ops::Range;

/// How often each byte value occurs.
pub fn histogram(bytes: &[u8]) -> [u64; 256] {
    let mut bins = [0; 256];
    for &byte in bytes {
        bins[usize::from(byte)] += 1;
    }
    bins
}

/// `bins` bins of equal width: bin `b` takes the integers `x` with `b <= (x - start) * bins / width < b + 1`.
pub fn even_integers(
    samples: impl Iterator<Item = u64>,
    levels: Range<u64>,
    bins: usize,
) -> Vec<u64> {
    let mut counts = vec![0; bins];
    for sample in samples.filter(|sample| levels.contains(sample)) {
        let (distance, width) = (sample - levels.start, levels.end - levels.start);
        counts[(u128::from(distance) * bins as u128 / u128::from(width)) as usize] += 1;
    }
    counts
}

/// `bins` bins of equal width, with the rounding that the operation documents: `⌊(x - start) * scale⌋` in f32.
pub fn even_floats(samples: &[f32], levels: Range<f32>, bins: usize) -> Vec<u64> {
    let scale = (bins as f64 / (f64::from(levels.end) - f64::from(levels.start))) as f32;
    let mut counts = vec![0; bins];
    for &sample in samples.iter().filter(|sample| levels.contains(sample)) {
        let place = ((sample - levels.start) * scale).floor() as usize;
        counts[place.min(bins - 1)] += 1;
    }
    counts
}

/// Bin `b` takes the samples from `levels[b]` to below `levels[b + 1]`.
pub fn ranges<T: PartialOrd + Copy>(samples: &[T], levels: &[T]) -> Vec<u64> {
    let mut counts = vec![0; levels.len() - 1];
    for sample in samples {
        let bin = levels.windows(2).position(|pair| pair[0] <= *sample && *sample < pair[1]);
        if let Some(bin) = bin {
            counts[bin] += 1;
        }
    }
    counts
}
