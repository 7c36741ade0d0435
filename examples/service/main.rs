//! A web service: numbers over HTTP in, results from the GPU out, for many clients at once.
//!
//! ```console
//! $ cargo run --release -p examples --features service --example service -- --port 8080
//! $ curl 127.0.0.1:8080/sort -H 'content-type: application/json' -d '[3, 1, 2]'
//! [1.0,2.0,3.0]
//! $ cargo run --release -p examples --features service --example service -- --port 8080 --load 64
//! ```
//!
//! | route | takes | returns |
//! |---|---|---|
//! | `POST /sort` | `[x, …]` | the numbers in ascending order |
//! | `POST /softmax` | `[x, …]`, one row | its softmax |
//! | `POST /top/{k}` | `[x, …]` | the `k` largest numbers, from the largest down |
//! | `GET /health` | | 200, or 503 while the service ends or has no device |
//! | `GET /metrics` | | counts in the text format of Prometheus |
//!
//! `admission.rs` decides how many requests are taken, `devices.rs` runs them, `load.rs` is the load test. SIGINT and
//! SIGTERM end the service: it takes no more requests, finishes those that it has, and exits with status 0.

mod admission;
mod devices;
mod load;

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router, middleware, serve};
use tokio::net::TcpListener;
use tokio::time::timeout;

use admission::Admission;
use devices::{Devices, Failure};
use load::Load;

/// The largest request body: half a million numbers.
const BODY_BYTES: usize = 8 << 20;
/// How long the requests that the service has may take when it ends.
const GRACE: Duration = Duration::from_secs(30);

/// What all requests share.
struct Service {
    devices: Devices,
    admission: Admission,
}

type Shared = State<Arc<Service>>;
type Answer = Result<Json<Vec<f32>>, Failure>;

async fn sort(State(service): Shared, Json(values): Json<Vec<f32>>) -> Answer {
    service.devices.sort(values).await.map(Json)
}

async fn softmax(State(service): Shared, Json(row): Json<Vec<f32>>) -> Answer {
    service.devices.softmax(row).await.map(Json)
}

async fn top(State(service): Shared, Path(k): Path<usize>, Json(values): Json<Vec<f32>>) -> Answer {
    service.devices.top(k, values).await.map(Json)
}

async fn health(State(service): Shared) -> Response {
    if service.admission.is_ending() || service.devices.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending, or without a device\n").into_response();
    }
    format!("{}\n", service.devices.names()).into_response()
}

async fn metrics(State(service): Shared) -> String {
    service.admission.metrics() + &service.devices.metrics()
}

async fn admit(State(service): Shared, request: Request, next: Next) -> Response {
    service.admission.admit(request, next).await
}

fn router(service: &Arc<Service>) -> Router {
    // Only what takes a device has to be admitted: health and metrics answer also under load.
    let admit = middleware::from_fn_with_state(service.clone(), admit);
    let operations = Router::new()
        .route("/sort", post(sort))
        .route("/softmax", post(softmax))
        .route("/top/{k}", post(top));
    operations
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(admit)
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(service.clone())
}

/// Serves until a signal comes, and then until the requests that were taken are answered.
async fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let devices = Devices::open(options.running)?;
    let admission = Admission::new(devices.seats() + options.queue);
    let service = Arc::new(Service { devices, admission });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    println!("{} on http://{}", service.devices.names(), listener.local_addr()?);

    let ending = service.clone();
    let until_signal = async move {
        signal().await;
        ending.admission.end();
    };
    // Without it the last segment of an answer may wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    let server = serve(listener, router(&service)).with_graceful_shutdown(until_signal);
    let (ended, signalled) = (server.into_future(), service.admission.ended());
    tokio::pin!(ended);
    tokio::select! {
        ended = &mut ended => ended?,
        () = signalled => timeout(GRACE, ended).await.map_err(|_| "clients kept their connections too long")??,
    }
    println!("ended: {}", service.admission.summary());
    Ok(())
}

/// Waits for Ctrl-C or a request to terminate.
async fn signal() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut requests) => drop(requests.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}

/// The command line: pairs of a name and a number.
struct Options {
    port: u16,
    /// Requests that run at a time on each device.
    running: usize,
    /// Requests that wait for a device. One more is refused with 503.
    queue: usize,
    load: Option<Load>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { port: 8080, running: 4, queue: 64, load: None };
        let mut load =
            Load { clients: 0, requests: 50, size: 1000, limit: Duration::from_secs(60) };
        while let Some(name) = args.next() {
            let number: usize = args.next().ok_or(format!("{name} takes a number"))?.parse()?;
            match name.as_str() {
                "--port" => options.port = u16::try_from(number)?,
                "--running" => options.running = number.max(1),
                "--queue" => options.queue = number,
                "--load" => load.clients = number,
                "--requests" => load.requests = number,
                "--size" => load.size = number,
                "--seconds" => load.limit = Duration::from_secs(number as u64),
                _ => return Err(format!("{name} is not an option").into()),
            }
        }
        options.load = (load.clients > 0).then_some(load);
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(env::args().skip(1))?;
    let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    executor.block_on(async {
        match &options.load {
            None => run(&options).await,
            Some(load) => load.run(SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))).await,
        }
    })
}
