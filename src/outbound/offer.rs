//! What a server said of itself in `server/discover` or `initialize`.

use serde_json::Value;

use crate::protocol::meta::TASKS;
use crate::protocol::method::{Kind, Method};

/// Capabilities and texts of one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// The `capabilities` object.
    pub capabilities: Value,
    /// Its instructions for the model.
    pub instructions: Option<String>,
    /// `serverInfo`, for logs and status only (M-26).
    pub server_info: Value,
    /// The revisions it speaks, as it said.
    pub versions: Vec<String>,
    /// Settings by extension id.
    pub extensions: Value,
}

impl Offer {
    /// Reads a `DiscoverResult` or `InitializeResult`; unknown and missing parts are left empty.
    pub fn read(result: &str) -> Option<Self> {
        let mut value: Value = serde_json::from_str(result).ok()?;
        let object = value.as_object_mut()?;
        let mut take = |key: &str| object.remove(key).unwrap_or_default();
        let (capabilities, versions) = (take("capabilities"), take("supportedVersions"));
        let (server_info, instructions) = (take("serverInfo"), take("instructions"));
        let meta = take("_meta");
        let named = meta.get(crate::protocol::meta::SERVER_INFO).cloned();
        Some(Self {
            extensions: capabilities.get("extensions").cloned().unwrap_or_default(),
            capabilities,
            instructions: instructions.as_str().filter(|text| !text.is_empty()).map(str::to_owned),
            server_info: named.unwrap_or(server_info),
            versions: versions
                .as_array()
                .map(|list| list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
                .unwrap_or_default(),
        })
    }

    /// Whether a capability is declared (M-30): an object, or `true` of a careless server.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|v| v.is_object() || v == true)
    }

    /// Whether lists of this kind can be asked for.
    pub fn lists(&self, kind: Kind) -> bool {
        self.has(kind.capability())
    }

    /// The settings of an extension it offers.
    pub fn extension(&self, id: &str) -> Option<&Value> {
        self.extensions.get(id).filter(|settings| settings.is_object())
    }

    /// Whether it tells about changes of lists of this kind.
    pub fn tells_changes(&self, kind: Kind) -> bool {
        self.flag(kind.capability(), "listChanged")
    }

    /// Whether it tells about updates of resources.
    pub fn tells_updates(&self) -> bool {
        self.flag("resources", "subscribe")
    }

    fn flag(&self, capability: &str, flag: &str) -> bool {
        self.capabilities.get(capability).and_then(|c| c.get(flag)).is_some_and(|f| f == true)
    }

    /// Whether a method can be used.
    pub fn allows(&self, method: Method) -> bool {
        match method {
            Method::Discover | Method::Listen => true,
            // Whoever speaks to a server does these by itself.
            Method::Initialize | Method::Ping | Method::SetLevel => true,
            Method::Subscribe | Method::Unsubscribe => self.tells_updates(),
            Method::ToolsList | Method::ToolsCall => self.has("tools"),
            Method::PromptsList | Method::PromptsGet => self.has("prompts"),
            Method::ResourcesList | Method::TemplatesList | Method::ResourcesRead => self.has("resources"),
            Method::Complete => self.has("completions"),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => self.extension(TASKS).is_some(),
        }
    }
}
