//! What a refusal is about: read from its code, then from its words, then from its status.
//!
//! `table` is the list, `said` reads error bodies of all shapes, `words` compares messages, `limits` compares the size of the
//! request with a limit that the body names, `request` finds what the client may have caused, and `shown` what a client may
//! read. The same table serves answers with an error status and errors within a 200 or a stream. The latter are read without
//! their request: their words close nothing, and [`Doubt::weigh`] looks at the request.

mod limits;
mod request;
mod said;
mod shown;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::hash::{DefaultHasher, Hash, Hasher};

use pointsman_domain::{Blame, Dialect, Evidence, FailureKind, Finding};

use limits::Size;
use request::MOST_LOOK_UPS;
pub use request::{Doubt, RefusedRequest};
use said::Said;
use table::{ABOUT_ACCESS, About, ROWS, Row, Sign, TYPES};
use words::{Words, is_code, plain};

use super::{
    answer::AnswerFault,
    json::Raw,
    sanitize::{name_for_log, reported_error},
};

/// Words of a message from which it tells a client something that the status does not.
const TELLING_WORDS: usize = 4;

/// A response with an error status, and the request that got it.
#[derive(Debug, Clone, Copy)]
pub struct RefusedAttempt<'a> {
    /// Dialect of the endpoint.
    pub dialect: Dialect,
    /// Status of the response.
    pub status: u16,
    /// Type of the error in the header that only Amazon sends.
    pub amazon_type: Option<&'a str>,
    /// Whether the response names a time to wait.
    pub names_a_wait: bool,
    /// Upstream name of the model.
    pub model: &'a str,
    /// Body of the request.
    pub request: &'a [u8],
    /// Estimated tokens of its prompt.
    pub prompt_tokens: u32,
    /// The account's limit on tokens in a time, as far as headers say which one has refused this request.
    pub limit: Option<TokenLimit>,
}

/// A limit of the account on tokens in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// Of prompts.
    Prompts(u64),
    /// Of prompts, and of the answers that requests allow.
    All(u64),
    /// Another than those that headers tell of: they all leave room for this request.
    Other,
}

/// What a refusal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// What speaks for more than this request.
    pub evidence: Evidence,
    /// Whether it is about what the request, or its response, says.
    pub is_about_content: bool,
    /// Whether fewer output tokens would be accepted.
    pub wants_fewer_tokens: bool,
    /// Whether its words may be shown to the client: it is about the request, and they do not speak about the gateway's account.
    pub is_for_client: bool,
    /// The provider's own code.
    pub code: Option<String>,
}

/// Reads a response with an error status.
pub fn read_refusal(call: RefusedAttempt<'_>, body: &[u8]) -> Refusal {
    let said = Said::of_body(body, call.amazon_type);
    let by_status = match (call.dialect, call.status) {
        (Dialect::Gemini, 499 | 504) | (Dialect::Converse, 408) => FailureKind::Timeout,
        (Dialect::Converse, 424) => FailureKind::Server,
        (_, status) => FailureKind::of_status(status.into()).unwrap_or(FailureKind::UnexpectedStatus),
    };
    let by_type = kind_of_type(&said);
    let kind = match by_type {
        Some(kind) if matches!(call.dialect, Dialect::Gemini | Dialect::Converse) || call.amazon_type.is_some() => kind,
        Some(kind @ (FailureKind::Timeout | FailureKind::Overloaded))
            if call.dialect == Dialect::Anthropic && by_status == FailureKind::Server =>
        {
            kind
        }
        _ => by_status,
    };
    let request = RefusedRequest::new(call.request);
    let reader = Reader {
        words: Words::new(&said.message, call.model),
        inner: Words::new(&said.inner_message, call.model),
        said: &said,
        status: Some(call.status),
        names_a_wait: call.names_a_wait,
        request: Some(&request),
    };
    let mut refusal = reader.by_table().unwrap_or_else(|| reader.by_kind(kind));
    if refusal.kind == FailureKind::RateLimited {
        match limits::judge(&said, body, &request, (call.prompt_tokens, call.limit)) {
            Some(Size::Larger) => refusal = reader.refusal(FailureKind::OverLimit),
            Some(Size::PerhapsLarger) => refusal.evidence = Evidence::Request,
            // A limit that the provider keeps for each user of the client.
            None if reader.names_a_user(&request) => refusal.evidence = Evidence::Request,
            None => {}
        }
    }
    let is_for_client =
        refusal.is_for_client && refusal.kind.blame() == Blame::Client && !shown::speaks_about_us(body, &request);
    Refusal { is_for_client, ..refusal }
}

