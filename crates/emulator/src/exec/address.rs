//! From the addresses of a kernel to those of the host, with every check.

use crate::fault::{Access, ClusterFault, Nearest, RegionKind, Space, TrapKind};
use crate::machine::{
    Cx, FULL, Fault, Frame, LANES, LOCAL_BASE, LOCAL_SPAN, PARAM_BASE, Row64, SHARED_BASE, WINDOW,
    lanes,
};
use crate::memory::access;

/// A state space, as a parameter of handlers.
pub trait Window {
    /// Which.
    const SPACE: Space;
    /// Turns the addresses of a warp into those of the host.
    fn resolve(
        cx: &mut Cx<'_>,
        frame: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>>;
}

/// An access of a warp.
pub struct Request {
    /// Lanes that take part.
    pub mask: u32,
    /// Bytes that each touches; a power of two.
    pub bytes: u32,
    /// How.
    pub access: Access,
    /// Lowest address.
    low: u64,
    /// Highest address.
    high: u64,
}

impl Request {
    /// The highest address that may be touched first, when an access ends at `end`.
    fn fits(&self, base: u64, end: u64) -> bool {
        self.low >= base
            && self.high <= end.wrapping_sub(u64::from(self.bytes))
            && end >= u64::from(self.bytes)
    }

    #[cold]
    fn out_of_bounds(
        &self,
        lane: usize,
        space: Space,
        address: u64,
        nearest: Option<Nearest>,
    ) -> Box<Fault> {
        let Self { access, bytes, .. } = *self;
        Fault::new(lane, TrapKind::OutOfBounds { access, space, address, bytes, nearest })
    }
}

/// Host addresses of the lanes of `mask`, for an access of `bytes` at a row plus an offset.
#[inline(always)]
pub fn resolve<W: Window>(
    cx: &mut Cx<'_>,
    frame: &Frame,
    (slot, offset): (u32, u64),
    mask: u32,
    bytes: u32,
    access: Access,
) -> Result<Row64, Box<Fault>> {
    let row = frame.row64(slot);
    let mut at = [0; LANES];
    let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
    if mask == FULL {
        for lane in 0..LANES {
            at[lane] = row[lane].wrapping_add(offset);
            (low, high, bits) = (low.min(at[lane]), high.max(at[lane]), bits | at[lane]);
        }
    } else {
        for lane in lanes(mask) {
            at[lane] = row[lane].wrapping_add(offset);
            (low, high, bits) = (low.min(at[lane]), high.max(at[lane]), bits | at[lane]);
        }
    }
    if bits & u64::from(bytes - 1) != 0 {
        return Err(misaligned(&at, mask, bytes, access, W::SPACE));
    }
    let request = Request { mask, bytes, access, low, high };
    W::resolve(cx, frame, &request, &mut at)?;
    Ok(at)
}

#[cold]
fn misaligned(at: &Row64, mask: u32, bytes: u32, access: Access, space: Space) -> Box<Fault> {
    let lane = lanes(mask).find(|lane| at[*lane] & u64::from(bytes - 1) != 0).unwrap_or(0);
    Fault::new(lane, TrapKind::Misaligned { access, space, address: at[lane], bytes })
}

/// Device memory: its addresses are those of the host.
pub struct Global;

impl Window for Global {
    const SPACE: Space = Space::Global;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        in_device_memory(cx, request, at, Self::SPACE)
    }
}

/// Constants lie in device memory.
pub struct Const;

impl Window for Const {
    const SPACE: Space = Space::Const;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        in_device_memory(cx, request, at, Self::SPACE)
    }
}

/// One check for all lanes where they lie in one allocation, else one a lane.
#[inline(always)]
fn in_device_memory(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &mut Row64,
    space: Space,
) -> Result<(), Box<Fault>> {
    match cx.cursor.span(request.low) {
        Some((base, end)) if request.fits(base, end) => Ok(()),
        _ => global_by_lane(cx, request, at, space),
    }
}

#[cold]
fn global_by_lane(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &Row64,
    space: Space,
) -> Result<(), Box<Fault>> {
    lanes(request.mask).try_for_each(|lane| check_global(cx, request, at[lane], lane, space))
}

fn check_global(
    cx: &mut Cx<'_>,
    request: &Request,
    address: u64,
    lane: usize,
    space: Space,
) -> Result<(), Box<Fault>> {
    match cx.cursor.span(address) {
        Some((_, end)) if end - address >= u64::from(request.bytes) => Ok(()),
        _ if address >= SHARED_BASE => {
            Err(Fault::new(lane, TrapKind::WrongSpace { space, address }))
        }
        _ => {
            let nearest = cx.cursor.memory().nearest(address);
            Err(request.out_of_bounds(lane, space, address, nearest))
        }
    }
}

/// A block's own memory: addresses are offsets.
pub struct Shared;

impl Window for Shared {
    const SPACE: Space = Space::Shared;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        shared(cx, request, at, 0)
    }
}

