//! How much of a conversation's prompts is found in the caches of four equal endpoints, on a real hour of which the repeated blocks
//! of 512 tokens are known.
//!
//! A request finds the blocks with which it begins and that its endpoint has served before; caches forget nothing. The gateway knows
//! no blocks: it reads a body ([`Trace::body`]), and what its own parser and its own [`pointsman_routing::stats::Sessions`] make of it.
//! A [`Form`] says how a client would write the blocks as messages, since the trace has none. The random choice and the index of all
//! blocks are the anchors.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use bytes::Bytes;
use pointsman_dialect::{ChatPurpose, ChatRequest, RequestLimits};
use pointsman_domain::{Objective, RoutingPolicy, SessionOpening, StickyPolicy};

use crate::{
    columns::Columns,
    dice::Dice,
    engine,
    request::Request,
    rules::Conversing,
    sheet::Sheet,
    world::{Endpoint, HALF_LIFE, Span, WIDE, World},
};

/// Endpoints.
pub const REPLICAS: usize = 4;
/// Tokens of a block, and bytes of a token: as many as the gateway estimates.
const BLOCK: u32 = 512;
const TOKEN_BYTES: usize = 4;
/// Dollars per token: prompt, output, and prompt out of the cache.
const PRICES: [f64; 3] = [1e-6, 4e-6, 1e-7];
/// How long the gateway takes prompts to be cached where it is told how long that is: longer than the trace.
const LONG: Duration = Duration::from_secs(7200);

/// The requests of an hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// In the order of arrival.
    pub turns: Vec<Turn>,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// When it arrives, seconds.
    pub at: f64,
    /// Prompt tokens.
    pub prompt: u32,
    /// Tokens of its answer.
    pub answer: u32,
    /// The blocks of its prompt; the last one may not be full.
    pub blocks: Vec<u32>,
    /// The earliest request whose prompt this one begins with, or itself.
    pub first: usize,
}

/// How a prompt is written as messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The first block is a system message, the rest of the first request of the conversation the first message, and what came
    /// afterwards another one.
    Turns,
    /// Everything is one message.
    Whole,
}

impl Trace {
    /// From `mooncake.csv`: a request shares its first `shared` blocks with the earlier request `parent`, all others are new.
    ///
    /// # Errors
    /// A column is missing, or a figure is none.
    pub fn parse(table: &str) -> Result<Trace, String> {
        let table = Columns::parse("mooncake", table)?;
        let mut turns: Vec<Turn> = Vec::new();
        // Requests by their full blocks: which text begins with which.
        let mut begun: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut next = 0;
        for line in table.lines() {
            let (prompt, shared) = (line.number("in_tok")? as u32, line.number("shared")? as usize);
            let parent = line.word("parent")?.parse().ok().and_then(|parent: usize| turns.get(parent));
            let known = parent.map_or(&[][..], |parent| &parent.blocks);
            let count = prompt.div_ceil(BLOCK) as usize;
            let known = known.get(..shared).filter(|known| known.len() <= count);
            let mut blocks = known.ok_or_else(|| line.fault("shares more blocks than there are"))?.to_vec();
            let more = (count - blocks.len()) as u32;
            blocks.extend(next..next + more);
            next += more;
            let earlier = (2..=blocks.len()).find_map(|length| begun.get(&blocks[..length]));
            let first = earlier.copied().unwrap_or(turns.len());
            let full = (prompt / BLOCK) as usize;
            if first == turns.len() && full >= 2 {
                begun.insert(blocks[..full].to_vec(), first);
            }
            let (at, answer) = (line.number("t_ms")? / 1e3, line.number("out_tok")? as u32);
            turns.push(Turn { at, prompt, answer, blocks, first });
        }
        Ok(Trace { turns })
    }

