//! The maps against loops on the CPU: each rounds once, so bit for bit.

use ::reference::map as reference;
use bytemuck::Pod;
use cuda_std::number::{bf16, f16};
use ferrowarp::ops::{fill, map};
use rand::RngExt;

use crate::support::{SIZES, bytes, floats, gpu, poisoned, rng, upload};

/// Where the inputs and the output begin, in elements: alike, and not.
const STARTS: [(usize, usize); 5] = [(0, 0), (1, 1), (3, 3), (0, 1), (2, 0)];

/// Sizes that hurt, and around tiles of 1024 vectors.
fn sizes() -> impl Iterator<Item = usize> {
    SIZES.into_iter().chain([1023, 1025, 8191, 8192, 8193, 16_384, 16_387])
}

/// What a map writes into a part of poisoned memory; the rest must stay.
fn mapped<U: Pod + PartialEq>(
    n: usize,
    start: usize,
    run: impl FnOnce(&mut ferrowarp::DeviceSliceMut<'_, U>),
) -> Vec<U> {
    let mut out = poisoned::<U>(n + start + 5);
    let before = out.to_vec().unwrap();
    run(&mut out.slice_mut(start..start + n));
    let after = out.to_vec().unwrap();
    assert!(after[..start] == before[..start] && after[start + n..] == before[start + n..]);
    after[start..start + n].to_vec()
}

fn same<T: Pod>(found: &[T], expected: &[T], what: &str) {
    let (found, expected): (&[u8], &[u8]) =
        (bytemuck::cast_slice(found), bytemuck::cast_slice(expected));
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(differs.is_none() && found.len() == expected.len(), "{what}: byte {differs:?} differs");
}

#[test]
fn triads_round_once() {
    let mut rng = rng();
    for n in sizes() {
        let (b, c) = (floats(&mut rng, n + 3), floats(&mut rng, n + 3));
        let (on_b, on_c) = (upload(&b), upload(&c));
        for (from, to) in STARTS {
            let (b, c) = (&b[from..from + n], &c[from..from + n]);
            let found = mapped(n, to, |a| {
                let range = from..from + n;
                map::triad(gpu(), 0.3f32, &on_b.slice(range.clone()), &on_c.slice(range), a)
                    .unwrap();
            });
            same(&found, &reference::triad(0.3, b, c), "triad");
        }
    }
}

#[test]
fn triads_of_doubles() {
    let mut rng = rng();
    for n in sizes() {
        let (b, c): (Vec<f64>, Vec<f64>) = (0..n).map(|_| rng.random::<(f64, f64)>()).unzip();
        let found = mapped(n, 0, |a| map::triad(gpu(), -1.7, &upload(&b), &upload(&c), a).unwrap());
        same(&found, &reference::triad_f64(-1.7, &b, &c), "triad");
    }
}

#[test]
fn inputs_that_are_aligned_differently() {
    let mut rng = rng();
    let (a, b) = (floats(&mut rng, 5003), floats(&mut rng, 5003));
    let (on_a, on_b) = (upload(&a), upload(&b));
    let expected: Vec<f32> = a[..5000].iter().zip(&b[3..]).map(|(a, b)| a + b).collect();
    let found = mapped(5000, 0, |out| {
        map::sum(gpu(), &on_a.slice(..5000), &on_b.slice(3..), out).unwrap();
    });
    same(&found, &expected, "sum");
}

#[test]
fn sums_and_products_of_two() {
    let mut rng = rng();
    for n in sizes() {
        let (a, b) = (floats(&mut rng, n), floats(&mut rng, n));
        let (on_a, on_b) = (upload(&a), upload(&b));
        let both =
            |f: fn(f32, f32) -> f32| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
        let found = mapped(n, 2, |out| map::sum(gpu(), &on_a, &on_b, out).unwrap());
        same(&found, &both(|a, b| a + b), "sum");
        let found = mapped(n, 0, |out| map::product(gpu(), &on_a, &on_b, out).unwrap());
        same(&found, &both(|a, b| a * b), "product");
    }
}

#[test]
fn scaled() {
    let mut rng = rng();
    for n in sizes() {
        let x = floats(&mut rng, n);
        let found = mapped(n, 1, |out| map::scale(gpu(), 3.3f32, &upload(&x), out).unwrap());
        same(&found, &reference::map(&x, |x| 3.3 * x), "scale");
        let wide: Vec<f64> = reference::map(&x, f64::from);
        let found = mapped(n, 0, |out| map::scale(gpu(), 1e-3f64, &upload(&wide), out).unwrap());
        same(&found, &reference::map(&wide, |x| 1e-3 * x), "scale");
    }
}

/// Signs of any bits, NaN among them.
macro_rules! signs {
    ($($name:ident: $ty:ty as $bits:ty;)*) => {$(
        #[test]
        fn $name() {
            let mut rng = rng();
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            for n in sizes() {
                let bits: Vec<$bits> = (0..n).map(|_| rng.random()).collect();
                let x = upload(&reference::map(&bits, <$ty>::from_bits));
                let found = mapped::<$ty>(n, 1, |out| map::negate(gpu(), &x, out).unwrap());
                same(&reference::map(&found, <$ty>::to_bits), &reference::map(&bits, |x| x ^ SIGN), "negate");
                let found = mapped::<$ty>(n, 0, |out| map::abs(gpu(), &x, out).unwrap());
                same(&reference::map(&found, <$ty>::to_bits), &reference::map(&bits, |x| x & !SIGN), "abs");
            }
        }
    )*};
}

signs! {
    signs_of_f16: f16 as u16;
    signs_of_bf16: bf16 as u16;
    signs_of_f32: f32 as u32;
    signs_of_f64: f64 as u64;
}

#[test]
fn conversions_round_to_the_nearest() {
    let mut rng = rng();
    for n in sizes() {
        let mut x = floats(&mut rng, n);
        for (x, special) in x.iter_mut().zip([f32::INFINITY, -0.0, 1e9, 1e-42, 65_520.0, 2049.0]) {
            *x = special;
        }
        let on_device = upload(&x);
        for start in [0, 3] {
            let found =
                mapped::<f16>(n, start, |out| map::convert(gpu(), &on_device, out).unwrap());
            same(&found, &reference::map(&x, f16::from_f32), "f32 to f16");
            let found =
                mapped::<bf16>(n, start, |out| map::convert(gpu(), &on_device, out).unwrap());
            same(&found, &reference::map(&x, bf16::from_f32), "f32 to bf16");
            let (half, brain) =
                (reference::map(&x, f16::from_f32), reference::map(&x, bf16::from_f32));
            let found =
                mapped::<f32>(n, start, |out| map::convert(gpu(), &upload(&half), out).unwrap());
            same(&found, &reference::map(&half, f16::to_f32), "f16 to f32");
            let found =
                mapped::<f32>(n, start, |out| map::convert(gpu(), &upload(&brain), out).unwrap());
            same(&found, &reference::map(&brain, bf16::to_f32), "bf16 to f32");
        }
    }
    let nan = mapped::<bf16>(1, 0, |out| map::convert(gpu(), &upload(&[f32::NAN]), out).unwrap());
    assert!(nan[0].is_nan());
}

fn filled<T: Pod + PartialEq + std::fmt::Debug>(value: T) {
    for n in [0, 1, 2, 5, 31, 1000, 20_000] {
        for start in 0..4 {
            let found = mapped::<T>(n, start, |out| fill(gpu(), &value, out).unwrap());
            assert_eq!(found, vec![value; n], "{n} from {start}");
        }
    }
}

#[test]
fn fills_of_every_size() {
    filled(7u8);
    filled(0x1234u16);
    filled(0.5f32);
    filled(-2.5f64);
    filled([1u64, 2]);
    filled([1u8, 2, 3]);
    filled([1.0f32, 2.0, 3.0]);
    filled([1u64, 2, 3]);
    filled([9u8, 8, 7, 6]);
}

#[test]
fn a_fill_of_bytes_at_any_address() {
    // A value of four bytes, aligned to one.
    let mut rng = rng();
    let mut memory = upload(&bytes(&mut rng, 200));
    for start in 0..17 {
        let mut part = memory.slice_mut(start..start + 100);
        fill(gpu(), &[1u8, 2, 3, 4], &mut part.cast_mut::<[u8; 4]>().unwrap()).unwrap();
        assert_eq!(part.to_vec().unwrap(), [1, 2, 3, 4].repeat(25));
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let (x, y) = (upload(&[1.0f32; 10]), upload(&[1.0f32; 11]));
    let error = map::triad(gpu(), 1.0, &x, &y, &mut poisoned(10)).unwrap_err();
    assert_eq!(error.to_string(), "triad: 10 elements are needed, 11 were given");
    let error = map::convert(gpu(), &x, &mut poisoned::<f16>(9)).unwrap_err();
    assert_eq!(error.to_string(), "conversion: 10 elements are needed, 9 were given");
}