#[inline(always)]
fn shared(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &mut Row64,
    window: u64,
) -> Result<(), Box<Fault>> {
    let bytes = cx.block.shared_bytes;
    if !request.fits(window, window + bytes) {
        return Err(outside(request, at, RegionKind::Shared, Shared::SPACE, (window, bytes)));
    }
    let base = cx.block.shared.as_ptr() as u64;
    for address in at.iter_mut() {
        *address = address.wrapping_sub(window).wrapping_add(base);
    }
    Ok(())
}

/// The shared memory of any block of the cluster.
pub struct SharedCluster;

impl Window for SharedCluster {
    const SPACE: Space = Space::Shared;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        cluster(cx, request, at, 0)
    }
}

/// Generic addresses of which all have to lie in shared memory.
pub struct SharedGeneric;

impl Window for SharedGeneric {
    const SPACE: Space = Space::Shared;

    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        let outside = |lane: &usize| at[*lane].wrapping_sub(SHARED_BASE) >= WINDOW;
        match lanes(request.mask).find(outside) {
            None => cluster(cx, request, at, SHARED_BASE),
            Some(lane) => {
                let (space, address) = (Space::Shared, at[lane]);
                Err(Fault::new(lane, TrapKind::WrongSpace { space, address }))
            }
        }
    }
}

/// Most accesses are to the block's own memory at the window's start.
#[inline(always)]
fn cluster(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &mut Row64,
    window: u64,
) -> Result<(), Box<Fault>> {
    if request.fits(window, window + cx.block.shared_bytes) {
        return shared(cx, request, at, window);
    }
    cluster_by_lane(cx, request, at, window)
}

#[cold]
fn cluster_by_lane(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &mut Row64,
    window: u64,
) -> Result<(), Box<Fault>> {
    for lane in lanes(request.mask) {
        let fault = |fault: ClusterFault| Fault::new(lane, TrapKind::Cluster(fault));
        let address = at[lane].wrapping_sub(window);
        let (rank, offset) = cx.cluster.split(address).map_err(fault)?;
        let bytes = cx.block.shared_bytes;
        if offset + u64::from(request.bytes) > bytes {
            let base = at[lane] - offset;
            let nearest = Nearest { base, bytes, kind: RegionKind::Shared, address: at[lane] };
            return Err(request.out_of_bounds(lane, Space::Shared, at[lane], Some(nearest)));
        }
        at[lane] = cx.cluster.peer(rank).map_err(fault)?.base + offset;
    }
    Ok(())
}

/// An offset so large was meant as an address of another space, unless it is just below zero.
const FARTHEST: u64 = 1 << 32;

/// The fault of the first lane that is outside a region.
#[cold]
fn outside(
    request: &Request,
    at: &Row64,
    kind: RegionKind,
    space: Space,
    (base, bytes): (u64, u64),
) -> Box<Fault> {
    let end = base + bytes;
    let fits = |address: u64| {
        address >= base && address <= end && end - address >= u64::from(request.bytes)
    };
    let lane = lanes(request.mask).find(|lane| !fits(at[*lane])).unwrap_or(0);
    if base == 0
        && kind != RegionKind::Param
        && (FARTHEST..FARTHEST.wrapping_neg()).contains(&at[lane])
    {
        let window = if space == Space::Shared { SHARED_BASE } else { LOCAL_BASE };
        // What lies before the window was a generic address of something else.
        let address = match at[lane] >> 63 {
            0 => at[lane],
            _ => at[lane].wrapping_add(window),
        };
        return Fault::new(lane, TrapKind::WrongSpace { space, address });
    }
    let nearest = Nearest { base, bytes, kind, address: at[lane] };
    request.out_of_bounds(lane, space, at[lane], Some(nearest))
}

/// A thread's own memory: addresses are offsets.
pub struct Local;

impl Window for Local {
    const SPACE: Space = Space::Local;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        frame: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        local(cx, frame, request, at, 0)
    }
}

#[inline(always)]
fn local(
    cx: &mut Cx<'_>,
    frame: &Frame,
    request: &Request,
    at: &mut Row64,
    window: u64,
) -> Result<(), Box<Fault>> {
    if !request.fits(window, window + frame.local_end) {
        return Err(outside_local(cx, frame, request, at, window));
    }
    let (base, stride) = (cx.warp.local.as_ptr() as u64, cx.warp.local_stride);
    for (lane, address) in at.iter_mut().enumerate() {
        *address = address.wrapping_sub(window).wrapping_add(base + stride * lane as u64);
    }
    Ok(())
}

