//! Any value of what can be stored, for tests. Structs and enums get theirs with their codec: no member is forgotten.

use std::{borrow::Cow, sync::Arc, time::Duration};

use pointsman_domain::{
    AddedMembers, Alias, Candidate, CapabilitySet, Catalog, EndpointHealth, EndpointId, GenerationId, Modalities,
    Modality, ModelId, OutputCostSpread, ParameterNames, ParameterSet, Prediction, Pricing, ProviderSlug, Reopens,
    ScoreInputs, ScoreTerms, ScoreUnit, ServiceName, ServiceTierPrices, Sourced, TaskFeatures, Tick, Usd,
};

use super::{
    candidate::names,
    dice::{Any, Dice},
};

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Any for $number {
            /// Small, large or at an end.
            fn any(dice: &mut Dice) -> $number {
                let (low, high) = (u128::from(dice.roll()), u128::from(dice.roll()));
                let whole = (high << 64 | low) as $number;
                dice.of(&[0, 1, <$number>::MAX, <$number>::MIN, whole, whole, whole % 100, whole % 10_000])
            }
        }
    )*};
}

number!(u16, u32, u64, u128, i64, i128);

impl Any for bool {
    fn any(dice: &mut Dice) -> bool {
        dice.of(&[false, true])
    }
}

impl Any for f64 {
    fn any(dice: &mut Dice) -> f64 {
        let bits = f64::from_bits(dice.roll());
        dice.of(&[0.0, -0.0, 1.0, 0.5, f64::INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE, bits, bits, bits])
    }
}

impl Any for String {
    fn any(dice: &mut Dice) -> String {
        let length = dice.of(&[0, 1, 3, 8, 200]);
        (0..length).map(|_| dice.of(&['a', 'z', '/', '"', '\\', '\0', 'ß', '\u{1f600}'])).collect()
    }
}

macro_rules! text {
    ($($text:ty),*) => {$(
        impl Any for $text {
            fn any(dice: &mut Dice) -> $text {
                String::any(dice).into()
            }
        }
    )*};
}

