//! What holds for every dialect of a provider and every API of a client.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod broken_answers;
#[cfg(test)]
mod call_arguments;
#[cfg(test)]
mod call_names;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod halves;
#[cfg(test)]
mod legacy_functions;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod media;
#[cfg(test)]
mod numbers_and_order;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod sent_back;
#[cfg(test)]
mod small_cases;
#[cfg(test)]
mod spelling;
#[cfg(test)]
mod tool_history;
#[cfg(test)]
mod unsupported;
#[cfg(test)]
mod upstream;
#[cfg(test)]
mod world;
