//! Managed memory: advice, prefetches, and what was said about a range.
//!
//! Advice moves pages on a GPU. Here all memory is near, so it is checked, remembered, and told
//! again when it is asked for.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use super::allocations::{Kind, containing, find};
use super::current::current;
use super::gpu::{gpu, memory};
use super::operation::Empty;
use super::{capture, check_flags, invalid, lock, stream};
use crate::abi::{CUdevice, CUdeviceptr, CUstream, In, MemLocation, Out};
use crate::detail::Answer;

/// The number that stands for the host where a device is asked for, and that for none.
const HOST: CUdevice = -1;
const NOWHERE: CUdevice = -2;
/// Advice is for pages.
const PAGE_BYTES: u64 = 65536;

/// What was said about a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Advice {
    read_mostly: bool,
    preferred: CUdevice,
    accessed_by: Vec<CUdevice>,
    prefetched: CUdevice,
}

impl Default for Advice {
    fn default() -> Self {
        let (preferred, prefetched) = (NOWHERE, NOWHERE);
        Self { read_mostly: false, preferred, accessed_by: Vec::new(), prefetched }
    }
}

/// By allocation and page: allocations share no pages, however near they lie.
static ADVICE: Mutex<BTreeMap<(u64, u64), Advice>> = Mutex::new(BTreeMap::new());

fn pages(address: CUdeviceptr, bytes: usize) -> impl Iterator<Item = (u64, u64)> {
    let base = find(address).map_or(address, |block| block.base);
    let (first, last) = (address - base, address - base + bytes as u64 - 1);
    (first / PAGE_BYTES..=last / PAGE_BYTES).map(move |page| (base, page))
}

fn note(address: CUdeviceptr, bytes: usize, change: impl Fn(&mut Advice)) {
    let mut advice = lock(&ADVICE);
    pages(address, bytes).for_each(|page| change(advice.entry(page).or_default()));
}

/// Forgets what was said about an allocation that is freed.
pub(super) fn forget(base: CUdeviceptr) {
    lock(&ADVICE).retain(|(own, _), _| *own != base);
}

pub(crate) fn cuMemAdvise(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    device: CUdevice,
) -> Answer {
    current()?;
    check_managed(address, bytes)?;
    if matches!(advice, 3 | 5 | 6) {
        check_place(device)?;
    }
    capture::check_unsafe()?;
    note(address, bytes, |page| match advice {
        1 | 2 => page.read_mostly = advice == 1,
        3 => page.preferred = device,
        4 => page.preferred = NOWHERE,
        _ => {
            page.accessed_by.retain(|other| *other != device);
            page.accessed_by.extend((advice == 5).then_some(device));
        }
    });
    match advice {
        1..=6 => Ok(()),
        _ => Err(invalid(format!("{advice} is no advice; there are 1 to 6"))),
    }
}

/// As with advice there is nothing to move, but it keeps its place in the stream.
pub(crate) fn cuMemPrefetchAsync(
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    check_managed(address, bytes)?;
    check_place(device)?;
    note(address, bytes, |page| page.prefetched = device);
    stream::enqueue(&context, &stream, Arc::new(Empty))
}

pub(crate) fn cuMemAdvise_v2(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    place: MemLocation,
) -> Answer {
    // Three kinds of advice name no place, and may come with any.
    let device = if matches!(advice, 1 | 2 | 4) { HOST } else { device_of(place)? };
    cuMemAdvise(address, bytes, advice, device)
}

pub(crate) fn cuMemPrefetchAsync_v2(
    address: CUdeviceptr,
    bytes: usize,
    place: MemLocation,
    flags: u32,
    stream: CUstream,
) -> Answer {
    check_flags(flags, 0)?;
    cuMemPrefetchAsync(address, bytes, device_of(place)?, stream)
}

/// The device, or the host: all of its memory nodes are one here.
fn device_of(place: MemLocation) -> Answer<CUdevice> {
    match place.kind {
        1 => Ok(place.id),
        2..=4 => Ok(HOST),
        kind => Err(invalid(format!("{kind} is no kind of place; there are 1 to 4"))),
    }
}

