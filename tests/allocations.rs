//! While traces are off, they allocate nothing. Its own process, because it counts the allocations of all
//! threads.
//!
//! What both a gateway without traces and one with them do for a request is called here by itself and allocates nothing.
//! Then the same requests go through both gateways: the one with traces, which keeps none of these generations, may not
//! allocate more, so that neither does the one without.

#[cfg(test)]
#[path = "../benches/store/generations.rs"]
mod generations;

#[cfg(test)]
mod allocations {
    use std::{
        alloc::System,
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpListener, TcpStream},
        path::Path,
        sync::{Mutex, mpsc},
        thread,
    };

    use pointsman::{
        app::server::Server,
        state::traces::{parent_for_provider, sampler::Sampler},
    };
    use pointsman_config::{Config, Environment};
    use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits};
    use pointsman_domain::TraceParent;
    use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

    use crate::generations;

    #[global_allocator]
    static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    /// Requests of a round.
    const REQUESTS: usize = 20;
    /// Rounds of each gateway. The one with the fewest counts: statistics and timers allocate too, now and then.
    const ROUNDS: usize = 8;

    /// One test at a time counts.
    static COUNTER: Mutex<()> = Mutex::new(());

    /// Allocations of the whole process meanwhile.
    fn allocations(run: impl FnOnce()) -> usize {
        let region = Region::new(ALLOCATOR);
        run();
        let change = region.change();
        change.allocations + change.reallocations
    }

    /// The fewest allocations of several runs.
    fn fewest(mut run: impl FnMut()) -> usize {
        (0..ROUNDS).map(|_| allocations(&mut run)).min().unwrap()
    }

    /// Reads a whole message with a `content-length`, without allocating. `false` at the end.
    fn read_message(stream: &mut TcpStream) -> bool {
        let (mut buffer, mut filled) = ([0_u8; 16_384], 0);
        loop {
            match stream.read(&mut buffer[filled..]) {
                Ok(0) | Err(_) => return false,
                Ok(read) => filled += read,
            }
            let Some(end) = buffer[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let name = b"content-length: ";
            let value = buffer[..end].windows(name.len()).position(|bytes| bytes.eq_ignore_ascii_case(name)).unwrap();
            let digits = buffer[value + name.len()..end].iter().take_while(|byte| byte.is_ascii_digit());
            let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
            if filled >= end + 4 + length {
                return true;
            }
        }
    }

    /// A provider that gives every request the same answer.
    fn provider() -> SocketAddr {
        let body = r#"{"id":"c","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":"Left."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                thread::spawn(
                    move || while read_message(&mut stream) && stream.write_all(answer.as_bytes()).is_ok() {},
                );
            }
        });
        address
    }

    /// A gateway in front of that provider, on a thread of its own.
    fn gateway(provider: SocketAddr, more: &str) -> SocketAddr {
        let text = format!(
            "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n[auth]\n\
             development_key_enabled = false\n[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n[ledger]\ndurability = \"off\"\n\
             [routing]\nexploration = 0\n[routing.hedge]\nobjectives = []\n[providers.acme]\nname = \"Acme\"\n\
             base_url = \"http://{provider}/v1\"\napi_key_env = \"ACME_KEY\"\n[[models]]\nid = \"acme/small\"\n\
             context_length = 100000\nendpoints = [{{ provider = \"acme\", upstream_model = \"small\", pricing = \
             {{ prompt = \"0.0000001\", completion = \"0.0000004\" }} }}]\n{more}"
        );
        let environment = [
            ("TEST_KEY", "sk-test-0123456789abcdef"),
            ("ACME_KEY", "sk-acme-0123456789"),
            ("POINTSMAN__ADMIN__BIND", ""),
        ];
        let environment = environment.into_iter().collect();
        let config = Config::parse(&text, "test", Path::new("."), &environment);
        let config = config.unwrap_or_else(|faults| panic!("{faults:#?}"));
        let (told, address) = mpsc::channel();
        thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let server = Server::bind(config).await.unwrap_or_else(|error| panic!("{error}"));
                told.send(server.address()).unwrap();
                server.run().await
            })
        });
        address.recv().unwrap()
    }

    /// A kept connection to a gateway, and the request that is sent on it again and again.
    struct Client {
        stream: TcpStream,
        request: String,
    }

    impl Client {
        fn of(gateway: SocketAddr) -> Client {
            let body = r#"{"model":"acme/small","messages":[{"role":"user","content":"Which way?"}]}"#;
            let request = format!(
                "POST /api/v1/chat/completions HTTP/1.1\r\nhost: {gateway}\r\nauthorization: Bearer \
                 sk-test-0123456789abcdef\r\ntraceparent: {PARENT}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut client = Client { stream: TcpStream::connect(gateway).unwrap(), request };
            // Until everything that is made once is there.
            (0..4).for_each(|_| client.round());
            client
        }

        fn round(&mut self) {
            for _ in 0..REQUESTS {
                self.stream.write_all(self.request.as_bytes()).unwrap();
                assert!(read_message(&mut self.stream), "an answer");
            }
        }
    }

    #[test]
    fn the_class_of_a_task_is_found_without_allocating_whatever_the_length_and_the_parts_of_the_message() {
        let _counter = COUNTER.lock();
        let limits = RequestLimits::default();
        let read = |content: serde_json::Value| {
            let body = serde_json::json!({"model": "acme/small", "messages": [{"role": "user", "content": content}]});
            let body = bytes::Bytes::from(body.to_string());
            fewest(|| drop(ChatRequest::parse(body.clone(), ChatPurpose::Chat, &limits)))
        };
        let part = |text: &str| serde_json::json!({"type": "text", "text": text});
        let (short, code) = ("Which road is it, now?", "let a = f(b); ".repeat(600));
        let of_text = read(short.into());
        assert!(of_text > 0, "the counter counts");
        assert_eq!(read(code.clone().into()), of_text, "8 KB");
        let of_parts = read(vec![part(short)].into());
        assert_eq!(read(vec![part(short), part(&code)].into()), of_parts);
        assert_eq!(read(vec![part(short); 12].into()), of_parts);
    }

    #[test]
    fn without_traces_no_request_allocates_for_them_and_with_them_none_that_is_not_kept() {
        let _counter = COUNTER.lock();
        let record = generations::recorded(1, 1).remove(0);
        let text = "[simulation]\nmode = \"on\"\n[traces]\nsample_ratio = 0\n";
        let config = Config::parse(text, "test", Path::new("."), &Environment::default()).unwrap();
        let sampler = Sampler::new(&config.traces);
        let asked = fewest(|| {
            assert!(TraceParent::parse(PARENT).is_some());
            assert_eq!(parent_for_provider(None, &record, 1), record.trace_parent);
            assert!(!sampler.keeps(&record));
        });
        assert_eq!(asked, 0, "what is done for every request");
        assert!(fewest(|| drop(std::hint::black_box(vec![1_u8]))) > 0, "the counter counts");

        let provider = provider();
        let mut off = Client::of(gateway(provider, ""));
        let mut on = Client::of(gateway(provider, "[traces]\nendpoint = \"http://127.0.0.1:9\"\nsample_ratio = 0\n"));
        // In turns, so that both have the same company.
        let rounds = (0..ROUNDS).map(|_| (allocations(|| off.round()), allocations(|| on.round())));
        let (without, with): (Vec<usize>, Vec<usize>) = rounds.unzip();
        let (without, with) = (*without.iter().min().unwrap(), *with.iter().min().unwrap());
        eprintln!(
            "allocations of {REQUESTS} requests: {without} without traces, {with} with traces of which none is kept"
        );
        assert!(without > REQUESTS, "requests are counted");
        // Less than one per request, which is what a single field would cost.
        assert!(with < without + REQUESTS, "{with} with traces, {without} without, for {REQUESTS} requests");
    }
}
