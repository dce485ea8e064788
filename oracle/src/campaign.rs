//! Many cases, until there are enough.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::compare::{Compared, Comparer, Difference, KNOWN, changed, save};
use crate::error::Result;
use crate::generate::{Case, Kind};
use crate::shrink::shrink;

/// When a campaign has enough: at the first limit reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets.
    pub packets: u64,
    /// Time.
    pub time: Duration,
    /// Unlisted differences that are shrunk and shown, at most three of a sort.
    pub differences: usize,
}

/// Where cases come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// Any quick kind, from this seed on.
    Any(u64),
    /// These kinds in turn, from this seed on.
    Of(Vec<Kind>, u64),
}

impl Seeds {
    fn case(&self, n: u64) -> Case {
        match self {
            Self::Any(seed) => Case::any(seed.wrapping_add(n)),
            Self::Of(kinds, seed) => {
                let kind = kinds[(n % kinds.len() as u64) as usize];
                Case::new(kind, seed.wrapping_add(n / kinds.len() as u64))
            }
        }
    }

    fn first(&self) -> u64 {
        let (Self::Any(seed) | Self::Of(_, seed)) = self;
        *seed
    }
}

/// What a campaign found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Cases run.
    pub cases: u64,
    /// Packets put to both.
    pub packets: u64,
    /// Packets by kind of case.
    pub kinds: BTreeMap<String, u64>,
    /// Cases with a known difference, by name.
    pub known: BTreeMap<&'static str, u64>,
    /// Cases with an unlisted difference, by what differs without the numbers.
    pub unlisted: BTreeMap<String, u64>,
    /// The first few of each of those: the shrunk case, and what was said.
    pub differences: Vec<(Case, Difference)>,
    /// Differences that did not come again when the case was repeated: headline and seed.
    pub once: Vec<(String, Kind, u64)>,
    /// Files written.
    pub saved: Vec<PathBuf>,
    /// Time it took.
    pub time: Duration,
    /// First seed.
    pub seed: u64,
}

impl Summary {
    /// True iff nothing unlisted differed.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.unlisted.values().all(|&count| count == 0)
    }
}

/// A run over many cases.
pub struct Campaign<'a> {
    comparer: &'a mut Comparer,
    save: Option<PathBuf>,
}

impl<'a> Campaign<'a> {
    /// A campaign by `comparer`; unlisted differences are saved in `save` if given.
    pub fn new(comparer: &'a mut Comparer, save: Option<PathBuf>) -> Self {
        Self { comparer, save }
    }

    /// Runs cases until a limit is reached; `each` hears of every case's end and every difference's text.
    ///
    /// # Errors
    /// Those of the judge and of saving.
    pub fn run(
        &mut self,
        seeds: &Seeds,
        limits: Limits,
        mut each: impl FnMut(&Summary, Option<&str>),
    ) -> Result<Summary> {
        let started = Instant::now();
        let mut sum = Summary { seed: seeds.first(), ..Summary::default() };
        let mut n = 0;
        while sum.packets < limits.packets && started.elapsed() < limits.time {
            let case = seeds.case(n);
            n += 1;
            let compared = self.comparer.case(&case)?;
            sum.cases += 1;
            sum.packets += compared.packets;
            *sum.kinds.entry(format!("{:?}", case.kind)).or_default() += compared.packets;
            let text = self.file(&case, compared, &mut sum)?;
            sum.time = started.elapsed();
            each(&sum, text.as_deref());
            if sum.differences.len() >= limits.differences {
                break;
            }
        }
        Ok(sum)
    }

    /// Puts a case's outcome where it belongs; gives the text of an unlisted difference.
    fn file(
        &mut self,
        case: &Case,
        compared: Compared,
        sum: &mut Summary,
    ) -> Result<Option<String>> {
        let Some(difference) = compared.difference else { return Ok(None) };
        if let Some(name) = difference.known {
            *sum.known.entry(name).or_default() += 1;
            return Ok(None);
        }
        let headline = difference.headline();
        let seen = sum.unlisted.entry(class(&headline)).or_default();
        *seen += 1;
        if *seen > SHOWN {
            return Ok(None);
        }
        let mut fault = None;
        let small =
            shrink(case, |case| match self.comparer.run(&case.settings, &case.steps, false) {
                Ok(Compared { difference: Some(found), .. }) => {
                    // The same sort of difference, lest a common one hide a rare one.
                    found.known.is_none() && class(&found.headline()) == class(&headline)
                }
                Ok(_) => false,
                Err(error) => {
                    fault = Some(error);
                    false
                }
            });
        if let Some(error) = fault {
            return Err(error);
        }
        let Some(shown) = self.comparer.case(&small)?.difference else {
            *sum.unlisted.entry(class(&headline)).or_default() -= 1;
            sum.once.push((headline.clone(), case.kind, case.seed));
            return Ok(Some(format!(
                "came once and not again: {:?} {:#x}: {headline}\n{difference}",
                case.kind, case.seed
            )));
        };
        let text = format!(
            "DIFFERENCE, {:?} seed {:#x}, settings: {}\n{shown}",
            small.kind,
            small.seed,
            changed(&small.settings)
        );
        if let Some(folder) = &self.save {
            sum.saved.push(save(folder, &small, &shown)?);
        }
        sum.differences.push((small, shown));
        Ok(Some(text))
    }
}

/// Differences of a sort that are shrunk and shown.
const SHOWN: u64 = 3;

/// A headline without its numbers and the prose of reasons: what differs, not by how much.
fn class(headline: &str) -> String {
    let (mut out, mut prose, mut reason) = (String::new(), false, false);
    for c in headline.chars() {
        match c {
            '(' => reason = true,
            ')' => (reason, prose) = (false, false),
            ':' if reason => prose = true,
            _ => {}
        }
        match c {
            _ if prose => {}
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// The running kernel's release.
#[must_use]
pub fn kernel_version() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        writeln!(f, "kernel           {}", kernel_version())?;
        writeln!(f, "first seed       {:#x}", self.seed)?;
        writeln!(f, "cases            {}", self.cases)?;
        writeln!(
            f,
            "packets          {} ({:.0}/s)",
            self.packets,
            self.packets as f64 / seconds.max(0.001)
        )?;
        for (kind, packets) in &self.kinds {
            writeln!(f, "  {kind:14} {packets}")?;
        }
        let known: u64 = self.known.values().sum();
        let differed: u64 = self.unlisted.values().sum();
        let once = self.once.len() as u64;
        writeln!(f, "cases that agree {}", self.cases - known - differed - once)?;
        writeln!(f, "cases that differ {differed}")?;
        for (class, count) in &self.unlisted {
            writeln!(f, "  {count:6} {class}")?;
        }
        for (name, count) in &self.known {
            let heading =
                KNOWN.iter().find(|known| known.name == *name).map_or("", |known| known.heading);
            writeln!(f, "known difference {name}: {count} (docs/differences.md, \"{heading}\")")?;
        }
        for (headline, kind, seed) in &self.once {
            writeln!(f, "came once and not again: {kind:?} {seed:#x}: {headline}")?;
        }
        for path in &self.saved {
            writeln!(f, "saved            {}", path.display())?;
        }
        Ok(())
    }
}
