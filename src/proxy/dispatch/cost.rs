//! The money of one request: its reservation, and its ceiling `max_cost`.
//!
//! Before the first attempt the worst-case cost at the dearest endpoint of the plan is reserved with the key, its account and
//! its team. A further attempt is started only if what earlier attempts cost, or may cost, and its own worst case fit: else
//! more is reserved, or it is not started. The end settles with the actual cost.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use pointsman_actors::router::Routed;
use pointsman_domain::{Catalog, Endpoint, Usd};

use super::attempt::RequestSize;
use crate::{
    access::{admission::Admitted, budget::Reservation, cascade_budgets::CascadeReservation},
    base::error::{ApiError, BudgetHolder},
    state::gateway::Worker,
};

/// The money of one request. Clones share it.
#[derive(Clone)]
pub struct RequestBudget(Rc<RefCell<BudgetState>>);

struct BudgetState {
    /// `None` once the request has ended.
    reservation: Option<Reservation>,
    /// Of the hourly budget of a cascade, with what was spent before; only while a second answer is asked for.
    cascade: Option<(Usd, CascadeReservation)>,
    /// Whether a limit applies; without one, endpoints of unknown price may serve.
    is_limited: bool,
    ceiling: Option<Usd>,
    /// Cost of ended attempts.
    spent: Usd,
    /// Worst-case cost of each running attempt, by its number.
    running: Vec<(u32, Usd)>,
    size: RequestSize,
    assumed_output_tokens: Option<u32>,
}

/// Checks a routed request against the limits that depend on its plan, and reserves its tokens and money. The one way by which
/// requests that cost money are admitted. A call that is told when to come again gives back the request that it took.
///
/// # Errors
/// 402 when a spending limit or the ceiling of the request leaves no room, 429 for the limits of tokens and of the free pool,
/// 503 while it is not known what was spent.
pub async fn admit(
    worker: &Worker,
    routed: &Routed,
    size: RequestSize,
    admitted: &mut Admitted,
) -> Result<RequestBudget, ApiError> {
    let budget = reserve(worker, routed, size, admitted).await;
    if budget.as_ref().is_err_and(ApiError::is_capacity_error) {
        admitted.give_back();
    }
    budget
}

async fn reserve(
    worker: &Worker,
    routed: &Routed,
    size: RequestSize,
    admitted: &mut Admitted,
) -> Result<RequestBudget, ApiError> {
    let budgets = admitted.caller().budgets();
    if budgets.are_limited() && !worker.shared.access.registry.holders.is_spending_known() {
        return Err(ApiError::spending_unknown());
    }
    let ceiling = routed.decision.parameters.max_cost.map(|ceiling| ceiling.value);
    let mut state = BudgetState {
        reservation: None,
        cascade: None,
        is_limited: budgets.are_limited() || ceiling.is_some(),
        ceiling,
        spent: Usd::ZERO,
        running: Vec::new(),
        size,
        assumed_output_tokens: worker.setup.config.limits.assumed_output_tokens,
    };
    let amount = if state.is_limited { state.dearest(routed, || budgets.limited_holder())? } else { Usd::ZERO };
    let reserved = match worker.shared.access.registry.holders.leasing() {
        Some(leasing) => leasing.reserve(&budgets, amount).await,
        None => budgets.reserve(amount),
    };
    let reservation = reserved?;
    let output = u64::from(routed.decision.completion_tokens) * u64::from(size.answers.max(1));
    admitted.take_for_plan(u64::from(size.prompt_tokens) + output, asks_free_pool(routed))?;
    state.reservation = Some(reservation);
    Ok(RequestBudget(Rc::new(RefCell::new(state))))
}

/// Whether the first alias that may serve is one of free models only, also as a part of a divided one.
fn asks_free_pool(routed: &Routed) -> bool {
    routed.catalog.aliases_among(&routed.decision.request.targets).next().is_some_and(|alias| alias.free_only)
}

impl RequestBudget {
    /// Admits attempt `n` at an endpoint, if its worst-case cost fits beside what earlier attempts cost.
    pub fn begin(&self, n: u32, catalog: &Catalog, endpoint: u32) -> bool {
        let mut state = self.0.borrow_mut();
        if !state.is_limited {
            return true;
        }
        let Some(endpoint) = catalog.endpoint(endpoint) else { return false };
        let Some(worst) = state.worst_case(catalog, endpoint) else { return false };
        let needed = state.taken() + worst;
        let Some(reservation) = &mut state.reservation else { return false };
        let more = needed - reservation.amount();
        if more > Usd::ZERO && reservation.extend(more).is_err() {
            return false;
        }
        state.running.push((n, worst));
        true
    }

    /// Ends attempt `n` with its cost.
    pub fn ended(&self, n: u32, cost: Usd) {
        let mut state = self.0.borrow_mut();
        state.running.retain(|(running, _)| *running != n);
        state.spent += cost;
    }

    /// Most output tokens of each answer of attempt `n` at an endpoint, so that the request stays below its ceiling. `None`
    /// without a ceiling, where output costs nothing, and where no answer can be so long, whatever the prompt counts. Never
    /// more than the estimate of the prompt leaves of the context: providers refuse such limits.
    pub fn output_cap(&self, n: u32, endpoint: &Endpoint) -> Option<u32> {
        let state = self.0.borrow();
        let others = state.running.iter().filter(|(running, _)| *running != n).map(|(_, worst)| *worst);
        let room = endpoint.limits.context_length.saturating_sub(state.size.prompt_tokens);
        let longest = endpoint.limits.longest_answer().min(endpoint.limits.context_length);
        let cap = state.cap(endpoint, state.spent + others.sum()).filter(|cap| *cap < longest)?;
        Some(cap.min(room.max(1)))
    }

