//! Limits of a comparison, such as `spend > +5%`: what a change may cost.

use pointsman_routing::explain::diff::{Estimate, Metric};

/// A figure that may not grow by more than this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    /// As it was written.
    pub text: String,
    metric: Metric,
    /// A share, or of failures a difference of shares.
    most: f64,
}

pointsman_domain::named! {
    /// What became of a limit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Verdict {
        Kept = "kept",
        Broken = "broken",
        /// There is no such figure.
        Unknown = "unknown",
    }
}

const FORMS: &str = "write a figure, '>' and a change: 'spend > +5%', 'first_token_p50 > +10%', 'first_token_p95 > +10%', \
     'total_p50 > +10%' or 'failures > +0.2pp'";

impl Limit {
    /// Reads a limit.
    ///
    /// # Errors
    /// A sentence that says what limits there are.
    pub(crate) fn parse(text: &str) -> Result<Limit, String> {
        let wrong = || format!("'{text}' is no limit; {FORMS}");
        let (name, change) = text.split_once('>').ok_or_else(wrong)?;
        let name = name.trim();
        let metric = Metric::ALL.into_iter().find(|metric| metric.as_str() == name).ok_or_else(wrong)?;
        let unit = if metric.is_absolute() { "pp" } else { "%" };
        let number = change.trim().strip_suffix(unit).ok_or_else(wrong)?.trim();
        let most: f64 = number.trim_start_matches('+').parse().map_err(|_| wrong())?;
        let most = Some(most / 100.0).filter(|most| most.is_finite()).ok_or_else(wrong)?;
        Ok(Limit { text: text.to_owned(), metric, most })
    }

    /// Whether it is about the calls that are served, which are others once calls find no endpoint.
    pub(crate) fn is_of_served(&self) -> bool {
        self.metric != Metric::Failures
    }

    /// Whether the figure keeps it: by the near end of its interval, so that only a sure excess breaks it; with `strict` by the far
    /// end, so that only a sure keeping keeps it. `bounds` are those of uncertain choices.
    pub(crate) fn verdict(&self, estimates: &[Estimate], bounds: Option<[f64; 2]>, strict: bool) -> Verdict {
        let Some(estimate) = estimates.iter().find(|estimate| estimate.metric == self.metric) else {
            return Verdict::Unknown;
        };
        let is_exact = estimate.before.to_bits() == estimate.after.to_bits();
        let end = match (estimate.interval, strict) {
            (Some([near, _]), false) => near,
            (Some([_, far]), true) => far,
            (None, false) => estimate.delta,
            (None, true) if is_exact => 0.0,
            (None, true) => return Verdict::Broken,
        };
        let end = match (bounds, strict, self.metric) {
            (Some([_, most]), true, Metric::Spend) => end.max(most),
            (Some([least, _]), false, Metric::Spend) => end.min(least),
            _ => end,
        };
        if end > self.most { Verdict::Broken } else { Verdict::Kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(delta: f64, interval: Option<[f64; 2]>) -> Estimate {
        Estimate { metric: Metric::Spend, before: 1.0, after: 1.0 + delta, delta, interval }
    }

    #[test]
    fn the_near_end_of_the_interval_breaks_a_limit_and_with_strict_the_far_end() {
        let limit = Limit::parse("spend > +5%").unwrap();
        for (estimate, default, strict) in [
            (spend(0.04, Some([0.03, 0.045])), Verdict::Kept, Verdict::Kept),
            (spend(0.06, Some([0.04, 0.08])), Verdict::Kept, Verdict::Broken),
            (spend(0.08, Some([0.06, 0.1])), Verdict::Broken, Verdict::Broken),
            (spend(0.04, None), Verdict::Kept, Verdict::Broken),
            (spend(0.0, None), Verdict::Kept, Verdict::Kept),
        ] {
            let verdict = |strict| limit.verdict(&[estimate], None, strict);
            assert_eq!((verdict(false), verdict(true)), (default, strict), "{estimate:?}");
        }
        assert_eq!(limit.verdict(&[], None, false), Verdict::Unknown);
    }

    #[test]
    fn uncertain_choices_widen_what_is_known_of_spending() {
        let limit = Limit::parse("spend > +5%").unwrap();
        let estimates = [spend(0.06, Some([0.055, 0.065]))];
        assert_eq!(limit.verdict(&estimates, Some([-0.1, 0.3]), false), Verdict::Kept);
        assert_eq!(limit.verdict(&estimates, Some([-0.1, 0.3]), true), Verdict::Broken);
    }

    #[test]
    fn what_is_no_limit_is_refused_with_those_there_are() {
        for text in
            ["", "spend", "spend > 5", "spend > +5pp", "failures > 1%", "joy > +5%", "spend > +x%", "spend < 5%"]
        {
            assert!(Limit::parse(text).unwrap_err().contains("failures > +0.2pp"), "{text}");
        }
        assert_eq!(Limit::parse("failures>0.2pp").unwrap().most, 0.002);
        assert_eq!(Limit::parse("spend > -10%").unwrap().most, -0.1);
    }
}
