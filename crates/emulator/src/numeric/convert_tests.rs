use super::super::half::{Bf16, F16};
use super::*;
use Rounding::{Down, NearestAway, NearestEven, Up, Zero};
use proptest::prelude::*;

const fn int(bits: u32, signed: bool) -> Int {
    Int { bits, signed }
}

const U8: Int = int(8, false);
const S8: Int = int(8, true);
const U16: Int = int(16, false);
const S16: Int = int(16, true);
const U32: Int = int(32, false);
const S32: Int = int(32, true);
const U64: Int = int(64, false);
const S64: Int = int(64, true);
const ALL: [Int; 8] = [U8, S8, U16, S16, U32, S32, U64, S64];
const MODES: [Rounding; 4] = [NearestEven, Zero, Down, Up];

#[test]
fn integers_are_cut_or_extended() {
    assert_eq!(int_to_int(0x1ff, U16, U8, false), 0xff);
    assert_eq!(int_to_int(0x1ff, U16, S8, false), u64::MAX);
    assert_eq!(int_to_int(0xff, S8, U32, false), 0xffff_ffff);
    assert_eq!(int_to_int(0xff, U8, S64, false), 0xff);
    assert_eq!(int_to_int(0xffff_ffff, S32, U64, false), u64::MAX);
    assert_eq!(int_to_int(0xabcd_ef80, S8, S16, false), -128i64 as u64, "only the low byte counts");
}

#[test]
fn integers_saturate() {
    assert_eq!(int_to_int(0x1ff, U16, U8, true), 0xff);
    assert_eq!(int_to_int(0x1ff, U16, S8, true), 0x7f);
    assert_eq!(int_to_int(0xffff_ffff, S32, U64, true), 0);
    assert_eq!(int_to_int(i64::MIN as u64, S64, S32, true), i64::from(i32::MIN) as u64);
    assert_eq!(int_to_int(u64::MAX, U64, S64, true), i64::MAX as u64);
    assert_eq!(int_to_int(u64::MAX, U64, U32, true), 0xffff_ffff);
}

#[test]
fn floats_round_to_integers() {
    let values = [-2.5f32, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7];
    let row = |mode| values.map(|value| f32_to_int(value, S32, mode) as i64);
    assert_eq!(row(NearestEven), [-2, -2, 0, 0, 2, 2, 3]);
    assert_eq!(row(Zero), [-2, -1, 0, 0, 1, 2, 2]);
    assert_eq!(row(Down), [-3, -2, -1, 0, 1, 2, 2]);
    assert_eq!(row(Up), [-2, -1, 0, 1, 2, 3, 3]);
}

#[test]
fn floats_saturate_to_integers() {
    for to in ALL {
        for mode in MODES {
            let (least, greatest) = (to.least() as u64, to.greatest() as u64);
            assert_eq!(f32_to_int(f32::INFINITY, to, mode), greatest);
            assert_eq!(f32_to_int(f32::NEG_INFINITY, to, mode), least);
            assert_eq!(f64_to_int(1e300, to, mode), greatest);
            assert_eq!(f64_to_int(-1e300, to, mode), least);
        }
    }
    assert_eq!(f32_to_int(-0.9, U32, Down), 0);
    assert_eq!(f32_to_int(300., U8, Zero), 255);
    assert_eq!(f64_to_int(9_007_199_254_740_993., U64, Zero), 9_007_199_254_740_992);
}

#[test]
fn nan_to_integer_depends_on_the_types() {
    assert_eq!([U8, S16, U32, S32].map(|to| f32_to_int(f32::NAN, to, Zero)), [0; 4]);
    assert_eq!([U64, S64].map(|to| f32_to_int(f32::NAN, to, Zero)), [1 << 63; 2]);
    assert_eq!(f64_to_int(f64::NAN, U32, Zero), 1 << 31);
    assert_eq!(f64_to_int(f64::NAN, S32, Zero), i64::from(i32::MIN) as u64);
    assert_eq!([U64, S64].map(|to| f64_to_int(f64::NAN, to, Zero)), [1 << 63; 2]);
}

#[test]
fn integers_round_to_floats() {
    const ODD: i128 = (1 << 24) + 1;
    let row = |value: i128| MODES.map(|mode| int_to_f32(value, mode) as i128);
    assert_eq!(row(ODD), [ODD - 1, ODD - 1, ODD - 1, ODD + 1]);
    assert_eq!(row(-ODD), [1 - ODD, 1 - ODD, -ODD - 1, 1 - ODD]);
    assert_eq!(row(u64::MAX.into())[1], (1 << 64) - (1 << 40));
    assert_eq!(row(u64::MAX.into())[0], 1 << 64);
    assert_eq!(int_to_f64(i64::MIN.into(), Zero), -(2f64.powi(63)));
    assert_eq!(int_to_f64(u64::MAX.into(), Zero), 18_446_744_073_709_549_568.);
    assert_eq!(int_to_f32(0, Down).to_bits(), 0);
    assert_eq!(
        MODES.map(|mode| int_to_half::<F16>(70_000, mode)),
        [0x7c00, 0x7bff, 0x7bff, 0x7c00]
    );
    assert_eq!(MODES.map(|mode| int_to_half::<Bf16>(-257, mode)), [0xc380, 0xc380, 0xc381, 0xc380]);
}

