//! A simulated provider as a process: it answers as its world says, counts, and leaves when we do.

#![cfg(test)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

struct Provider {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Provider {
    fn start(scenario: &str) -> Provider {
        let arguments = ["provider", scenario, "fastest", "0", "--from-seed", "1", "--seconds", "4"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_oracle"));
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        writeln!(child.stdin.as_mut().unwrap(), "start {now}").unwrap();
        Provider { child, output, address }
    }

    /// Sends the request of this number and reads until the answer ends.
    fn ask(&self, number: usize) -> String {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        let body = format!("#{number}#");
        let length = body.len();
        write!(socket, "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let (mut answer, mut some) = (String::new(), [0; 4096]);
        while !answer.contains("total_tokens") {
            let read = socket.read(&mut some).unwrap();
            assert!(read > 0, "it hung up after {answer:?}");
            answer.push_str(str::from_utf8(&some[..read]).unwrap());
        }
        answer
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn it_answers_counts_dollars_and_leaves_when_nobody_holds_it_any_more() {
    let mut provider = Provider::start("stationary");
    assert!(provider.ask(0).starts_with("HTTP/1.1 200 OK\r\n"));
    drop(provider.child.stdin.take());
    let mut said = String::new();
    provider.output.read_to_string(&mut said).unwrap();
    let words: Vec<&str> = said.trim().split(' ').collect();
    let [request, _, dollars, bad] = words.as_slice() else { panic!("it said {said:?}") };
    assert_eq!(*request, "0");
    assert!(dollars.parse::<f64>().unwrap() > 0.0);
    assert!((0.0..1.0).contains(&bad.parse::<f64>().unwrap()));
    assert!(provider.child.wait().unwrap().success());
}

#[test]
fn what_is_guarded_ends_with_its_guard() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guarded-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oracle"));
    command.arg("guard").arg(&directory).args(["sh", "-c", "echo $$; exec sleep 600"]);
    let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(guard.stdout.take().unwrap());
    let mut process = String::new();
    output.read_line(&mut process).unwrap();
    drop(guard.stdin.take());
    // The sleeper holds the other end of this pipe: it ends when the sleeper does.
    assert_eq!(output.read_to_string(&mut String::new()).unwrap(), 0);
    assert!(guard.wait().unwrap().success());
    assert!(!directory.exists(), "what was made for it is left");
}
