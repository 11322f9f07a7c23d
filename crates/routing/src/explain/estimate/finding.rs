//! Rules that refuse a figure, or warn of it. Each sentence names what is wrong, the number, and what to do.

use std::fmt;

use super::{diagnostics::Diagnostics, traffic_shift::TrafficShift};

/// Unsupported share from which on a figure is refused, and warned of.
const UNSUPPORTED: [f64; 2] = [0.05, 0.01];
/// Fewest effective requests.
const EFFECTIVE: [f64; 2] = [200.0, 1_000.0];
/// Standard errors by which the mean weight may be off; it is refused only if it is off by 2 %, too.
const WEIGHT_ERRORS: [f64; 2] = [3.0, 2.0];
const WEIGHT_OFF: f64 = 0.02;
/// Share of requests without an outcome.
const MISSING: f64 = 0.02;
/// Difference of that share between endpoints.
const UNEVEN: f64 = 0.01;
/// Factor between the shares of rated answers of endpoints from which on who rates is not left to chance.
const RATED_UNEVENLY: f64 = 1.5;
/// Factors by which the traffic of an endpoint may grow.
const SHIFTS: [f64; 2] = [3.0, 2.0];
/// Agreement from which on the difference rests on few requests.
const ALIKE: f64 = 0.99;
/// Share of the weight carried by one request in a hundred.
const TOP_HEAVY: f64 = 0.25;

/// What a rule found.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Nothing was left to chance.
    NoChance,
    /// So much of the other policy was hardly ever tried.
    Unsupported(f64),
    /// The choices that agree are worth so few requests.
    FewEffective(f64),
    /// Failures among these choices are worth so many.
    FewFailures(f64),
    /// The mean weight is off: its value, what it should be, and the distance in standard errors.
    Weights(f64, f64, f64),
    /// So many requests have no outcome.
    Missing(f64),
    /// Requests without an outcome are spread unevenly: least and highest share of an endpoint.
    MissingUnevenly(f64, f64),
    /// So many answers were rated.
    Rated(f64),
    /// Answers are rated unequally often: least and highest share of an endpoint.
    RatedUnevenly(f64, f64),
    /// An endpoint would get so many times its traffic; whether that is beyond its limits.
    Shifted {
        /// Name of the endpoint.
        endpoint: String,
        /// Factor.
        factor: f64,
        /// Requests in flight before, after, and where it slows down.
        in_flight: [f64; 3],
    },
    /// Both policies agree on nearly everything.
    Alike(f64),
    /// One request in a hundred carries so much of the weight.
    TopHeavy(f64),
    /// Part of the requests has too little support, though the whole has enough: what, and its effective number.
    ThinSlice(String, f64),
}

/// Rules about the sample as a whole.
pub(in crate::explain) fn about_sample(diagnostics: &Diagnostics, has_chance: bool) -> [Vec<Finding>; 2] {
    let (mut refusals, mut warnings) = (Vec::new(), Vec::new());
    let mut note =
        |finding: Finding, refuses: bool| if refuses { refusals.push(finding) } else { warnings.push(finding) };
    let Diagnostics { unsupported, effective, mean_weight, .. } = *diagnostics;
    if unsupported > UNSUPPORTED[1] {
        let is_refused = unsupported > UNSUPPORTED[0];
        let finding = if is_refused && !has_chance { Finding::NoChance } else { Finding::Unsupported(unsupported) };
        note(finding, is_refused);
    }
    if effective < EFFECTIVE[1] {
        note(Finding::FewEffective(effective), effective < EFFECTIVE[0]);
    }
    let (errors, off) = diagnostics.weight_error();
    if errors > WEIGHT_ERRORS[1] {
        let finding = Finding::Weights(mean_weight.value, 1.0 - unsupported, errors);
        note(finding, errors > WEIGHT_ERRORS[0] && off > WEIGHT_OFF);
    }
    if diagnostics.agreement() > ALIKE && diagnostics.agreement() < 1.0 && has_chance {
        note(Finding::Alike(diagnostics.agreement()), false);
    }
    if diagnostics.top_share > TOP_HEAVY {
        note(Finding::TopHeavy(diagnostics.top_share), false);
    }
    [refusals, warnings]
}

/// Rules about outcomes that are missing: their share over all, and the least and the highest one of an endpoint if these
/// surely differ.
pub(in crate::explain) fn about_missing(missing: f64, uneven: Option<[f64; 2]>) -> [Vec<Finding>; 2] {
    let (mut refusals, mut warnings) = (Vec::new(), Vec::new());
    if let Some([least, most]) = uneven.filter(|[least, most]| most - least > UNEVEN) {
        refusals.push(Finding::MissingUnevenly(least, most));
    }
    match missing {
        missing if missing > MISSING => refusals.push(Finding::Missing(missing)),
        missing if missing > 0.0 => warnings.push(Finding::Missing(missing)),
        _ => {}
    }
    [refusals, warnings]
}

