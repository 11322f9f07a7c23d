//! Answers the requests of awc clients over guarded connections, in the place of awc's own connector.
//!
//! awc's own makes a codec for every call, and with it a task for the date, a timer and two buffers of 8 KiB.

use std::{
    cell::RefCell,
    io,
    rc::{Rc, Weak},
};

use actix_http::{
    BoxedPayloadStream, ConnectionType, RequestHead, RequestHeadType,
    body::{BodySize, MessageBody as _},
    header::{HeaderMap, HeaderName, HeaderValue},
    uri::PathAndQuery,
};
use actix_service::{Service, fn_service};
use awc::{
    Client, ClientResponse, ConnectRequest, ConnectResponse,
    error::{ConnectError, SendRequestError},
    middleware::Transform,
    test::TestResponse,
};

use super::{
    connector::Connector,
    exchange::{Answer, Guarded, IdleConnections, WITH_HEAD, exchange},
};

/// Room for the head of a request.
const HEAD: usize = 1024;

type FrozenHeads = Rc<RefCell<Vec<(Weak<RequestHead>, Vec<u8>)>>>;

/// Opens connections to one address and keeps them for later calls. Clones share them. Not `Send`.
#[derive(Clone)]
pub(super) struct AwcConnector {
    connector: Connector,
    idle: IdleConnections,
    /// Frozen heads as they are sent. Those that no client has any more go when another comes.
    frozen: FrozenHeads,
}

impl AwcConnector {
    /// Without open connections.
    pub(super) fn new(connector: Connector) -> AwcConnector {
        AwcConnector { connector, idle: IdleConnections::default(), frozen: Rc::default() }
    }

    /// A client that sends over these connections, follows no redirects and has no timeout.
    pub(super) fn client(self) -> Client {
        let answers = fn_service::<_, _, _, _, _, ()>(move |request| self.clone().answer(request));
        let builder = Client::builder().wrap(InPlace(answers));
        builder.disable_redirects().no_default_headers().disable_timeout().finish()
    }

    async fn answer(self, request: ConnectRequest) -> Result<ConnectResponse, SendRequestError> {
        let ConnectRequest::Client(head, body, _) = request else { return Err(SendRequestError::TunnelNotSupported) };
        let length = match body.size() {
            BodySize::None => None,
            BodySize::Sized(length) => Some(length),
            BodySize::Stream => return Err(SendRequestError::Body("its length is not known".into())),
        };
        let (head, connection) = (self.written(&head, length), self.connection().await?);
        let answer = exchange(connection, head, body, self.idle).await.map_err(SendRequestError::Send)?;
        Ok(ConnectResponse::Client(response(answer)))
    }

    /// The head of a request as it is sent.
    fn written(&self, head: &RequestHeadType, length: Option<u64>) -> Vec<u8> {
        let body = usize::try_from(length.unwrap_or_default()).unwrap_or(usize::MAX);
        let mut written = Vec::with_capacity(HEAD + body.min(WITH_HEAD));
        let extra = head.extra_headers();
        let is_replaced = |name: &HeaderName| extra.is_some_and(|extra| extra.contains_key(name));
        let replaces = |extra: &HeaderMap| extra.keys().any(|name| head.as_ref().headers.contains_key(name));
        match head {
            RequestHeadType::Rc(frozen, _) if !extra.is_some_and(replaces) => self.write_frozen(frozen, &mut written),
            _ => write(head.as_ref(), is_replaced, &mut written),
        }
        for header in extra.into_iter().flat_map(HeaderMap::iter) {
            write_header(header, &mut written);
        }
        if let Some(length) = length {
            put(&mut written, ["content-length".as_bytes(), b": ", length.to_string().as_bytes(), b"\r\n"]);
        }
        written.extend_from_slice(b"\r\n");
        written
    }

    fn write_frozen(&self, head: &Rc<RequestHead>, written: &mut Vec<u8>) {
        let mut frozen = self.frozen.borrow_mut();
        if let Some((_, known)) = frozen.iter().find(|(known, _)| std::ptr::eq(known.as_ptr(), Rc::as_ptr(head))) {
            return written.extend_from_slice(known);
        }
        write(head, |_| false, written);
        frozen.retain(|(known, _)| known.strong_count() > 0);
        frozen.push((Rc::downgrade(head), written.clone()));
    }

