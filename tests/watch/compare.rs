//! Two versions of a module, compared while the program runs.

use ferrowarp::reload::{Outcome, Watch};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, HotModule, MappedBuffer};

use crate::kernels::{IMAGES, churn, churned, fill};
use crate::stamps::{bare, load, ptx, stamp, stamped};

/// A hot module with versions of these texts, from 1 on.
fn versions(gpu: &Gpu, texts: &[&str]) -> HotModule {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("first.ptx");
    std::fs::write(&file, texts[0]).unwrap();
    // SAFETY: the texts are these tests' own, whose kernels stay inside the words that their launchers give.
    let hot = unsafe { Watch::ptx(&file) }.keep(8).start(gpu).unwrap();
    texts[1..].iter().for_each(|text| drop(load(&hot, *text).unwrap()));
    hot
}

/// `stamp` of the versions 1 and 2, which writes 1 and 2.
fn stamps(gpu: &Gpu) -> HotModule {
    versions(gpu, &[&ptx(1), &ptx(2)])
}

/// The tests' kernels, and the same with a `churn` that does each round `times` times.
fn churns(gpu: &Gpu, times: usize) -> HotModule {
    let text = IMAGES[0].ptx();
    let step = "    mad.lo.s32 %r6, %r6, 1664525, 1013904223;\n";
    assert!(text.contains(step));
    // An equal text would be no version of its own.
    let other = text.replacen(step, &step.repeat(times), 1) + "// another version\n";
    versions(gpu, &[text, &other])
}

#[test]
fn launches_are_split_exactly() -> GpuResult<()> {
    let gpu = bare();
    let hot = stamps(&gpu);
    for (share, launches, candidates) in
        [(0.5, 100, 50), (0.25, 101, 25), (0.9, 10, 9), (0.01, 99, 0), (0.29, 100, 29)]
    {
        let comparison = hot.compare(share, 1, 2)?;
        let ran: Vec<u32> = (0..launches).map(|_| stamped(&gpu, &comparison)).collect();
        assert_eq!(ran.iter().filter(|number| **number == 2).count(), candidates, "{share}");
        let verdicts = comparison.verdicts()?;
        let [verdict] = &verdicts[..] else { panic!("one case") };
        assert_eq!((verdict.baseline.version, verdict.candidate.version), (1, 2));
        let counted = (verdict.baseline.launches as usize, verdict.candidate.launches as usize);
        assert_eq!(counted, (launches - candidates, candidates));
        assert_eq!(verdict.baseline.samples + verdict.candidate.samples, launches);
        assert_eq!((verdict.checked, verdict.mismatches), (0, 0));
        // The same again, launch by launch.
        let again = hot.compare(share, 1, 2)?;
        assert!(ran.iter().all(|number| *number == stamped(&gpu, &again)));
    }
    Ok(())
}

/// Two kernels that a frame launches in turns: a single count would give each version one of them.
#[test]
fn each_kernel_and_shape_is_split_by_itself() -> GpuResult<()> {
    let gpu = bare();
    let hot = churns(&gpu, 1);
    let comparison = hot.compare(0.5, 1, 2)?;
    let (mut few, mut many) = (DeviceBuffer::zeroed(&gpu, 10)?, DeviceBuffer::zeroed(&gpu, 1000)?);
    for _ in 0..20 {
        fill(&comparison, &mut few, 1)?;
        churn(&comparison, &mut few, 1)?;
        churn(&comparison, &mut many, 1)?;
    }
    let verdicts = comparison.verdicts()?;
    let cases: Vec<_> = verdicts.iter().map(|one| (one.kernel, one.config.grid.0)).collect();
    assert_eq!(cases.len(), 3, "{cases:?}");
    assert_eq!(cases.iter().filter(|(kernel, _)| *kernel == "churn").count(), 2);
    for verdict in &verdicts {
        assert_eq!((verdict.baseline.launches, verdict.candidate.launches), (10, 10), "{verdict}");
    }
    Ok(())
}

/// 60 times the work in each round: whatever else the machine does, that takes longer.
#[test]
fn a_version_that_works_more_is_slower() -> GpuResult<()> {
    let gpu = bare();
    let hot = churns(&gpu, 60);
    let mut words = DeviceBuffer::zeroed(&gpu, 64)?;
    let mut run = |baseline, candidate| {
        let comparison = hot.compare(0.5, baseline, candidate)?;
        (0..40).try_for_each(|_| churn(&comparison, &mut words, 300))?;
        comparison.verdicts()
    };
    let (slower, faster) = (run(1, 2)?.remove(0), run(2, 1)?.remove(0));
    assert_eq!(
        (slower.outcome(), faster.outcome()),
        (Outcome::Slower, Outcome::Faster),
        "{slower}; {faster}"
    );
    let (median, other) = (slower.baseline.median_ms.unwrap(), slower.candidate.median_ms.unwrap());
    assert!(other > median, "{slower}");
    Ok(())
}

