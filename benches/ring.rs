//! Round trips and throughput of messages to a kernel that stays on the device, for each bridge, beside a launch and
//! a wait for each message in the same run.
//!
//! `ring [MESSAGES]`: how many messages the last row sends and checks, 10^7 on a GPU.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use cuda_driver::Backend;
use ferrowarp::ring::{Launcher, ToDevice, ToHost};
use ferrowarp::{
    Bridge, Gpu, GpuResult, Grid1, LaunchConfig, MappedBox, PersistentKernel, Receiver, Ring,
    Sender,
};
use kernels_gpu::{elementwise::saxpy, persistent::ring_echo};

/// The program ends with an error after so long, whatever hangs.
const WATCHDOG: Duration = Duration::from_secs(60);
/// The last row gives up after so long.
const LONGEST: Duration = Duration::from_secs(15);
const SLOTS: usize = 4096;
/// Messages that are sent and received at once.
const RUN: usize = 512;

/// How much is measured.
struct Plan {
    round_trips: usize,
    span: Duration,
    messages: u64,
}

type Echoes<const WORDS: usize> =
    fn(&Launcher, &Ring<[u32; WORDS], ToDevice>, &Ring<[u32; WORDS], ToHost>) -> GpuResult<()>;

struct Row {
    name: String,
    bytes: usize,
    /// Median and 99th percentile, in microseconds.
    round_trip: (f64, f64),
    /// Messages a second.
    rate: Option<f64>,
}

fn main() -> ExitCode {
    thread::spawn(|| {
        thread::sleep(WATCHDOG);
        eprintln!("ring: nothing came back for {} s", WATCHDOG.as_secs());
        std::process::exit(3);
    });
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> GpuResult<bool> {
    let gpu = Gpu::new()?;
    gpu.load_kernels()?;
    let number = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let plan = match gpu.backend() {
        Backend::Cuda => Plan {
            round_trips: 20_000,
            span: Duration::from_millis(800),
            messages: number.unwrap_or(10_000_000),
        },
        Backend::Emulator => Plan {
            round_trips: 100,
            span: Duration::from_millis(200),
            messages: number.unwrap_or(10_000),
        },
    };
    println!("{} ({:?})", gpu.name(), gpu.backend());
    println!("{:<24} {:>6} {:>12} {:>12} {:>14}", "", "bytes", "median µs", "p99 µs", "messages/s");
    print(&launches(&gpu, &plan)?);
    let mut bridges = vec![Bridge::Mapped, Bridge::Copied];
    if gpu.info().concurrent_managed_access {
        bridges.push(Bridge::Unified);
    }
    for bridge in bridges {
        print(&echo(&gpu, &plan, bridge, ring_echo::<1>::launch_on)?);
        print(&echo(&gpu, &plan, bridge, ring_echo::<16>::launch_on)?);
        print(&echo(&gpu, &plan, bridge, ring_echo::<64>::launch_on)?);
    }
    checked(&gpu, plan.messages)
}

/// The launch of an instance on one block.
trait LaunchOn<const WORDS: usize>
where
    [u32; WORDS]: Pod,
{
    fn launch_on(
        launcher: &Launcher,
        requests: &Ring<[u32; WORDS], ToDevice>,
        replies: &Ring<[u32; WORDS], ToHost>,
    ) -> GpuResult<()>;
}

macro_rules! instances {
    ($($words:literal)*) => {$(
        impl LaunchOn<$words> for ring_echo<$words> {
            fn launch_on(
                launcher: &Launcher,
                requests: &Ring<[u32; $words], ToDevice>,
                replies: &Ring<[u32; $words], ToHost>,
            ) -> GpuResult<()> {
                ring_echo::<$words>::launch(launcher, Grid1::new(1), requests, replies)
            }
        }
    )*};
}

instances!(1 16 64);

fn print(row: &Row) {
    let rate = row.rate.map_or(String::new(), |rate| format!("{rate:>14.0}"));
    let (median, p99) = row.round_trip;
    println!("{:<24} {:>6} {median:>12.2} {p99:>12.2} {rate}", row.name, row.bytes);
}

/// Median and 99th percentile of times, in microseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    (at(0.5), at(0.99))
}

/// The peer: each message is a launch, whose answer is waited for. Its memory is mapped, so nothing is copied.
fn launches(gpu: &Gpu, plan: &Plan) -> GpuResult<Row> {
    let (mut x, mut y) = (MappedBox::new(gpu, &0.0f32)?, MappedBox::new(gpu, &0.0f32)?);
    let mut times = Vec::new();
    for i in 0..plan.round_trips {
        *x.get_mut()? = i as f32;
        *y.get_mut()? = 1.0;
        let start = Instant::now();
        saxpy::launch(gpu, LaunchConfig::for_num_elems(1), 2.0, &x, &mut y)?;
        let answer = *y.get()?;
        times.push(start.elapsed());
        assert_eq!(answer, 2.0 * i as f32 + 1.0);
    }
    let rate = Some(times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64());
    Ok(Row { name: "launch and wait".to_owned(), bytes: 4, round_trip: percentiles(times), rate })
}

