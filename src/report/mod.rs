//! What people read: the end of `tune` on a terminal, Markdown for an issue, a page for a browser.
//!
//! Each is a function of the record and its analysis alone. `words` says everything once; the
//! three forms only lay it out.

pub mod csv;
mod factors;
pub mod html;
pub mod markdown;
mod predicted;
pub mod ranking;
pub mod sweep;
pub mod text;
mod usage;
mod words;

pub use html::html;
pub use markdown::markdown;
pub use text::text;
pub use words::headline;
