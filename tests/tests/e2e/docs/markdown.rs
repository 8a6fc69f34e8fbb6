//! The part of Markdown that the pages use: fenced blocks with a comment above them, headings, links.

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The number of its first line.
    pub(crate) line: usize,
    /// The language that it names.
    pub(crate) language: String,
    /// The text between the fences, without the indentation of the fences.
    pub(crate) text: String,
    /// The HTML comment right above it.
    pub(crate) comment: Option<String>,
}

/// Returns the fenced blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut open, mut comment) = (None, None);
    for (number, line) in page.lines().enumerate() {
        let trimmed = line.trim_start();
        let indentation = line.len() - trimmed.len();
        match (open, trimmed.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(indentation);
                let language = language.trim().to_owned();
                blocks.push(Block { line: number + 1, language, text: String::new(), comment: comment.take() });
            }
            (Some(_), Some("")) => open = None,
            (Some(indentation), _) => {
                if let Some(block) = blocks.last_mut() {
                    block.text += line.get(indentation..).unwrap_or_default();
                    block.text.push('\n');
                }
            }
            (None, None) => {
                comment = trimmed.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")).map(str::to_owned)
            }
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// Returns a page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut inside = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        !is_fence && !inside
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the targets of the links of a page.
pub(crate) fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of a page's headings, as mdBook and code hosts make them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn a_block_has_its_comment_and_loses_the_indentation_of_its_fence() {
    let page = "1. first\n\n   <!-- exit code: 3 -->\n   ```sh\n   a\n     b\n   ```\n\n```yaml\nc: d\n```\n";
    let found = blocks(page);
    let of = |at: usize| {
        (found[at].language.as_str(), found[at].text.as_str(), found[at].comment.as_deref(), found[at].line)
    };
    assert_eq!(of(0), ("sh", "a\n  b\n", Some("exit code: 3"), 4));
    assert_eq!(of(1), ("yaml", "c: d\n", None, 9));
}

#[test]
fn links_and_anchors_are_those_of_the_prose() {
    let page = "# What `pods` opens\n[a](b.md#c) and [d](e)\n```sh\n# f\n[g](h)\n```\n";
    assert_eq!(links(page), ["b.md#c", "e"]);
    assert_eq!(anchors(page), ["what-pods-opens"]);
}
