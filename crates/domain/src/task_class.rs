//! Classes of tasks: what kind of answer a request asks for, as far as that shows without understanding its words.

use serde::{Deserialize, Serialize};

crate::named! {
    /// A kind of task. The list is fixed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Task {
        /// None of the others, or not told apart.
        General = "general",
        /// Programs.
        Code = "code",
        /// Formulas and figures.
        Math = "math",
        /// An answer with a schema.
        Structured = "structured",
        /// Calls of tools.
        Tools = "tools",
        /// A long prompt.
        LongContext = "long_context",
        /// Free writing. Never found, only named.
        Creative = "creative",
        /// Images in the prompt.
        Vision = "vision",
    }
}

impl Task {
    /// The class of this name.
    pub fn named(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.as_str() == name)
    }
}

/// The coarse class of task that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskClass {
    /// The class.
    pub task: Task,
    /// Where it came from.
    pub source: TaskClassSource,
    /// What was seen in the request.
    pub features: TaskFeatures,
}

impl TaskClass {
    /// The class of a request in which these features were seen, if nobody names one.
    pub fn of_features(features: TaskFeatures) -> TaskClass {
        match features.task() {
            Some(task) => TaskClass { task, source: TaskClassSource::Features, features },
            None => TaskClass { task: Task::General, source: TaskClassSource::Default, features },
        }
    }
}

crate::named! {
    /// Origin of a task class, in order of precedence, highest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum TaskClassSource {
        /// Named in `metadata` of the request.
        Metadata = "metadata",
        /// From the configuration of the key.
        Key = "key",
        /// From the requested alias.
        Alias = "alias",
        /// What it was at the turn before of the same conversation.
        Conversation = "conversation",
        /// From features of the request.
        Features = "features",
        /// The default, because none was given or found.
        Default = "default",
    }
}

impl TaskClassSource {
    /// `named by the request`: where it came from, in words.
    pub const fn from_text(self) -> &'static str {
        match self {
            TaskClassSource::Metadata => "named by the request",
            TaskClassSource::Key => "named by the key",
            TaskClassSource::Alias => "named by the alias",
            TaskClassSource::Conversation => "kept from the turn before",
            TaskClassSource::Features => "found in the request",
            TaskClassSource::Default => "not found, so general",
        }
    }

    /// Whether nobody named the class.
    #[must_use]
    pub const fn is_found(self) -> bool {
        matches!(self, TaskClassSource::Features | TaskClassSource::Default)
    }
}

/// Features of a request that tell its class, a bit each. The last three are those of the last user message, and are
/// looked for only where none of the others was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskFeatures(pub u16);

impl TaskFeatures {
    /// An image in the prompt.
    pub const IMAGE: TaskFeatures = TaskFeatures(1);
    /// A schema for the answer.
    pub const SCHEMA: TaskFeatures = TaskFeatures(1 << 1);
    /// Tools.
    pub const TOOLS: TaskFeatures = TaskFeatures(1 << 2);
    /// More than 32,000 tokens, by estimate.
    pub const LONG: TaskFeatures = TaskFeatures(1 << 3);
    /// A code fence, or many characters of code.
    pub const CODE: TaskFeatures = TaskFeatures(1 << 4);
    /// LaTeX, or many digits and operators.
    pub const MATH: TaskFeatures = TaskFeatures(1 << 5);
    /// So few characters that the two before say nothing.
    pub const SHORT: TaskFeatures = TaskFeatures(1 << 6);
    /// Their names, in the order of the bits.
    const NAMES: [(TaskFeatures, &'static str); 7] = [
        (TaskFeatures::IMAGE, "image"),
        (TaskFeatures::SCHEMA, "schema"),
        (TaskFeatures::TOOLS, "tools"),
        (TaskFeatures::LONG, "long_prompt"),
        (TaskFeatures::CODE, "code"),
        (TaskFeatures::MATH, "math"),
        (TaskFeatures::SHORT, "short_message"),
    ];

    /// The features, and this one if `is_seen`.
    #[must_use]
    pub const fn with(self, feature: TaskFeatures, is_seen: bool) -> TaskFeatures {
        if is_seen { TaskFeatures(self.0 | feature.0) } else { self }
    }

    /// Whether a feature was seen.
    #[must_use]
    pub const fn has(self, feature: TaskFeatures) -> bool {
        self.0 & feature.0 != 0
    }

    /// Names of the features.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(feature, _)| self.has(*feature)).map(|(_, name)| name)
    }

    /// The class of the first feature that tells one.
    fn task(self) -> Option<Task> {
        let told = [
            (TaskFeatures::IMAGE, Task::Vision),
            (TaskFeatures::SCHEMA, Task::Structured),
            (TaskFeatures::TOOLS, Task::Tools),
            (TaskFeatures::LONG, Task::LongContext),
        ];
        let first = told.into_iter().find(|(feature, _)| self.has(*feature)).map(|(_, task)| task);
        first.or(match (self.has(TaskFeatures::CODE), self.has(TaskFeatures::MATH)) {
            _ if self.has(TaskFeatures::SHORT) => None,
            (true, false) => Some(Task::Code),
            (false, true) => Some(Task::Math),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_feature_tells_the_class_and_code_with_math_or_a_short_message_tells_none() {
        let of = |features: &[TaskFeatures]| {
            let seen = features.iter().fold(TaskFeatures::default(), |seen, feature| seen.with(*feature, true));
            TaskClass::of_features(seen)
        };
        use TaskFeatures as F;
        assert_eq!(of(&[F::LONG, F::TOOLS, F::SCHEMA, F::IMAGE]).task, Task::Vision);
        assert_eq!(of(&[F::LONG, F::TOOLS, F::SCHEMA]).task, Task::Structured);
        assert_eq!(of(&[F::LONG, F::TOOLS]).task, Task::Tools);
        assert_eq!((of(&[F::LONG]).task, of(&[F::CODE]).task), (Task::LongContext, Task::Code));
        assert_eq!((of(&[F::MATH]).task, of(&[F::MATH]).source), (Task::Math, TaskClassSource::Features));
        for nothing in [&[][..], &[F::CODE, F::MATH], &[F::CODE, F::SHORT], &[F::MATH, F::SHORT]] {
            let class = of(nothing);
            assert_eq!((class.task, class.source), (Task::General, TaskClassSource::Default));
            assert_eq!(class.features.names().count(), nothing.len());
        }
    }
}