/// Rules about answers that nobody rated: their share over all, and the least and the highest one of an endpoint if these surely
/// differ.
pub(super) fn about_unrated(unrated: f64, uneven: Option<[f64; 2]>) -> [Vec<Finding>; 2] {
    let rated = uneven.map(|[least, most]| [1.0 - most, 1.0 - least]);
    let uneven = rated.filter(|[least, most]| *most > RATED_UNEVENLY * least);
    let refusals = uneven.map(|[least, most]| Finding::RatedUnevenly(least, most)).into_iter().collect();
    [refusals, vec![Finding::Rated(1.0 - unrated)]]
}

/// Rules about traffic that moves: they hold for figures that depend on load.
pub(in crate::explain) fn about_shifts(shifts: &[TrafficShift]) -> [Vec<Finding>; 2] {
    let (mut refusals, mut warnings) = (Vec::new(), Vec::new());
    for shift in shifts.iter().filter(|shift| shift.factor > SHIFTS[1]) {
        let finding = Finding::Shifted {
            endpoint: shift.name.clone(),
            factor: shift.factor,
            in_flight: [shift.in_flight, shift.would_be, shift.knee],
        };
        if shift.factor > SHIFTS[0] && shift.is_beyond_limits() {
            refusals.push(finding)
        } else {
            warnings.push(finding)
        }
    }
    [refusals, warnings]
}

/// Whether part of a sample has too little support.
pub(super) fn is_thin(diagnostics: &Diagnostics) -> bool {
    diagnostics.effective < EFFECTIVE[0] || diagnostics.unsupported > UNSUPPORTED[0]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::NoChance => f.write_str(
                "no choice was left to chance, so nothing was learned about any other: only 'pointsman diff' can answer. \
                 Set routing.exploration above 0, or routing.explore.share to 0.01, and wait",
            ),
            Finding::Unsupported(share) => write!(
                f,
                "{} of what the other configuration would choose was hardly ever chosen (with a probability below 0.1 %) or is not \
                 in the record: set routing.explore.share for these aliases, or try it as a canary",
                percent(*share)
            ),
            Finding::FewEffective(effective) => write!(
                f,
                "the choices that agree are worth {effective:.0} requests of the other configuration (200 are needed, 1,000 are \
                 good): take a longer --since, or raise routing.explore.share"
            ),
            Finding::FewFailures(effective) => write!(
                f,
                "the failures among the choices that agree are worth {effective:.1} (10 are needed): take a longer --since"
            ),
            Finding::Weights(mean, wanted, errors) => write!(
                f,
                "the mean weight is {mean:.3} instead of {wanted:.3}, {errors:.1} standard errors off: the recorded probabilities \
                 are not those of the choices, or hardly any of the choices that differ was made. Take a --since after the last \
                 change, or a longer one"
            ),
            Finding::Missing(share) => write!(
                f,
                "{} of the requests have no such outcome: leave them out with --where, or set the missing prices",
                percent(*share)
            ),
            Finding::MissingUnevenly(least, most) => write!(
                f,
                "requests without this outcome are spread unevenly over endpoints ({} to {}): leave an alias out with --where, or \
                 set the missing prices",
                percent(*least),
                percent(*most)
            ),
            Finding::Rated(share) => write!(
                f,
                "{} of the answers are rated, and the figure is one of these: it says little about the others if good and bad answers \
                 are not rated alike often",
                percent(*share)
            ),
            Finding::RatedUnevenly(least, most) => write!(
                f,
                "answers of some endpoints are rated more often than those of others ({} to {}), so who rates is not left to chance: \
                 have the same share of all answers rated, or leave an alias out with --where",
                percent(*least),
                percent(*most)
            ),
            Finding::Shifted { endpoint, factor, in_flight: [before, after, knee] } => {
                write!(f, "{endpoint} would carry ")?;
                if factor.is_finite() {
                    write!(f, "{factor:.1} times its traffic, ")?;
                } else {
                    f.write_str("traffic that it never had, ")?;
                }
                if after.is_finite() {
                    write!(f, "about {after:.1}")?;
                } else {
                    f.write_str("an unknown number of")?;
                }
                write!(
                    f,
                    " requests in flight instead of {before:.1}, and slows down from {knee:.1} on: run it as a canary before you \
                     believe times and failures"
                )
            }
            Finding::Alike(agreement) => write!(
                f,
                "the other configuration could make {} of the choices as they were made: the difference rests on the others",
                percent(*agreement)
            ),
            Finding::TopHeavy(share) => write!(
                f,
                "one request in a hundred carries {} of the weight: compare with the figure with limited weights",
                percent(*share)
            ),
            Finding::ThinSlice(what, effective) => write!(
                f,
                "{what} has too little support of its own (effective {effective:.0} requests): the figure of the whole says little \
                 about it"
            ),
        }
    }
}