    /// All blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.turns.iter().map(|turn| turn.blocks.len()).sum()
    }

    /// A body whose text is the blocks of a request.
    #[must_use]
    pub fn body(&self, number: usize, form: Form) -> String {
        let (turn, first) = (&self.turns[number], &self.turns[self.turns[number].first]);
        let message = |role: &str, text: String| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
        let messages = match form {
            Form::Whole => message("user", turn.text(0)),
            Form::Turns => {
                let mut all = vec![message("system", turn.head().text(0)), message("user", first.text(1))];
                if turn.first != number {
                    all.push(message("user", turn.text((first.prompt / BLOCK) as usize)));
                }
                all.join(",")
            }
        };
        format!(r#"{{"model":"acme/chat","messages":[{messages}]}}"#)
    }

    /// Four equal endpoints without queues, and the requests of the hour.
    #[must_use]
    pub fn world(&self, objective: Objective, seed: u64) -> World {
        let endpoint = Endpoint {
            median: 0.3,
            sigma: 0.3,
            slope: 5e-5,
            per_token: 0.01,
            price_in: PRICES[0],
            price_out: PRICES[1],
            price_cached: Some(PRICES[2]),
            failure: 0.0,
            knee: WIDE,
            exponent: 1.0,
            wave: None,
        };
        let request = |(id, turn): (usize, &Turn)| Request {
            id,
            at: turn.at,
            prompt: turn.prompt,
            answer: turn.answer.max(1),
            expected_answer: f64::from(turn.answer.max(1)),
            answer_sigma: 0.0,
            max_tokens: 4096,
            streamed: true,
            objective,
        };
        let requests = self.turns.iter().enumerate().map(request).collect();
        let span = Span { half_life: HALF_LIFE, seconds: self.turns.last().map_or(0.0, |turn| turn.at) };
        World { seed, endpoints: vec![endpoint; REPLICAS], events: Vec::new(), requests, span, calls: Vec::new() }
    }
}

impl Turn {
    /// The same with its first block alone.
    fn head(&self) -> Turn {
        Turn { prompt: self.prompt.min(BLOCK), blocks: self.blocks.iter().take(1).copied().collect(), ..self.clone() }
    }

    /// The text from a block on: as many bytes for each token as the gateway takes one to have.
    fn text(&self, from: usize) -> String {
        let mut text = String::with_capacity(self.prompt as usize * TOKEN_BYTES);
        for block in self.blocks.iter().skip(from) {
            text += &format!("{block:07} ").repeat(BLOCK as usize * TOKEN_BYTES / 8);
        }
        text.truncate((self.prompt as usize).saturating_sub(from * BLOCK as usize) * TOKEN_BYTES);
        text
    }
}

/// The blocks that each endpoint has served.
#[derive(Debug, Clone, Default)]
pub struct Caches {
    /// By endpoint: blocks that it holds. A block follows the same blocks wherever it stands.
    held: [HashSet<u32>; REPLICAS],
    /// Requests by endpoint.
    pub requests: [usize; REPLICAS],
    /// Blocks that were found.
    pub found: usize,
}

impl Caches {
    /// Blocks that a request would find at an endpoint.
    #[must_use]
    pub fn holds(&self, endpoint: usize, turn: &Turn) -> usize {
        turn.blocks.iter().take_while(|block| self.held[endpoint].contains(block)).count()
    }

    /// Serves a request there and says how many blocks it found.
    pub fn serve(&mut self, endpoint: usize, turn: &Turn) -> usize {
        let found = self.holds(endpoint, turn);
        self.found += found;
        self.requests[endpoint] += 1;
        self.held[endpoint].extend(&turn.blocks);
        found
    }

    /// Prompt tokens in so many blocks of a request.
    #[must_use]
    pub fn tokens(found: usize, turn: &Turn) -> u32 {
        (found as u32 * BLOCK).min(turn.prompt)
    }
}

/// Any endpoint.
#[must_use]
pub fn random(trace: &Trace, seed: u64) -> Caches {
    let (mut caches, mut dice) = (Caches::default(), Dice::new(seed, 0x4a4d));
    for turn in &trace.turns {
        caches.serve(dice.below(REPLICAS), turn);
    }
    caches
}

