//! Random data, made on the device, and known on the host at any place.

use bytemuck::Pod;
use cuda_std::launch::Linear;
use cuda_std::number::{E4m3, bf16, f16};
use kernels_gpu::random::noise::{self, Noise, word};

use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;

const BLOCK: u32 = 256;
const MAX_BLOCKS: usize = 16 * 132;

/// Element types with random values: integers over their whole range, floats as [`Noise`] says.
pub trait Random: Pod {
    /// The type's name in cases: `f32`.
    const NAME: &'static str;
    /// What its memory is filled with.
    const NOISE: Noise;
}

macro_rules! random {
    ($($ty:ident: $noise:ident;)*) => {$(
        impl Random for $ty {
            const NAME: &'static str = stringify!($ty);
            const NOISE: Noise = Noise::$noise;
        }
    )*};
}

random! {
    u8: Bits; i8: Bits; u16: Bits; i16: Bits; u32: Bits; i32: Bits; u64: Bits; i64: Bits;
    f32: F32; f64: F64; f16: F16; bf16: Bf16; E4m3: NormalE4m3;
}

/// Element types with normal values: see [`noise::normal`].
pub trait Normal: Random {
    /// What its memory is filled with.
    const NORMAL: Noise;
}

macro_rules! normal {
    ($($ty:ident: $noise:ident;)*) => {$(
        impl Normal for $ty {
            const NORMAL: Noise = Noise::$noise;
        }
    )*};
}

normal! { f32: NormalF32; f64: NormalF64; f16: NormalF16; bf16: NormalBf16; E4m3: NormalE4m3; }

/// Enough blocks to fill any device.
fn grid(n: usize) -> Linear {
    Linear::new(n.div_ceil(BLOCK as usize).min(MAX_BLOCKS) as u32, BLOCK)
}

/// `n` random elements.
///
/// # Errors
/// What the driver answers, out of memory for one.
pub fn random<T: Random>(gpu: &Gpu, n: usize, seed: u32) -> GpuResult<DeviceBuffer<T>> {
    filled(gpu, n, seed, T::NOISE)
}

/// `n` normal elements.
///
/// # Errors
/// What the driver answers, out of memory for one.
pub fn normal<T: Normal>(gpu: &Gpu, n: usize, seed: u32) -> GpuResult<DeviceBuffer<T>> {
    filled(gpu, n, seed, T::NORMAL)
}

fn filled<T: Pod>(gpu: &Gpu, n: usize, seed: u32, noise: Noise) -> GpuResult<DeviceBuffer<T>> {
    let per_word = 4 / size_of::<T>().min(4);
    let mut buffer = DeviceBuffer::zeroed(gpu, n)?;
    let (mut whole, mut rest) = buffer.as_mut_slice().split_at_mut(n - n % per_word);
    if n >= per_word {
        let words = &mut whole.cast_mut::<u32>()?;
        noise::noise::launch(gpu, grid(n / per_word), noise as u32, seed, words)?;
    }
    let tail: Vec<T> = (n - n % per_word..n).map(|i| element(noise, seed, i)).collect();
    rest.copy_from_host(&tail)?;
    Ok(buffer)
}

/// Element `index` of what [`random`] makes of `seed`.
#[must_use]
pub fn value<T: Random>(seed: u32, index: usize) -> T {
    element(T::NOISE, seed, index)
}

/// Element `index` of what [`normal`] makes of `seed`.
#[must_use]
pub fn normal_value<T: Normal>(seed: u32, index: usize) -> T {
    element(T::NORMAL, seed, index)
}

fn element<T: Pod>(noise: Noise, seed: u32, index: usize) -> T {
    let offset = (index * size_of::<T>()) as u64;
    let words = [offset / 4, offset / 4 + 1].map(|place| word(noise as u32, seed, place));
    let mut element = T::zeroed();
    let from = (offset % 4) as usize;
    let bytes = &bytemuck::bytes_of(&words)[from..from + size_of::<T>()];
    bytemuck::bytes_of_mut(&mut element).copy_from_slice(bytes);
    element
}

/// `n` random integers below `limit`, each of them [`below`] of its index.
///
/// # Errors
/// What the driver answers, out of memory for one.
pub fn random_below(gpu: &Gpu, n: usize, seed: u32, limit: u32) -> GpuResult<DeviceBuffer<u32>> {
    let mut buffer = DeviceBuffer::zeroed(gpu, n)?;
    if n > 0 {
        noise::noise_below::launch(gpu, grid(n), seed, limit, &mut buffer)?;
    }
    Ok(buffer)
}

