//! From a file to operations: JSON lines, or one array.

use std::io::{self, BufRead};
use std::ops::ControlFlow;

use serde_json::value::RawValue;

/// Longer lines are refused.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Longer arrays are refused: unlike lines they are read as a whole.
pub const MAX_ARRAY_BYTES: usize = 64 << 20;

/// What is wrong with a scenario, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: String,
}

impl Fault {
    pub(super) fn new(line: usize, cause: impl Into<String>) -> Self {
        Self { line, cause: cause.into() }
    }
}

/// Calls `f` with the line number and the text of every operation, until it breaks. Blank lines are
/// skipped. An input whose first character is `[` is read as an array.
///
/// # Errors
///
/// A file that cannot be read, a line or an array that is too long, an array that is no JSON.
pub fn each(
    mut reader: impl BufRead,
    mut f: impl FnMut(usize, &str) -> ControlFlow<()>,
) -> Result<(), Fault> {
    let mut line = 0;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        line += 1;
        let n = read_line(&mut reader, &mut bytes).map_err(|e| Fault::new(line, e.to_string()))?;
        if n == 0 {
            return Ok(());
        }
        if bytes.len() > MAX_LINE_BYTES && !bytes.trim_ascii_start().starts_with(b"[") {
            return Err(Fault::new(line, format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| {
                Fault::new(line, format!("no UTF-8 at byte {} of the line", e.valid_up_to()))
            })?
            .trim();
        if text.is_empty() {
            continue;
        }
        if text.starts_with('[') {
            return array(reader, std::mem::take(&mut bytes), line, f);
        }
        if f(line, text).is_break() {
            return Ok(());
        }
    }
}

/// One line with its end, but no more than one byte over the limit.
fn read_line(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    io::Read::take(reader, MAX_LINE_BYTES as u64 + 1).read_until(b'\n', bytes)
}

/// The rest of the input and the elements of the array that it is.
fn array(
    reader: impl BufRead,
    mut bytes: Vec<u8>,
    first: usize,
    mut f: impl FnMut(usize, &str) -> ControlFlow<()>,
) -> Result<(), Fault> {
    let rest = (MAX_ARRAY_BYTES + 1).saturating_sub(bytes.len()) as u64;
    let read = io::Read::read_to_end(&mut io::Read::take(reader, rest), &mut bytes);
    read.map_err(|e| Fault::new(first, e.to_string()))?;
    if bytes.len() > MAX_ARRAY_BYTES {
        return Err(Fault::new(first, format!("an array longer than {MAX_ARRAY_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        Fault::new(first, format!("no UTF-8 at byte {}", e.utf8_error().valid_up_to()))
    })?;
    let elements: Vec<&RawValue> = serde_json::from_str(&text).map_err(|e| {
        Fault::new(first + e.line().saturating_sub(1), format!("no JSON array: {e}"))
    })?;
    let (mut line, mut at) = (first, 0);
    for element in elements {
        // The element is a part of the text: its address tells the line.
        let start = element.get().as_ptr().addr() - text.as_ptr().addr();
        line += text.as_bytes()[at..start].iter().filter(|&&b| b == b'\n').count();
        at = start;
        if f(line, element.get()).is_break() {
            break;
        }
    }
    Ok(())
}
