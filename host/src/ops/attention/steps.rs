//! The first steps of the staircase.

use cuda_std::launch::{Grid1, Instance};
use kernels_gpu::attention::Problem;
use kernels_gpu::attention::form::DEPTHS;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::steps::{attention_online, attention_textbook, blocks};

use super::options::Settings;
use super::prepare::{check_apart, depth_of, problem_of, wrong};
use super::{Band, Heads, HeadsMut, Options};
use crate::error::GpuResult;
use crate::stream::AsStream;

/// Attention as a textbook has it: a warp for each query, and three passes over the keys. It takes a scale and a [`Band`] of the options. Asynchronous.
///
/// # Errors
/// As [`attention_into`](super::attention_into); for lengths, pages, logarithms and kernels among the options.
pub fn textbook_into<T: Half>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    mut o: HeadsMut<'_, T>,
    options: Options<'_, Band>,
) -> GpuResult<()>
where
    attention_textbook<T>: Instance,
{
    let Some((problem, grid)) = prepare(&q, &k, &v, &o, &options)? else { return Ok(()) };
    let (q, k, v, o) = (&q.memory, &k.memory, &v.memory, &mut o.memory);
    // SAFETY: sizes and overlaps were checked, and the grid is of this problem.
    unsafe {
        attention_textbook::<T>::launch(on.as_stream(), grid, problem, options.score, q, k, v, o)
    }
}

/// Attention with the online softmax: a warp for each query, and one pass over the keys. Else as [`textbook_into`].
///
/// # Errors
/// As [`textbook_into`].
pub fn online_into<T: Half>(
    on: &impl AsStream,
    q: Heads<'_, T>,
    k: Heads<'_, T>,
    v: Heads<'_, T>,
    mut o: HeadsMut<'_, T>,
    options: Options<'_, Band>,
) -> GpuResult<()>
where
    attention_online<T>: Instance,
{
    let Some((problem, grid)) = prepare(&q, &k, &v, &o, &options)? else { return Ok(()) };
    let (q, k, v, o) = (&q.memory, &k.memory, &v.memory, &mut o.memory);
    // SAFETY: as above.
    unsafe {
        attention_online::<T>::launch(on.as_stream(), grid, problem, options.score, q, k, v, o)
    }
}

/// Checks everything; `None` if there is no query.
fn prepare<T: Half>(
    q: &Heads<'_, T>,
    k: &Heads<'_, T>,
    v: &Heads<'_, T>,
    o: &HeadsMut<'_, T>,
    options: &Options<'_, Band>,
) -> GpuResult<Option<(Problem, Grid1)>> {
    let Settings { lengths, pages, lists, lse, kernel, .. } = &options.set;
    let has_keys = lengths.is_some() || pages.is_some() || lists.is_some();
    if has_keys || lse.is_some() || kernel.is_some() || options.score.prefix > 0 {
        let reason = "the steps take a scale, and a band without a prefix, and no other option";
        return Err(wrong(reason.into()));
    }
    let problem = problem_of([q.layout(), k.layout(), v.layout(), o.layout()], options)?;
    check_apart("results", o, [("queries", q), ("keys", k), ("values", v)])?;
    depth_of(&problem, &DEPTHS)?;
    if problem.all_queries() == 0 {
        return Ok(None);
    }
    let blocks = u32::try_from(blocks(&problem))
        .map_err(|_| wrong("more queries than a launch has".into()))?;
    Ok(Some((problem, Grid1::new(blocks))))
}
