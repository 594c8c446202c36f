//! A pool under `/metrics`, for Prometheus (feature `prometheus`): the exporter makes the page,
//! any server can serve it. Here one of ten lines, and a scrape of our own.
//!
//! ```sh
//! cargo run --example metrics --features prometheus -p tidegate
//! cargo run --example metrics --features prometheus -p tidegate -- serve 127.0.0.1:9464
//! ```

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use tidegate::{Budget, Exporter, Pool, Shutdown};

/// One request: reads its head, sends the page.
fn answer(mut stream: TcpStream, exporter: &Exporter) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let page = exporter.render();
    let (kind, length) = (Exporter::CONTENT_TYPE, page.len());
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{page}")
}

fn scrape(address: impl std::net::ToSocketAddrs) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("images").workers(2).queue(100).build()?;
    let memory = Budget::new("memory", 512);
    let exporter = Exporter::new();
    exporter.add(&pool)?;
    exporter.add_budget(&memory)?;

    for size in 1..=20_u64 {
        pool.task("resize")
            .budget(&memory, size)
            .submit(move |_| (0..size * 1_000).sum::<u64>())?
            .detach();
    }
    pool.wait_idle()?;

    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("serve") {
        let listener = TcpListener::bind(words.next().unwrap_or("127.0.0.1:9464".to_owned()))?;
        println!("http://{}/metrics", listener.local_addr()?);
        for stream in listener.incoming() {
            if let Err(error) = answer(stream?, &exporter) {
                eprintln!("a scrape failed: {error}");
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let page = std::thread::scope(|scope| {
        let server = scope.spawn(|| answer(listener.accept()?.0, &exporter));
        let page = scrape(address);
        server.join().expect("the server does not panic").and(page)
    })?;
    for line in page.lines().filter(|line| line.contains("completed") || line.contains("_count")) {
        println!("{line}");
    }
    assert!(page.contains("tidegate_tasks_total{pool=\"images\",outcome=\"completed\"} 20\n"));
    pool.shutdown(Shutdown::default())?;
    Ok(())
}
