//! What needs neither root nor a network: parsers, planner and statistics on captured and made
//! machines, other people's figures, and the rules that the tree keeps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "tests set their own scene")]

#[path = "../program/mod.rs"]
mod program;
#[path = "../scene/mod.rs"]
mod scene;
#[path = "../schema/mod.rs"]
mod schema;
mod simulated;

mod analysis_oracle;
mod architecture;
mod archive;
mod bad_input;
mod browser;
mod corpus;
mod costs;
mod crowd;
mod evidence;
mod field;
mod help;
mod honesty;
mod kernels;
mod knobs;
mod licences;
mod losses;
mod misuse;
mod mlrsearch_oracle;
mod outcomes;
mod overwrite;
mod packaging;
mod pages;
mod plans;
mod plants;
mod reasons;
mod replay;
mod report;
mod scenes;
mod schemas;
mod search;
mod setup_script;
mod show_schema;
mod size;
mod terminal;
#[cfg(feature = "top")]
mod top;
mod tree;
mod width;
mod words;