/// Reads an error within an answer: an error object, or what holds one.
pub(crate) fn fault(error: Raw<'_>) -> AnswerFault {
    fault_of(&Said::read(error))
}

/// Reads the error in a whole answer of chat, images or embeddings. A provider that means an error sends a status, so that only
/// what the table knows, and what names a status of the provider's own, is more than a malformed answer; what is about the
/// request still says nothing about the endpoint.
pub(crate) fn fault_of_whole(error: Raw<'_>) -> AnswerFault {
    let said = Said::read(error);
    let (fault, reader) = (fault_of(&said), Reader::within(&said));
    let evidence = match fault.kind.blame() {
        _ if reader.by_table().is_some() => return fault,
        Blame::Provider if said.status.is_some() => return fault,
        Blame::Client => Evidence::Unknown { said: reader.hash() },
        _ => Evidence::None,
    };
    AnswerFault { evidence, ..AnswerFault::malformed(fault.detail) }
}

/// Reads the data of an error event, whatever it looks like.
pub(crate) fn fault_of_data(data: &[u8]) -> AnswerFault {
    fault_of(&Said::of_body(data, None))
}

/// Reads an exception that Amazon names beside its payload.
pub(crate) fn fault_of_exception(name: &str, payload: &[u8]) -> AnswerFault {
    fault_of(&Said::of_body(payload, Some(name)))
}

fn fault_of(said: &Said) -> AnswerFault {
    let by_status = said.status.and_then(|status| FailureKind::of_status(status.into()));
    let kind = match (by_status, kind_of_type(said)) {
        (Some(FailureKind::Server) | None, Some(kind @ FailureKind::Timeout)) => kind,
        (by_status, by_type) => by_status.or(by_type).unwrap_or(FailureKind::Server),
    };
    let reader = Reader::within(said);
    let refusal = reader.by_table().unwrap_or_else(|| reader.by_kind(kind));
    let status = said.status.map(|status| format!(" {status}")).unwrap_or_default();
    let is_word = |name: &&str| name.parse::<u32>().is_err();
    let named = said.names.iter().filter_map(|name| name_for_log(name)).filter(is_word).take(2);
    let named: String = named.map(|name| format!(" [{name}]")).collect();
    let detail = format!("{}{status}{named}", reported_error(""));
    AnswerFault {
        refused_content: refusal
            .is_about_content
            .then(|| if refusal.is_for_client { &*said.message } else { "" }.into()),
        evidence: refusal.evidence,
        wants_fewer_tokens: refusal.wants_fewer_tokens,
        ..AnswerFault::new(refusal.kind, detail)
    }
}

/// The kind of a refusal without its request.
#[cfg(test)]
pub(crate) fn kind_of(dialect: Dialect, status: u16, amazon_type: Option<&str>, body: &[u8]) -> FailureKind {
    let call = RefusedAttempt {
        dialect,
        status,
        amazon_type,
        names_a_wait: false,
        model: "acme-1",
        request: b"{}",
        prompt_tokens: 0,
        limit: None,
    };
    read_refusal(call, body).kind
}

/// The evidence of a failure that the provider tells. A time-out that it tells of is no silence: it has answered, and a long
/// prompt may be the reason.
const fn evidence_of(kind: FailureKind) -> Evidence {
    if matches!(kind, FailureKind::Timeout) { Evidence::OF_ONE_CALLER } else { Evidence::None }
}

fn kind_of_type(said: &Said) -> Option<FailureKind> {
    let of_code = |code: &String| TYPES.iter().find(|(pattern, _)| is_code(pattern, code)).map(|(_, kind)| *kind);
    said.codes.iter().find_map(of_code)
}

