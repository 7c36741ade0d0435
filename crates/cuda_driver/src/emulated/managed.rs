//! Managed memory: advice, prefetches, and the attributes of ranges.
//!
//! On a GPU, advice and prefetches migrate pages. The emulator has nothing to migrate, so it only
//! checks the advice, stores it, and returns it on request.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use super::allocations::{MemoryKind, containing, find};
use super::current::current;
use super::gpu::{gpu, memory};
use super::operation::Empty;
use super::{capture, check_flags, invalid_value, lock, stream};
use crate::abi::{CUdevice, CUdeviceptr, CUstream, In, MemLocation, Out};
use crate::constants::{mem_advise as A, mem_range_attribute as range};
use crate::detail::DriverResult;

/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`.
const HOST: CUdevice = -1;
const NOWHERE: CUdevice = -2;
/// Advice applies to whole pages.
const PAGE_BYTES: u64 = 65536;

/// The advice for a page.
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

/// By allocation and page. Adjacent allocations do not share a page.
static ADVICE: Mutex<BTreeMap<(u64, u64), Advice>> = Mutex::new(BTreeMap::new());

fn pages(address: CUdeviceptr, bytes: usize) -> impl Iterator<Item = (u64, u64)> {
    let base = find(address).map_or(address, |allocation| allocation.base);
    let (first, last) = (address - base, address - base + bytes as u64 - 1);
    (first / PAGE_BYTES..=last / PAGE_BYTES).map(move |page| (base, page))
}

fn note(address: CUdeviceptr, bytes: usize, change: impl Fn(&mut Advice)) {
    let mut advice = lock(&ADVICE);
    pages(address, bytes).for_each(|page| change(advice.entry(page).or_default()));
}

/// Removes the advice for an allocation that is freed.
pub(super) fn forget(base: CUdeviceptr) {
    lock(&ADVICE).retain(|(own, _), _| *own != base);
}

pub(crate) fn cuMemAdvise(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    device: CUdevice,
) -> DriverResult {
    current()?;
    check_managed(address, bytes)?;
    if matches!(advice, 3 | 5 | 6) {
        check_location(device)?;
    }
    capture::check_unsafe()?;
    note(address, bytes, |page| match advice {
        A::SET_READ_MOSTLY | A::UNSET_READ_MOSTLY => {
            page.read_mostly = advice == A::SET_READ_MOSTLY;
        }
        A::SET_PREFERRED_LOCATION => page.preferred = device,
        A::UNSET_PREFERRED_LOCATION => page.preferred = NOWHERE,
        _ => {
            page.accessed_by.retain(|other| *other != device);
            page.accessed_by.extend((advice == A::SET_ACCESSED_BY).then_some(device));
        }
    });
    match advice {
        1..=6 => Ok(()),
        _ => Err(invalid_value(format!("{advice} is not a memory advice; there are 1 to 6"))),
    }
}

/// There is nothing to migrate, but the prefetch keeps its position in the stream.
pub(crate) fn cuMemPrefetchAsync(
    address: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    check_managed(address, bytes)?;
    check_location(device)?;
    note(address, bytes, |page| page.prefetched = device);
    stream::enqueue(&context, &stream, Arc::new(Empty))
}

pub(crate) fn cuMemAdvise_v2(
    address: CUdeviceptr,
    bytes: usize,
    advice: i32,
    location: MemLocation,
) -> DriverResult {
    // Three kinds of advice ignore the location.
    let device = if matches!(advice, 1 | 2 | 4) { HOST } else { device_of(location)? };
    cuMemAdvise(address, bytes, advice, device)
}

pub(crate) fn cuMemPrefetchAsync_v2(
    address: CUdeviceptr,
    bytes: usize,
    location: MemLocation,
    flags: u32,
    stream: CUstream,
) -> DriverResult {
    check_flags(flags, 0)?;
    cuMemPrefetchAsync(address, bytes, device_of(location)?, stream)
}

/// The device, or the host, whose NUMA nodes are not distinguished.
fn device_of(location: MemLocation) -> DriverResult<CUdevice> {
    match location.kind {
        1 => Ok(location.id),
        2..=4 => Ok(HOST),
        kind => Err(invalid_value(format!("{kind} is not a location type; there are 1 to 4"))),
    }
}

fn check_managed(address: CUdeviceptr, bytes: usize) -> DriverResult {
    if bytes == 0 {
        return Err(invalid_value("a range of 0 bytes"));
    }
    memory()?.check(address, bytes as u64)?;
    match containing(address)?.kind {
        MemoryKind::Managed => Ok(()),
        kind => Err(invalid_value(format!("{address:#x} is {kind:?} memory, not managed"))),
    }
}

fn check_location(device: CUdevice) -> DriverResult {
    if device == HOST { Ok(()) } else { gpu(device).map(drop) }
}

/// The value that all pages of a range share, if they do.
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
) -> DriverResult {
    value.check()?;
    check_managed(address, bytes)?;
    let common_device = |of: fn(&Advice) -> CUdevice| common(address, bytes, of).unwrap_or(NOWHERE);
    let preferred = || common_device(|advice| advice.preferred);
    let prefetched = || common_device(|advice| advice.prefetched);
    let word = match attribute {
        range::READ_MOSTLY => {
            common(address, bytes, |advice| advice.read_mostly).unwrap_or(false).into()
        }
        range::PREFERRED_LOCATION => preferred(),
        range::ACCESSED_BY => return accessed_by(value, value_bytes, address, bytes),
        range::LAST_PREFETCH_LOCATION => prefetched(),
        5 => kind_of(preferred()),
        6 => id_of(preferred()),
        7 => kind_of(prefetched()),
        8 => id_of(prefetched()),
        _ => return Err(invalid_value(format!("{attribute} is not a memory range attribute"))),
    };
    if value_bytes != size_of::<i32>() {
        return Err(invalid_value(format!("attribute {attribute} has 4 bytes, not {value_bytes}")));
    }
    value.cast::<i32>().set(word)
}

/// The type of a location: none, a device, the host.
fn kind_of(device: CUdevice) -> i32 {
    match device {
        NOWHERE => 0,
        HOST => 2,
        _ => 1,
    }
}

/// The ID of a location within its type.
fn id_of(device: CUdevice) -> i32 {
    if device == HOST { 0 } else { device }
}

/// Writes the devices by ordinal, as many as there is room for. Unused room is filled with
/// `CU_DEVICE_INVALID`.
fn accessed_by(
    value: Out<c_void>,
    value_bytes: usize,
    address: CUdeviceptr,
    bytes: usize,
) -> DriverResult {
    let room = value_bytes / size_of::<i32>();
    if room == 0 || !value_bytes.is_multiple_of(size_of::<i32>()) {
        return Err(invalid_value(format!("{value_bytes} bytes cannot hold device ordinals")));
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
) -> DriverResult {
    if count == 0 || values.is_null() || sizes.is_null() || attributes.is_null() {
        return Err(invalid_value("no attributes are requested"));
    }
    (0..count).try_for_each(|at| {
        let (value, size) = (values.at(at), sizes.at(at));
        cuMemRangeGetAttribute(value, size, attributes.at(at), address, bytes)
    })
}

/// Attaches managed memory to streams: a promise that lets a GPU save work, and has no effect here.
/// Only whole allocations can be attached; 0 bytes stand for all of one.
pub(crate) fn cuStreamAttachMemAsync(
    stream: CUstream,
    address: CUdeviceptr,
    bytes: usize,
    flags: u32,
) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    let allocation = containing(address)?;
    check_managed(address, bytes.max(1))?;
    if bytes != 0 && (bytes as u64 != allocation.bytes || address != allocation.base) {
        return Err(invalid_value("only whole allocations can be attached"));
    }
    if !matches!(flags, 1 | 2 | 4) {
        return Err(invalid_value(format!(
            "flags {flags:#x}; they may be 1 (global), 2 (host) or 4 (single)"
        )));
    }
    if stream.is_null() && flags == 4 {
        return Err(invalid_value(
            "memory can be attached to a single stream, but not to the null stream",
        ));
    }
    stream::enqueue(&context, &stream, Arc::new(Empty))
}
