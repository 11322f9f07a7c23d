//! What is counted of generations.

use pointsman_domain::Usd;

/// Lists the counters once: members, names and order.
macro_rules! counters {
    ($($(#[$meaning:meta])* $name:ident,)*) => {
        /// Sums over generations.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ActivityCounters {
            $($(#[$meaning])* pub $name: u64,)*
            /// Known cost of all attempts.
            pub cost: Usd,
        }

        impl ActivityCounters {
            /// Names of the counters beside the cost, in order: those of columns, too.
            pub const NAMES: [&str; ActivityCounters::COUNT] = [$(stringify!($name)),*];
            /// Number of counters beside the cost.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// All counters but the cost.
            pub const fn counts(&self) -> [u64; ActivityCounters::COUNT] {
                [$(self.$name),*]
            }

            /// Counters in the order of [`ActivityCounters::NAMES`], and a cost.
            pub const fn with(counts: [u64; ActivityCounters::COUNT], cost: Usd) -> ActivityCounters {
                let [$($name),*] = counts;
                ActivityCounters { $($name,)* cost }
            }
        }
    };
}

counters! {
    /// Generations.
    requests,
    /// Generations that ended with an error. One whose client left is none.
    failed,
    /// Generations with an attempt at an unknown price, which `cost` leaves out.
    unknown_costs,
    /// Input tokens, cached ones included.
    prompt_tokens,
    /// Output tokens, reasoning included.
    completion_tokens,
    /// Input tokens read from a cache.
    cached_tokens,
    /// Output tokens spent on reasoning.
    reasoning_tokens,
    /// Input tokens written to a cache.
    cache_write_tokens,
    /// Input tokens written to a cache for one hour.
    cache_write_1h_tokens,
    /// Input tokens of audio.
    audio_tokens,
    /// Output tokens of audio.
    audio_output_tokens,
    /// Billed images.
    images,
    /// Billed web searches.
    web_searches,
    /// What the cost of the answers is made of, whole billionths of a dollar: tokens of prompts that a cache neither gave nor took.
    input_nanos,
    /// Tokens read from caches and written to them.
    cache_nanos,
    /// Tokens of answers.
    output_nanos,
    /// Cost of attempts that did not serve: they failed, or lost a race.
    lost_nanos,
}

impl ActivityCounters {
    /// Adds another sum.
    pub fn add(&mut self, other: &ActivityCounters) {
        let mut counts = self.counts();
        counts.iter_mut().zip(other.counts()).for_each(|(count, more)| *count = count.saturating_add(more));
        *self = ActivityCounters::with(counts, self.cost + other.cost);
    }
}
