//! Documents as text for a terminal, as Markdown, as a page for a browser, and as a drawing.
//!
//! In come documents; out goes text in one of these forms, each of which is one file and one type
//! that implements [`Render`]. Renderers know documents and nothing of their subjects, and touch
//! nothing.

#[cfg(feature = "measure")]
pub mod chart;
#[cfg(feature = "measure")]
mod html;
mod markdown;
#[cfg(feature = "measure")]
mod svg;
pub mod terminal;
mod text;

#[cfg(feature = "measure")]
use std::path::Path;

use super::document::Document;
use crate::model::finding::Finding;

#[cfg(feature = "measure")]
pub use html::Html;
pub use markdown::Markdown;
#[cfg(feature = "measure")]
pub use svg::Svg;
pub(crate) use text::READABLE;
pub use text::Text;

/// A form that a document can take.
pub trait Render {
    /// The document in this form.
    fn render(&self, document: &Document) -> String;
}

/// The forms, by name.
#[cfg(feature = "measure")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Plain text.
    Text,
    /// GitHub-flavoured Markdown.
    Markdown,
    /// A self-contained page.
    Html,
    /// The first drawing alone.
    Svg,
}

#[cfg(feature = "measure")]
impl Form {
    /// The form that a file name asks for; text where it asks for none.
    #[must_use]
    pub fn by_name(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()) {
            Some("html" | "htm") => Self::Html,
            Some("md" | "markdown") => Self::Markdown,
            Some("svg") => Self::Svg,
            _ => Self::Text,
        }
    }
}

#[cfg(feature = "measure")]
impl Render for Form {
    fn render(&self, document: &Document) -> String {
        match self {
            Self::Text => Text::default().render(document),
            Self::Markdown => Markdown.render(document),
            Self::Html => Html.render(document),
            Self::Svg => Svg.render(document),
        }
    }
}

/// A fragment as a sentence of its own.
fn sentence(fragment: &str) -> String {
    let mut chars = fragment.chars();
    let mut out: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    out.push_str(chars.as_str());
    if !out.is_empty() && !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    out
}

/// Without characters that steer: a record from elsewhere must not steer a terminal or a reader. As
/// long as it was, so that columns still line up.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if terminal::steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Source of a finding, its certainty and the cost that is expected: the last line of a finding.
fn basis(finding: &Finding) -> String {
    let share = match finding.cost {
        cost if cost >= 0.01 => format!(", expected to cost about {:.0} %", cost * 100.0),
        _ => String::new(),
    };
    format!("{}; {}{share} [{}]", finding.source, finding.confidence, finding.rule)
}
