//! An HTTP service over a pool of futures: requests are
//! tasks, what does not fit is refused with 503 and the reason, and SIGTERM or Ctrl-C drains.
//!
//! ```sh
//! cd examples/http-service
//! cargo run               # plays all parts
//! HTTP_SERVICE_ADDRESS=127.0.0.1:8080 TIDEGATE_REQUESTS_WORKERS=8 cargo run -- --serve
//! curl -i 'http://127.0.0.1:8080/work?ms=250'
//! ```
//!
//! | path | answer |
//! |---|---|
//! | `/work?ms=N` | 200 after a task of N ms; 503 and `Retry-After` if it was refused |
//! | `/metrics` | the pool, for Prometheus |
//! | `/healthz` | 200 as long as the process answers |
//! | `/readyz` | 503 while it drains, and when nothing goes on |

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidegate::{
    AsyncPool, Exporter, NameTaken, PoolLayer, ServiceError, Shutdown, Snapshot, TimedOut, Verdict,
    WhenFull,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Where to listen. Loopback unless somebody says otherwise; port 0 takes any that is free.
const ADDRESS: &str = "HTTP_SERVICE_ADDRESS";
const LONGEST: Duration = Duration::from_secs(60);
/// For answers that are on their way when the pool has drained.
const HANG_UP_WITHIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let ended = match std::env::args().nth(1).as_deref() {
        None => play_all_parts(),
        Some("--serve") => serve_until_signal(),
        Some(other) => Err(format!("{other:?} is not an option; there is --serve").into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
pub(crate) async fn serve_until_signal() -> Result<(), Box<dyn Error>> {
    // Before anybody can know that we are there.
    let told = told_to_stop()?;
    let address = std::env::var(ADDRESS).unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address).await?;
    let pool = pool()?;
    println!("listening on http://{}", listener.local_addr()?);
    println!("{}", counts(&serve(&pool, listener, told).await?));
    Ok(())
}

/// What does not fit is refused at once: a client that is told can come again. The sizes are
/// `TIDEGATE_REQUESTS_WORKERS` and so on.
fn pool() -> Result<AsyncPool, Box<dyn Error>> {
    let pool = AsyncPool::builder("requests").workers(4).queue(16).when_full(WhenFull::Reject);
    Ok(pool.task_timeout(LONGEST).env()?.build_async()?)
}

/// Serves until `told`, then drains: no new work, what was accepted is answered.
async fn serve(
    pool: &AsyncPool,
    listener: TcpListener,
    told: impl Future<Output = ()>,
) -> Result<Snapshot, Box<dyn Error>> {
    let (hang_up, drained) = oneshot::channel::<()>();
    let server = axum::serve(listener, router(pool)?).with_graceful_shutdown(async {
        let _ = drained.await;
    });
    let server = tokio::spawn(server.into_future());
    told.await;
    println!("draining");
    // The listener stays open meanwhile: `/readyz` has to say 503 to whoever balances the load,
    // and a request that comes too late should hear why.
    let report = pool.shutdown(Shutdown::default()).await?;
    drop(hang_up);
    tokio::time::timeout(HANG_UP_WITHIN, server).await???;
    // Anything else deserves an exit code: something was cut short or still runs.
    if !report.is_success() {
        return Err(report.to_string().into());
    }
    Ok(pool.snapshot())
}

fn router(pool: &AsyncPool) -> Result<Router, NameTaken> {
    let exporter = Exporter::new();
    exporter.add(pool)?;
    let pooled = PoolLayer::new(pool.clone()).name("work");
    let pool = pool.clone();
    // Only the work is behind the pool: a full one can still be looked at.
    Ok(Router::new()
        .route("/work", get(work).route_layer((HandleErrorLayer::new(say_why), pooled)))
        .route("/metrics", get(async move || metrics(&exporter)))
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(async move || readiness(&pool))))
}

async fn work(uri: Uri) -> Result<String, (StatusCode, &'static str)> {
    let milliseconds = match uri.query() {
        None => Some(0),
        Some(query) => query.strip_prefix("ms=").and_then(|n| n.parse().ok()),
    };
    let time = milliseconds.map(Duration::from_millis).filter(|time| *time <= LONGEST);
    let time = time.ok_or((StatusCode::BAD_REQUEST, "ms must be a number up to 60000\n"))?;
    tokio::time::sleep(time).await; // in place of work
    Ok(format!("worked for {time:?}\n"))
}

async fn say_why(error: ServiceError<Infallible>) -> Response {
    let text = format!("{error}\n");
    let status = match error {
        ServiceError::Service(never) => match never {},
        // It may come again: nothing has happened, or it was cut short on purpose.
        ServiceError::Refused { .. }
        | ServiceError::Evicted
        | ServiceError::TimedOut(TimedOut::InQueue)
        | ServiceError::Cancelled { .. } => {
            return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response();
        }
        ServiceError::TimedOut(TimedOut::Running) | ServiceError::Abandoned(_) => {
            StatusCode::GATEWAY_TIMEOUT
        }
        ServiceError::Panicked(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, text).into_response()
}

fn metrics(exporter: &Exporter) -> Response {
    ([(CONTENT_TYPE, Exporter::CONTENT_TYPE)], exporter.render()).into_response()
}

fn readiness(pool: &AsyncPool) -> (StatusCode, String) {
    if pool.closed().is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    let diagnosis = pool.diagnose();
    if diagnosis.verdict == Verdict::Stalled || diagnosis.also.contains(&Verdict::Stalled) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{diagnosis}\n"));
    }
    (StatusCode::OK, "ready\n".to_owned())
}

fn counts(now: &Snapshot) -> String {
    let Snapshot { accepted, completed, cancelled, .. } = now;
    let refused = now.refused.total();
    format!(
        "drained: accepted {accepted} completed {completed} cancelled {cancelled} refused {refused}"
    )
}

#[cfg(unix)]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}

// ---------------------------------------------------------------- the other parts

#[tokio::main]
async fn play_all_parts() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (at, pool) = (listener.local_addr()?, pool()?);
    println!("listening on http://{at}");
    let (stop, stopped) = oneshot::channel::<()>();
    let told = async {
        let _ = stopped.await;
    };
    let clients = async {
        let seen = play_clients(at).await;
        drop(stop);
        seen
    };
    let (served, seen) = tokio::join!(serve(&pool, listener, told), clients);
    let (now, (answered, refused)) = (served?, seen?);
    println!("clients: answered {answered} refused {refused}\n{}", counts(&now));
    assert_eq!((now.completed, now.refused.total()), (answered, refused), "somebody was not told");
    Ok(())
}

/// More at once than the pool has workers and places.
async fn play_clients(at: SocketAddr) -> Result<(u64, u64), Box<dyn Error>> {
    let clients: Vec<_> = (0..40).map(|_| tokio::spawn(ask(at, "/work?ms=20"))).collect();
    let (mut answered, mut refused) = (0, 0);
    for client in clients {
        let answer = client.await??;
        match answer.split(' ').nth(1) {
            Some("200") => answered += 1,
            Some("503") => refused += 1,
            _ => return Err(answer.into()),
        }
    }
    println!("{}", ask(at, "/readyz").await?.lines().last().unwrap_or_default());
    let page = ask(at, "/metrics").await?;
    page.lines().filter(|line| line.contains("_accepted_")).for_each(|line| println!("{line}"));
    Ok((answered, refused))
}

async fn ask(at: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