fn check_managed(address: CUdeviceptr, bytes: usize) -> Answer {
    if bytes == 0 {
        return Err(invalid("no bytes"));
    }
    memory()?.check(address, bytes as u64)?;
    match containing(address)?.kind {
        Kind::Managed => Ok(()),
        kind => Err(invalid(format!("{address:#x} is {kind:?} memory, not managed"))),
    }
}

fn check_place(device: CUdevice) -> Answer {
    if device == HOST { Ok(()) } else { gpu(device).map(drop) }
}

/// What all pages of a range have in common.
fn common<T: PartialEq>(
    address: CUdeviceptr,
    bytes: usize,
    of: impl Fn(&Advice) -> T,
) -> Option<T> {
    let advice = lock(&ADVICE);
    let unknown = Advice::default();
    let mut values = pages(address, bytes).map(|page| of(advice.get(&page).unwrap_or(&unknown)));
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

pub(crate) fn cuMemRangeGetAttribute(
    value: Out<c_void>,
    value_bytes: usize,
    attribute: i32,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    value.check()?;
    check_managed(address, bytes)?;
    let place = |of: fn(&Advice) -> CUdevice| common(address, bytes, of).unwrap_or(NOWHERE);
    let preferred = || place(|advice| advice.preferred);
    let prefetched = || place(|advice| advice.prefetched);
    let word = match attribute {
        1 => common(address, bytes, |advice| advice.read_mostly).unwrap_or(false).into(),
        2 => preferred(),
        3 => return accessed_by(value, value_bytes, address, bytes),
        4 => prefetched(),
        5 => kind_of(preferred()),
        6 => id_of(preferred()),
        7 => kind_of(prefetched()),
        8 => id_of(prefetched()),
        _ => return Err(invalid(format!("{attribute} is no attribute of a range"))),
    };
    if value_bytes != size_of::<i32>() {
        return Err(invalid(format!("attribute {attribute} has 4 bytes, not {value_bytes}")));
    }
    value.cast::<i32>().set(word)
}

/// The API's kind of place: none, a device, the host.
fn kind_of(device: CUdevice) -> i32 {
    match device {
        NOWHERE => 0,
        HOST => 2,
        _ => 1,
    }
}

/// The API's number of a place of its kind.
fn id_of(device: CUdevice) -> i32 {
    if device == HOST { 0 } else { device }
}

/// The devices by ordinal, as many as there is room for; room that is left is filled.
fn accessed_by(
    value: Out<c_void>,
    value_bytes: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    let room = value_bytes / size_of::<i32>();
    if room == 0 || !value_bytes.is_multiple_of(size_of::<i32>()) {
        return Err(invalid(format!("{value_bytes} bytes are no room for devices")));
    }
    let mut devices =
        common(address, bytes, |advice| advice.accessed_by.clone()).unwrap_or_default();
    devices.sort_unstable();
    let list = value.cast::<i32>();
    (0..room).for_each(|at| list.set_at(at, devices.get(at).copied().unwrap_or(NOWHERE)));
    Ok(())
}

pub(crate) fn cuMemRangeGetAttributes(
    values: In<Out<c_void>>,
    sizes: In<usize>,
    attributes: In<i32>,
    count: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> Answer {
    if count == 0 || values.is_null() || sizes.is_null() || attributes.is_null() {
        return Err(invalid("no attributes are asked for"));
    }
    (0..count).try_for_each(|at| {
        let (value, size) = (values.at(at), sizes.at(at));
        cuMemRangeGetAttribute(value, size, attributes.at(at), address, bytes)
    })
}

/// To which streams managed memory belongs: a promise, with which a GPU may save work. The memory
/// may be all of an allocation, which 0 bytes stand for too.
pub(crate) fn cuStreamAttachMemAsync(
    stream: CUstream,
    address: CUdeviceptr,
    bytes: usize,
    flags: u32,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    let block = containing(address)?;
    check_managed(address, bytes.max(1))?;
    if bytes != 0 && (bytes as u64 != block.bytes || address != block.base) {
        return Err(invalid("only whole allocations are attached"));
    }
    if !matches!(flags, 1 | 2 | 4) {
        return Err(invalid(format!("flags {flags:#x}; memory is attached to all (1), 2 or 4")));
    }
    if stream.is_null() && flags == 4 {
        return Err(invalid("memory is attached to one stream, and not to the null stream"));
    }
    stream::enqueue(&context, &stream, Arc::new(Empty))
}
