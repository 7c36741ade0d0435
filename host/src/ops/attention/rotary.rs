//! Rotary position embedding, and caches of keys and values.

use cuda_std::launch::{DeviceRead, Grid1};
use cuda_std::vector::Vec2;
use kernels_gpu::attention::hopper::Half;
use kernels_gpu::attention::rotary::{Append, Division, Rotation, WIDE, cache_append, rotary};

use cuda_std::launch::Instance;

use super::prepare::{check_apart, wrong};
use super::{Heads, HeadsLayout, HeadsMut};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSlice};
use crate::ops::same_len;
use crate::ops::views::As;
use crate::stream::AsStream;

/// Cosines and sines of the angles by which rows are turned, on the device: `position · base^(-2 i / d)` for elements `i` and `i + d / 2` of a row.
///
/// (J. Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021, with halves of a row in place of neighbours, as most models have it.)
#[derive(Debug)]
pub struct RotaryTable {
    turns: DeviceBuffer<Vec2<f32>>,
    positions: usize,
    depth: usize,
}

impl RotaryTable {
    /// For positions below `positions`, and rows of `depth` elements. `base` is 10,000 in most models. Angles are computed in f64.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::GpuError::InvalidArgument) for an odd `depth`; out of memory.
    pub fn new(on: &impl AsStream, positions: usize, depth: usize, base: f64) -> GpuResult<Self> {
        if !depth.is_multiple_of(2) {
            return Err(wrong(format!("rows are turned by halves, and {depth} is odd")));
        }
        let turn = |position: usize, pair: usize| {
            let angle = position as f64 * base.powf(-2.0 * pair as f64 / depth as f64);
            Vec2::new(angle.cos() as f32, angle.sin() as f32)
        };
        let turns: Vec<_> = (0..positions)
            .flat_map(|position| (0..depth / 2).map(move |pair| turn(position, pair)))
            .collect();
        Ok(Self { turns: DeviceBuffer::from_slice(on, &turns)?, positions, depth })
    }

    /// An error if rows have another length.
    fn check(&self, depth: usize) -> GpuResult<()> {
        if depth == self.depth {
            return Ok(());
        }
        let reason =
            format!("the table is for rows of {} elements, and these have {depth}", self.depth);
        Err(wrong(reason))
    }
}

/// Where rows stand in their sequences.
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// The first row of each batch at this position.
    From(u32),
    /// The last row of each batch at the end of a sequence, of whose rows these are the numbers, on the device: `[batches]`.
    EndAt(DeviceSlice<'a, u32>),
}

/// Turns each row of `x: [batches, heads, rows, depth]` in place, by the angles of its position; `back` by the negative ones, which is the gradient. A position
/// that the table does not have is a panic of the kernel. Asynchronous; allocates nothing.
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if the table is for rows of another length, has fewer positions than [`Positions::From`] needs, or rows overlap;
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) for another number of lengths; errors of the driver.
pub fn rotary_in_place<T: Half>(
    on: &impl AsStream,
    mut x: HeadsMut<'_, T>,
    table: &RotaryTable,
    positions: Positions<'_>,
    back: bool,
) -> GpuResult<()>
where
    rotary<T>: Instance,
{
    let layout = x.layout();
    table.check(layout.depth)?;
    if !layout.is_disjoint() {
        return Err(wrong("rows that are turned overlap each other".into()));
    }
    let first = match positions {
        Positions::From(first) => first,
        Positions::EndAt(_) => 0,
    };
    let lengths = match &positions {
        Positions::From(_) if first as usize + layout.rows > table.positions => {
            let (last, has) = (first as usize + layout.rows, table.positions);
            return Err(wrong(format!("rows at positions below {last}, and a table of {has}")));
        }
        Positions::From(_) => None,
        Positions::EndAt(lengths) => {
            same_len("the lengths of a rotary embedding", layout.batches, lengths.len())?;
            Some(lengths)
        }
    };
    let lengths = As::<u32>::optional(lengths);
    let [batches, heads, rows, depth] = small(layout.sizes())?;
    let division = divide([batches, heads, rows], depth, is_wide::<T>((x.address(), layout)))?;
    let (x_strides, back) = (layout.strides(), back.into());
    let rotation = Rotation { x: x_strides, division, rows, depth, first, back };
    let (on, grid, x) = (on.as_stream(), Grid1::new(division.blocks()), &mut x.memory);
    // SAFETY: the view has every element of its layout, and no two rows share one; rows are as the division says.
    unsafe { rotary::<T>::launch(on, grid, rotation, &table.turns, &lengths, x) }
}

/// A cache of keys and values of which rows are written: whole batches, `[batches, kv_heads, rows, d]`, or pages, `[pages, kv_heads, rows of a page, d]`, which
/// [`Options::pages`](super::Options::pages) describes.
#[derive(Debug)]
pub struct Cache<'a, T: bytemuck::Pod> {
    /// Keys.
    pub k: HeadsMut<'a, T>,
    /// Values.
    pub v: HeadsMut<'a, T>,
    /// The pages of each batch, in order, on the device: `[batches, pages of a batch]`; `None` for a cache without pages.
    pub pages: Option<DeviceSlice<'a, u32>>,
}

