//! Dates in records: days since 1970.

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub fn serialize<S: Serializer>(date: &NaiveDate, serializer: S) -> Result<S::Ok, S::Error> {
    date.to_epoch_days().serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NaiveDate, D::Error> {
    NaiveDate::from_epoch_days(i32::deserialize(deserializer)?).ok_or(D::Error::custom("no date"))
}

/// The same of a date that may be missing.
pub mod optional {
    use super::{Deserialize, Deserializer, NaiveDate, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Day(#[serde(with = "super")] NaiveDate);

    pub fn serialize<S: Serializer>(date: &Option<NaiveDate>, serializer: S) -> Result<S::Ok, S::Error> {
        date.map(Day).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NaiveDate>, D::Error> {
        Ok(Option::<Day>::deserialize(deserializer)?.map(|day| day.0))
    }
}
