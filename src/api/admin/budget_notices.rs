//! Spending limits that are used up, or nearly: notices of the verdict.

use pointsman_base::clock;
use pointsman_domain::{ResetPeriod, SpendLimit, Usd};

use super::accounts;
use crate::{access::budget::BudgetReading, state::gateway::GatewayView};

/// The part of a limit, one in so many, below which it counts as spent: hardly any call fits into what is left.
pub(crate) const SPENT: u64 = 200;
/// The part of a limit, one in so many, down to which it is not near.
pub(crate) const NEAR: u64 = 10;

/// A limit of which little is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShortBudget {
    /// The holder of the budget, such as `team product`.
    pub(crate) holder: String,
    pub(crate) limit: Usd,
    pub(crate) reset: Option<ResetPeriod>,
    /// Whether calls are refused because of it.
    pub(crate) is_spent: bool,
}

/// `$1 a day`
pub(crate) fn limit_text(limit: SpendLimit) -> String {
    let period = match limit.reset {
        Some(ResetPeriod::Daily) => "a day",
        Some(ResetPeriod::Weekly) => "a week",
        Some(ResetPeriod::Monthly) => "a month",
        None => "in all",
    };
    format!("${} {period}", limit.amount)
}

impl ShortBudget {
    /// The limit, if little is left of it.
    fn if_short(holder: impl FnOnce() -> String, reading: &BudgetReading) -> Option<ShortBudget> {
        let (limit, left) = reading.limit.zip(reading.available)?;
        // A limit of nothing is spent from the start, and meant so.
        if limit.amount.is_zero() || left * NEAR > limit.amount {
            return None;
        }
        let is_spent = left * SPENT < limit.amount;
        Some(ShortBudget { holder: holder(), limit: limit.amount, reset: limit.reset, is_spent })
    }

    /// `team product ($1 a day)`
    pub(crate) fn text(&self) -> String {
        format!("{} ({})", self.holder, limit_text(SpendLimit { amount: self.limit, reset: self.reset }))
    }

    /// The notices of all budgets: teams first, then accounts, then keys.
    pub(crate) fn all(worker: &GatewayView) -> Vec<ShortBudget> {
        let (registry, now_ms) = (&worker.shared.access.registry, clock::unix_millis());
        let mut short: Vec<ShortBudget> = accounts::team_names(worker)
            .into_iter()
            .filter_map(|name| {
                ShortBudget::if_short(|| format!("team {name}"), &registry.holders.team(&name).budget.read(now_ms))
            })
            .collect();
        short.extend(registry.account_names().into_iter().filter_map(|(number, name)| {
            ShortBudget::if_short(|| format!("account {name}"), &registry.holders.account(number).budget.read(now_ms))
        }));
        let callers = worker.setup.keys.callers();
        short.extend(callers.iter().filter_map(|caller| {
            ShortBudget::if_short(|| format!("key {}", caller.key.name), &caller.state.budget.read(now_ms))
        }));
        short
    }
}

#[cfg(test)]
mod tests {
    use pointsman_domain::Spent;

    use super::*;

    fn short(left: &str) -> Option<ShortBudget> {
        let limit = SpendLimit { amount: "1".parse().unwrap(), reset: Some(ResetPeriod::Daily) };
        let available = Some(left.parse().unwrap());
        let reading = BudgetReading { limit: Some(limit), available, spent: Spent::default(), reserved: Usd::ZERO };
        ShortBudget::if_short(|| "team product".to_owned(), &reading)
    }

    #[test]
    fn a_limit_is_near_at_90_percent_and_spent_when_hardly_a_call_fits() {
        assert_eq!(short("0.11"), None);
        let shown = |left: &str| short(left).map(|it| (it.text(), it.is_spent)).unwrap();
        assert_eq!(shown("0.1"), ("team product ($1 a day)".to_owned(), false));
        assert_eq!(shown("0.0000378"), ("team product ($1 a day)".to_owned(), true));
        assert_eq!(shown("0"), ("team product ($1 a day)".to_owned(), true));
    }
}
