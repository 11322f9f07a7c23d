//! From events to statistics: by endpoint, by time window, and the calibration of predictions.

pub(crate) mod calibration;
pub(crate) mod endpoint;
pub(crate) mod errors;
pub(crate) mod figures;
pub(crate) mod histogram;
pub(crate) mod ring;
pub(crate) mod windows;
