use super::*;
use Rounding::{Down, NearestEven, Up, Zero};
use proptest::prelude::*;
use rustc_apfloat::{Float, Round, ieee};

const INF: f32 = f32::INFINITY;
const TINY: f32 = f32::from_bits(1);
const MODES: [Rounding; 4] = [NearestEven, Zero, Down, Up];

fn round_of(rounding: Rounding) -> Round {
    match rounding {
        NearestEven => Round::NearestTiesToEven,
        Rounding::NearestAway => Round::NearestTiesToAway,
        Zero => Round::TowardZero,
        Down => Round::TowardNegative,
        Up => Round::TowardPositive,
    }
}

/// Bits that are often zeros, infinities, NaNs, subnormals, or near a power of two.
fn bits32() -> impl Strategy<Value = u32> {
    let edges = [0, 1, 2, 0x7f_ffff, 0x80_0000, 0x3f80_0000, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000];
    let edge = prop::sample::select(edges.to_vec());
    let sparse = (any::<u32>(), 0u32..31).prop_map(|(bits, keep)| bits & (u32::MAX << keep));
    let near_one = (0x3e00_0000u32..0x4100_0000).prop_map(|bits| bits);
    let magnitude = prop_oneof![edge, sparse, near_one, any::<u32>()];
    (magnitude, any::<bool>()).prop_map(|(bits, negative)| bits ^ u32::from(negative) << 31)
}

fn bits64() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 0xf_ffff_ffff_ffff, 1 << 52, 0x3ff0_0000_0000_0001, 0x7fef_ffff_ffff_ffff];
    let edge = prop::sample::select(edges.to_vec());
    let sparse = (any::<u64>(), 0u32..63).prop_map(|(bits, keep)| bits & (u64::MAX << keep));
    let near_one = 0x3f80_0000_0000_0000u64..0x4080_0000_0000_0000;
    let magnitude = prop_oneof![edge, sparse, near_one, any::<u64>()];
    (magnitude, any::<bool>()).prop_map(|(bits, negative)| bits ^ u64::from(negative) << 63)
}

/// Compares with the reference; NaNs need only both be NaN.
fn same32(ours: f32, reference: ieee::Single) -> bool {
    let theirs = f32::from_bits(reference.to_bits() as u32);
    ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan())
}

