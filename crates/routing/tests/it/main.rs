//! The crate by what others see of it.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod routing_calibration;
#[cfg(test)]
mod routing_choice;
#[cfg(test)]
mod routing_diff;
#[cfg(test)]
mod routing_estimate;
#[cfg(test)]
mod routing_events;
#[cfg(test)]
mod routing_exploration;
#[cfg(test)]
mod routing_extent;
#[cfg(test)]
mod routing_filters;
#[cfg(test)]
mod routing_live;
#[cfg(test)]
mod routing_memory;
#[cfg(test)]
mod routing_patience;
#[cfg(test)]
mod routing_pending_tool_calls;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "compares scores")]
mod routing_properties;
#[cfg(test)]
mod routing_quality;
#[cfg(test)]
mod routing_reason;
#[cfg(test)]
mod routing_run;
#[cfg(test)]
mod routing_spend_pace;
#[cfg(test)]
mod routing_splits;
#[cfg(test)]
mod routing_sticky;
#[cfg(test)]
mod routing_summary;
#[cfg(test)]
mod routing_targets;
#[cfg(test)]
mod routing_wait;
#[cfg(test)]
mod routing_what_if;
#[cfg(test)]
mod routing_why_not;
#[cfg(test)]
mod routing_world;
