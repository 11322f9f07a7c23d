/// The coarse class of task that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskClass {
    /// Its number in the list of classes.
    pub number: u16,
    /// Where it came from.
    pub source: TaskClassSource,
    /// The features that were seen in the request, a bit each.
    pub features: u16,
}

/// Origin of a task class, in order of precedence, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskClassSource {
    /// Named in `metadata` of the request.
    Metadata,
    /// From the configuration of the key.
    Key,
    /// From the requested alias.
    Alias,
    /// From features of the request.
    Features,
    /// The default, because none was given or found.
    Default,
}