fn same64(ours: f64, reference: ieee::Double) -> bool {
    let theirs = f64::from_bits(reference.to_bits() as u64);
    ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn f32_like_apfloat(a in bits32(), b in bits32(), c in bits32()) {
        let [x, y, z] = [a, b, c].map(|bits| ieee::Single::from_bits(bits.into()));
        let [a, b, c] = [a, b, c].map(f32::from_bits);
        for mode in MODES {
            let r = round_of(mode);
            prop_assert!(same32(add_f32(a, b, mode), x.add_r(y, r).value), "{a:e} + {b:e} {mode:?}");
            prop_assert!(same32(sub_f32(a, b, mode), x.sub_r(y, r).value), "{a:e} - {b:e} {mode:?}");
            prop_assert!(same32(mul_f32(a, b, mode), x.mul_r(y, r).value), "{a:e} * {b:e} {mode:?}");
            prop_assert!(same32(div_f32(a, b, mode), x.div_r(y, r).value), "{a:e} / {b:e} {mode:?}");
            let fma = fma_f32(a, b, c, mode);
            let reference = x.mul_add_r(y, z, r).value;
            prop_assert!(same32(fma, reference), "{a:e} * {b:e} + {c:e} {mode:?}: {fma:e}, {reference}");
        }
    }

    #[test]
    fn f64_like_apfloat(a in bits64(), b in bits64(), c in bits64()) {
        let [x, y, z] = [a, b, c].map(|bits| ieee::Double::from_bits(bits.into()));
        let [a, b, c] = [a, b, c].map(f64::from_bits);
        for mode in MODES {
            let r = round_of(mode);
            prop_assert!(same64(add_f64(a, b, mode), x.add_r(y, r).value), "{a:e} + {b:e} {mode:?}");
            prop_assert!(same64(sub_f64(a, b, mode), x.sub_r(y, r).value), "{a:e} - {b:e} {mode:?}");
            prop_assert!(same64(mul_f64(a, b, mode), x.mul_r(y, r).value), "{a:e} * {b:e} {mode:?}");
            prop_assert!(same64(div_f64(a, b, mode), x.div_r(y, r).value), "{a:e} / {b:e} {mode:?}");
            let fma = fma_f64(a, b, c, mode);
            let reference = x.mul_add_r(y, z, r).value;
            prop_assert!(same64(fma, reference), "{a:e} * {b:e} + {c:e} {mode:?}: {fma:e}, {reference}");
        }
    }

    /// The exact integers round to nearest as the host does, which has its own square root. MinGW's `fma` is wrong, so
    /// that of `libm` is the reference.
    #[test]
    fn exact_operations_agree_with_the_host(a in bits64(), b in bits64(), c in bits64()) {
        let [a, b, c] = [a, b, c].map(f64::from_bits);
        prop_assume!(a.is_finite() && b.is_finite() && c.is_finite() && b != 0.);
        let [x, y, z] = [a, b, c].map(number_f64);
        let pack = |number| pack_f64(number, NearestEven).to_bits();
        prop_assert_eq!(pack(soft::add(x, y, NearestEven)), (a + b).to_bits());
        prop_assert_eq!(pack(soft::mul(x, y)), (a * b).to_bits());
        prop_assert_eq!(pack(soft::div(x, y)), (a / b).to_bits());
        prop_assert_eq!(pack(soft::add(soft::mul(x, y), z, NearestEven)), libm::fma(a, b, c).to_bits());
        prop_assert_eq!(pack(soft::sqrt(number_f64(a.abs()))), a.abs().sqrt().to_bits());
    }

    /// The root rounded down and up enclose the exact root: squares decide, in exact integers.
    #[test]
    fn directed_roots_enclose(a in bits32()) {
        let a = f32::from_bits(a).abs();
        prop_assume!(a.is_finite() && a > 0.);
        let [down, up] = [Down, Up].map(|mode| f64::from(sqrt_f32(a, mode)));
        prop_assert!(down * down <= f64::from(a) && up * up >= f64::from(a));
        prop_assert!(up == down || f64::from((down as f32).next_up()) == up);
        prop_assert_eq!(sqrt_f32(a, Zero).to_bits(), (down as f32).to_bits());
        prop_assert_eq!(sqrt_f32(a, NearestEven), a.sqrt());
    }

    #[test]
    fn fused_like_the_host(a in bits32(), b in bits32(), c in bits32()) {
        let [a, b, c] = [a, b, c].map(f32::from_bits);
        let ours = fma_f32(a, b, c, NearestEven);
        prop_assert_eq!(ours.to_bits(), canonical_f32(libm::fmaf(a, b, c)).to_bits());
    }
}

#[test]
fn fma_near_a_subnormal_tie_is_rounded_once() {
    // (1 + 2^-20)(1 - 2^-20) 2^-150 lies just below half a unit, and a double takes it for the
    // half.
    let a = f32::from_bits((127 - 60) << 23 | 1 << 3);
    let b = f32::from_bits((127 - 91) << 23 | 0x7f_fff0);
    let odd = f32::from_bits(1 << 22 | 1);
    assert_ne!(
        (f64::from(a) * f64::from(b) + f64::from(odd)) as f32,
        odd,
        "the case is the hard one"
    );
    assert_eq!(fma_f32(a, b, odd, NearestEven), odd);
    assert_eq!(fma_f32(-a, b, -odd, NearestEven), -odd);
}

#[test]
fn an_exact_zero_sum_has_the_sign_of_the_rounding() {
    for mode in MODES {
        let expected = if mode == Down { -0f32 } else { 0. }.to_bits();
        assert_eq!(add_f32(1., -1., mode).to_bits(), expected);
        assert_eq!(add_f32(0., -0., mode).to_bits(), expected);
        assert_eq!(sub_f32(2., 2., mode).to_bits(), expected);
        assert_eq!(fma_f32(2., 2., -4., mode).to_bits(), expected);
        assert_eq!(fma_f64(-2., 0., 0., mode).is_sign_negative(), mode == Down);
        assert_eq!(add_f32(-0., -0., mode).to_bits(), 1 << 31);
        assert_eq!(sub_f32(-0., 0., mode).to_bits(), 1 << 31);
    }
}

