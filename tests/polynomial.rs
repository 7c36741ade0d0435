//! `polynomial` against a sum of powers in f64, and the variable in constant memory that has its coefficients.
//!
//! Horner's scheme of n coefficients rounds 2n times at most, each time by half a unit in the last place of what is at most
//! the sum of the terms' magnitudes: an error below γ₂ₙ · magnitudes with γ₂ₙ = 2n u / (1 − 2n u), u = 2⁻²⁴ (Higham, *Accuracy
//! and Stability of Numerical Algorithms*, 2002, section 5.1).

use ferrowarp::error::GraphError;
use ferrowarp::ops::polynomial::{MAX_COEFFICIENTS, Polynomial};
use ferrowarp::{DeviceBuffer, GpuError, GpuResult};
use kernels_gpu::elementwise::horner::COEFFICIENTS;

use crate::support::{SIZES, floats, gpu, poisoned, rng, upload};

fn assert_evaluated(found: &[f32], coefficients: &[f32], x: &[f32]) {
    let n = 2.0 * coefficients.len() as f64 * 2.0_f64.powi(-24);
    let gamma = n / (1.0 - n);
    let expected = reference::polynomial::polynomial(coefficients, x);
    assert_eq!(found.len(), expected.len());
    for (i, (found, (exact, magnitudes))) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - exact).abs();
        assert!(error <= gamma * magnitudes, "element {i}: {found}, exactly {exact}");
    }
}

#[test]
fn every_size() -> GpuResult<()> {
    let mut rng = rng();
    let coefficients = [0.5, -1.0, 0.25, 2.0];
    let polynomial = Polynomial::new(gpu(), &coefficients)?;
    for n in SIZES {
        let x = floats(&mut rng, n);
        let mut y = poisoned::<f32>(n);
        polynomial.evaluate(gpu(), &upload(&x), &mut y)?;
        assert_evaluated(&y.to_vec()?, &coefficients, &x);
    }
    Ok(())
}

#[test]
fn every_number_of_coefficients() -> GpuResult<()> {
    let mut rng = rng();
    let (x, all) = (floats(&mut rng, 257), floats(&mut rng, MAX_COEFFICIENTS + 1));
    let (on_device, mut y) = (upload(&x), poisoned::<f32>(x.len()));
    let mut polynomial = Polynomial::new(gpu(), &all[..MAX_COEFFICIENTS])?;
    // The longest first: what the next ones do not give must not be left.
    for count in (0..=MAX_COEFFICIENTS).rev() {
        polynomial.set(&all[..count])?;
        polynomial.evaluate(gpu(), &on_device, &mut y)?;
        assert_evaluated(&y.to_vec()?, &all[..count], &x);
    }
    let error = polynomial.set(&all).unwrap_err();
    assert!(matches!(error, GpuError::InvalidArgument { .. }), "{error}");
    Ok(())
}

#[test]
fn nan_and_infinity_go_through() -> GpuResult<()> {
    let polynomial = Polynomial::new(gpu(), &[1.0, -1.0])?;
    let mut y = poisoned::<f32>(3);
    polynomial.evaluate(gpu(), &upload(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]), &mut y)?;
    let y: Vec<f32> = y.to_vec()?;
    assert!(y[0].is_nan() && y[1] == f32::NEG_INFINITY && y[2] == f32::INFINITY, "{y:?}");
    let constant = Polynomial::new(gpu(), &[3.0])?;
    let mut y = poisoned::<f32>(1);
    constant.evaluate(gpu(), &upload(&[f32::INFINITY]), &mut y)?;
    assert_eq!(y.to_vec()?, [3.0]);
    Ok(())
}

/// A variable is one for all launches of a module: a change must not reach launches before it, nor another polynomial's.
#[test]
fn changes_and_launches_on_several_streams_are_in_order() -> GpuResult<()> {
    let streams = [gpu().create_stream()?, gpu().create_stream()?];
    let x = upload(&[1.0f32; 5000]);
    let mut polynomials = [Polynomial::new(gpu(), &[])?, Polynomial::new(&streams[1], &[])?];
    let mut results = Vec::new();
    for round in 0..20u8 {
        for (polynomial, by) in polynomials.iter_mut().zip([1.0f32, -1.0]) {
            polynomial.set(&[f32::from(round) * by, by])?;
            for stream in &streams {
                let mut y = DeviceBuffer::<f32>::zeroed(stream, 5000)?;
                polynomial.evaluate(stream, &x, &mut y)?;
                results.push(((f32::from(round) + 1.0) * by, y));
            }
        }
    }
    // They run while they are dropped.
    drop(polynomials);
    for (expected, y) in results {
        assert!(y.to_vec()?.iter().all(|found| *found == expected), "{expected}");
    }
    Ok(())
}

#[test]
fn wrong_lengths_and_captures_are_refused() -> GpuResult<()> {
    let polynomial = Polynomial::new(gpu(), &[1.0])?;
    let (x, mut y) = (upload(&[1.0f32; 3]), poisoned::<f32>(2));
    let error = polynomial.evaluate(gpu(), &x, &mut y).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 3, found: 2, .. }), "{error}");
    let mut y = poisoned::<f32>(3);
    let captured = gpu().stream().capture(|stream| polynomial.evaluate(stream, &x, &mut y));
    let Err(error) = captured else { panic!("it was captured") };
    let GpuError::Graph(graph) = error.root() else { panic!("{error}") };
    assert!(matches!(**graph, GraphError::NotCapturable { .. }), "{error}");
    Ok(())
}

/// Among the shipped kernels, which are loaded in parts.
#[test]
fn the_variable_is_found_among_all_parts() -> GpuResult<()> {
    let own = gpu().global::<[f32; MAX_COEFFICIENTS]>(COEFFICIENTS)?;
    assert_eq!(own.get()?, [0.0; MAX_COEFFICIENTS]);
    let error = gpu().global::<[f32; 16]>("ferrowarp_coefficient").unwrap_err();
    let GpuError::NoGlobal { candidates, .. } = error.root() else { panic!("{error}") };
    assert_eq!(candidates[0], COEFFICIENTS);
    let error = gpu().global::<[f32; 15]>(COEFFICIENTS).unwrap_err();
    assert!(matches!(error.root(), GpuError::WrongGlobal { bytes: 64, size: 60, .. }), "{error}");
    Ok(())
}
