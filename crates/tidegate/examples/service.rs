//! A small service: requests run in a pool, Prometheus reads `/metrics`, and SIGTERM or Ctrl-C
//! drains it (features `prometheus` and `signal`).
//!
//! ```sh
//! cargo run --example service --features prometheus,signal -p tidegate    # plays all parts
//! cargo run --example service --features prometheus,signal -p tidegate -- 127.0.0.1:9464
//! ```

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate::{Drain, Exporter, Pool, Shutdown, WhenFull, shutdown_in_order};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    // What does not fit is refused at once: a client that is told can come again.
    let requests = Pool::builder("requests")
        .workers(4)
        .queue(100)
        .when_full(WhenFull::Reject)
        .task_timeout(Duration::from_secs(5))
        .env()?
        .build()?;
    // Who reads from clients waits for clients: not the pool that does the work.
    let connections = Pool::builder("connections").workers(8).queue(64);
    let connections = connections.when_full(WhenFull::Reject).env()?.build()?;
    let exporter = Arc::new(Exporter::new());
    exporter.add(&requests)?;
    exporter.add(&connections)?;
    let _listening = connections.shutdown_on_signals(Shutdown::default())?;

    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let at = listener.local_addr()?;
    println!("http://{at}/ and http://{at}/metrics");
    let server = {
        let pools = (connections.clone(), requests.clone());
        thread::spawn(move || serve(&listener, &pools.0, &pools.1, &exporter))
    };
    if address.is_none() {
        play_client_and_operator(at)?;
    }

    connections.closed().wait(); // a signal has come
    drop(TcpStream::connect(at)); // for the listener to notice
    server.join().expect("it catches nothing and panics nowhere");
    // Those who bring work first, then those who do it: what was accepted is answered.
    let pools: [&dyn Drain; 2] = [&connections, &requests];
    for report in shutdown_in_order(&pools, Duration::from_secs(10)) {
        let report = report?;
        println!("{report}");
        // Anything else deserves an exit code: something was lost or still runs.
        if !report.is_success() {
            return Err(report.to_string().into());
        }
    }
    println!("{}", requests.snapshot());
    Ok(())
}

/// Takes connections until the pool for them is closed.
fn serve(listener: &TcpListener, connections: &Pool, requests: &Pool, exporter: &Arc<Exporter>) {
    for stream in listener.incoming() {
        let (requests, exporter) = (requests.clone(), Arc::clone(exporter));
        let taken = connections
            .task("connection")
            .spawn_result(move |_| take(&stream?, &requests, &exporter));
        // Refused: the drop of the work has hung up.
        if taken.is_err() && connections.closed().is_cancelled() {
            return;
        }
    }
}

/// `/metrics` is answered here, so that a full pool can still be looked at; everything else is
/// a task of the other pool.
fn take(stream: &TcpStream, requests: &Pool, exporter: &Exporter) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let path = path_of(stream)?;
    if path == "/metrics" {
        return respond(stream, "200 OK", Exporter::CONTENT_TYPE, &exporter.render());
    }
    let answer = stream.try_clone()?;
    let accepted = requests.task("request").spawn_result(move |_| {
        let sum: usize = path.bytes().map(usize::from).sum();
        respond(&answer, "200 OK", "text/plain", &format!("{path} adds up to {sum}\n"))
    });
    match accepted {
        Ok(()) => Ok(()),
        Err(refused) => {
            respond(stream, "503 Service Unavailable", "text/plain", &format!("{refused}\n"))
        }
    }
}

fn path_of(stream: &TcpStream) -> io::Result<String> {
    const LONGEST: u64 = 8 * 1_024;
    let mut lines = BufReader::new(stream.take(LONGEST)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    Ok(first.split(' ').nth(1).unwrap_or("/").to_owned())
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn get(at: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn play_client_and_operator(at: SocketAddr) -> Result<(), Box<dyn Error>> {
    for n in 0..20 {
        assert!(get(at, &format!("/page/{n}"))?.starts_with("HTTP/1.1 200"));
    }
    let page = get(at, "/metrics")?;
    for line in page.lines().filter(|line| line.contains("_count") || line.contains("accepted")) {
        println!("{line}");
    }
    assert!(page.contains("tidegate_queue_capacity{pool=\"requests\"} 100\n"));
    println!("sending myself SIGTERM");
    signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
    Ok(())
}