/// Element `index` of what [`random_below`] makes.
#[must_use]
pub fn below(seed: u32, limit: u32, index: usize) -> u32 {
    noise::below(seed, limit, index as u64)
}

/// `n` elements whose bytes are all 0xff: NaN of any float type, and the largest or the least integer.
///
/// # Errors
/// What the driver answers, out of memory for one.
pub fn poisoned<T: Pod>(gpu: &Gpu, n: usize) -> GpuResult<DeviceBuffer<T>> {
    let mut buffer = DeviceBuffer::zeroed(gpu, n)?;
    poison(&mut buffer)?;
    Ok(buffer)
}

/// Sets all bytes to 0xff.
///
/// # Errors
/// What the driver answers.
pub fn poison<T: Pod>(buffer: &mut DeviceBuffer<T>) -> GpuResult<()> {
    buffer.as_mut_slice().cast_mut::<u8>()?.fill(0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn host_knows<T: Random + PartialEq + std::fmt::Debug>() {
        let gpu = Gpu::new().unwrap();
        for n in [0, 1, 3, 4, 7, 1000, 4097] {
            let made = random::<T>(&gpu, n, 9).unwrap().to_vec().unwrap();
            let known: Vec<T> = (0..n).map(|i| value(9, i)).collect();
            assert_eq!(made, known, "{} of {n}", T::NAME);
        }
    }

    #[test]
    fn the_host_knows_what_the_device_made() {
        host_knows::<u8>();
        host_knows::<u16>();
        host_knows::<u64>();
        host_knows::<f32>();
        host_knows::<f64>();
        host_knows::<f16>();
        host_knows::<bf16>();
    }

    #[track_caller]
    fn is_normal<T: Normal + PartialEq + std::fmt::Debug + Into<f64>>() {
        let gpu = Gpu::new().unwrap();
        let made = normal::<T>(&gpu, 10_001, 7).unwrap().to_vec().unwrap();
        assert!(made.iter().enumerate().all(|(i, &made)| made == normal_value(7, i)));
        let made: Vec<f64> = made.into_iter().map(Into::into).collect();
        let mean = |power: i32| made.iter().map(|x| x.powi(power)).sum::<f64>() / 10_001.0;
        assert!(mean(1).abs() < 0.04 && (mean(2) - 1.0).abs() < 0.05, "{} {}", mean(1), mean(2));
        // Of a uniform distribution it is 1.8, of the normal one 3.
        assert!((2.4..3.0).contains(&mean(4)), "{}", mean(4));
    }

    #[test]
    fn normal_numbers_are_known_too() {
        is_normal::<f32>();
        is_normal::<f64>();
        is_normal::<f16>();
        is_normal::<bf16>();
    }

    #[test]
    fn what_is_below_a_limit_is_even_over_it() {
        let gpu = Gpu::new().unwrap();
        let made = random_below(&gpu, 3000, 5, 3).unwrap().to_vec().unwrap();
        assert!(made.iter().enumerate().all(|(i, &made)| made == below(5, 3, i)));
        let count = |value| made.iter().filter(|&&made| made == value).count();
        assert!((0..3).all(|value| (900..1100).contains(&count(value))));
    }

    #[test]
    fn floats_are_where_they_should_be() {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let f32s: Vec<f64> = (0..10_000).map(|i| value::<f32>(1, i).into()).collect();
        assert!(f32s.iter().all(|x| (-0.5..0.5).contains(x)) && mean(f32s).abs() < 0.02);
        let f64s: Vec<f64> = (0..10_000).map(|i| value::<f64>(1, i)).collect();
        assert!(f64s.iter().all(|x| (-0.5..0.5).contains(x)) && mean(f64s).abs() < 0.02);
        let halves = (0..10_000).map(|i| value::<f16>(1, i).to_f64());
        let small = (0..10_000).map(|i| value::<bf16>(1, i).to_f64());
        assert!(halves.chain(small).all(|x| (0.25..0.5).contains(&x.abs())));
    }

    #[test]
    fn poison_is_nan() {
        let gpu = Gpu::new().unwrap();
        assert!(poisoned::<f32>(&gpu, 5).unwrap().to_vec().unwrap().iter().all(|x| x.is_nan()));
    }
}