    /// Name of the team that pays too, if there is one.
    pub fn team(&self) -> Option<Arc<str>> {
        self.0.borrow().reservation.as_ref().and_then(Reservation::team).cloned()
    }

    /// Number of answers of the request.
    pub fn answers(&self) -> u32 {
        self.0.borrow().size.answers
    }

    /// Highest cost of attempt `n`, if the request has a ceiling.
    pub fn ceiling_of(&self, n: u32) -> Option<Usd> {
        let state = self.0.borrow();
        let others = state.running.iter().filter(|(running, _)| *running != n).map(|(_, worst)| *worst);
        Some(state.ceiling? - state.spent - others.sum())
    }

    /// What a further attempt at an endpoint may cost. `None` where that is unknown, or where it does not fit below the ceiling.
    pub fn worst_case(&self, catalog: &Catalog, endpoint: u32) -> Option<Usd> {
        self.0.borrow().worst_case(catalog, catalog.endpoint(endpoint)?)
    }

    /// What is spent from now on is paid from the hourly budget of a cascade, too.
    pub fn pay_from(&self, reservation: CascadeReservation) {
        let mut state = self.0.borrow_mut();
        state.cascade = Some((state.spent, reservation));
    }

    /// What was reserved of that budget returns to it.
    pub fn pay_alone(&self) {
        self.0.borrow_mut().cascade = None;
    }

    /// Settles the request with its actual cost, at the time when it began in Unix milliseconds.
    pub fn settle(&self, cost: Usd, at_ms: i64) {
        let mut state = self.0.borrow_mut();
        if let Some((before, reservation)) = state.cascade.take() {
            reservation.settle(state.spent - before);
        }
        if let Some(reservation) = state.reservation.take() {
            reservation.settle(cost, at_ms);
        }
    }
}

impl BudgetState {
    /// What ended attempts cost, and running ones may cost.
    fn taken(&self) -> Usd {
        self.spent + self.running.iter().map(|(_, worst)| *worst).sum()
    }

    /// Worst-case cost at the dearest endpoint of the plan that may serve; `limited` gives whose limit asks for it.
    fn dearest(&self, routed: &Routed, limited: impl FnOnce() -> Option<BudgetHolder>) -> Result<Usd, ApiError> {
        let catalog = &*routed.catalog;
        let endpoints = || routed.decision.plan().filter_map(|candidate| catalog.endpoint(candidate.index));
        if let Some(dearest) = endpoints().filter_map(|endpoint| self.worst_case(catalog, endpoint)).max() {
            return Ok(dearest);
        }
        let least = endpoints().filter_map(|endpoint| self.cost(endpoint, 1)).min();
        match (self.ceiling, least) {
            (Some(ceiling), Some(least)) => Err(ApiError::above_max_cost(ceiling, least)),
            _ => Err(ApiError::unknown_price_under_limit(limited())),
        }
    }

    /// Worst-case cost of an attempt at an endpoint, at most what the ceiling leaves. `None` where the price is unknown, and
    /// where the attempt could pass the ceiling.
    fn worst_case(&self, catalog: &Catalog, endpoint: &Endpoint) -> Option<Usd> {
        let longest = self.longest_answer(catalog, endpoint);
        let Some(ceiling) = self.ceiling else { return self.cost(endpoint, longest) };
        let whole = self.cost(endpoint, longest)?;
        let left = ceiling - self.taken();
        if whole <= left {
            return Some(whole);
        }
        let cap = self.cap(endpoint, self.taken()).filter(|_| caps_output(catalog, endpoint))?;
        let capped = self.cost(endpoint, cap.min(longest))?;
        (cap > 0 && capped <= left).then_some(capped)
    }

    fn cost(&self, endpoint: &Endpoint, output_tokens: u32) -> Option<Usd> {
        let RequestSize { prompt_tokens, images, answers, service, .. } = self.size;
        let output = u64::from(output_tokens) * u64::from(answers.max(1));
        let pricing = endpoint.pricing.as_deref()?;
        let service = service.sent_to(Some(pricing));
        Some(pricing.worst_case(&service, u64::from(prompt_tokens), output, u64::from(images)))
    }

    fn longest_answer(&self, catalog: &Catalog, endpoint: &Endpoint) -> u32 {
        let longest = endpoint.limits.longest_answer().min(endpoint.limits.context_length);
        match (self.size.max_tokens.filter(|_| caps_output(catalog, endpoint)), self.assumed_output_tokens) {
            (Some(max_tokens), _) => max_tokens.min(longest),
            (None, Some(assumed)) if self.size.max_tokens.is_none() => assumed.min(longest),
            (None, _) => longest,
        }
    }

    fn cap(&self, endpoint: &Endpoint, taken: Usd) -> Option<u32> {
        let pricing = endpoint.pricing.as_deref()?;
        let left = (self.ceiling? - taken) - self.cost(endpoint, 0)?;
        let service = self.size.service.sent_to(Some(pricing));
        let dearest = pricing.dearest_output(&service, u64::from(self.size.prompt_tokens));
        let per_token = dearest * u64::from(self.size.answers.max(1));
        if per_token.is_zero() {
            return None;
        }
        let tokens = left.max(Usd::ZERO).femto() / per_token.femto().max(1);
        Some(u32::try_from(tokens).unwrap_or(u32::MAX))
    }
}

/// Whether the endpoint takes a limit of output tokens.
fn caps_output(catalog: &Catalog, endpoint: &Endpoint) -> bool {
    catalog.parameters.gate("max_tokens").is_none_or(|gate| endpoint.parameters.covers(gate))
}