#[test]
fn invalid_operations_make_the_nan_of_ptx() {
    let signalling = f32::from_bits(0xff80_0001);
    for mode in MODES {
        let results = [
            add_f32(INF, -INF, mode),
            sub_f32(INF, INF, mode),
            mul_f32(0., INF, mode),
            div_f32(0., 0., mode),
            div_f32(INF, INF, mode),
            sqrt_f32(-1., mode),
            sqrt_f32(-INF, mode),
            fma_f32(INF, 0., 1., mode),
            fma_f32(INF, 1., -INF, mode),
            rcp_f32(signalling, mode),
            add_f32(signalling, 1., mode),
        ];
        assert_eq!(results.map(f32::to_bits), [0x7fff_ffff; 11]);
    }
}

/// The compiler cannot compute these ahead, so its own rules about NaNs would show.
#[test]
fn roots_of_no_number_are_the_nan_of_ptx_at_run_time() {
    let operands =
        std::hint::black_box([-1., -INF, f32::from_bits(0xffc0_0123), -f32::MIN_POSITIVE]);
    for mode in std::hint::black_box(MODES) {
        assert_eq!(operands.map(|a| sqrt_f32(a, mode).to_bits()), [0x7fff_ffff; 4]);
    }
    let nearest = operands.map(|a| sqrt_f32(a, NearestEven).to_bits());
    assert_eq!(nearest, [0x7fff_ffff; 4]);
    let doubles = operands.map(|a| sqrt_f64(a.into(), NearestEven).to_bits());
    assert_eq!(doubles[..2], [NAN_F64.to_bits(); 2]);
    assert_eq!(doubles[2], 0xfff8_0024_6000_0000);
}

#[test]
fn doubles_keep_the_payload_of_a_nan() {
    let quiet = f64::from_bits(0x7ff8_0000_0000_1234);
    let signalling = f64::from_bits(0xfff0_0000_0000_5678);
    assert_eq!(add_f64(quiet, 1., NearestEven).to_bits(), quiet.to_bits());
    assert_eq!(mul_f64(1., signalling, Down).to_bits(), 0xfff8_0000_0000_5678);
    assert_eq!(sub_f64(1., quiet, Up).to_bits(), quiet.to_bits());
    let both = [add_f64, mul_f64, div_f64].map(|f| f(quiet, signalling, NearestEven).to_bits());
    assert_eq!(both, [0xfff8_0000_0000_5678, 0xfff8_0000_0000_5678, quiet.to_bits()]);
    assert_eq!(min_f64(signalling, quiet).to_bits(), quiet.to_bits());
    assert_eq!(add_f64(f64::INFINITY, -f64::INFINITY, Zero).to_bits(), NAN_F64.to_bits());
    assert_eq!(sqrt_f64(-1., NearestEven).to_bits(), NAN_F64.to_bits());
}

#[test]
fn reciprocals_roots_and_quotients_at_the_edges() {
    for mode in MODES {
        assert_eq!(rcp_f32(0., mode), INF);
        assert_eq!(rcp_f32(-0., mode), -INF);
        assert_eq!(rcp_f32(-INF, mode).to_bits(), 1 << 31);
        assert_eq!(sqrt_f32(-0., mode).to_bits(), 1 << 31);
        assert_eq!(sqrt_f32(INF, mode), INF);
        assert_eq!(sqrt_f64(2.25, mode), 1.5);
        assert_eq!(div_f64(-1., 0., mode), f64::NEG_INFINITY);
    }
    assert_eq!(MODES.map(|mode| rcp_f32(TINY, mode)), [INF, f32::MAX, f32::MAX, INF]);
    assert_eq!(MODES.map(|mode| sqrt_f64(2., mode).to_bits() & 0xff), [0xcd, 0xcc, 0xcc, 0xcd]);
}

