//! The call whose block is open: its arguments, which must become one JSON object.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::AnswerForm;
use crate::dialect::{
    answer::AnswerFault,
    anthropic::surrogates::SplitPairs,
    neutral::{EscapedText, ToolKind, push_arguments_object},
};

/// Passes the arguments on as they come once they begin like an object, and holds them back otherwise.
#[derive(Debug)]
pub(super) struct OpenCall {
    call: u32,
    kind: ToolKind,
    /// Whether arguments may be sent in pieces.
    is_streamed: bool,
    /// Arguments that were not passed on.
    held: BytesMut,
    has_passed: bool,
    scan: ObjectScan,
    pairs: SplitPairs,
}

/// What is left to be written of a call at its end.
#[derive(Debug)]
pub(super) enum Rest {
    Nothing,
    /// A last piece of arguments that were passed on.
    Piece(EscapedText<'static>),
    /// The arguments, JSON.
    Object(Bytes),
}

impl OpenCall {
    pub(super) fn new(call: u32, kind: ToolKind, form: AnswerForm) -> OpenCall {
        let scan = if kind == ToolKind::Function { ObjectScan::Before } else { ObjectScan::Other };
        let is_streamed = form == AnswerForm::Streamed;
        OpenCall {
            call,
            kind,
            is_streamed,
            held: BytesMut::new(),
            has_passed: false,
            scan,
            pairs: SplitPairs::default(),
        }
    }

    /// Its place among the calls.
    pub(super) fn call(&self) -> u32 {
        self.call
    }

    /// Whether the arguments are a complete object.
    pub(super) fn is_complete(&self) -> bool {
        self.scan == ObjectScan::Complete
    }

    /// Checks that so many more bytes may be held.
    ///
    /// # Errors
    /// When they are too many.
    pub(super) fn check(&self, more: usize, limit: usize) -> Result<(), AnswerFault> {
        if !self.has_passed && self.held.len() + more > limit {
            return Err(AnswerFault::malformed("arguments longer than allowed"));
        }
        Ok(())
    }

    /// Takes a piece and returns what may be passed on. What comes behind a complete object is left out: some models repeat
    /// the arguments, and two objects are none.
    pub(super) fn piece<'a>(&mut self, text: EscapedText<'a>) -> Option<EscapedText<'a>> {
        if self.is_complete() {
            return None;
        }
        let end = self.scan.pass(text.bytes());
        let is_cut = end < text.bytes().len();
        let text = if is_cut { escaped(text.bytes().get(..end).unwrap_or_default()) } else { text };
        if self.has_passed {
            return self.pairs.escaped(text);
        }
        if !self.is_streamed || !self.scan.is_object() {
            self.held.put_slice(text.bytes());
            return None;
        }
        self.has_passed = true;
        let text = if self.held.is_empty() { text } else { escaped(&self.held.split()).joined(&text) };
        self.pairs.escaped(text)
    }

    pub(super) fn finish(mut self) -> Rest {
        if self.has_passed {
            return self.pairs.rest().map_or(Rest::Nothing, Rest::Piece);
        }
        let mut object = BytesMut::with_capacity(self.held.len() + 16);
        let held = escaped(&self.held);
        match self.kind {
            ToolKind::Function => {
                push_arguments_object(&held, &mut object);
            }
            ToolKind::Custom => {
                object.put_slice(b"{\"input\":");
                held.push_quoted(&mut object);
                object.put_u8(b'}');
            }
        }
        Rest::Object(object.freeze())
    }
}

fn escaped(bytes: &[u8]) -> EscapedText<'static> {
    EscapedText::plain(std::str::from_utf8(bytes).unwrap_or_default()).borrowed().into_owned()
}

/// The character of an escape with this number, or a letter for one that is not ASCII.
fn ascii(code: &[u8]) -> u8 {
    let code = std::str::from_utf8(code).ok().and_then(|code| u8::from_str_radix(code, 16).ok());
    code.filter(u8::is_ascii).unwrap_or(b'u')
}

/// How far a JSON object in a text has come. Only brackets and strings are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectScan {
    /// Nothing but white space so far.
    Before,
    /// `depth` open brackets.
    Inside { depth: u32, in_string: bool, is_escaped: bool },
    /// The object has ended.
    Complete,
    /// The text does not begin like an object.
    Other,
}

impl ObjectScan {
    fn is_object(self) -> bool {
        matches!(self, ObjectScan::Inside { .. } | ObjectScan::Complete)
    }

    /// Passes escaped text up to the end of the object. Returns how many bytes that were.
    fn pass(&mut self, text: &[u8]) -> usize {
        let mut rest = text;
        while *self != ObjectScan::Complete && *self != ObjectScan::Other {
            let (byte, tail) = match rest {
                [] => break,
                [b'\\', b'u', digits @ ..] if digits.len() >= 4 => {
                    let (code, tail) = digits.split_at_checked(4).unwrap_or((digits, &[]));
                    (ascii(code), tail)
                }
                [b'\\', b'n' | b'r' | b't', tail @ ..] => (b' ', tail),
                [b'\\', byte, tail @ ..] | [byte, tail @ ..] => (*byte, tail),
            };
            *self = self.after(byte);
            rest = tail;
        }
        if *self == ObjectScan::Other { text.len() } else { text.len() - rest.len() }
    }

    fn after(self, byte: u8) -> ObjectScan {
        match self {
            ObjectScan::Before if byte == b' ' => self,
            ObjectScan::Before if byte == b'{' => ObjectScan::Inside { depth: 1, in_string: false, is_escaped: false },
            ObjectScan::Before => ObjectScan::Other,
            ObjectScan::Inside { depth, in_string: true, is_escaped } => match byte {
                _ if is_escaped => ObjectScan::Inside { depth, in_string: true, is_escaped: false },
                b'\\' => ObjectScan::Inside { depth, in_string: true, is_escaped: true },
                b'"' => ObjectScan::Inside { depth, in_string: false, is_escaped: false },
                _ => self,
            },
            ObjectScan::Inside { depth, .. } => match byte {
                b'"' => ObjectScan::Inside { depth, in_string: true, is_escaped: false },
                b'{' | b'[' => {
                    ObjectScan::Inside { depth: depth.saturating_add(1), in_string: false, is_escaped: false }
                }
                b'}' | b']' if depth == 1 => ObjectScan::Complete,
                b'}' | b']' => ObjectScan::Inside { depth: depth - 1, in_string: false, is_escaped: false },
                _ => self,
            },
            ObjectScan::Complete | ObjectScan::Other => self,
        }
    }
}
