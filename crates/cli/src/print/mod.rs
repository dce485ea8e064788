//! Text for people.

mod color;
mod connection;
mod pieces;
mod summary;
mod verdict;

pub(crate) use color::Paint;
pub(crate) use connection::{ENDED, EventLine, Listed};
pub(crate) use pieces::Pieces;
pub(crate) use summary::SummaryText;
pub(crate) use verdict::{Comment, VerdictLine};