#[test]
fn minima_and_maxima() {
    let nan = f32::from_bits(0xffc0_0001);
    assert_eq!([min_f32(-0., 0.), min_f32(0., -0.)].map(f32::to_bits), [1 << 31; 2]);
    assert_eq!([max_f32(-0., 0.), max_f32(0., -0.)].map(f32::to_bits), [0; 2]);
    assert_eq!([min_f32(nan, 1.), min_f32(1., nan), max_f32(nan, -INF)], [1., 1., -INF]);
    for result in [min_f32(nan, nan), min_nan_f32(nan, 1.), max_nan_f32(1., nan), max_f32(nan, nan)]
    {
        assert_eq!(result.to_bits(), 0x7fff_ffff);
    }
    assert_eq!([min_nan_f32(2., 1.), max_nan_f32(2., 1.), min_f64(1., 2.) as f32], [1., 2., 1.]);
    assert!(min_nan_f64(f64::NAN, 1.).is_nan() && max_nan_f64(1., f64::NAN).is_nan());
}

#[test]
fn xorsign_takes_magnitudes_and_multiplies_signs() {
    assert_eq!(xorsign_abs_f32(-2., 3., min_f32), -2.);
    assert_eq!(xorsign_abs_f32(-2., -3., max_f32), 3.);
    assert_eq!(xorsign_abs_f32(-f32::NAN, 3., max_f32), -3.);
    assert_eq!(xorsign_abs_f32(-f32::NAN, 3., max_nan_f32).to_bits(), 0x7fff_ffff);
    assert_eq!(xorsign_abs_f64(0., -1., min_f64).to_bits(), 1 << 63);
}

#[test]
fn signs_of_everything() {
    let nan = f32::from_bits(0xffc0_1234);
    assert_eq!([abs_f32(nan), neg_f32(nan)].map(f32::to_bits), [0x7fff_ffff; 2]);
    let nan = f64::from_bits(0xfff0_0000_0000_1234);
    assert_eq!([abs_f64(nan), neg_f64(nan)].map(f64::to_bits), [0xfff8_0000_0000_1234; 2]);
    assert_eq!(neg_f32(0.).to_bits(), 1 << 31);
    assert_eq!(copysign_f32(-0., 5.), -5.);
    assert_eq!(copysign_f64(1., -5.), 5.);
    assert_eq!((abs_f64(-INF as f64), neg_f64(1.)), (f64::INFINITY, -1.));
}

#[test]
fn flush_and_saturate() {
    let largest = f32::from_bits(0x007f_ffff);
    assert_eq!(
        [TINY, -TINY, largest, -largest].map(|v| ftz(v).to_bits()),
        [0, 1 << 31, 0, 1 << 31]
    );
    assert_eq!([f32::MIN_POSITIVE, -INF].map(ftz), [f32::MIN_POSITIVE, -INF]);
    assert_eq!(ftz(f32::from_bits(0x7f80_0001)).to_bits(), 0x7f80_0001);
    let values = [-INF, -1., -0., 0.25, 1., 1.5, INF, f32::NAN];
    assert_eq!(
        values.map(|v| sat_f32(v).to_bits()),
        [0., 0., 0., 0.25, 1., 1., 1., 0f32].map(f32::to_bits)
    );
    assert_eq!(
        values.map(|v| sat_f64(v.into()).to_bits()),
        [0., 0., 0., 0.25, 1., 1., 1., 0f64].map(f64::to_bits)
    );
}

#[test]
fn properties() {
    use Property::*;
    let all = [Finite, Infinite, Number, NotANumber, Normal, Subnormal];
    let of = |value: f32| all.map(|property| testp_f32(value, property));
    assert_eq!(of(0.), [true, false, true, false, true, false]);
    assert_eq!(of(TINY), [true, false, true, false, false, true]);
    assert_eq!(of(-1.), [true, false, true, false, true, false]);
    assert_eq!(of(-INF), [false, true, true, false, false, false]);
    assert_eq!(of(f32::NAN), [false, false, false, true, false, false]);
    assert!(testp_f64(f64::from(TINY), Normal) && testp_f64(f64::from_bits(1), Subnormal));
}