/// The endpoint that holds most of the prompt; the one with the fewest requests where that is no more than the block that all
/// requests share.
#[must_use]
pub fn index(trace: &Trace) -> Caches {
    let mut caches = Caches::default();
    for turn in &trace.turns {
        let held = |endpoint: &usize| Some(caches.holds(*endpoint, turn)).filter(|blocks| *blocks > 1);
        let least = |endpoint: &usize| std::cmp::Reverse(caches.requests[*endpoint]);
        let endpoint = (0..REPLICAS).max_by_key(|endpoint| (held(endpoint), least(endpoint))).unwrap_or_default();
        caches.serve(endpoint, turn);
    }
    caches
}

/// Pointsman's own choice, when it reads these beginnings.
#[must_use]
pub fn pointsman(trace: &Trace, openings: &[Opening], objective: Objective, policy: &RoutingPolicy) -> Caches {
    let world = trace.world(objective, 1);
    let mut rule = Conversing::new(&world, policy.clone(), trace, openings);
    _ = engine::run(&world, &mut rule);
    rule.caches
}

/// What the gateway makes of the beginning of each body, and the prompt tokens that it estimates.
///
/// # Errors
/// The gateway would refuse a body.
pub fn openings(trace: &Trace, form: Form) -> Result<Vec<Opening>, String> {
    let limits = RequestLimits::default();
    let opening = |number: usize| {
        let body = Bytes::from(trace.body(number, form));
        let chat = ChatRequest::parse(body, ChatPurpose::Chat, &limits);
        let chat = chat.map_err(|error| format!("the body of request {number} is refused: {error:?}"))?;
        Ok((chat.opening, chat.prompt_tokens))
    };
    (0..trace.turns.len()).map(opening).collect()
}

/// The opening of a body and the estimated tokens of its prompt.
pub type Opening = (Option<SessionOpening>, u32);

/// The table.
///
/// # Errors
/// The gateway would refuse a body.
pub fn sheet(trace: &Trace, policy: &RoutingPolicy) -> Result<Sheet, String> {
    let blocks = trace.blocks();
    let title = format!(
        "Blocks found in the caches of {REPLICAS} equal endpoints: {} requests, {blocks} blocks of {BLOCK} tokens",
        trace.turns.len()
    );
    let header =
        ["choice", "share of blocks found", "requests at the busiest endpoint", "share without exploration", "busiest"];
    let mut sheet = Sheet::new(title, header);
    let cells = |caches: &Caches| {
        let busiest = caches.requests.iter().max().copied().unwrap_or_default() as f64;
        let share = format!("{:.4}", caches.found as f64 / blocks.max(1) as f64);
        [share, format!("{:.1} %", 100.0 * busiest / trace.turns.len().max(1) as f64)]
    };
    let row = |name: &str, cells: Vec<[String; 2]>| std::iter::once(name.to_owned()).chain(cells.into_iter().flatten());
    sheet.row(row("random", vec![cells(&random(trace, 1)), Default::default()]));
    for (form, written) in [(Form::Turns, "turns"), (Form::Whole, "one message")] {
        let openings = openings(trace, form)?;
        for (ttl, remembered) in [(LONG, "2 h"), (policy.sticky.ttl, "5 min")] {
            for objective in [Objective::Cheapest, Objective::Balanced] {
                let found = [policy.exploration, 0.0].map(|exploration| {
                    let sticky = StickyPolicy { ttl, ..policy.sticky };
                    let policy = RoutingPolicy { exploration, sticky, ..policy.clone() };
                    cells(&pointsman(trace, &openings, objective, &policy))
                });
                let name = format!("{}, prompts as {written}, sticky.ttl {remembered}", objective.as_str());
                sheet.row(row(&name, found.into()));
            }
        }
    }
    sheet.row(row("index of all blocks", vec![cells(&index(trace)), Default::default()]));
    Ok(sheet)
}
