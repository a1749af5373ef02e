//! The first drawing of a document as a file of its own.

use maud::{PreEscaped, html as markup};

use super::html::STYLE;
use super::{Render, chart, clean, sentence};
use crate::report::document::{Block, Document};

/// Height of a line below the drawing, in pixels.
const LINE: f64 = 15.0;

/// The first drawing alone, with the lines that it needs to be understood.
#[derive(Debug, Clone, Copy)]
pub struct Svg;

impl Render for Svg {
    fn render(&self, document: &Document) -> String {
        let blocks = document.sections.iter().flat_map(|s| &s.blocks);
        let figure = blocks.into_iter().find_map(|block| match block {
            Block::Figure(figure) => Some((chart::draw(figure)?, figure.caption.as_str())),
            _ => None,
        });
        let (height, drawing, caption) = match figure {
            Some(((height, drawing), caption)) => (height, Some(drawing), caption),
            None => (0.0, None, ""),
        };
        let below = std::iter::once(caption).chain(document.origin.iter().map(String::as_str));
        let below: Vec<String> =
            below.filter(|line| !line.is_empty()).map(|line| clean(&sentence(line))).collect();
        let all = height + 30.0 + LINE * below.len() as f64;
        markup! {
            (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
            // The page's style makes drawings as wide as the page; here that is what the file says.
            svg xmlns="http://www.w3.org/2000/svg" width="760" height=(all) style="width: 760px"
                font-family="sans-serif" font-size="14" {
                title { (clean(&document.title)) }
                style { (PreEscaped(STYLE)) }
                rect width="100%" height="100%" fill="var(--card)" {}
                @if let Some(drawing) = drawing {
                    svg x="16" y="12" width="720" height=(height) style="width: 720px" { (drawing) }
                }
                @for (line, at) in below.iter().zip(1_u32..) {
                    text.axis x="16" y=(height + 19.0 + LINE * f64::from(at)) { (line) }
                }
            }
        }
        .into_string()
    }
}