/// A refusal in the course of being read.
struct Reader<'a> {
    words: Words,
    /// The message that an aggregator repeats.
    inner: Words,
    said: &'a Said,
    status: Option<u16>,
    names_a_wait: bool,
    /// `None` for an error within an answer.
    request: Option<&'a RefusedRequest<'a>>,
}

impl<'a> Reader<'a> {
    /// Of an error within an answer.
    fn within(said: &'a Said) -> Reader<'a> {
        let (words, inner) = (Words::new(&said.message, ""), Words::new(&said.inner_message, ""));
        Reader { words, inner, said, status: said.status, names_a_wait: false, request: None }
    }

    fn by_table(&self) -> Option<Refusal> {
        let (row, words) = ROWS.iter().find_map(|row| Some((row, self.sign_of(row)?)))?;
        let is_code = matches!(row.sign, Sign::Code(_));
        Some(match row.about {
            About::Quota(_) if self.names_a_wait => self.by_kind(FailureKind::RateLimited),
            About::Account(meaning) | About::Quota(meaning) => {
                if self.doubt().brings_its_own && !self.speaks_about_us() {
                    return Some(self.refusal(FailureKind::RefusedHere));
                }
                let proves = is_code || self.is_providers_own(words);
                self.ours(FailureKind::Auth, proves.then_some(Finding { words, meaning }))
            }
            About::Model(meaning) => {
                let kind = if self.status == Some(403) { FailureKind::Forbidden } else { FailureKind::NotFound };
                let names_another = self.names_another_model();
                if names_another && self.doubt().brings_its_own {
                    return Some(self.refusal(FailureKind::RefusedHere));
                }
                let doubt = self.doubt();
                // What the client names may have the name of the model in it.
                let names_this = || self.request.is_some_and(|request| request.repeats(&self.words.model));
                // A tier may lack a model that the endpoint has.
                let is_doubtful = names_another || doubt.chooses_a_tier || (doubt.names_a_resource && names_this());
                let proves = !is_doubtful && (is_code || self.is_providers_own(words));
                self.ours(kind, proves.then_some(Finding { words, meaning }))
            }
            About::Here => self.refusal(FailureKind::RefusedHere),
            About::Fewer => Refusal { wants_fewer_tokens: true, ..self.refusal(FailureKind::RefusedHere) },
            About::OverLimit => self.refusal(FailureKind::OverLimit),
            About::Context => self.refusal(FailureKind::ContextLength),
            About::TooLarge => self.refusal(FailureKind::TooLarge),
            About::Content => {
                let kind = match self.status {
                    Some(status) if status != 400 && status != 422 => FailureKind::ContentPolicy,
                    _ => FailureKind::BadRequest,
                };
                Refusal { is_about_content: true, ..self.refusal(kind) }
            }
        })
    }

    /// The code or words of the row that the refusal has.
    fn sign_of(&self, row: &'static Row) -> Option<&'static str> {
        let is_at = match self.status {
            // A server that broke says nothing about the request or the account, unless the row says so.
            Some(status) => row.statuses.contains(&status) || (row.statuses.is_empty() && matches!(status, 400..=499)),
            None => row.statuses.is_empty() || !row.about.closes(),
        };
        if !is_at {
            return None;
        }
        match row.sign {
            Sign::Code(codes) => {
                codes.iter().find(|code| self.said.codes.iter().any(|said| is_code(code, said))).copied()
            }
            Sign::Words(words) if row.about.closes() => {
                words.iter().find(|pattern| self.words.follow_to_the_end(pattern)).copied()
            }
            Sign::Words(words) => {
                words.iter().find(|pattern| self.words.follow(pattern) || self.inner.follow(pattern)).copied()
            }
        }
    }

    fn doubt(&self) -> Doubt {
        self.request.map(RefusedRequest::doubt).unwrap_or_default()
    }

    /// Whether the message begins with words that do not stand in the request.
    fn is_providers_own(&self, pattern: &str) -> bool {
        let message = words::plain(&self.said.message);
        self.request.is_some_and(|request| !request.holds_start_of(&message, pattern, &self.words.model))
    }

    /// Whether the message is about another model than the endpoint's: one that the request names, or any. Without the request
    /// and the model, whatever is quoted may be one.
    fn names_another_model(&self) -> bool {
        let quoted = &self.words.quoted;
        let is_elsewhere = |word: &String| self.request.is_none_or(|request| request.holds(word));
        self.words.name_another_model() || quoted.len() > MOST_LOOK_UPS || quoted.iter().any(is_elsewhere)
    }

    /// Whether the message may be about a user that the client names.
    fn names_a_user(&self, request: &RefusedRequest<'_>) -> bool {
        let messages = [plain(&self.said.message), plain(&self.said.inner_message)];
        let is_named =
            |user: &String| messages.iter().any(|message| message.contains("user") || message.contains(user));
        request.users().iter().any(is_named)
    }

    /// What nothing in the table matches.
    fn by_kind(&self, kind: FailureKind) -> Refusal {
        let evidence = Evidence::Unknown { said: self.hash() };
        if self.request.is_none() {
            return Refusal { evidence: evidence_of(kind), ..self.refusal(kind) };
        }
        let Doubt { brings_its_own, names_a_resource, chooses_a_tier } = self.doubt();
        let is_doubtful = brings_its_own || names_a_resource || chooses_a_tier;
        match kind {
            // Something that the request names is in use.
            FailureKind::Server if self.status == Some(409) && is_doubtful => self.refusal(FailureKind::RefusedHere),
            FailureKind::Auth if brings_its_own && self.is_about_the_client() => self.refusal(FailureKind::RefusedHere),
            FailureKind::Auth if is_doubtful => self.refusal(kind),
            // What says what is wrong with the request says nothing about the model.
            FailureKind::Forbidden | FailureKind::NotFound if is_doubtful || self.is_about_the_client() => {
                self.refusal(FailureKind::RefusedHere)
            }
            FailureKind::Auth | FailureKind::BadRequest | FailureKind::Forbidden | FailureKind::NotFound => {
                Refusal { evidence, ..self.refusal(kind) }
            }
            // The limit of the model itself, whatever the request brings.
            FailureKind::RateLimited | FailureKind::Overloaded
                if !chooses_a_tier && self.words.text.contains("{model}") =>
            {
                self.refusal(kind)
            }
            kind => Refusal { evidence: self.doubt().weigh(kind, evidence_of(kind)), ..self.refusal(kind) },
        }
    }

    /// Whether the message says more than a status, and nothing about the gateway's account or names of models.
    fn is_about_the_client(&self) -> bool {
        let text = &self.words.text;
        text.split(' ').count() >= TELLING_WORDS
            && !self.speaks_about_us()
            && !ABOUT_ACCESS.iter().any(|words| text.contains(words))
    }

    fn speaks_about_us(&self) -> bool {
        shown::is_about_us(&self.words.text) || shown::is_about_us(&self.inner.text)
    }

    /// The same number for the same refusal, whatever was quoted or counted in it.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.status, &self.said.codes).hash(&mut hasher);
        self.words.text.chars().filter(|c| !c.is_ascii_digit()).for_each(|c| c.hash(&mut hasher));
        hasher.finish()
    }

    /// A refusal that may be about the account or the model. Without proof it counts as one in unknown words, unless the request
    /// may have caused it.
    fn ours(&self, kind: FailureKind, finding: Option<Finding>) -> Refusal {
        let Doubt { brings_its_own, names_a_resource, chooses_a_tier } = self.doubt();
        let evidence = match finding {
            _ if brings_its_own => Evidence::None,
            Some(finding) => Evidence::Known(finding),
            None if self.request.is_some() && !names_a_resource && !chooses_a_tier => {
                Evidence::Unknown { said: self.hash() }
            }
            None => Evidence::None,
        };
        Refusal { evidence, is_for_client: false, ..self.refusal(kind) }
    }

    fn refusal(&self, kind: FailureKind) -> Refusal {
        Refusal {
            kind,
            evidence: Evidence::None,
            is_about_content: false,
            wants_fewer_tokens: false,
            is_for_client: !self.speaks_about_us(),
            code: self.said.code().cloned(),
        }
    }
}