/// Writes new keys and values, `k, v: [batches, kv_heads, new, d]`, after those that a cache has. `lengths: [batches]` are the keys that each batch has with
/// them, on the device: the same numbers as [`Options::lengths`](super::Options::lengths) of the attention that follows. With a table the keys are turned by their
/// positions on the way. Rows that the cache has no room for are left out; of two batches that name one page, either may have written what is there. Asynchronous;
/// allocates nothing.
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if sizes do not fit, the cache overlaps what is written or itself, or the table is for rows of another length;
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) for another number of lengths; errors of the driver.
pub fn append_into<T: Half>(
    on: &impl AsStream,
    [k, v]: [Heads<'_, T>; 2],
    mut cache: Cache<'_, T>,
    lengths: &impl DeviceRead<u32>,
    table: Option<&RotaryTable>,
) -> GpuResult<()>
where
    cache_append<T>: Instance,
{
    let append = check([&k, &v], &cache, table)?;
    same_len("the lengths of a cache", k.layout().batches, lengths.len())?;
    let pages = As::<u32>::optional(cache.pages.as_ref());
    let turns = As::<Vec2<f32>>::optional(table.map(|table| &table.turns));
    let grid = Grid1::new(append.division.blocks());
    let (of_k, of_v) = (&mut cache.k.memory, &mut cache.v.memory);
    let (on, k, v) = (on.as_stream(), &k.memory, &v.memory);
    // SAFETY: the views have every element of their layouts, and no two rows of the cache share one; of a page that the table names twice, elements are
    // written whole, as is documented. Rows are as the division says.
    unsafe {
        cache_append::<T>::launch(on, grid, append, &turns, lengths, &pages, k, v, of_k, of_v)
    }
}

/// Checks sizes and overlaps; returns what the kernel takes.
fn check<T: Half>(
    [k, v]: [&Heads<'_, T>; 2],
    cache: &Cache<'_, T>,
    table: Option<&RotaryTable>,
) -> GpuResult<Append> {
    let (of_k, of_v) = (k.layout(), v.layout());
    let (to_k, to_v) = (cache.k.layout(), cache.v.layout());
    table.map_or(Ok(()), |table| table.check(of_k.depth))?;
    let fits = of_k.sizes()[..3] == of_v.sizes()[..3]
        && to_k.sizes()[..3] == to_v.sizes()[..3]
        && of_k.heads == to_k.heads
        && [of_k.depth, of_v.depth] == [to_k.depth, to_v.depth];
    if !fits {
        let reason = format!("keys are {of_k}, values {of_v}, and the cache has {to_k} and {to_v}");
        return Err(wrong(reason));
    }
    let pages = match &cache.pages {
        Some(pages) => {
            if !pages.len().is_multiple_of(of_k.batches.max(1)) {
                let (len, batches) = (pages.len(), of_k.batches);
                return Err(wrong(format!(
                    "{len} pages are not as many for each of {batches} batches"
                )));
            }
            pages.len() / of_k.batches.max(1)
        }
        None if to_k.batches == of_k.batches => 0,
        None => {
            let reason =
                format!("the cache has {} batches, and the keys {}", to_k.batches, of_k.batches);
            return Err(wrong(reason));
        }
    };
    for (name, output) in [("keys of the cache", &cache.k), ("values of the cache", &cache.v)] {
        if !output.layout().is_disjoint() {
            return Err(wrong(format!("the {name} overlap each other")));
        }
        check_apart(name, output, [("keys", k), ("values", v)])?;
    }
    check_apart("keys of the cache", &cache.k, [("values of the cache", &cache.v.as_read())])?;
    let [batches, heads, rows, depth] = small(of_k.sizes())?;
    let [cache_batches, _, page_rows, value_depth] = small(to_v.sizes())?;
    let tensors = [
        (k.address(), of_k),
        (v.address(), of_v),
        (cache.k.address(), to_k),
        (cache.v.address(), to_v),
    ];
    let is_wide = tensors.into_iter().all(is_wide::<T>);
    Ok(Append {
        division: divide([batches, heads, rows], depth.max(value_depth), is_wide)?,
        rows,
        depth,
        value_depth,
        page_rows,
        pages: small([pages])?[0],
        cache_batches,
        k: of_k.strides(),
        v: of_v.strides(),
        k_cache: to_k.strides(),
        v_cache: to_v.strides(),
    })
}

/// Whether rows, and halves of rows, are made of vectors of 16 bytes.
fn is_wide<T>((address, layout): (u64, HeadsLayout)) -> bool {
    let HeadsLayout { batch_stride, head_stride, row_stride, .. } = layout;
    let [batches, heads, rows, depth] = layout.sizes();
    let strides = [(batches, batch_stride), (heads, head_stride), (rows, row_stride)];
    let is_whole = |elements: usize| elements.is_multiple_of(WIDE as usize);
    address.is_multiple_of(u64::from(WIDE) * size_of::<T>() as u64)
        && is_whole(depth / 2)
        && depth.is_multiple_of(2)
        && strides.into_iter().all(|(count, stride)| count < 2 || is_whole(stride))
}

/// How a launch divides `[batches, heads, rows]` of at most `depth` elements.
fn divide(sizes: [u32; 3], depth: u32, is_wide: bool) -> GpuResult<Division> {
    let too_many =
        || wrong(format!("{sizes:?} batches, heads and rows are more than a launch takes"));
    Division::new(sizes, depth.div_ceil(2), is_wide).ok_or_else(too_many)
}

/// Sizes as kernels count them.
fn small<const N: usize>(sizes: [usize; N]) -> GpuResult<[u32; N]> {
    const LIMIT: usize = 1 << 31;
    match sizes.into_iter().find(|size| *size >= LIMIT) {
        Some(size) => Err(wrong(format!("a size of {size}: sizes are below 2^31"))),
        None => Ok(sizes.map(|size| size as u32)),
    }
}
