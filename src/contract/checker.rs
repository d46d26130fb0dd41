//! Arguments held against an approved schema, for tools whose server has another one now.

use std::fmt;

use serde_json::Value;

/// Longer explanations are cut.
const LONGEST: usize = 300;

/// One approved input schema, compiled.
pub struct Checker(Option<jsonschema::Validator>);

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checker").field(&self.0.is_some()).finish()
    }
}

impl Checker {
    /// For a definition. A schema that cannot be compiled, or that needs what would have to be fetched, checks nothing:
    /// it was approved as it is.
    pub fn new(definition: &Value) -> Self {
        Self(definition.get("inputSchema").and_then(|schema| jsonschema::validator_for(schema).ok()))
    }

    /// Why these arguments (JSON text) are none that the schema allows: where, and what is wrong.
    pub fn fault(&self, arguments: Option<&str>) -> Option<String> {
        let validator = self.0.as_ref()?;
        let value: Value = match arguments {
            None | Some("null") => Value::Object(serde_json::Map::new()),
            Some(text) => match serde_json::from_str(text) {
                Ok(value) => value,
                // What is no JSON was refused at the door. These no schema can be held against, so they do not pass.
                Err(_) => {
                    return Some(
                        "the arguments hold a number too large, or text that is not Unicode".to_owned(),
                    );
                }
            },
        };
        let error = validator.iter_errors(&value).next()?;
        let at = error.instance_path().to_string();
        let place = if at.is_empty() { "the arguments".to_owned() } else { format!("the argument {at}") };
        let text = format!("{place}: {error}");
        let cut = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
        Some(text[..cut].to_owned())
    }
}
