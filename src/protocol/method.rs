//! THE table of methods: what may be called, which field is its name, what may be cached or asked again.

/// A request method that the gateway serves: those of 2026-07-28, and those that only clients before it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `server/discover`
    Discover,
    /// `tools/list`
    ToolsList,
    /// `tools/call`
    ToolsCall,
    /// `prompts/list`
    PromptsList,
    /// `prompts/get`
    PromptsGet,
    /// `resources/list`
    ResourcesList,
    /// `resources/templates/list`
    TemplatesList,
    /// `resources/read`
    ResourcesRead,
    /// `completion/complete`
    Complete,
    /// `subscriptions/listen`
    Listen,
    /// `tasks/get` (tasks extension)
    TasksGet,
    /// `tasks/update` (tasks extension)
    TasksUpdate,
    /// `tasks/cancel` (tasks extension)
    TasksCancel,
    /// `initialize` (legacy)
    Initialize,
    /// `ping` (legacy)
    Ping,
    /// `logging/setLevel` (legacy)
    SetLevel,
    /// `resources/subscribe` (legacy)
    Subscribe,
    /// `resources/unsubscribe` (legacy)
    Unsubscribe,
}

/// What a catalogue holds, one list each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Resource templates.
    Templates,
}

impl Kind {
    /// Every kind, in the order they are walked.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// Metric label, and the key of the array in a list result except for templates.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }

    /// The key of the array in a list result.
    pub const fn result_key(self) -> &'static str {
        match self {
            Self::Templates => "resourceTemplates",
            other => other.as_str(),
        }
    }

    /// The field that identifies an item.
    pub const fn id_key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The server capability that gates it.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The list method.
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::TemplatesList,
        }
    }
}

impl Method {
    /// Every method of 2026-07-28.
    pub const ALL: [Self; 13] = [
        Self::Discover,
        Self::ToolsList,
        Self::ToolsCall,
        Self::PromptsList,
        Self::PromptsGet,
        Self::ResourcesList,
        Self::TemplatesList,
        Self::ResourcesRead,
        Self::Complete,
        Self::Listen,
        Self::TasksGet,
        Self::TasksUpdate,
        Self::TasksCancel,
    ];

    /// Every method of the legacy revisions, as far as they are served (tasks of 2025-11-25 are not: R-64).
    pub const LEGACY: [Self; 13] = [
        Self::Initialize,
        Self::Ping,
        Self::SetLevel,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::ToolsList,
        Self::ToolsCall,
        Self::PromptsList,
        Self::PromptsGet,
        Self::ResourcesList,
        Self::TemplatesList,
        Self::ResourcesRead,
        Self::Complete,
    ];

    /// The name on the wire, also the metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discover => "server/discover",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesList => "resources/list",
            Self::TemplatesList => "resources/templates/list",
            Self::ResourcesRead => "resources/read",
            Self::Complete => "completion/complete",
            Self::Listen => "subscriptions/listen",
            Self::TasksGet => "tasks/get",
            Self::TasksUpdate => "tasks/update",
            Self::TasksCancel => "tasks/cancel",
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::SetLevel => "logging/setLevel",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
        }
    }

    /// The method of this exact name (H-30: case-sensitive); `None` means 404/-32601.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.as_str() == name)
    }

    /// The same in the legacy revisions, where `None` means 200/-32601.
    pub fn parse_legacy(name: &str) -> Option<Self> {
        Self::LEGACY.into_iter().find(|m| m.as_str() == name)
    }

    /// The member of `params` that `Mcp-Name` mirrors (H-33).
    pub const fn name_field(self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead => Some("uri"),
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel => Some("taskId"),
            _ => None,
        }
    }

    /// Whether it may be answered with `input_required` (M-13).
    pub const fn may_ask(self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// Whether the gateway may send it again by itself after a broken stream (H-65).
    pub const fn repeatable(self) -> bool {
        !matches!(self, Self::ToolsCall | Self::Listen | Self::TasksUpdate | Self::TasksCancel)
    }

    /// Whether its complete results carry `ttlMs` and `cacheScope` (L-10).
    pub const fn cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::TemplatesList
                | Self::ResourcesRead
        )
    }

    /// Whether it belongs to the tasks extension.
    pub const fn is_task(self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksUpdate | Self::TasksCancel)
    }

    /// The kind of list it returns.
    pub const fn lists(self) -> Option<Kind> {
        match self {
            Self::ToolsList => Some(Kind::Tools),
            Self::PromptsList => Some(Kind::Prompts),
            Self::ResourcesList => Some(Kind::Resources),
            Self::TemplatesList => Some(Kind::Templates),
            _ => None,
        }
    }
}