#[test]
fn a_wrong_result_is_found_and_outweighs_time() -> GpuResult<()> {
    let gpu = bare();
    // What `stamp` writes is its version's number: different in every word.
    let hot = stamps(&gpu);
    let comparison = hot.compare(0.5, 1, 2)?.check_results(4);
    let mut words = DeviceBuffer::zeroed(&gpu, 257)?;
    (0..16).try_for_each(|_| stamp(&comparison, &mut words))?;
    let verdict = comparison.verdicts()?.remove(0);
    assert_eq!((verdict.checked, verdict.mismatches), (4, 4));
    assert_eq!(verdict.outcome(), Outcome::WrongResults);
    // A comparison of one's own may take both as equal; it sees the whole of both.
    let comparison = hot.compare(0.5, 1, 2)?.check_results_with(1, |one, other| {
        assert_eq!((one.len(), other.len()), (4 * 257, 4 * 257));
        (one[0], other[0]) == (1, 2)
    });
    stamp(&comparison, &mut words)?;
    let verdict = comparison.verdicts()?.remove(0);
    assert_eq!((verdict.checked, verdict.mismatches), (1, 0));
    Ok(())
}

/// Each version gets the memory as it was before, and the result of the one that the split names stays.
#[test]
fn a_checked_launch_has_the_effect_of_one_launch() -> GpuResult<()> {
    let gpu = bare();
    let hot = churns(&gpu, 1);
    // Words of a stream that is not the launch's.
    let stream = gpu.create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[7u32; 33])?;
    let comparison = hot.compare(0.5, 1, 2)?.check_results(1).on(&gpu.create_stream()?)?;
    (0..10).try_for_each(|_| churn(&comparison, &mut words, 3))?;
    let verdict = comparison.verdicts()?.remove(0);
    assert_eq!((verdict.checked, verdict.mismatches), (10, 0));
    assert_eq!(verdict.outcome(), Outcome::TooFewSamples);
    assert_eq!(words.to_vec()?, [churned(7, 30); 33]);
    let comparison = stamps(&gpu).compare(0.5, 1, 2)?.check_results(1);
    let ran: Vec<u32> = (0..6).map(|_| stamped(&gpu, &comparison)).collect();
    assert_eq!(ran, [1, 2, 1, 2, 1, 2]);
    Ok(())
}

#[test]
fn empty_launches_do_nothing_and_do_not_count() -> GpuResult<()> {
    let gpu = bare();
    let comparison = stamps(&gpu).compare(0.5, 1, 2)?.check_results(2);
    let mut nothing = DeviceBuffer::zeroed(&gpu, 0)?;
    (0..8).try_for_each(|_| stamp(&comparison, &mut nothing))?;
    assert_eq!(comparison.verdicts()?.len(), 0);
    Ok(())
}

#[test]
fn versions_stay_while_they_are_compared() -> GpuResult<()> {
    let gpu = bare();
    let hot = stamps(&gpu);
    let comparison = hot.compare(0.5, 1, 2)?;
    for number in 3..20 {
        load(&hot, ptx(number))?;
    }
    assert!(hot.version(1).is_err());
    assert_eq!((stamped(&gpu, &comparison), stamped(&gpu, &comparison)), (1, 2));
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_refused() -> GpuResult<()> {
    let gpu = bare();
    let hot = stamps(&gpu);
    for share in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(matches!(hot.compare(share, 1, 2), Err(GpuError::InvalidArgument { .. })));
    }
    assert!(matches!(hot.compare(0.5, 2, 2), Err(GpuError::InvalidArgument { .. })));
    assert!(matches!(hot.compare(0.5, 1, 9), Err(GpuError::NoVersion { asked: 9, .. })));
    let comparison = hot.compare(0.5, 1, 2)?;
    let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
    let captured = gpu.stream().capture(|_| stamp(&comparison, &mut words));
    let Err(error) = captured else { panic!("it was captured") };
    assert!(matches!(error.root(), GpuError::Unsupported { .. }), "{error}");
    let mut mapped = MappedBuffer::<u32>::zeroed(&gpu, 4)?;
    stamp(&comparison, &mut mapped)?;
    Ok(())
}
