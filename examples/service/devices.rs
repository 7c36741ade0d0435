//! The devices, and the requests on them: each takes a device from the pool, a stream of its own, and memory that is kept
//! between requests.
//!
//! All waits are awaits, so that a few threads serve all clients. Where a client leaves, its future is dropped: if it
//! waits for a device, it leaves the queue; if it runs, its memory goes back to the pool in the order of its stream,
//! after the kernels that use it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::softmax::softmax_into;
use ferrowarp::ops::sort::{Extreme, SortOptions, sort_in_place, top_k_into};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuPool, GpuResult, Pooled, Stream, devices};
use tokio::sync::{Semaphore, SemaphorePermit};

/// All devices of the machine. Each is in the pool as often as requests may run on it at a time.
pub struct Devices {
    pool: GpuPool,
    /// A turn for each member of the pool, first come, first served.
    turns: Semaphore,
    devices: Vec<Device>,
}

/// A device with its kernels.
struct Device {
    gpu: Gpu,
    memory: Arc<MemoryPool>,
    /// Those that no request has.
    lanes: Mutex<Vec<Lane>>,
}

/// A stream, and scratch memory for the operations on it.
struct Lane {
    stream: Stream,
    scratch: Scratch,
}

/// A request's device and lane, which go back when it is dropped.
struct Seat<'a> {
    device: &'a Device,
    lane: Option<Lane>,
    _gpu: Pooled<Gpu>,
    _turn: SemaphorePermit<'a>,
}

impl Devices {
    /// All devices, for `running` requests each.
    pub fn open(running: usize) -> GpuResult<Self> {
        let open =
            |gpu: Gpu| Device { memory: MemoryPool::new(&gpu), gpu, lanes: Mutex::default() };
        let gpus =
            devices()?.iter().map(|info| Gpu::on(info.ordinal)).collect::<GpuResult<Vec<_>>>()?;
        let pool = GpuPool::of((0..running).flat_map(|_| gpus.iter().cloned()))?;
        let turns = Semaphore::new(pool.len());
        Ok(Self { pool, turns, devices: gpus.into_iter().map(open).collect() })
    }

    /// How many requests run at a time.
    pub fn seats(&self) -> usize {
        self.pool.len()
    }

    /// Whether all devices are lost.
    pub fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    pub fn names(&self) -> String {
        self.devices.iter().map(|device| device.gpu.name()).collect::<Vec<_>>().join(", ")
    }

    /// The memory of requests: what they use now, and what is kept for the next ones.
    pub fn metrics(&self) -> String {
        let statistics = || self.devices.iter().map(|device| device.memory.statistics());
        let used: usize = statistics().map(|own| own.current_bytes).sum();
        let kept: usize = statistics().map(|own| own.kept_bytes).sum();
        format!(
            "# TYPE service_device_bytes gauge\n\
             service_device_bytes{{state=\"used\"}} {used}\nservice_device_bytes{{state=\"kept\"}} {kept}\n"
        )
    }

    pub async fn sort(&self, values: Vec<f32>) -> Result<Vec<f32>, Failure> {
        let mut seat = self.seat().await?;
        let sorted = seat.sort(values).await;
        seat.finish(sorted)
    }

    pub async fn softmax(&self, row: Vec<f32>) -> Result<Vec<f32>, Failure> {
        let mut seat = self.seat().await?;
        let softmax = seat.softmax(row).await;
        seat.finish(softmax)
    }

    pub async fn top(&self, k: usize, values: Vec<f32>) -> Result<Vec<f32>, Failure> {
        let mut seat = self.seat().await?;
        let top = seat.top(k, values).await;
        seat.finish(top)
    }

    async fn seat(&self) -> Result<Seat<'_>, Failure> {
        let turn = self.turns.acquire().await.map_err(|_| Failure::Busy)?;
        // There are as many turns as members, so one is free; fewer only if a device was lost.
        let gpu = self.pool.try_acquire()?.ok_or(Failure::Busy)?;
        let is_its = |device: &&Device| device.gpu.info().ordinal == gpu.info().ordinal;
        let device = self.devices.iter().find(is_its).ok_or(Failure::Busy)?;
        let kept = device.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let lane = kept.map_or_else(|| Lane::new(&gpu), Ok)?;
        Ok(Seat { device, lane: Some(lane), _gpu: gpu, _turn: turn })
    }
}

impl Lane {
    fn new(gpu: &Gpu) -> GpuResult<Self> {
        let stream = gpu.create_stream()?;
        let scratch = Scratch::new(&stream)?;
        Ok(Self { stream, scratch })
    }
}

impl Seat<'_> {
    fn parts(&mut self) -> (&Stream, &mut Scratch, &Arc<MemoryPool>) {
        let Lane { stream, scratch } = self.lane.as_mut().expect("it is there until `finish`");
        (stream, scratch, &self.device.memory)
    }

    async fn sort(&mut self, values: Vec<f32>) -> GpuResult<Vec<f32>> {
        let (stream, scratch, memory) = self.parts();
        let mut keys = DeviceBuffer::zeroed_in(memory, stream, values.len())?;
        keys.copy_from_vec(values).await?;
        sort_in_place(stream, &mut keys, SortOptions::ASCENDING, scratch)?;
        keys.to_vec_async().await
    }

    async fn softmax(&mut self, row: Vec<f32>) -> GpuResult<Vec<f32>> {
        let ((stream, _, memory), n) = (self.parts(), row.len());
        let mut x = DeviceBuffer::zeroed_in(memory, stream, n)?;
        let mut y = DeviceBuffer::zeroed_in(memory, stream, n)?;
        x.copy_from_vec(row).await?;
        softmax_into(stream, &x, n.max(1), &mut y)?;
        y.to_vec_async().await
    }

    async fn top(&mut self, k: usize, values: Vec<f32>) -> GpuResult<Vec<f32>> {
        let (stream, scratch, memory) = self.parts();
        let k = k.min(values.len());
        let mut x = DeviceBuffer::zeroed_in(memory, stream, values.len())?;
        let mut top = DeviceBuffer::zeroed_in(memory, stream, k)?;
        let mut indices = DeviceBuffer::zeroed_in(memory, stream, k)?;
        x.copy_from_vec(values).await?;
        top_k_into(stream, &x, (&mut top, &mut indices), Extreme::Largest, scratch)?;
        top.to_vec_async().await
    }

    /// A lane on which an operation failed is not used again: its scratch memory may be in disorder.
    fn finish<T>(mut self, result: GpuResult<T>) -> Result<T, Failure> {
        if result.is_err() {
            self.lane = None;
        }
        result.map_err(Failure::Gpu)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.device.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        }
    }
}

/// Why there is no answer.
pub enum Failure {
    Gpu(GpuError),
    /// Fewer devices are left than requests.
    Busy,
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        Self::Gpu(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let later = |why: String| {
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], why).into_response()
        };
        match self {
            Self::Busy => later("a device was lost\n".to_owned()),
            Self::Gpu(error) => match error.root() {
                GpuError::OutOfMemory { .. } => later(format!("{error}\n")),
                GpuError::InvalidArgument { .. } => {
                    (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
                }
                _ => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
            },
        }
    }
}