text!(Box<str>, Arc<str>, Cow<'static, str>);

impl<T: Any> Any for Option<T> {
    fn any(dice: &mut Dice) -> Option<T> {
        bool::any(dice).then(|| T::any(dice))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(dice: &mut Dice) -> Vec<T> {
        (0..dice.of(&[0, 1, 3])).map(|_| T::any(dice)).collect()
    }
}

impl<T: Any> Any for Arc<T> {
    fn any(dice: &mut Dice) -> Arc<T> {
        Arc::new(T::any(dice))
    }
}

impl<A: Any, B: Any> Any for (A, B) {
    fn any(dice: &mut Dice) -> (A, B) {
        (A::any(dice), B::any(dice))
    }
}

impl<T: Any, const N: usize> Any for [T; N] {
    fn any(dice: &mut Dice) -> [T; N] {
        std::array::from_fn(|_| T::any(dice))
    }
}

impl Any for Duration {
    fn any(dice: &mut Dice) -> Duration {
        Duration::new(u64::any(dice), (dice.roll() % 1_000_000_000) as u32)
    }
}

impl Any for chrono::NaiveDate {
    fn any(dice: &mut Dice) -> chrono::NaiveDate {
        let day = chrono::NaiveDate::from_epoch_days((dice.roll() % 90_000) as i32).unwrap();
        dice.of(&[day, day, chrono::NaiveDate::MIN, chrono::NaiveDate::MAX])
    }
}

impl<T: Any> Any for Sourced<T> {
    fn any(dice: &mut Dice) -> Sourced<T> {
        Sourced { value: T::any(dice), source: Any::any(dice) }
    }
}

impl Any for ServiceName {
    fn any(dice: &mut Dice) -> ServiceName {
        ServiceName::parse(dice.of(&["flex", "priority", "us", "a-name.as_long_as_can"])).unwrap()
    }
}

/// Its prices name no services in turn.
impl Any for ServiceTierPrices {
    fn any(dice: &mut Dice) -> ServiceTierPrices {
        let (prompt, completion, tiers) = (Any::any(dice), Any::any(dice), Any::any(dice));
        ServiceTierPrices { name: Any::any(dice), pricing: Pricing { prompt, completion, tiers, ..Pricing::default() } }
    }
}

impl Any for Usd {
    fn any(dice: &mut Dice) -> Usd {
        Usd::from_femto(i128::any(dice))
    }
}

impl Any for Tick {
    fn any(dice: &mut Dice) -> Tick {
        Tick(u64::any(dice))
    }
}

impl Any for Reopens {
    fn any(dice: &mut Dice) -> Reopens {
        Reopens::of_recorded(u64::any(dice))
    }
}

impl Any for EndpointId {
    fn any(dice: &mut Dice) -> EndpointId {
        EndpointId(dice.roll())
    }
}

impl Any for GenerationId {
    fn any(dice: &mut Dice) -> GenerationId {
        GenerationId::new(u64::any(dice), [dice.roll(), dice.roll(), dice.roll()])
    }
}

impl Any for ModelId {
    fn any(dice: &mut Dice) -> ModelId {
        format!("m{}/x", dice.roll()).parse().unwrap()
    }
}

impl Any for ProviderSlug {
    fn any(dice: &mut Dice) -> ProviderSlug {
        ProviderSlug::new(&format!("p-{}", dice.roll())).unwrap()
    }
}

impl Any for ParameterSet {
    fn any(dice: &mut Dice) -> ParameterSet {
        ParameterSet::of_bits(u128::any(dice))
    }
}

impl Any for CapabilitySet {
    fn any(dice: &mut Dice) -> CapabilitySet {
        CapabilitySet::of_bits(dice.roll() as u32)
    }
}

impl Any for AddedMembers {
    fn any(dice: &mut Dice) -> AddedMembers {
        AddedMembers::of_bits(dice.roll() as u8)
    }
}

impl Any for ParameterNames {
    fn any(dice: &mut Dice) -> ParameterNames {
        let mut names = dice.of(&[ParameterNames::default, ParameterNames::published])();
        (0..dice.of(&[0, 1, 100])).for_each(|_| _ = names.intern(&dice.roll().to_string()).unwrap());
        names
    }
}

impl Any for TaskFeatures {
    fn any(dice: &mut Dice) -> TaskFeatures {
        TaskFeatures(Any::any(dice))
    }
}

impl Any for Modalities {
    fn any(dice: &mut Dice) -> Modalities {
        Vec::<Modality>::any(dice).into_iter().collect()
    }
}

impl Any for Catalog {
    fn any(dice: &mut Dice) -> Catalog {
        loop {
            let aliases = Vec::<Alias>::any(dice);
            let synonyms: Vec<_> =
                aliases.iter().map(|alias| (format!("of {}", dice.roll()), alias.id.clone())).collect();
            let (providers, models, endpoints) = (Vec::any(dice), Vec::any(dice), Vec::any(dice));
            let (version, names) = (u64::any(dice), ParameterNames::any(dice));
            // Two empty names are one name.
            if let Ok(catalog) = Catalog::new(version, providers, models, endpoints, aliases, &synonyms, names) {
                return catalog;
            }
        }
    }
}

impl Any for ScoreInputs {
    fn any(dice: &mut Dice) -> ScoreInputs {
        ScoreInputs {
            intercept: Any::any(dice),
            load_exponent: Any::any(dice),
            knee: Any::any(dice),
            variance: Any::any(dice),
            prompt_slope: Any::any(dice),
            prompt_tokens: Any::any(dice),
            cached_tokens: Any::any(dice),
            weight: Any::any(dice),
            per_token: Any::any(dice),
            pace_variance: Any::any(dice),
            pace_weight: Any::any(dice),
            shown: Any::any(dice),
            failures: Any::any(dice),
            successes: Any::any(dice),
            usual_failure: Any::any(dice),
            age: Any::any(dice),
            in_flight: Any::any(dice),
            output_tokens: Any::any(dice),
            output_variance: Any::any(dice),
            cost: Any::any(dice),
            floor: Any::any(dice),
            expected: Any::any(dice),
            spread: Any::any(dice),
            tier: Any::any(dice),
            reopens: Any::any(dice),
        }
    }
}

impl Any for Candidate {
    fn any(dice: &mut Dice) -> Candidate {
        let unit = ScoreUnit::any(dice);
        let names = names(unit);
        let mut terms = <[f64; 4]>::any(dice);
        terms.iter_mut().skip(names.len()).for_each(|unused| *unused = 0.0);
        Candidate {
            index: dice.of(&[0, 1, 2, u32::MAX]),
            endpoint: Any::any(dice),
            place: Any::any(dice),
            target: Any::any(dice),
            group: Any::any(dice),
            provider: Any::any(dice),
            score: Any::any(dice),
            unit,
            terms: ScoreTerms::new(names, terms),
            selection_probability: Any::any(dice),
            predicted: Prediction {
                first_token_p50: Any::any(dice),
                first_token_p95: Any::any(dice),
                tokens_per_second: Any::any(dice),
                total_p50: Any::any(dice),
                total_p95: Any::any(dice),
                cost: Any::any(dice),
                failure: Any::any(dice),
                measured: Any::any(dice),
            },
            health: EndpointHealth {
                circuit: Any::any(dice),
                success_rate: Any::any(dice),
                samples: Any::any(dice),
                in_flight: Any::any(dice),
            },
            output: OutputCostSpread {
                usd_per_token: Any::any(dice),
                most: Any::any(dice),
                prompt_usd: Any::any(dice),
                prompt_variance: Any::any(dice),
            },
            saving: Any::any(dice),
            inputs: Any::any(dice),
            probe: Any::any(dice),
            panic: Any::any(dice),
        }
    }
}
