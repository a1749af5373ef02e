//! How devices stand on each other, and which side of the router they are.

use serde::{Deserialize, Serialize};

/// Which side a device is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Towards the provider.
    Wan,
    /// Towards the users.
    Lan,
}

/// Which side, and how that was learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// The side.
    pub side: Side,
    /// Why.
    pub reason: String,
}

/// A device in the tree and what it stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Device name.
    pub device: String,
    /// Kind of the layer: `bridge`, `vlan 7`, `dsa port`, `pppoe`, `bond`, `nic`, ...
    pub kind: String,
    /// Which side it is on; only told at the top of a tree.
    pub role: Option<Role>,
    /// How it was learnt that it stands on the layers below.
    pub by: String,
    /// Layers below it.
    pub below: Vec<Layer>,
}

impl Layer {
    /// The devices at the bottom, in order, each once.
    #[must_use]
    pub fn ground(&self) -> Vec<&str> {
        let mut found = Vec::new();
        let mut todo = vec![self];
        while let Some(layer) = todo.pop() {
            if layer.below.is_empty() && !found.contains(&layer.device.as_str()) {
                found.push(layer.device.as_str());
            }
            todo.extend(layer.below.iter().rev());
        }
        found
    }
}