/// An address outside a thread's local memory is perhaps one of another thread's.
#[cold]
fn outside_local(
    cx: &Cx<'_>,
    frame: &Frame,
    request: &Request,
    at: &Row64,
    window: u64,
) -> Box<Fault> {
    let foreign = |lane: &usize| {
        let own = cx.local_window(*lane);
        let address = at[*lane].wrapping_add(own - LOCAL_BASE);
        let owner = address / LOCAL_SPAN;
        let other = owner > 0 && address < WINDOW && owner != (own - LOCAL_BASE) / LOCAL_SPAN;
        other.then(|| (*lane, LOCAL_BASE + address, owner - 1))
    };
    let found = match window == 0 && cx.launch.tags_local {
        true => lanes(request.mask).find_map(|lane| foreign(&lane)),
        false => None,
    };
    match found {
        Some((lane, address, owner)) => Fault::new(lane, TrapKind::ForeignLocal { address, owner }),
        None => {
            // The offset of what was no local address at all is taken back by the lane's own window.
            let own = |lane: usize| at[lane].wrapping_add(cx.local_window(lane) - LOCAL_BASE);
            let untagged =
                std::array::from_fn(|lane| if at[lane] >> 63 == 0 { at[lane] } else { own(lane) });
            outside(request, &untagged, RegionKind::Local, Local::SPACE, (window, frame.local_end))
        }
    }
}

/// A generic address of local memory, which has to be the lane's own.
fn own_local(
    cx: &mut Cx<'_>,
    frame: &Frame,
    request: &Request,
    at: &mut Row64,
    lane: usize,
) -> Result<(), Box<Fault>> {
    let (window, address) = (cx.local_window(lane), at[lane]);
    let owner = (address - LOCAL_BASE) / LOCAL_SPAN;
    if cx.launch.tags_local && owner > 0 && owner != (window - LOCAL_BASE) / LOCAL_SPAN {
        let owner = owner - 1;
        return Err(Fault::new(lane, TrapKind::ForeignLocal { address, owner }));
    }
    local(cx, frame, request, at, window)
}

/// A kernel's parameters: addresses are offsets.
pub struct Param;

impl Window for Param {
    const SPACE: Space = Space::Param;

    fn resolve(
        cx: &mut Cx<'_>,
        _: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        param(cx, request, at, 0)
    }
}

fn param(
    cx: &mut Cx<'_>,
    request: &Request,
    at: &mut Row64,
    window: u64,
) -> Result<(), Box<Fault>> {
    let bytes = cx.launch.param_bytes;
    if !request.fits(window, window + bytes) || request.access != Access::Load {
        return Err(outside(request, at, RegionKind::Param, Param::SPACE, (window, bytes)));
    }
    let base = cx.launch.params.as_ptr() as u64;
    for address in at.iter_mut() {
        *address = address.wrapping_sub(window).wrapping_add(base);
    }
    Ok(())
}

/// Any space, told by the address.
pub struct Generic;

impl Window for Generic {
    const SPACE: Space = Space::Generic;

    #[inline(always)]
    fn resolve(
        cx: &mut Cx<'_>,
        frame: &Frame,
        request: &Request,
        at: &mut Row64,
    ) -> Result<(), Box<Fault>> {
        if request.high < SHARED_BASE {
            return match cx.cursor.span(request.low) {
                Some((base, end)) if request.fits(base, end) => Ok(()),
                _ => global_by_lane(cx, request, at, Space::Global),
            };
        }
        if request.low >= SHARED_BASE && request.high < SHARED_BASE + WINDOW {
            return cluster(cx, request, at, SHARED_BASE);
        }
        generic_by_lane(cx, frame, request, at)
    }
}

/// The value of `bytes` at a generic address of one lane.
pub fn read(
    cx: &mut Cx<'_>,
    frame: &Frame,
    lane: usize,
    address: u64,
    bytes: u32,
) -> Result<u64, Box<Fault>> {
    let load = Access::Load;
    let request = Request { mask: 1 << lane, bytes, access: load, low: address, high: address };
    let mut at = [0; LANES];
    at[lane] = address;
    if !address.is_multiple_of(u64::from(bytes)) {
        return Err(misaligned(&at, request.mask, bytes, load, Space::Generic));
    }
    Generic::resolve(cx, frame, &request, &mut at)?;
    // SAFETY: the address is aligned, and so many bytes from there live.
    Ok(unsafe {
        match bytes {
            1 => u64::from(access::load_u8(at[lane])),
            4 => u64::from(access::load_u32(at[lane])),
            _ => access::load_u64(at[lane]),
        }
    })
}

fn generic_by_lane(
    cx: &mut Cx<'_>,
    frame: &Frame,
    request: &Request,
    at: &mut Row64,
) -> Result<(), Box<Fault>> {
    for lane in lanes(request.mask) {
        let Request { bytes, access, .. } = *request;
        let address = at[lane];
        let one = Request { mask: 1 << lane, bytes, access, low: address, high: address };
        let mut row = [0; LANES];
        row[lane] = address;
        match address {
            0..SHARED_BASE => check_global(cx, &one, address, lane, Space::Global)?,
            SHARED_BASE..LOCAL_BASE => cluster(cx, &one, &mut row, SHARED_BASE)?,
            LOCAL_BASE..PARAM_BASE => own_local(cx, frame, &one, &mut row, lane)?,
            _ => param(cx, &one, &mut row, PARAM_BASE)?,
        }
        at[lane] = row[lane];
    }
    Ok(())
}