#[test]
fn doubles_narrow() {
    let row = |value: f64| MODES.map(|mode| f64_to_f32(value, mode).to_bits());
    assert_eq!(row(0.1), [0x3dcc_cccd, 0x3dcc_cccc, 0x3dcc_cccc, 0x3dcc_cccd]);
    assert_eq!(row(1e300), [0x7f80_0000, 0x7f7f_ffff, 0x7f7f_ffff, 0x7f80_0000]);
    assert_eq!(row(-1e-300), [1 << 31, 1 << 31, 0x8000_0001, 1 << 31]);
    assert_eq!(row(f64::NEG_INFINITY), [0xff80_0000; 4]);
    assert_eq!(row(f64::from_bits(0xfff0_0000_6000_0001)), [0xffc0_0003; 4]);
    assert_eq!(f64_to_half::<F16>(-f64::NAN, Zero), 0xfe00);
    assert_eq!(f64_to_half::<Bf16>(f64::NEG_INFINITY, Zero), 0xff80);
    assert_eq!(f64_to_half::<F16>(65519.999, NearestEven), 0x7bff);
    // A rounding to f32 on the way would make this a tie.
    assert_eq!(f64_to_half::<F16>(1. + 2f64.powi(-11) + 2f64.powi(-40), NearestEven), 0x3c01);
}

#[test]
fn widening_is_exact_and_treats_nans_as_the_device_does() {
    assert_eq!([0x7c01, 0xfe12].map(|bits| f16_to_f32(bits).to_bits()), [0x7fff_ffff; 2]);
    assert_eq!(
        [0x7f81, 0xffc1].map(|bits| bf16_to_f32(bits).to_bits()),
        [0x7f81_0000, 0xffc1_0000]
    );
    assert_eq!(half_to_f64::<F16>(0x7c01).to_bits(), 0x7ff8_0400_0000_0000);
    assert_eq!(half_to_f64::<F16>(0xfe12).to_bits(), 0xfff8_4800_0000_0000);
    assert_eq!(f32_to_f64(f32::from_bits(0xffc0_0123)).to_bits(), 0xfff8_0024_6000_0000);
    assert_eq!((half_to_f64::<F16>(1), half_to_f64::<Bf16>(0xc000)), (2f64.powi(-24), -2.));
    assert_eq!(f32_to_half::<Bf16>(f32::NAN, Zero), 0x7fff);
}

#[test]
fn tf32_rounds_ties_away() {
    const TIE: u32 = 0x3f80_1000;
    let f = |bits: u32, mode| f32_to_tf32(f32::from_bits(bits), mode);
    assert_eq!(f(TIE, NearestAway), 0x3f80_2000);
    assert_eq!(f(TIE | 1 << 31, NearestAway), 0xbf80_2000);
    assert_eq!(f(TIE - 1, NearestAway), 0x3f80_0000);
    assert_eq!([NearestEven, Zero].map(|mode| f(TIE, mode)), [0x3f80_0000; 2]);
    assert_eq!(f(0x7f7f_ffff, NearestAway), 0x7f80_0000);
    assert_eq!([NearestAway, Zero].map(|mode| f(0x7f80_0001, mode)), [0x7f80_0000, 0x7fff_e000]);
    assert_eq!(f(0xff80_0000, NearestAway), 0xff80_0000);
}

#[test]
fn integral_roundings_keep_the_sign_of_zero() {
    assert_eq!(MODES.map(|mode| round_f32(-0.25, mode).to_bits())[0], 1 << 31);
    assert_eq!(MODES.map(|mode| round_f64(-2.5, mode)), [-2., -2., -3., -2.]);
    assert_eq!(round_f32(f32::from_bits(0xff80_0001), Zero).to_bits(), 0x7fff_ffff);
    let signalling = std::hint::black_box(f64::from_bits(0x7ff0_0000_0000_0001));
    assert_eq!(round_f64(signalling, Down).to_bits(), 0x7ff8_0000_0000_0001);
    assert_eq!(round_f32(1e30, Up), 1e30);
    assert_eq!(
        [relu_f32(-1.), relu_f32(-0.), relu_f32(2.)].map(f32::to_bits),
        [0, 0, 2f32.to_bits()]
    );
}

proptest! {
    #[test]
    fn saturation_is_the_nearest_value(register: u64, from in 0usize..8, to in 0usize..8) {
        let (from, to) = (ALL[from], ALL[to]);
        let value = read_int(register, from);
        let result = read_int(int_to_int(register, from, to, true), to);
        prop_assert!((to.least()..=to.greatest()).contains(&result));
        prop_assert!(result == value || result == to.least() || result == to.greatest());
        prop_assert!((value >= result) == (value >= to.greatest() || value == result));
    }

    #[test]
    fn narrowing_encloses(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let [down, up] = [Down, Up].map(|mode| f64_to_f32(value, mode));
        prop_assert!(f64::from(down) <= value && value <= f64::from(up));
        prop_assert!(down == up || down.next_up() == up);
        let towards_zero = if value > 0. { down } else { up };
        prop_assert_eq!(f64_to_f32(value, Zero).to_bits(), towards_zero.to_bits());
    }

    #[test]
    fn integers_to_floats_like_the_host(value: u64) {
        prop_assert_eq!(int_to_f32(value.into(), NearestEven), value as f32);
        prop_assert_eq!(int_to_f64(value.into(), NearestEven), value as f64);
        prop_assert_eq!(int_to_f32((value as i64).into(), NearestEven), value as i64 as f32);
        let number = Number::integer((value as i64).into());
        let soft = number.pack(Format::F32, NearestEven) as u32;
        prop_assert_eq!(soft, (value as i64 as f32).to_bits());
    }

    #[test]
    fn half_conversion_through_f32_bits(bits: u32) {
        let value = f32::from_bits(bits);
        prop_assume!(value.is_finite());
        let [down, up] = [Down, Up].map(|mode| super::super::half::narrow::<F16>(value, mode));
        prop_assert!(F16::widen(down) <= value && value <= F16::widen(up));
    }
}