/// Messages to the echo kernel by a bridge, one at a time and as many as it takes.
fn echo<const WORDS: usize>(
    gpu: &Gpu,
    plan: &Plan,
    bridge: Bridge,
    start: Echoes<WORDS>,
) -> GpuResult<Row>
where
    [u32; WORDS]: Pod,
{
    let (sender, requests) = Ring::to_device(gpu, SLOTS, bridge)?;
    let (replies, receiver) = Ring::to_host(gpu, SLOTS)?;
    let kernel = PersistentKernel::start(gpu, |launcher| start(launcher, &requests, &replies))?;
    let mut times = Vec::new();
    for i in 0..plan.round_trips as u32 {
        let begin = Instant::now();
        sender.send(&[i; WORDS])?;
        let answer = receiver.recv()?;
        times.push(begin.elapsed());
        assert_eq!(answer, Some([i; WORDS]));
    }
    let (count, seconds) = stream(&[sender], &receiver, u64::MAX, plan.span)?;
    kernel.shut_down()?;
    let name = format!("ring, {}", format!("{bridge:?}").to_lowercase());
    let rate = Some(count as f64 / seconds);
    Ok(Row { name, bytes: 4 * WORDS, round_trip: percentiles(times), rate })
}

/// Sends numbered messages from as many threads as there are senders until there are enough or the time is up, and
/// checks that each thread's come back once and in order. Returns how many came back, and the seconds.
fn stream<const WORDS: usize>(
    senders: &[Sender<[u32; WORDS]>],
    receiver: &Receiver<[u32; WORDS]>,
    messages: u64,
    span: Duration,
) -> GpuResult<(u64, f64)>
where
    [u32; WORDS]: Pod,
{
    const THREAD_SHIFT: u32 = 28;
    let stop = AtomicBool::new(false);
    let each = messages / senders.len() as u64;
    let begin = Instant::now();
    thread::scope(|scope| {
        let send = |(thread, sender): (usize, &Sender<[u32; WORDS]>)| -> GpuResult<u64> {
            let mut sent = 0u64;
            let mut run = [[0; WORDS]; RUN];
            while sent < each && !stop.load(Ordering::Relaxed) {
                let count = RUN.min((each - sent) as usize);
                for (i, message) in run[..count].iter_mut().enumerate() {
                    let number = (sent + i as u64) as u32 & ((1 << THREAD_SHIFT) - 1);
                    *message = [(thread as u32) << THREAD_SHIFT | number; WORDS];
                }
                sender.send_all(&run[..count])?;
                sent += count as u64;
            }
            Ok(sent)
        };
        let threads: Vec<_> =
            senders.iter().enumerate().map(|own| scope.spawn(move || send(own))).collect();
        let mut next = vec![0u64; senders.len()];
        let mut found = vec![[0; WORDS]; RUN];
        let mut received = 0u64;
        let mut expected = None;
        let mut threads = Some(threads);
        while expected.is_none_or(|expected| received < expected) {
            let all_sent =
                threads.as_ref().is_some_and(|own| own.iter().all(|own| own.is_finished()));
            if all_sent && let Some(own) = threads.take() {
                let counts = own.into_iter().map(|own| own.join().expect("no panic"));
                expected = Some(counts.sum::<GpuResult<u64>>()?);
                continue;
            }
            if begin.elapsed() > span {
                stop.store(true, Ordering::Relaxed);
            }
            let count = receiver.try_recv_some(&mut found);
            if count == 0 {
                std::hint::spin_loop();
            }
            for message in &found[..count] {
                let thread = (message[0] >> THREAD_SHIFT) as usize;
                let number = next[thread] as u32 & ((1 << THREAD_SHIFT) - 1);
                assert_eq!(
                    *message,
                    [(thread as u32) << THREAD_SHIFT | number; WORDS],
                    "lost or doubled"
                );
                next[thread] += 1;
            }
            received += count as u64;
        }
        Ok((received, begin.elapsed().as_secs_f64()))
    })
}

/// The long run: every message is checked, sent by one thread and by four. Whether all came.
fn checked(gpu: &Gpu, messages: u64) -> GpuResult<bool> {
    let mut complete = true;
    for threads in [1, 4] {
        let (sender, requests) = Ring::to_device(gpu, SLOTS, Bridge::Mapped)?;
        let (replies, receiver) = Ring::to_host(gpu, SLOTS)?;
        let kernel = PersistentKernel::start(gpu, |launcher| {
            ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
        })?;
        let senders = vec![sender; threads];
        let (count, seconds) = stream(&senders, &receiver, messages, LONGEST)?;
        let telemetry = receiver.telemetry()?;
        kernel.shut_down()?;
        let rate = count as f64 / seconds;
        println!(
            "{count} messages of 4 bytes from {threads} thread(s), mapped: none lost, none doubled, in order; \
             {rate:.0}/s, at most {} waited for the host",
            telemetry.high_water
        );
        complete &= count >= messages / threads as u64 * threads as u64;
    }
    Ok(complete)
}
