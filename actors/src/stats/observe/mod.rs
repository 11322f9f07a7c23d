//! From events to statistics: per endpoint, over windows of time, and how true predictions were.

pub(crate) mod calibration;
pub(crate) mod endpoint;
pub(crate) mod errors;
pub(crate) mod figures;
pub(crate) mod histogram;
pub(crate) mod ring;
pub(crate) mod windows;