    async fn connection(&self) -> Result<Guarded, SendRequestError> {
        match self.idle.take().await {
            Some(connection) => Ok(connection),
            // awc has no error of its own for it.
            None => self.connector.open().await.map_err(|failure| ConnectError::Io(io::Error::other(failure)).into()),
        }
    }
}

/// Puts a service in the place of another.
struct InPlace<T>(T);

impl<S, T: Service<ConnectRequest>> Transform<S, ConnectRequest> for InPlace<T> {
    type Transform = T;

    fn new_transform(self, _: S) -> T {
        self.0
    }
}

/// Writes line and headers, except for those that are replaced and the length of the body.
fn write(head: &RequestHead, is_replaced: impl Fn(&HeaderName) -> bool, written: &mut Vec<u8>) {
    let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    put(written, [head.method.as_str().as_bytes(), b" ", path.as_bytes(), b" HTTP/1.1\r\n"]);
    if head.connection_type() == ConnectionType::Close {
        written.extend_from_slice(b"connection: close\r\n");
    }
    for header in head.headers.iter().filter(|(name, _)| !is_replaced(name)) {
        write_header(header, written);
    }
}

fn write_header((name, value): (&HeaderName, &HeaderValue), written: &mut Vec<u8>) {
    // The connector frames the request itself.
    if !matches!(name.as_str(), "connection" | "content-length" | "transfer-encoding") {
        put(written, [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
}

fn put(written: &mut Vec<u8>, parts: [&[u8]; 4]) {
    for part in parts {
        written.extend_from_slice(part);
    }
}

/// The answer as awc gives it. Its only public door is the one for tests.
fn response(answer: Answer) -> ClientResponse {
    let body: BoxedPayloadStream = Box::pin(answer.body);
    TestResponse::default().finish().map_body(|head, _| {
        (head.status, head.headers) = (answer.status, answer.headers);
        body.into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_http::Method;

    use super::*;
    use crate::{connection::Connection, keep_alive::KeepAlive, tls::client_config};

    fn connector() -> AwcConnector {
        let (connection, tls) = (Connection::new("http://h").unwrap(), client_config(None).unwrap());
        AwcConnector::new(Connector::new(&connection, &tls, Duration::from_secs(1), KeepAlive::LONG))
    }

    #[test]
    fn a_header_of_the_call_replaces_that_of_the_connection_and_none_frames_the_body() {
        let headers = |named: [(&'static str, &'static str); 2]| -> HeaderMap {
            named
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .into_iter()
                .collect()
        };
        let mut head = RequestHead::default();
        head.method = Method::POST;
        head.uri = "http://h/v1/chat?a=b".parse().unwrap();
        head.headers = headers([("x-a", "1"), ("content-length", "9")]);
        head.set_connection_type(ConnectionType::Close);
        let head = Rc::new(head);
        let replacing = headers([("x-a", "2"), ("transfer-encoding", "chunked")]);
        let further = headers([("x-b", "2"), ("connection", "upgrade")]);

        let connector = connector();
        let alone = (None, "x-a: 1");
        let cases = [alone.clone(), (Some(replacing), "x-a: 2"), (Some(further), "x-a: 1\r\nx-b: 2"), alone];
        for (extra, header) in cases {
            let written = connector.written(&RequestHeadType::Rc(Rc::clone(&head), extra), Some(3));
            let expected =
                format!("POST /v1/chat?a=b HTTP/1.1\r\nconnection: close\r\n{header}\r\ncontent-length: 3\r\n\r\n");
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }

    #[test]
    fn a_frozen_head_is_kept_as_long_as_its_client() {
        let connector = connector();
        for path in ["/a", "/b", "/c"] {
            let mut head = RequestHead::default();
            head.uri = path.parse().unwrap();
            let head = RequestHeadType::Rc(Rc::new(head), None);
            for _ in 0..2 {
                let written = connector.written(&head, None);
                assert_eq!(String::from_utf8(written).unwrap(), format!("GET {path} HTTP/1.1\r\n\r\n"));
            }
            assert_eq!(connector.frozen.borrow().len(), 1);
        }
    }
}
