//! A factorial service over TCP, a line for a line: `20` → `2432902008176640000`.
//!
//! The task of a request is cancelled when its client hangs up, a slow one is told to stop
//! after its limit, and a full queue is said at once, so that nobody waits for nothing.
//!
//! ```sh
//! cargo run --example factorial -p tidegate              # serves itself a few requests
//! cargo run --example factorial -p tidegate -- 7000      # until the line `quit` comes
//! ```

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate::{Cx, Pool, Shutdown, Stop, WhenFull};

const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of a request.
const LONGEST: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let address = listener.local_addr()?;
    let pool =
        Pool::builder("factorial").workers(4).queue(64).when_full(WhenFull::Reject).build()?;
    println!("factorials at {address}");

    if port == 0 {
        let client = thread::spawn(move || -> io::Result<Vec<String>> {
            let mut answers = Vec::new();
            for request in ["0", "20", "25", "-3", "many"] {
                answers.push(ask(address, request)?);
            }
            ask(address, "quit")?;
            Ok(answers)
        });
        serve(&listener, &pool)?;
        let answers = client.join().expect("the client does not panic")?;
        assert_eq!(answers[..2], ["1", "2432902008176640000"]);
        assert_eq!(answers[2], "15511210043330985984000000");
        assert!(answers[3..].iter().all(|answer| answer.starts_with("error: ")), "{answers:?}");
    } else {
        serve(&listener, &pool)?;
    }
    let report = pool.shutdown(Shutdown::default())?;
    println!("{report}\n{}", pool.snapshot());
    assert!(report.is_success());
    Ok(())
}

/// A thread per connection, which only waits; the work is done by the pool.
fn serve(listener: &TcpListener, pool: &Pool) -> io::Result<()> {
    let (tell, quit) = mpsc::channel();
    let address = listener.local_addr()?;
    for connection in listener.incoming() {
        if quit.try_recv().is_ok() {
            return Ok(());
        }
        let (pool, tell) = (pool.clone(), tell.clone());
        thread::spawn(move || {
            // A client that goes away or sends rubbish is its own business.
            if connection.and_then(|connection| talk(&connection, &pool)).unwrap_or(false) {
                let _ = tell.send(());
                let _ = TcpStream::connect(address); // for the listener to look
            }
        });
    }
    Ok(())
}

/// One request; true if it was `quit`.
fn talk(mut connection: &TcpStream, pool: &Pool) -> io::Result<bool> {
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(connection.take(LONGEST)).read_line(&mut line)?;
    if line.trim() == "quit" {
        writeln!(connection, "bye")?;
        return Ok(true);
    }
    let answer = answer(connection, pool, line.trim());
    let answer = answer.unwrap_or_else(|error| format!("error: {error}"));
    writeln!(connection, "{answer}")?;
    Ok(false)
}

fn answer(client: &TcpStream, pool: &Pool, request: &str) -> Result<String, Box<dyn Error>> {
    let n: u32 = request.parse().map_err(|error| format!("{request:?} is no number: {error}"))?;
    // Refused (the queue is full, the service stops): `?` says so in words.
    let task = pool.task("factorial").timeout(LIMIT).submit_result(move |cx| factorial(n, cx))?;
    let mut task = task.cancel_on_drop();
    loop {
        if let Some(outcome) = task.wait_timeout(Duration::from_millis(50)) {
            return Ok(outcome?);
        }
        if has_hung_up(client) {
            return Err("nobody wants to know".into()); // and the drop cancels it
        }
    }
}

fn has_hung_up(client: &TcpStream) -> bool {
    let looked = client.set_nonblocking(true).and_then(|()| client.peek(&mut [0]));
    let _ = client.set_nonblocking(false);
    matches!(looked, Ok(0)) || looked.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock)
}

/// n! in decimal digits, least first, and then turned round; leaves early when it is told to.
fn factorial(n: u32, cx: &Cx) -> Result<String, Stop> {
    let mut digits = vec![1_u8];
    for factor in 2..=n {
        cx.check()?;
        let mut carry = 0;
        for digit in &mut digits {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            *digit = (product % 10) as u8;
            carry = product / 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    Ok(digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect())
}

fn ask(address: std::net::SocketAddr, request: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    writeln!(connection, "{request}")?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    println!("  {request} -> {}", answer.trim_end());
    Ok(answer.trim_end().to_owned())
}
