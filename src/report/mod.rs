//! Reports: everything that people read. In come records with their analysis, or what was found on
//! a machine; out goes a document, and out of that plain text, Markdown, a page for a browser or a
//! drawing. Nothing is read, written or measured here.
//!
//! One file for each verb builds the [`document::Document`]; [`render`] gives it a form.

pub mod check;
#[cfg(feature = "measure")]
pub mod compare;
pub mod csv;
pub mod document;
#[cfg(feature = "measure")]
pub mod fleet;
pub mod losses;
pub mod metrics;
pub mod plan;
#[cfg(feature = "measure")]
pub mod rank;
pub mod render;
pub mod show;
#[cfg(feature = "measure")]
pub mod sweep;
#[cfg(feature = "top")]
pub mod top;
#[cfg(feature = "measure")]
pub mod tune;
#[cfg(feature = "measure")]
mod words;
