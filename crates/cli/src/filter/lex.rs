//! From text to words with their places.

/// A word, a parenthesis or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// The character it begins at, from 1.
    pub(super) column: usize,
}

/// Splits at blanks, parentheses and the operators `!`, `&&` and `||`.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let len = if first.is_whitespace() {
            let len = first.len_utf8();
            (rest, column) = (&rest[len..], column + 1);
            continue;
        } else if rest.starts_with("&&") || rest.starts_with("||") {
            2
        } else if matches!(first, '(' | ')' | '!') {
            1
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "()!&|".contains(c));
            // A lone & or | becomes a word of its own, for the parser to refuse.
            end.unwrap_or(rest.len()).max(first.len_utf8())
        };
        let (word, tail) = rest.split_at(len);
        out.push(Token { text: word, column });
        column += word.chars().count();
        rest = tail;
    }
    out
}
